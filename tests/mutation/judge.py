"""Judges the mutants of exercises, in processes that may die: `judge_mutants`, or as a program.

    python -m tests.mutation.judge [ID ...] [--workers N]    judge, write what survived, say a table

A mutant is killed when its suite refuses it with one of three seeds. One that survives them all
stands in `survivors.json`, and needs a verdict of a person there: why it is no wrong answer.
"""

import argparse
import collections
import json
import queue
import subprocess
import sys
import threading
from pathlib import Path

from course_lib.lab import registry
from tests.course import solved
from tests.mutation.operators import Mutant, mutants

SEEDS = (0, 12345, 777)
SURVIVORS = Path(__file__).with_name("survivors.json")
PATIENCE_S = 240  # a worker that says nothing for so long is ended, and its mutant counts as killed

WORKER = """
import json, sys
from course_lib.lab import checking, registry, terminal

out, sys.stdout = sys.stdout, sys.stderr  # answers print
for line in sys.stdin:
    exercise, text, seeds = json.loads(line)
    card = registry.exercise(exercise)
    code, message = "PASS", ""
    for seed in seeds:
        try:
            verdict = checking.judge(card, terminal.define(card, text, f"<{exercise}>"), seed=seed)
            code, message = verdict.code, "" if verdict.passed else verdict.text()
        except ValueError as error:
            code, message = "NOT-DEFINED", str(error)
        if code != "PASS":
            break
    print(json.dumps([code, message]), file=out, flush=True)
"""


class _Worker:
    """A process that judges one text after the other; started again when it has died."""

    def __init__(self):
        self.process = None

    def judge(self, exercise: str, text: str, seeds: tuple[int, ...]) -> tuple[str, str]:
        """(code, message) of the verdict; code "DIED" when the process did, or was ended."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        late = threading.Timer(PATIENCE_S, self.process.kill)
        late.start()
        try:
            self.process.stdin.write(json.dumps([exercise, text, seeds]) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            late.cancel()
        if not answer:
            self.close()
            return "DIED", ""
        return tuple(json.loads(answer))

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def judge_mutants(
    found: dict[str, list[Mutant]], *, workers: int = 2, say=lambda text: None
) -> list[tuple[str, Mutant, str, str]]:
    """(exercise, mutant, code, message) of every mutant of every exercise, in order."""
    jobs, results = queue.SimpleQueue(), {}
    for exercise, each in found.items():
        for number, mutant in enumerate(each):
            jobs.put((exercise, number, mutant))

    def work():
        worker = _Worker()
        try:
            while True:
                exercise, number, mutant = jobs.get_nowait()
                code, message = worker.judge(exercise, mutant.text, SEEDS)
                results[exercise, number] = exercise, mutant, code, message
                if code in ("PASS", "DIED", "CHECK-BROKE"):
                    say(f"{exercise} line {mutant.line}: {code}: {mutant.key}")
        except queue.Empty:
            pass
        finally:
            worker.close()

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [
        results[exercise, number] for exercise, each in found.items() for number in range(len(each))
    ]


def read_survivors() -> dict[str, dict[str, str]]:
    """By exercise: the key of each mutant that survives, and why it is as right as the original."""
    return json.loads(SURVIVORS.read_text(encoding="utf-8")) if SURVIVORS.is_file() else {}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.judge")
    parser.add_argument("exercises", nargs="*", default=list(registry.exercises()))
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    found = {exercise: mutants(solved(exercise)) for exercise in args.exercises}
    judged = judge_mutants(found, workers=args.workers, say=lambda text: print(text, flush=True))
    known, open_ones = read_survivors(), 0
    print(f"{'exercise':<22}{'mutants':>8}{'killed':>8}{'equivalent':>12}{'unjudged':>10}")
    for exercise in args.exercises:
        codes = collections.Counter()
        alive = {}
        for of, mutant, code, _ in judged:
            if of == exercise:
                codes["killed"] += code != "PASS"
                if code == "PASS":
                    alive[mutant.key] = known.get(exercise, {}).get(mutant.key, "")
        known[exercise] = alive
        unjudged = sum(not why for why in alive.values())
        open_ones += unjudged
        print(
            f"{exercise:<22}{len(found[exercise]):>8}{codes['killed']:>8}"
            f"{len(alive) - unjudged:>12}{unjudged:>10}"
        )
    kept = {exercise: alive for exercise, alive in known.items() if alive}
    SURVIVORS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return int(open_ones > 0)


if __name__ == "__main__":
    raise SystemExit(main())
