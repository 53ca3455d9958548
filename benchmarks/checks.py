"""How long a check takes beyond the learner's own code, in the kernel.

Each suite runs on the library's own definition. "own" is the time inside the answer, "beyond" is
what the check adds: inputs, oracles, comparisons, saving and the message. The first check of a
fresh kernel also imports the suite; p50 and p95 are those of the rounds after it.
"""

import os
import statistics
import tempfile
import time
from importlib import import_module

from benchmarks.record import record

ROUNDS = 30


def run() -> dict:
    """p50 and p95 in ms by exercise, and over all of them."""
    from course_lib.lab import registry, terminal
    from grader.course import ROOT
    from grader.lesson import lessons

    figures, everything = {}, []
    for lesson in lessons(ROOT):
        for exercise in lesson.exercises.values():
            card = registry.exercise(exercise.id)
            answer = terminal.define(card, exercise.solution, f"<{exercise.id}>")
            scope = dict(vars(import_module(card.module)))  # what the notebook defines by then
            exec(card.setup, scope)
            first, *beyond = (
                beyond_ms(card, answer, exercise.solution, scope) for _ in range(1 + ROUNDS)
            )
            figures[f"{exercise.id}_ms"] = {"first": round(first, 2)} | _percentiles(beyond)
            everything += beyond
    return figures | {"all_ms": _percentiles(everything), "rounds": ROUNDS}


def beyond_ms(card, answer, text: str, scope: dict) -> float:
    """One check of a right answer, from the call to the message: ms outside the answer's code."""
    from course_lib.lab import checking, mine

    began = time.perf_counter()
    verdict = checking.judge(card, answer)
    mine.save(card, text, scope)
    verdict.html(), verdict.text()
    assert verdict.passed, verdict.text()
    return 1e3 * (time.perf_counter() - began - verdict.own_seconds)


def _percentiles(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=20)
    return {"p50": round(statistics.median(values), 2), "p95": round(cuts[-1], 2)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ["COURSE_HOME"] = home
        print(record("checks", run()))
