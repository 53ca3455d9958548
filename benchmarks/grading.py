"""Grading a class: `course grade` against stock `nbgrader autograde`, the same submissions, one run.

The class hands in lesson 02: right answers, other right answers and wrong ones, in turn. Beside it
stands a small companion set whose answers compute for a while: there the ratio tends to the number
of cores. Also the latency of one exercise in a warm judge, and how a large class goes.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from nbgrader.api import Gradebook

from benchmarks.record import record
from grader.cli import ROOT
from tests.answers import answers

LESSON = "02_rope"
SLOW = "TIMEOUT"  # an answer that waits for its limit measures the limit
BUSY = """def rotate_half(x):
    a = torch.ones(300, 300)
    for _ in range(60):
        a = (a @ a).clamp(max=1)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)
"""


def write_class(folder: Path, students: int, source: str | None = None) -> None:
    """FOLDER/submitted/STUDENT/02_rope/02_rope.ipynb, one answer to each exercise in each."""
    book = json.loads((ROOT / f"solutions/{LESSON}.ipynb").read_text(encoding="utf-8"))
    texts = {name: [a.text for a in answers(name) if a.code != SLOW]
             for name in ("rotate-half", "apply-rope")}  # fmt: skip
    for number in range(students):
        for cell in book["cells"]:
            if cell.get("id") in texts:
                choice = texts[cell["id"]]
                cell["source"] = choice[number % len(choice)] + f"\n# hand-in {number}\n"
                if source and cell["id"] == "rotate-half":
                    cell["source"] = source + f"# hand-in {number}\n"
        path = folder / f"submitted/s{number:04d}/{LESSON}/{LESSON}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(book), encoding="utf-8")


def judged(folder: Path, workers: int, out: str = "grades.jsonl") -> tuple[list, dict]:
    """`course grade` as it is typed: seconds at which each row came and at its end, and the scores."""
    command = ["course", "grade", "submitted", "--json", "--workers", str(workers), "--out", out]
    began, seconds, scores = time.perf_counter(), [], {}
    quiet = dict(stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    with subprocess.Popen(command, cwd=folder, **quiet) as process:
        for line in process.stdout:
            row = json.loads(line)
            seconds.append(time.perf_counter() - began)
            scores[Path(row["notebook"]).parts[-3]] = row["score"]
    assert process.returncode == 0, f"course grade ended with {process.returncode}"
    return [*seconds, time.perf_counter() - began], scores


def stock(folder: Path) -> tuple[float, dict[str, float]]:
    """Seconds of `nbgrader autograde` with nothing of ours in it, and the scores of its gradebook."""
    for part in ("source", "templates"):
        shutil.copytree(ROOT / "grader" / part, folder / part)
    text = (ROOT / "grader/nbgrader_config.py").read_text(encoding="utf-8")
    assert "JUDGE = True" in text
    (folder / "nbgrader_config.py").write_text(text.replace("JUDGE = True", "JUDGE = False"))
    env = os.environ | {"COURSE_HOME": str(folder / "home")}
    quiet = dict(cwd=folder, env=env, capture_output=True, check=True)
    subprocess.run(["nbgrader", "generate_assignment", LESSON, "--create"], **quiet)
    began = time.perf_counter()
    subprocess.run(["nbgrader", "autograde", LESSON, "--create"], **quiet)
    seconds = time.perf_counter() - began
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as book:
        found = book.assignment_submissions(LESSON)
        return seconds, {s.student.id: s.score for s in found}


def side_by_side(students: int, workers: int, source: str | None = None) -> dict:
    """Submissions per minute, the judge before and after stock nbgrader, and whether scores agree."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_class(folder, students, source)
        (*_, before_s), ours = judged(folder, workers, "before.jsonl")
        stock_s, theirs = stock(folder)
        (*_, after_s), again = judged(folder, workers, "after.jsonl")
        assert ours == again and len(ours) == len(theirs) == students
        odd = {s for s in ours if ours[s] != theirs.get(s)}
    ours_s = (before_s + after_s) / 2  # the machine's speed drifts while stock nbgrader works
    return {"submissions": students, "workers": workers,
            "judge_s": [round(before_s, 1), round(after_s, 1)], "stock_s": round(stock_s, 1),
            "judge_per_min": round(60 * students / ours_s, 1),
            "stock_per_min": round(60 * students / stock_s, 1),
            "ratio": round(stock_s / ours_s, 1), "scores_that_differ": len(odd)}  # fmt: skip


def latency(rounds: int = 20) -> dict:
    """Milliseconds of one right answer in a warm judge, by exercise."""
    from grader.judge.judge import Judge
    from grader.judge.submission import Answer
    from grader.lesson import lessons

    exercises = [e for lesson in lessons(ROOT) for e in lesson.exercises.values()]
    figures, everything = {}, []
    with Judge() as judge:
        for exercise in exercises:
            times = []
            for number in range(1 + rounds):
                began = time.perf_counter()
                outcome = judge.grade(exercise.id, Answer(exercise.solved), seed=number)
                times.append(1e3 * (time.perf_counter() - began))
                assert outcome.verdict == "PASS", outcome
            everything += times[1:]
            figures[exercise.id] = round(statistics.median(times[1:]), 1)
    p95 = statistics.quantiles(everything, n=20)[-1]
    return {"p50_ms": round(statistics.median(everything), 1), "p95_ms": round(p95, 1),
            "p50_ms_by_exercise": figures}  # fmt: skip


def large_class(students: int, workers: int) -> dict:
    """Seconds, the first and the last quarter of the rows, and the most memory one process held."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_class(folder, students)
        seconds, scores = judged(folder, workers)
    assert len(scores) == students
    quarter = students // 4
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {"submissions": students, "seconds": round(seconds[-1], 1),
            "per_min": round(60 * students / seconds[-1]),
            "first_quarter_s": round(seconds[quarter] - seconds[0], 1),
            "last_quarter_s": round(seconds[students - 1] - seconds[students - 1 - quarter], 1),
            "largest_process_mb": round(most / 1e3)}  # fmt: skip


def main() -> None:
    """All four parts; --students and --large make them shorter."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--students", type=int, default=100)
    parser.add_argument("--busy", type=int, default=10)
    parser.add_argument("--large", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    args = parser.parse_args()
    print(record("grading", {
        "class": side_by_side(args.students, args.workers),
        "compute_bound": side_by_side(args.busy, args.workers, BUSY),
        "one_exercise": latency(),
        "large_class": large_class(args.large, args.workers),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
