"""Judges the mutants of exercises, in processes that may die: `judge_mutants`, or as a program.

    python -m tests.mutation.judge [ID ...] [--workers N]    judge, write what survived, say a table

A mutant is killed when its suite refuses it with one of three seeds. One that survives them all
stands in `survivors/ID.json`, and needs a verdict of a person there: why it is no wrong answer.
"""

import argparse
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
SURVIVORS = Path(__file__).with_name("survivors")
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
    exercise: str, found: list[Mutant], *, workers: int = 2
) -> list[tuple[Mutant, str, str]]:
    """(mutant, code, message) of every mutant, in order."""
    jobs, results = queue.SimpleQueue(), {}
    for job in enumerate(found):
        jobs.put(job)

    def work():
        worker = _Worker()
        try:
            while True:
                number, mutant = jobs.get_nowait()
                results[number] = mutant, *worker.judge(exercise, mutant.text, SEEDS)
        except queue.Empty:
            pass
        finally:
            worker.close()

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[number] for number in range(len(found))]


def read_survivors(exercise: str) -> dict[str, str]:
    """The key of each mutant that survives, and why it is as right as the original."""
    path = SURVIVORS / f"{exercise}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def write_survivors(exercise: str, alive: dict[str, str]) -> None:
    path = SURVIVORS / f"{exercise}.json"
    if alive:
        SURVIVORS.mkdir(exist_ok=True)
        text = json.dumps(dict(sorted(alive.items())), indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
    else:
        path.unlink(missing_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.judge")
    parser.add_argument("exercises", nargs="*", default=list(registry.exercises()))
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    unjudged = 0
    print(f"{'exercise':<22}{'mutants':>8}{'killed':>8}{'equivalent':>12}{'unjudged':>10}")
    for exercise in args.exercises:
        judged = judge_mutants(exercise, mutants(solved(exercise)), workers=args.workers)
        known = read_survivors(exercise)
        alive = {m.key: known.get(m.key, "") for m, code, _ in judged if code == "PASS"}
        write_survivors(exercise, alive)
        killed = sum(code != "PASS" for _, code, _ in judged)
        left = sum(not why for why in alive.values())
        unjudged += left
        equivalent = len(judged) - killed - left
        print(f"{exercise:<22}{len(judged):>8}{killed:>8}{equivalent:>12}{left:>10}", flush=True)
        for mutant, code, _ in judged:
            if code in ("DIED", "CHECK-BROKE") or code == "PASS" and not alive[mutant.key]:
                print(f"  line {mutant.line}: {code}: {mutant.key}", flush=True)
    return int(unjudged > 0)


if __name__ == "__main__":
    raise SystemExit(main())
