"""A small class through the real judge, by the command an instructor types."""

import json
import shutil
import subprocess

import pytest

from grader.course import ROOT
from tests.answers import answers

HOSTILE = (
    "import os\ndef rotate_half(x):\n    os._exit(0)",
    "def rotate_half(x):\n    raise SystemExit(0)",
    "import torch\ntorch.allclose = torch.equal = lambda *a, **k: True\n"
    "def rotate_half(x):\n    return x",
)


def course(folder, *args: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["course", *args], cwd=folder, capture_output=True, text=True, timeout=120
    )


def write(folder, student: str, source: str | None) -> None:
    nb = json.loads((ROOT / "solutions/02_rope.ipynb").read_text(encoding="utf-8"))
    cell = next(c for c in nb["cells"] if c.get("id") == "rotate-half")
    cell["source"] = source or cell["source"]
    path = folder / "class" / student / "02_rope.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(nb))


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The folder and the rows by student, graded by two workers."""
    folder = tmp_path_factory.mktemp("class")
    right = [a.text for a in answers("rotate-half") if a.code is None]
    wrong = next(a for a in answers("rotate-half") if a.code not in (None, "STUB", "RAISED"))
    sources = {"solved": None, **{f"right{i}": text for i, text in enumerate(right)},
               "wrong": wrong.text, **{f"hostile{i}": text for i, text in enumerate(HOSTILE)}}  # fmt: skip
    for student, source in sources.items():
        write(folder, student, source)
    shutil.copy(ROOT / "notebooks/02_rope.ipynb", folder / "class")
    done = course(folder, "grade", "class", "--json", "--workers", "2", "--seed", "11")
    if "cannot be confined" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    rows = map(json.loads, done.stdout.splitlines())
    return folder, {row["notebook"].removeprefix("class/").partition("/")[0]: row for row in rows}


def test_the_scores_are_right(graded):
    _, rows = graded
    scores = {student: row["score"] for student, row in rows.items()}
    assert scores.pop("02_rope.ipynb") == 0
    assert {s for s, score in scores.items() if score == 5} == {
        s for s in scores if s == "solved" or s.startswith("right")
    }
    verdicts = [rows[f"hostile{i}"]["exercises"]["rotate-half"]["verdict"] for i in range(3)]
    assert verdicts == ["CRASHED", "ERROR", "WRONG"]
    for i in range(3):
        later = rows[f"hostile{i}"]["exercises"]["apply-rope"]
        assert later["verdict"] == "PASS", "it calls rotate_half, and is right"
    assert "ALONE" in rows["hostile1"]["exercises"]["apply-rope"]["flags"]
    assert rows["wrong"]["exercises"]["rotate-half"]["verdict"] == "WRONG"
    assert {row["tier"] for row in rows.values()} < {"namespaces", "landlock"}


def test_one_worker_says_the_same_as_two(graded):
    folder, rows = graded
    some = ("hostile0", "hostile2", "solved", "wrong")
    done = course(
        folder,
        "grade",
        *(f"class/{student}" for student in some),
        "--json",
        "--workers",
        "1",
        "--seed",
        "11",
        "--out",
        "serial.jsonl",
    )
    again = [json.loads(line) for line in done.stdout.splitlines()]
    assert [stable(row) for row in again] == [stable(rows[student]) for student in some]


def stable(row: dict) -> dict:
    told = ("verdict", "points", "code", "message", "flags")
    return {
        "score": row["score"],
        "notebook": row["notebook"],
        **{i: {k: e[k] for k in told} for i, e in row["exercises"].items()},
    }


def test_the_report_is_made_of_it(graded):
    folder, _ = graded
    assert course(folder, "report").returncode == 0
    assert "CRASHED" in (folder / "report.html").read_text()
