"""What is taken from a submitted notebook, and what is only noted."""

import contextlib
import json
import os
import subprocess
import sys
import time

import pytest

from course_lib.lab.registry import exercises
from grader.course import ROOT
from grader.judge import notebook, submission
from grader.judge.magics import parse_text
from grader.judge.submission import Submission, read_submission
from tests.hostile.large import FIVE_MB, REFUSED

CARDS = exercises()
ANSWER = "def rotate_half(x):\n    a, b = x.chunk(2, -1)\n    return torch.cat((-b, a), -1)"


def book(view: str = "solutions", lesson: str = "02_rope") -> dict:
    return json.loads((ROOT / view / f"{lesson}.ipynb").read_text(encoding="utf-8"))


def taken(nb: dict, lesson: str | None = None) -> Submission:
    return read_submission(json.dumps(nb).encode(), lesson)


def at(nb: dict, name: str) -> int:
    return next(
        i
        for i, cell in enumerate(nb["cells"])
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == name
    )


def code(source: str, **more) -> dict:
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], **more}


@pytest.mark.parametrize("path", sorted(ROOT.glob("solutions/*.ipynb")), ids=lambda p: p.stem)
def test_an_honest_notebook_is_taken_whole_and_unflagged(path):
    found = read_submission(path)
    assert found.lesson == path.stem and not found.problem and not found.missing
    assert set(found.answers) == {i for i, card in CARDS.items() if card.lesson == path.stem}
    assert not any(found.flags.values()) and not found.notes and not found.texts
    stubs = read_submission(ROOT / "notebooks" / path.name)
    assert all(stubs.answers[i].source == CARDS[i].stub for i in stubs.answers)


def test_the_lesson_is_known_by_name_or_by_content(tmp_path):
    assert taken(book()).lesson == "02_rope"
    path = tmp_path / "alice 02_rope (1).ipynb"
    path.write_text(json.dumps(book()))
    assert read_submission(path).lesson == "02_rope"
    misnamed = tmp_path / "01_rmsnorm.ipynb"
    misnamed.write_text(json.dumps(book()))
    assert read_submission(misnamed).lesson == "02_rope"
    with pytest.raises(ValueError, match="the lessons are 00_start"):
        read_submission(b"", "07_nothing")


def test_a_split_cell_is_joined():
    nb = book()
    i = at(nb, "rotate-half")
    whole = nb["cells"][i]["source"]
    head, tail = whole[: whole.index("    first,")], whole[whole.index("    first,") :]
    nb["cells"][i]["source"] = head.rstrip()
    nb["cells"].insert(i + 1, {**nb["cells"][i], "source": tail})
    found = taken(nb)
    assert "return torch.cat" in found.answers["rotate-half"].source
    assert found.answers["rotate-half"].flags == ("DUP",) == found.flags["rotate-half"]
    nb["cells"][i + 1]["metadata"] = {}
    found = taken(nb)
    assert "return torch.cat" in found.answers["rotate-half"].source
    assert found.flags["rotate-half"] == ("DUP",)


def test_a_copied_stub_after_the_answer_does_not_undo_it():
    nb = book()
    i = at(nb, "rotate-half")
    nb["cells"].insert(i + 1, {**nb["cells"][i], "source": CARDS["rotate-half"].stub})
    found = taken(nb)
    assert "NotImplementedError" not in found.answers["rotate-half"].source
    assert found.flags["rotate-half"] == ("DUP",)


def test_lost_ids_are_matched_by_cell_id_and_by_name():
    nb = book()
    for cell in nb["cells"]:
        cell["metadata"] = {}
    found = taken(nb)
    assert set(found.answers) == {"rope-tables", "rotate-half", "apply-rope"}
    assert found.flags["rotate-half"] == ("MATCHED",), "the check is still there, by its text"
    for n, cell in enumerate(nb["cells"]):
        cell["id"] = f"x{n}"
    found = taken(nb)
    assert "chunk" in found.answers["rotate-half"].source
    assert found.flags["apply-rope"] == ("MATCHED",)


def test_an_answer_in_a_cell_of_its_own_wins_over_an_untouched_stub():
    nb = book("notebooks")
    nb["cells"].insert(at(nb, "rotate-half-check"), code(ANSWER))
    found = taken(nb).answers["rotate-half"]
    assert found.source == ANSWER and found.flags == ("MATCHED",)
    nb = book("notebooks")
    nb["cells"].append(code(ANSWER))  # after the check: a run from the top does not see it
    assert taken(nb).answers["rotate-half"].source == CARDS["rotate-half"].stub


def test_nothing_to_identify_is_a_reason_not_a_crash():
    nb = book()
    del nb["cells"][at(nb, "rotate-half")]
    found = taken(nb)
    assert "none defines rotate_half" in found.missing["rotate-half"]
    assert "apply-rope" in found.answers


def tags(nb):
    for name in ("rotate-half", "rotate-half-check"):
        nb["cells"][at(nb, name)]["metadata"]["tags"] = ["skip-execution"]


def edited(nb):
    nb["cells"][at(nb, "rotate-half-check")]["source"] = "pass"


def deleted(nb):
    del nb["cells"][at(nb, "rotate-half-check")]


def retyped(nb):
    nb["cells"][at(nb, "rotate-half-check")]["cell_type"] = "raw"


def repointed(nb):
    meta = nb["cells"][at(nb, "rotate-half-check")]["metadata"]["nbgrader"]
    meta |= {"points": 100, "checksum": "0" * 32}


def unflagged(nb):
    nb["cells"][at(nb, "rotate-half-check")]["metadata"]["nbgrader"]["grade"] = False


def solution(nb):
    nb["cells"][at(nb, "rotate-half-check")]["metadata"]["nbgrader"]["solution"] = True


def junk(nb):
    nb["cells"][at(nb, "rotate-half-check")]["metadata"]["nbgrader"] |= {"points": [], "grade": {}}


@pytest.mark.parametrize(
    "change", [tags, edited, deleted, retyped, repointed, unflagged, solution, junk]
)
def test_tampering_is_flagged_and_changes_nothing(change):
    nb = book()
    change(nb)
    found, honest = taken(nb), taken(book())
    assert found.flags == {"rope-tables": (), "rotate-half": ("TAMPERED",), "apply-rope": ()}
    assert found.answers["rotate-half"].source == honest.answers["rotate-half"].source
    assert found.answers["apply-rope"] == honest.answers["apply-rope"]
    assert found.notes


def test_the_context_is_what_the_answer_reads():
    nb = book()
    i = at(nb, "rotate-half")
    nb["cells"][i]["source"] = "def rotate_half(x):\n    return helper(x) * SCALE[0]"
    helper = "import torch as t\n%timeit 3\nprint(open('x'))\ndef helper(x):\n    return flip(x)"
    nb["cells"].insert(i, code(helper))
    nb["cells"].insert(i + 1, code("flip = lambda x: t.flip(x, (-1,))\nSCALE = big()\nlost = 1"))
    nb["cells"].insert(i + 2, code("def broken(:"))
    nb["cells"].append(code("def helper(x):\n    return 0"))
    lines = taken(nb).answers["rotate-half"].context.splitlines()
    assert lines == [
        "import torch as t",
        "def helper(x):",
        "    return flip(x)",
        "flip = lambda x: t.flip(x, (-1,))",
        "SCALE = big()",
    ]


def test_a_mistake_in_one_exercise_does_not_cost_the_next():
    found = taken(book())
    assert set(found.alone) == {"apply-rope"}
    assert "def rotate_half" in found.answers["apply-rope"].context
    assert "rotate_half" not in found.alone["apply-rope"].context


def test_an_answer_that_builds_on_its_own_first_half():
    nb = book(lesson="01_rmsnorm")
    i = at(nb, "rmsnorm")
    nb["cells"].insert(i, code(nb["cells"][i]["source"]))
    nb["cells"][i + 1]["source"] = "class RMSNorm(RMSNorm):\n    pass"
    found = taken(nb).answers["rmsnorm"]
    assert found.source.count("class RMSNorm") == 2 and "def forward" in found.source
    assert "import torch" in found.source and not found.context


def test_reading_has_a_limit_on_time(monkeypatch):
    def read_slowly(*args):
        while True:
            with contextlib.suppress(Exception):
                parse_text("x")

    monkeypatch.setattr(submission, "find_context", read_slowly)
    monkeypatch.setattr(notebook, "READ_S", 0.2)
    assert "takes more than 0.2 seconds to read" in taken(book()).problem


def test_a_script_and_magics():
    nb = book()
    nb["cells"][at(nb, "rotate-half")]["source"] = [
        "%%writefile half.py\n",
        "import torch\n",
        "x=1",
    ]
    nb["cells"][at(nb, "apply-rope")]["source"] = "%%time\n" + ANSWER
    found = taken(nb).answers
    assert found["rotate-half"].kind == "script"
    assert found["rotate-half"].source == "import torch\nx=1"
    assert found["apply-rope"].source == "pass\n" + ANSWER, "no line comes or goes"


def test_free_text_and_journal_are_queued():
    nb = book()
    meta = {"grade": True, "solution": True, "grade_id": "why", "points": 3}
    nb["cells"].append({"cell_type": "markdown", "metadata": {"nbgrader": meta}, "source": "So."})
    journal = next(c for c in nb["cells"] if "## Journal" in "".join(c["source"]))
    journal["source"] = "".join(journal["source"]) + "\nMy own words."
    found = taken(nb)
    nb["cells"].append({"cell_type": "markdown", "metadata": {}, "source": "And more."})
    found = taken(nb)
    assert [t.id for t in found.texts] == ["journal", "why", "journal"]
    assert "My own words." in found.texts[0].text


BAD = {
    "empty": (b"", "not JSON"),
    "text": (b"import torch", "not JSON"),
    "raw NUL": (b'{"nbformat": 4, "cells": []}\0', "not JSON"),
    "utf-16": ('{"nbformat": 4}'.encode("utf-16"), "not UTF-8"),
    "a list": (b"[]", "no format number"),
    "deep": (b"[" * 100_000, "not JSON"),
    "huge number": (b'{"nbformat": ' + b"9" * 5_000 + b"}", "not JSON"),
    "format 3": (b'{"nbformat": 3, "worksheets": []}', "format is 3"),
    "no cells": (b'{"nbformat": 4}', "no list of cells"),
    "other work": (b'{"nbformat": 4, "cells": []}', "no exercise of this course"),
    "too large": (b" " * (9 << 20), "larger than 8 MB"),
    "many cells": (json.dumps({"nbformat": 4, "cells": [{}] * 3_000}).encode(), "3,000 cells"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_notebook_has_a_reason(name):
    data, reason = BAD[name]
    found = read_submission(data)
    assert reason in found.problem and not found.answers


def test_files_that_are_not_files(tmp_path):
    (tmp_path / "link.ipynb").symlink_to(ROOT / "solutions/02_rope.ipynb")
    os.mkfifo(tmp_path / "pipe.ipynb")
    (tmp_path / "folder.ipynb").mkdir()
    assert "link" in read_submission(tmp_path / "link.ipynb").problem
    assert "ordinary" in read_submission(tmp_path / "pipe.ipynb").problem
    assert (
        read_submission(tmp_path / "folder.ipynb").problem
        and read_submission(tmp_path / "none.ipynb").problem
    )


def test_awkward_cells_do_not_stop_it():
    nb = book()
    nb["cells"] = [None, 3, {"cell_type": 5, "source": {"a": 1}, "metadata": []}, *nb["cells"]]
    nb["cells"].append(code("x = '\ud800'", metadata={"nbgrader": "no", "tags": 7}))
    nb["cells"][at(dict(cells=nb["cells"][3:-1]), "rotate-half") + 3]["source"] = "a = '\0'"
    found = taken(nb)
    assert "NUL" in found.missing["rotate-half"] and "apply-rope" in found.answers
    nb = book()
    nb["cells"][at(nb, "rotate-half")]["source"] = "x" * 200_000
    assert "100,000 characters" in taken(nb).missing["rotate-half"]


def test_hostile_text_does_not_break_the_parser():
    """In a process of its own: a parser that overflows takes its process along."""
    nb = book()
    texts = ["x" + ".a" * 50_000, "-" * 99_000 + "1", "(" * 999, "1" + "+1" * 49_000,
             "not " * 20_000 + "x", "if 1: pass\n" + "elif 1: pass\n" * 7_000,
             "".join(f"a{n} = a{n + 1}\n" for n in range(6_000))]  # fmt: skip
    for text in texts:
        nb["cells"].insert(1, code(text))
    nb["cells"][at(nb, "rotate-half")]["source"] = (
        "def rotate_half(x):\n    return a0, " + texts[0][:90_000]
    )
    nb["cells"][at(nb, "apply-rope")]["source"] = "def apply_rotary_pos_emb(x):\n    return a0"
    program = (
        "import sys; from grader.judge.submission import read_submission; "
        "print(sorted(read_submission(sys.stdin.buffer.read()).answers))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(nb).encode(),
        capture_output=True,
        timeout=60,
        cwd=ROOT,
    )
    assert done.stdout.decode().strip() == "['apply-rope', 'rope-tables', 'rotate-half']", (
        done.stderr.decode()
    )


def hidden_answer() -> dict:
    """A notebook that only its content can tell: no ids, no name."""
    nb = book()
    for cell in nb["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
    return nb


PLAIN = "".join(
    f"def f{n}(x):\n    y = x + {n}\n    return [y, 'text', {n}]\n\n" for n in range(1_500)
)
ODD = {
    "newlines": ["\n" * 95_000 + "x = ("] * 9,
    "blanks": [(" " * 50 + "\n") * 1_900 + "x = ("] * 9,
    "one line": ["x = (" + "?" * 90_000 + " " * 5_000 + "x"] * 9,
    "question marks": ["? " * 45_000 + "x = ("] * 9,
    "magics": ["%a\n" * 30_000 + "x = ("] * 9,
    "indented": ["x = (\n" + " \n" * 45_000 + "def"] * 9,
    "code": [PLAIN] * 9,
    "broken code": [PLAIN + "x = ("] * 9,
}


@pytest.mark.parametrize("kind", ODD)
def test_reading_takes_seconds_whatever_is_in_the_cells(kind):
    nb = hidden_answer()
    nb["cells"] += [code(text) for text in ODD[kind]]
    before = time.process_time()
    found = taken(nb)
    assert set(found.answers) == {"rope-tables", "rotate-half", "apply-rope"}, found.problem
    assert time.process_time() - before < 20


@pytest.mark.parametrize(
    "more",
    [
        {"cells": [code("x = 1\n" * 16_000) for _ in range(12)]},
        {"cells": [{"cell_type": "markdown", "metadata": {}, "source": "word " * 220_000}]},
    ],
    ids=["code", "text"],
)
def test_more_than_a_megabyte_of_source_is_no_notebook_of_ours(more):
    nb = book()
    nb["cells"] += more["cells"]
    found = taken(nb)
    assert "more than 1,000,000 characters" in found.problem and not found.answers


@pytest.mark.parametrize("kind", FIVE_MB)
def test_five_megabytes_of_anything_take_seconds(kind):
    before = time.process_time()
    found = read_submission(FIVE_MB[kind], name=f"{kind}.ipynb")
    assert time.process_time() - before < 20 and len(FIVE_MB[kind]) > 4_900_000
    if kind in REFUSED:
        assert REFUSED[kind] in found.problem
    else:
        assert set(found.answers) == {"rope-tables", "rotate-half", "apply-rope"}, found.problem


@pytest.mark.parametrize("part", ["outputs", "attachments", "metadata"])
def test_what_is_not_read_may_be_large(part):
    nb = book()
    big = {"text/plain": "x" * 5_000_000}
    nb["cells"].append(
        {
            "outputs": code("", outputs=[{"output_type": "display_data", "data": big}]),
            "attachments": {"cell_type": "markdown", "metadata": {}, "source": "", "attachments": {"a.png": big}},
            "metadata": code("", metadata=big),
        }[part]
    )  # fmt: skip
    before = time.process_time()
    assert set(taken(nb).answers) == {"rope-tables", "rotate-half", "apply-rope"}
    assert time.process_time() - before < 20
