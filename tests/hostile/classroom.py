"""A class of honest and hostile students, graded by `course grade` and by nbgrader."""

import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from nbgrader.api import Gradebook

from grader.course import ROOT
from tests.confined import descendants
from tests.hostile import CASES, spread
from tests.hostile.case import (
    LESSON,
    READING_TURN,
    WRONG_HALF,
    Case,
    book,
    filled,
    packed,
    untouched,
)
from tests.soak import times

BUDGET = str(times(2, 5))  # CPU seconds of a check
CANARY = "canary-5b2e"
WORK_FILE = f"{LESSON}/{LESSON}.ipynb"
# name: (answers, verdicts); the first group is graded before anything hostile is there
HONEST = {
    "a-solved": (packed(book()), "PASS", "PASS"),
    "b-reading": (packed(book(turn=READING_TURN)), "PASS", "PASS"),
    "m-wrong": (packed(book(WRONG_HALF)), "WRONG", "PASS"),
    "z-untouched": (packed(untouched()), "ERROR", "ERROR"),
}  # fmt: skip
LATER = {"h15-honest": "a-solved", "zz-honest": "a-solved", "zz-wrong": "m-wrong"}
"""Honest students graded between and after the hostile ones: as the earlier ones they copy."""
OTHER = "y-other"


def booked() -> list[Case]:
    """Those that nbgrader grades too, which takes it half a second each: some of every row, and all
    of them in a long run."""
    chosen = []
    for row in range(1, 26):
        cases = [case for case in CASES if case.row == row]
        chosen += spread(cases, times({9: 2, 16: 2, 25: 4}.get(row, 1), len(cases)))
    return chosen


@dataclass
class Class:
    """The graded class and what came of it."""

    root: Path
    rows: dict[str, dict]
    """By student, from `course grade --json`."""
    alone: dict[str, dict]
    """The same of the first honest students, graded before anything hostile was there."""
    said: str
    """What `course grade` said on stderr and `nbgrader autograde` altogether."""
    before: dict[str, set]
    """The gradebook with the first honest students in it: rows by table."""
    after: dict[str, set]
    scores: dict[str, dict]
    """By student and exercise, from the gradebook: points, and whether a person must look."""
    seconds: dict[str, float]
    left: set[int]
    """Processes that came and stayed."""


def run_class(root: Path, outside: dict) -> Class:
    """Grade the first honest students alone, then everybody."""
    prepare(root)
    here, seconds = descendants(os.getpid()), {}
    for student, (data, *_) in HONEST.items():
        hand_in(root, student, data)
    seconds["nbgrader, honest"] = nbgrader(root, "generate_assignment", "autograde")[1]
    alone = rows(course(root, "--out", "alone.jsonl").stdout)
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as found:
        found.add_student("canary", last_name=CANARY)
    before = tables(root)
    for student, same in LATER.items():
        hand_in(root, student, HONEST[same][0])
    hand_in(root, OTHER, packed(book(turn=READING_TURN + f"# {CANARY}")))
    for case in CASES:
        write(root, case, outside)
    open_up(root)
    began = time.perf_counter()
    done = course(root)
    seconds["course grade"] = time.perf_counter() - began
    for case in set(CASES) - set(booked()):
        (root / "submitted" / case.student).rename(root / "only_graded" / case.student)
    said, seconds["nbgrader, class"] = nbgrader(root, "autograde")
    after, scores = tables(root), grades(root)
    seconds["feedback"] = nbgrader(root, "generate_feedback")[1]
    for folder in (root / "only_graded").iterdir():
        folder.rename(root / "submitted" / folder.name)
    return Class(
        root,
        rows(done.stdout),
        alone,
        said + done.stderr,
        before,
        after,
        scores,
        seconds,
        left(here),
    )


def left(before: set[int], patience_s: float = 10) -> set[int]:
    """Processes below this one which were not there before."""
    deadline = time.monotonic() + patience_s
    while (found := descendants(os.getpid()) - before) and time.monotonic() < deadline:
        for orphan in found:
            with contextlib.suppress(ChildProcessError):  # adopted, dead, and ours to bury
                os.waitpid(orphan, os.WNOHANG)
        time.sleep(0.05)
    return found


def prepare(root: Path) -> None:
    """A course folder like an instructor's, with a short budget."""
    (root / "only_graded").mkdir()
    shutil.copytree(ROOT / "grader/source" / LESSON, root / "source" / LESSON)
    shutil.copytree(ROOT / "grader/templates", root / "templates")
    settings = (ROOT / "grader/nbgrader_config.py").read_text()
    settings += (
        "\nimport grader.judge.preprocessor as judged\n"
        f"judged.OPTIONS = judged.Options(budget_s={BUDGET})\n"
    )
    (root / "nbgrader_config.py").write_text(settings)


def hand_in(root: Path, student: str, data: bytes) -> None:
    path = root / "submitted" / student / WORK_FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(data)


def write(root: Path, case: Case, outside: dict) -> None:
    hand_in(root, case.student, filled(case.data, outside))
    path = root / "submitted" / case.student / WORK_FILE
    if case.link:
        path.unlink()
        path.symlink_to(filled(case.link.encode(), outside).decode())
    for name, text in case.beside.items():
        (path.parent / name).parent.mkdir(exist_ok=True)
        (path.parent / name).write_text(text)


def open_up(root: Path) -> None:
    """Everybody may read and write what is attacked: it is the sandbox that must say no."""
    for path in (root, root / "gradebook.db", *(root / "submitted" / OTHER).rglob("*")):
        path.chmod(0o777)
    (root / "grades.jsonl").touch()
    (root / "grades.jsonl").chmod(0o666)


def course(root: Path, *more: str) -> subprocess.CompletedProcess:
    env = {**os.environ, "COURSE_SECRET": CANARY}
    return subprocess.run(
        [
            "course",
            "grade",
            "submitted",
            "--json",
            "--workers",
            "2",
            "--seed",
            "11",
            "--budget",
            BUDGET,
            *more,
        ],
        cwd=root,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )


def nbgrader(root: Path, *commands: str) -> tuple[str, float]:
    """What the commands print, and how long they take."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COURSE_HOME": str(root), "COURSE_SECRET": CANARY}
    began, said = time.perf_counter(), ""
    for command in commands:
        done = subprocess.run(
            ["nbgrader", command, LESSON],
            cwd=root,
            env=env,
            capture_output=True,
            text=True,
            timeout=600,
        )
        said += done.stdout + done.stderr
        assert done.returncode == 0, said[-3000:]
    return said, time.perf_counter() - began


def rows(lines: str) -> dict[str, dict]:
    """By student, without what a clock decides."""
    return {
        row["notebook"].split("/")[1]: stable(row) for row in map(json.loads, lines.splitlines())
    }


def stable(row: dict) -> dict:
    """Without what a clock decides, or who else is in the class, or what finds equal answers."""
    row["notes"] = [note for note in row["notes"] if ": as in " not in note]
    for one in (row, *row["exercises"].values()):
        del one["seconds"]
        one.pop("prints", None)
        if "flags" in one:
            one["flags"] = [flag for flag in one["flags"] if flag != "SAME"]
        if "message" in one:
            one["message"] = re.sub(
                r"stopped after [\d.]+ s", "stopped after some s", one["message"]
            )
    return row


def tables(root: Path) -> dict[str, set]:
    """Every row of every table of the gradebook, as it is."""
    with sqlite3.connect(f"file:{root / 'gradebook.db'}?mode=ro", uri=True) as db:
        names = [
            name for (name,) in db.execute("select name from sqlite_master where type='table'")
        ]
        return {name: set(db.execute(f"select * from {name}")) for name in names}  # noqa: S608


def grades(root: Path) -> dict[str, dict]:
    """By student and exercise: points, and whether a person must look."""
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as found:
        return {
            one.student.id: {
                g.name.removesuffix("-check"): (g.auto_score, g.needs_manual_grade)
                for notebook in one.notebooks
                for g in notebook.grades
            }
            for one in found.find_assignment(LESSON).submissions
        }
