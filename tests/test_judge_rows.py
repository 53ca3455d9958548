"""The acceptance suite of the judge: a class of hostile, broken and awkward submissions.

Every submission of `tests/hostile` is graded beside honest students, by `course grade` with two
workers and by `nbgrader autograde` into a gradebook. Each gets the verdicts it deserves, and costs
nobody else anything. A table by row of the acceptance list is printed at the end.
"""

import ctypes
import json
import os
import random
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from grader.cli import main
from grader.judge import store
from grader.judge.grade import Result
from grader.judge.outcome import format_result
from tests.confined import descendants, shared_client
from tests.hostile import CASES, EVERY
from tests.hostile.case import HALF, POINTS, TURN, solution
from tests.hostile.classroom import (
    BUDGET,
    CANARY,
    HONEST,
    LATER,
    OTHER,
    ROOT,
    WORK_FILE,
    booked,
    left,
    rows,
    run_class,
    stable,
)
from tests.outside import loads
from tests.soak import campaign, times

pytestmark = campaign
SECRETS = ("fresh=True", "HIDDEN TESTS", "_quarter_turn", "each_vector_alone", "LEAKED", CANARY)
NUMBER = re.compile(r"\d\.\d{3,}")  # inputs and expected values are printed to four places


@pytest.fixture(scope="module", autouse=True)
def orphans():
    """Whatever loses its parent below this process becomes its child, and so can be counted."""
    assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
    yield
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)


@pytest.fixture(scope="module")
def listening():
    """What must not be reached: a port and an abstract socket."""
    with socket.create_server(("127.0.0.1", 0)) as port, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0course-rows-{os.getpid()}")
        abstract.listen()
        port.settimeout(0.2)
        abstract.settimeout(0.2)
        yield port, abstract


@pytest.fixture(scope="module")
def graded(listening):
    shared_client()  # or a skip, where answers cannot be confined
    # not under /tmp: there a worker has a folder of its own, and would find nothing to attack
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        root = Path(folder)
        yield run_class(
            root,
            {
                "BOOK": f"{root}/gradebook.db",
                "OTHER": f"{root}/submitted/{OTHER}/{WORK_FILE}",
                "RESULTS": f"{root}/grades.jsonl",
                "ROOT": str(ROOT),
                "PID": str(os.getpid()),
                "PORT": str(listening[0].getsockname()[1]),
                "SOCKET": f"course-rows-{os.getpid()}",
            },
        )


def faults(case, row: dict) -> list[str]:
    """What is not as expected in a row of `course grade`."""
    if case.reason:
        right = row["status"] == "ungradable" and case.reason in row["reason"]
        return [] if right else [f"{case.student}: {row['status']} {row['reason']}"]
    found = []
    for name in (HALF, TURN):
        one = row["exercises"].get(name)
        if one is None:
            return [f"{case.student}: {row}"]
        said = {(one["verdict"], one["code"]), (one["verdict"], "")}
        points = POINTS[name] if one["verdict"] == "PASS" else 0
        points = None if one["verdict"] == "UNGRADABLE" else points
        late = {"CLOCK"} if one["verdict"] == "TIMEOUT" else set()
        if not (
            said & case.wanted(name)
            and one["points"] == points
            and one["max_points"] == POINTS[name]
            and set(one["flags"]) - {"SAME"} - late == case.wanted_flags(name)
        ):
            found.append(f"{case.student}: {name}: {one}")
    return found


def test_every_submission_gets_the_verdicts_it_deserves(graded, record_property):
    assert len(CASES) >= 60 and {case.row for case in CASES} == set(range(1, 26))
    wrong = [fault for case in CASES for fault in faults(case, graded.rows[case.student])]
    for line in table(graded):
        record_property("row", line)
    assert not wrong, "\n".join([f"{len(wrong)} rows are not as expected", *wrong])


def test_each_attack_says_what_holds_it():
    assert not [case.student for case in EVERY if (case.row > 4) != bool(case.holder)]
    assert sum(bool(case.holder) for case in EVERY) >= 100


def table(graded) -> list[str]:
    """Per row of the acceptance list: how many submissions, and the verdicts on both exercises."""
    lines = []
    for number in range(1, 26):
        found = [graded.rows[case.student] for case in CASES if case.row == number]
        counts = [
            Counter(
                row["exercises"][name]["verdict"] if row["exercises"] else "no file"
                for row in found
            )
            for name in (HALF, TURN)
        ]
        said = (", ".join(f"{n} {v}" for v, n in c.most_common()) for c in counts)
        lines.append(f"{number:>3}{len(found):>5}  {next(said):<54}{next(said)}")
    took = ", ".join(f"{what} {seconds:.0f} s" for what, seconds in graded.seconds.items())
    return [*lines, f"{len(CASES)} submissions, {len(booked())} of them by nbgrader too; {took}"]


def test_the_tier_is_stamped_on_every_row(graded):
    tiers = {row["tier"] for row in graded.rows.values() if row["exercises"]}
    assert tiers == {shared_client().tier}


def test_honest_students_get_what_they_get_alone(graded):
    for student, (_, half, turn) in HONEST.items():
        row = graded.rows[student]
        assert row == graded.alone[student]
        assert [row["exercises"][name]["verdict"] for name in (HALF, TURN)] == [half, turn]
    for student, same in LATER.items():
        assert graded.rows[student]["exercises"] == graded.rows[same]["exercises"]
        assert graded.scores[student] == graded.scores[same]


def test_the_gradebook_holds_the_points(graded):
    wrong = []
    for case in booked():
        row = graded.rows[case.student]["exercises"]
        for name in (HALF, TURN):
            points, person = graded.scores[case.student][name]
            one = row.get(name, {"verdict": "", "points": 0, "person": "the whole file"})
            # verdicts of a clock may differ between two runs of the same; points may not
            if points != (one["points"] or 0) or bool(person) != bool(one["person"]):
                wrong.append(f"{case.student}: {name}: {points} {person}, not {one}")
    assert not wrong, "\n".join(wrong)


def test_nothing_else_of_the_gradebook_is_changed(graded):
    """What was there is there, every byte of it, and what is new belongs to the new students."""
    new = {name: graded.after[name] - found for name, found in graded.before.items()}
    assert graded.after.keys() == graded.before.keys()
    for name, found in graded.before.items():
        assert found <= graded.after[name], name
    new_students = {case.student for case in booked()} | set(LATER) | {OTHER}
    assert {row[0] for row in new["student"]} == new_students
    own = {"student", "submitted_assignment", "submitted_notebook", "grade", "comment"}
    assert {name for name, found in new.items() if found} <= own
    with sqlite3.connect(f"file:{graded.root}/gradebook.db?mode=ro", uri=True) as db:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
        per_student = (
            "select s.student_id, count(*) from grade g join submitted_notebook n "
            "on g.notebook_id = n.id join submitted_assignment s on n.assignment_id = s.id "
            "group by s.student_id"
        )
        assert dict(db.execute(per_student)) == dict.fromkeys(graded.scores, len(POINTS))
        assert not db.execute("select * from grade where manual_score is not null").fetchall()


def test_nothing_was_reached_and_nothing_is_left(graded, listening):
    assert not graded.left, "processes that came and stayed"
    for one in listening:
        with pytest.raises(TimeoutError):
            one.accept()
    other = (graded.root / "submitted" / OTHER / WORK_FILE).read_text()
    assert CANARY in other and json.loads(other)["nbformat"] == 4
    kept = [one.notebook for one in store.read_results(graded.root / "grades.jsonl")]
    assert len(kept) == len(graded.rows) == len(CASES) + len(HONEST) + len(LATER) + 1


def test_no_secret_comes_out(graded):
    """Rows, pages of feedback, and what the commands said: what a student handed in may be in
    answers to that student, the rest of the secrets in none."""
    subprocess.run(["course", "report"], cwd=graded.root, check=True, capture_output=True)
    report = (graded.root / "report.html").read_text()
    for text in (graded.said, report):
        for secret in (*SECRETS, *solution()):
            assert secret not in text, secret
    assert loads(report) == [] and "<script" not in report
    told = {case.student for case in booked()}
    for case in CASES:
        path = graded.root / "submitted" / case.student / WORK_FILE
        given = "" if case.link else path.read_text(errors="replace")
        secrets = {s for s in (*SECRETS, *solution(), f"{graded.root}") if s not in given}
        row = graded.rows[case.student]
        texts = [json.dumps(row)]
        for one in row["exercises"].values():
            assert not NUMBER.search(one["message"] + one["person"]), (case.student, one)
        if case.student in told:
            (page,) = (graded.root / "feedback" / case.student).rglob("*.html")
            texts.append(page.read_text())
            assert loads(texts[1]) == [] and "<script>alert" not in texts[1], case.student
        for text in texts:
            assert not [s for s in secrets if s in text], case.student


LANDLOCK = f"""
import sys
from grader.judge import batch, judge_process
batch.Options = lambda **given: judge_process.Options(judge="tests.judges:landlock", **given)
from grader.cli import main
sys.exit(main(["grade", *sys.argv[1:], "--json", "--seed", "11", "--budget", "{BUDGET}",
               "--workers", "2", "--out", "landlock.jsonl"]))
"""


def test_the_lesser_tier_gives_the_same_points(graded):
    """Verdicts may differ: where no file can be written at all, a disk bomb is DENIED."""
    here = descendants(os.getpid())
    some = [case for case in booked() if case.row in times((16, 20, 21, 22, 24), range(1, 26))]
    done = subprocess.run(
        [sys.executable, "-c", LANDLOCK, *(f"submitted/{case.student}" for case in some)],
        cwd=graded.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    if "cannot be confined" in done.stderr:
        pytest.skip(done.stderr)
    found = rows(done.stdout)
    assert len(found) == len(some), done.stderr
    for case in some:
        mine, same = found[case.student], graded.rows[case.student]
        assert {name: row["points"] for name, row in mine["exercises"].items()} == {
            name: row["points"] for name, row in same["exercises"].items()
        }, mine
        assert mine["tier"] == "landlock" or not mine["exercises"]
    assert not left(here)


def test_a_budget_of_nothing_is_refused(tmp_path, capsys):
    (tmp_path / "a.ipynb").touch()
    assert main(["grade", str(tmp_path), "--budget", "0"]) == 2
    assert "--budget is 0" in capsys.readouterr().err


def test_the_name_of_a_file_is_one_line_and_acts_on_no_terminal():
    name = "a\x1b[2J\nzoe/02_rope.ipynb      3/3"
    for result in (Result(name, "graded"), Result(name, "ungradable", reason="it is not JSON")):
        assert not {"\n", "\x1b"} & {*format_result(result)}


PROGRAM = f"""
import sys
from grader.judge import store
store.environment_digest = lambda: "the same"  # while files here are edited
from grader.cli import main
sys.exit(main(["grade", *sys.argv[2:], "--json", "--workers", "2", "--seed", "11",
               "--budget", "{BUDGET}", "--out", sys.argv[1]]))
"""


def test_kills_lose_nothing_and_grade_nothing_twice(graded):
    """In `make test` with every sixth of the class, and one of whom nothing can be graded."""
    chance, cut, runs, here = random.Random(), 0, 0, descendants(os.getpid())
    names = sorted(graded.rows)
    lost = next(name for name in names if graded.rows[name]["status"] == "ungradable")
    some = {name: graded.rows[name] for name in sorted({*names[:: times(6, 1)], lost})}
    folders = [f"submitted/{name}" for name in some]
    while cut < times(2, 20):
        runs += 1
        out = f"killed{runs}.jsonl"
        while cut < times(2, 20):
            run = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, out, *folders],
                cwd=graded.root,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                run.wait(chance.uniform(0.5, times(3, 6)))
                break  # it was done before it could be killed: begin anew
            except subprocess.TimeoutExpired:
                run.send_signal(signal.SIGKILL)
                run.wait()
                cut += 1
            assert not left(here, 60), "a process outlived its run"
        last = subprocess.run(
            [sys.executable, "-c", PROGRAM, out, *folders],
            cwd=graded.root,
            capture_output=True,
            text=True,
        )
        assert last.returncode == 2, last.stderr  # 2: some are ungradable
        kept = [json.loads(line) for line in (graded.root / out).read_text().splitlines()[1:]]
        names = [record["result"]["notebook"] for record in kept]
        assert set(names) == {f"{folder}/{WORK_FILE}" for folder in folders}
        assert rows(last.stdout) == some
        of_clocks = [row["notebook"] for row in some.values() if '"CLOCK"' in json.dumps(row)]
        assert not [name for name in {*names} - {*of_clocks} if names.count(name) > 1]
        assert {name: stable(r["result"]) for name, r in zip(names, kept, strict=True)} == {
            row["notebook"]: row for row in some.values()
        }
