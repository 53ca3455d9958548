"""Grading a class: `course grade` against stock `nbgrader autograde`, the same submissions, one run.

The class hands in lesson 02: right answers, other right answers and wrong ones, in turn. Beside it
stands a small companion set whose answers compute for a while: there the ratio tends to the number
of cores. Also the latency of one exercise in a warm judge, how a large class goes, and what the
sandbox and the processes cost above running the answers in one plain process.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nbgrader.api import Gradebook

from benchmarks.record import record
from grader.course import ROOT
from grader.judge import batch
from grader.judge.judge_process import Options
from grader.judge.store import Store
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
    texts = {
        name: [a.text for a in answers(name) if a.code != SLOW]
        for name in ("rotate-half", "apply-rope")
    }
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


def judged(folder: Path, workers: int, out: str) -> tuple[float, dict[str, dict]]:
    """Seconds of `course grade` as it is typed, start included, and its rows by student."""
    command = ["course", "grade", "submitted", "--json", "--workers", str(workers), "--out", out]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - began
    rows = map(json.loads, done.stdout.splitlines())
    return seconds, {Path(row["notebook"]).parts[-3]: row for row in rows}


def alone(row: dict) -> bool:
    """Whether a right answer stands behind a wrong one of the same learner: stock gives it nothing."""
    return any("ALONE" in one["flags"] for one in row["exercises"].values())


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
    """Submissions per minute, the judge before and after stock nbgrader; the scores must agree."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_class(folder, students, source)
        before_s, ours = judged(folder, workers, "before.jsonl")
        stock_s, theirs = stock(folder)
        after_s, again = judged(folder, workers, "after.jsonl")
    assert len(ours) == len(again) == len(theirs) == students
    for student, row in ours.items():
        same = row["score"] == again[student]["score"]
        assert same and (alone(row) or row["score"] == theirs[student]), (student, row, theirs)
    ours_s = (before_s + after_s) / 2  # the machine's speed drifts while stock nbgrader works
    return {
        "submissions": students,
        "workers": workers,
        "judge_s": [round(before_s, 1), round(after_s, 1)],
        "stock_s": round(stock_s, 1),
        "judge_per_min": round(60 * students / ours_s, 1),
        "stock_per_min": round(60 * students / stock_s, 1),
        "ratio": round(stock_s / ours_s, 1),
        "scored_alone": sum(map(alone, ours.values())),
    }


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
                outcome = judge.grade(exercise.id, Answer(exercise.solution), seed=number)
                times.append(1e3 * (time.perf_counter() - began))
                assert outcome.verdict == "PASS", outcome
            everything += times[1:]
            figures[exercise.id] = round(statistics.median(times[1:]), 1)
    p95 = statistics.quantiles(everything, n=20)[-1]
    return {
        "p50_ms": round(statistics.median(everything), 1),
        "p95_ms": round(p95, 1),
        "p50_ms_by_exercise": figures,
    }


def large_class(students: int, workers: int) -> dict:
    """Seconds, how fast the first and the last quarter went, and the most memory one process held."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_class(folder, students)
        with Store(folder / "grades.jsonl", seed=None) as store:
            jobs = batch.find_jobs(batch.find_notebooks([folder / "submitted"]), store, Options())
            results = batch.grade_in_processes(jobs, store, Options(), workers=workers)
            came = [time.perf_counter() for _ in results]
    assert len(came) == students
    quarter = students // 4
    most = max(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return {
        "submissions": students,
        "seconds": round(came[-1] - came[0], 1),
        "per_min": round(60 * (students - 1) / (came[-1] - came[0])),
        "first_quarter_s": round(came[quarter] - came[0], 1),
        "last_quarter_s": round(came[-1] - came[-1 - quarter], 1),
        "largest_process_mb": round(most / 1e3),
    }


def above_floor(students: int) -> dict:
    """Processor seconds a notebook of the busy class: graded, and in one process with no sandbox.

    Both from `students` and twice as many, so that what is done once in a run cancels. Processor
    time, because other programs on the machine lengthen the time on the clock and this hardly.
    """
    used = {"graded": [], "alone": []}
    for count in (students, 2 * students):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_class(folder, count, BUSY)
            graded = ["course", "grade", "submitted", "--workers", "1"]
            alone = [sys.executable, "-m", "benchmarks.grading", "--alone", str(folder)]
            for what, command, where in (("graded", graded, folder), ("alone", alone, ROOT)):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                env = os.environ | {"OMP_NUM_THREADS": "1"}
                subprocess.run(command, cwd=where, env=env, capture_output=True, check=True)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                used[what].append(
                    after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                )
    graded_s, alone_s = ((more - less) / students for less, more in used.values())
    return {
        "submissions": [students, 2 * students],
        "graded_cpu_s": round(graded_s, 3),
        "alone_cpu_s": round(alone_s, 3),
        "ratio": round(graded_s / alone_s, 2),
        "load": [round(one, 1) for one in os.getloadavg()],
    }


def run_alone(folder: Path) -> None:
    """Every answer of a class through its checks in this process, as a learner's kernel does."""
    from course_lib.lab.checking import judge
    from course_lib.lab.registry import exercise
    from grader.judge.submission import read_submission

    for path in batch.find_notebooks([folder / "submitted"]):
        for name, answer in read_submission(path).answers.items():
            scope: dict = {}
            exec(f"{exercise(name).setup}\n{answer.context}\n{answer.source}", scope)
            judge(exercise(name), scope[exercise(name).name], seed=7)


def main() -> None:
    """All five parts; --students and --large make them shorter."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--students", type=int, default=100)
    parser.add_argument("--busy", type=int, default=10)
    parser.add_argument("--large", type=int, default=1000)
    parser.add_argument("--floor", type=int, default=20)
    parser.add_argument("--alone", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    args = parser.parse_args()
    if args.alone:
        run_alone(args.alone)
        return
    print(
        record(
            "grading",
            {
                "class": side_by_side(args.students, args.workers),
                "compute_bound": side_by_side(args.busy, args.workers, BUSY),
                "one_exercise": latency(),
                "large_class": large_class(args.large, args.workers),
                "above_floor": above_floor(args.floor),
            },
        )
    )


if __name__ == "__main__":
    main()
