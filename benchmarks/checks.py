"""How long a check takes beyond the learner's own code, in the kernel.

Each suite runs on the library's own definition. "own" is the time inside the answer, "beyond" is
what the check adds: inputs, oracles, comparisons, and with `check()` saving and recording too.
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
    from course_lib.lab import checking, mine, registry, terminal
    from grader.cli import ROOT
    from grader.lesson import lessons

    figures, everything = {}, []
    for lesson in lessons(ROOT):
        for exercise in lesson.exercises.values():
            card = registry.exercise(exercise.id)
            answer = terminal.define(card, exercise.solved, f"<{exercise.id}>")
            scope = dict(vars(import_module(card.module)))  # what the notebook defines by then
            exec(card.setup, scope)
            beyond = []
            for _ in range(ROUNDS):
                began = time.perf_counter()
                verdict = checking.judge(card, answer)
                mine.save(card, exercise.solved, scope)
                verdict.html(), verdict.text()
                beyond.append(1e3 * (time.perf_counter() - began - verdict.own_seconds))
                assert verdict.passed, verdict.text()
            figures[f"{exercise.id}_ms"] = _percentiles(beyond)
            everything += beyond
    return figures | {"all_ms": _percentiles(everything), "rounds": ROUNDS}


def _percentiles(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=20)
    return {"p50": round(statistics.median(values), 2), "p95": round(cuts[-1], 2)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ["COURSE_HOME"] = home
        print(record("checks", run()))
