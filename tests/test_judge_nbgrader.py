"""nbgrader with the judge: its gradebook and pages filled from verdicts, whatever was submitted."""

import json
import os
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from nbformat.v4 import new_markdown_cell
from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI
from nbgrader.utils import compute_checksum
from traitlets.config import PyFileConfigLoader

from grader.course import ROOT
from grader.judge import notebook, preprocessor
from grader.judge.grade import ExerciseResult, Result
from grader.judge.judge_process import Options
from grader.judge.prose import make_harmless
from tests.hostile.large import FIVE_MB, REFUSED
from tests.outside import loads

NAME = "02_rope"


def book(view: str = "solutions") -> dict:
    return json.loads((ROOT / view / f"{NAME}.ipynb").read_text(encoding="utf-8"))


def at(nb: dict, name: str) -> int:
    return next(i for i, cell in enumerate(nb["cells"]) if cell.get("id") == name)


def split(nb):
    i = at(nb, "rotate-half")
    nb["cells"].insert(i + 1, {**nb["cells"][i], "source": "# the second half", "id": "half"})


def skipped(nb):
    nb["cells"][at(nb, "rotate-half")]["source"] = "# WRONG"
    for cell in nb["cells"]:
        cell["metadata"]["tags"] = ["skip-execution"]


def unmarked(nb):
    for cell in nb["cells"]:
        cell["metadata"] = {}


def cut(nb):
    nb["cells"] = [c for c in nb["cells"] if c["id"] not in ("rotate-half", "apply-rope-check")]


def ungraded(nb):
    meta = nb["cells"][at(nb, "apply-rope-check")]["metadata"]["nbgrader"]
    meta |= {"grade": False, "solution": True, "points": -3, "schema_version": 99, "more": 1}


def retyped(nb):
    for name in ("apply-rope-check", "apply-rope"):
        nb["cells"][at(nb, name)]["cell_type"] = "markdown"


def active(nb):
    nb["metadata"] = {"kernelspec": {"name": "<script>alert(6)</script>"}}
    nb["cells"].insert(
        0, {"cell_type": "raw", "metadata": {}, "source": "<script>alert(5)</script>"}
    )
    nb["cells"].insert(
        1,
        {
            "cell_type": "markdown",
            "metadata": {},
            "id": 'a b"c',
            "attachments": 7,
            "source": "<script>alert(1)</script> <img src=x onerror=alert(2)> [l](javascript:alert(3)) "
            "![i](https://evil.example/x.png) $\\href{javascript:alert(4)}{x}$ a < b <details>",
        },
    )
    out = {"output_type": "display_data", "data": {"text/html": "<script>alert(7)</script>"}}
    nb["cells"][at(nb, "rotate-half")]["outputs"] = [out]
    nb["cells"][at(nb, "rotate-half")]["source"] = "# WRONG </pre><script>alert(8)</script>"


BOOKS = {"a-solved": None, "b-split": split, "c-skipped": skipped, "d-unmarked": unmarked,
         "e-cut": cut, "f-ungraded": ungraded, "g-retyped": retyped, "h-active": active}  # fmt: skip
FILES = {"i-text": b"no", "j-utf16": "{}".encode("utf-16"), "k-old": b'{"nbformat": 3}',
         "l-empty": b'{"nbformat": 4, "cells": []}'}  # fmt: skip
SCORES = {"a-solved": 5, "b-split": 5, "c-skipped": 4, "d-unmarked": 5, "e-cut": 4, "f-ungraded": 5,
          "g-retyped": 5, "h-active": 4, **dict.fromkeys(FILES, 0), "m-link": 0, "n-blank": 0,
          "z-last": 5}  # fmt: skip


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A class graded in one go, by a judge that passes what is written and not marked WRONG."""
    root = tmp_path_factory.mktemp("course")
    shutil.copytree(ROOT / "grader/source" / NAME, root / "source" / NAME)
    shutil.copytree(ROOT / "grader/templates", root / "templates")
    shutil.copy(ROOT / "grader/nbgrader_config.py", root)
    submit(root)
    before, options = dict(os.environ), preprocessor.OPTIONS
    preprocessor._end_judge()  # one that an earlier test of this process left at work
    os.environ |= {"PYTHONPATH": str(ROOT), "COURSE_HOME": str(root)}
    preprocessor.OPTIONS = Options(judge="tests.judges:Fake")
    api = nbgrader(root)
    succeed(api.generate_assignment(NAME, force=True, create=True))
    add_free_text(root)
    succeed(api.autograde(NAME, "*", force=True, create=True))
    yield root, api
    preprocessor._end_judge()
    preprocessor.OPTIONS = options
    os.environ.clear()
    os.environ.update(before)


def submit(root: Path) -> None:
    for student in [*BOOKS, *FILES, "m-link", "n-blank", "z-last"]:
        path = root / "submitted" / student / NAME / f"{NAME}.ipynb"
        path.parent.mkdir(parents=True)
        if student == "m-link":
            path.symlink_to(ROOT / "solutions" / f"{NAME}.ipynb")
            (path.parent / "notes.txt").symlink_to(root / "nbgrader_config.py")
            (path.parent / "own.txt").write_text("mine")
            continue
        nb = book("notebooks" if student == "n-blank" else "solutions")
        if change := BOOKS.get(student):
            change(nb)
        path.write_bytes(FILES.get(student) or json.dumps(nb).encode())


def add_free_text(root: Path) -> None:
    """A question that a person grades, as an instructor would add one."""
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as found:
        found.add_grade_cell("why", NAME, NAME, max_score=5, cell_type="markdown")
        found.add_solution_cell("why", NAME, NAME)
        meta = {"grade": True, "solution": True, "locked": False, "grade_id": "why", "points": 5}
        asked = new_markdown_cell("Why?", metadata={"nbgrader": meta})
        found.add_source_cell(
            "why", NAME, NAME, source="Why?", cell_type="markdown", checksum=compute_checksum(asked)
        )
    path = root / "submitted/a-solved" / NAME / f"{NAME}.ipynb"
    nb = json.loads(path.read_text())
    meta = {"grade": True, "solution": True, "grade_id": "why", "points": 5, "locked": False}
    cell = {"cell_type": "markdown", "metadata": {"nbgrader": meta}, "source": "Because of pairs."}
    nb["cells"].append(cell)
    path.write_text(json.dumps(nb))


def nbgrader(root: Path) -> NbGraderAPI:
    config = PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()
    config.CourseDirectory.root = str(root)
    return NbGraderAPI(config=config)


def succeed(outcome: dict) -> None:
    assert outcome["success"], (outcome.get("error") or "") + (outcome.get("log") or "")[-3000:]


def grades(root: Path, student: str) -> dict:
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as found:
        notebook = found.find_submission_notebook(NAME, NAME, student)
        return {g.name: (g.auto_score, g.needs_manual_grade) for g in notebook.grades}


def test_every_submission_is_a_row(course):
    root, _ = course
    found = {student: grades(root, student) for student in SCORES}
    scores = {s: sum(auto or 0 for auto, _ in g.values()) for s, g in found.items()}
    assert scores == SCORES
    assert found["e-cut"]["rotate-half-check"] == (0, True), "no answer: a person must look"
    assert found["i-text"]["apply-rope-check"] == (0, True)
    assert found["c-skipped"]["rotate-half-check"] == (0, False)


def test_a_verdict_of_a_clock_is_asked_for_again(monkeypatch):
    late = ExerciseResult("TIMEOUT", 0, 1, "TIMEOUT", "stopped", flags=("CLOCK",))
    found = [replace(late, verdict="PASS", flags=()), late]

    class Judge:
        def grade(self, data, **about):
            return Result("a", "graded", exercises={"rotate-half": found.pop()}).json()

    monkeypatch.setattr(preprocessor, "_JUDGES", [Judge()])
    result = preprocessor._ask_judge(b"", name="a", lesson=NAME)
    assert result.exercises["rotate-half"].verdict == "PASS" and not found


def test_a_submission_that_takes_too_long_to_read_waits_for_a_person(course, monkeypatch):
    root, api = course
    take = preprocessor.take_answers

    def read_slowly(cells, lesson):
        while cells:
            pass
        return take(cells, lesson)

    monkeypatch.setattr(preprocessor, "take_answers", read_slowly)
    monkeypatch.setattr(notebook, "READ_S", 0.2)
    path = root / "submitted/s-slow" / NAME / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(book()))
    try:
        succeed(api.autograde(NAME, "s-slow", create=True))
        assert grades(root, "s-slow")["rotate-half-check"] == (0, True)
        assert "takes more than 0.2 seconds to read" in autograded(root, "s-slow")
    finally:
        shutil.rmtree(root / "submitted/s-slow")


def test_five_megabytes_of_anything_are_rows_and_pages(course):
    """As `read_submission` takes them; the others are graded, and have their feedback."""
    root, api = course
    paths = {kind: root / f"submitted/s-{n}" / NAME for n, kind in enumerate(FIVE_MB)}
    try:
        for kind, path in paths.items():
            path.mkdir(parents=True)
            (path / f"{NAME}.ipynb").write_bytes(FIVE_MB[kind])
        before = time.process_time()
        for kind, path in paths.items():
            student = path.parent.name
            succeed(api.autograde(NAME, student, create=True))
            refused = kind in REFUSED
            score, person = grades(root, student)["rotate-half-check"]
            assert (score, person) == (0 if refused else 1, refused), kind
            succeed(api.generate_feedback(NAME, student))
            if refused:
                assert REFUSED[kind] in autograded(root, student)
        assert time.process_time() - before < 20 * len(paths)
    finally:
        for path in paths.values():
            shutil.rmtree(path.parent)


@pytest.mark.parametrize("kind", ["[", "\\\\(", "\\begin{a}"])
def test_prose_without_end_holds_up_no_feedback(course, kind):
    """nbconvert takes the square of its length, without a limit: minutes for these, once."""
    root, api = course
    path = root / "submitted/s-prose" / NAME
    nb = book()
    text = kind * (400_000 // len(kind))
    nb["cells"][1:1] = [{"cell_type": "markdown", "metadata": {}, "source": text}] * 2
    path.mkdir(parents=True)
    (path / f"{NAME}.ipynb").write_text(json.dumps(nb))
    before = time.process_time()
    try:
        succeed(api.autograde(NAME, "s-prose", create=True, force=True))
        succeed(api.generate_feedback(NAME, "s-prose", force=True))
        assert grades(root, "s-prose")["rotate-half-check"] == (1, False)
        assert "more characters are in the submitted file" in autograded(root, "s-prose")
        assert time.process_time() - before < 60
    finally:
        shutil.rmtree(path.parent)


def test_a_link_beside_a_notebook_brings_nothing_out(course):
    root, _ = course
    assert {p.name for p in (root / "autograded/m-link" / NAME).iterdir()} == {
        f"{NAME}.ipynb",
        "own.txt",
    }


def test_free_text_waits_for_a_person_and_is_kept(course):
    root, _ = course
    for student in SCORES:
        assert grades(root, student)["why"] == (None, True), student
    assert "Because of pairs." in autograded(root, "a-solved")


def autograded(root: Path, student: str) -> str:
    return (root / "autograded" / student / NAME / f"{NAME}.ipynb").read_text()


def test_graders_see_the_flags_and_every_graded_cell_once(course):
    root, _ = course
    assert "Noted, costs nothing: DUP" in autograded(root, "b-split")
    assert "Noted, costs nothing: TAMPERED" in autograded(root, "c-skipped")
    for student in SCORES:
        nb = json.loads(autograded(root, student))
        ids = [
            c["metadata"]["nbgrader"]["grade_id"]
            for c in nb["cells"]
            if "nbgrader" in c["metadata"]
        ]
        exercises = ("rope-tables", "rotate-half", "apply-rope")
        wanted = [*exercises, *(f"{one}-check" for one in exercises), "why"]
        assert sorted(ids) == sorted(wanted), student


def test_feedback_is_escaped_and_hides_what_is_hidden(course):
    root, api = course
    for student in ("a-solved", "h-active", "i-text", "n-blank"):
        succeed(api.generate_feedback(NAME, student, force=True))
        page = (root / "feedback" / student / NAME / f"{NAME}.html").read_text()
        assert loads(page) == [], student
        for word in (
            "fresh=True",
            "HIDDEN TESTS",
            "<script>alert",
            "<img src=x",
            'src="https://evil',
        ):
            assert word not in page.replace("&quot;", '"'), (student, word)
        assert 'href="javascript' not in page and "\\href" not in page
        assert "first, second = x.chunk" not in page or student in ("a-solved", "h-active")
    shown = (root / "feedback/h-active" / NAME / f"{NAME}.html").read_text()
    said = re.findall(r"<pre>\s*([A-Z]+ \[.*?)</pre>", shown, re.DOTALL)
    assert "the signs &lt;b&gt;are&lt;/b&gt; turned" in shown, said  # a message is text, not HTML


@pytest.mark.parametrize(
    "text",
    [
        "<ScRiPt>",
        "<svg/onload=x>",
        "<a href=x>",
        "<b onclick=x>",
        "<!-- x -->",
        "<?x",
        "<details open>",
        "[x](JaVaScript:y)",
        "&#106;avascript&colon;y",
        "$\\href{x}{y}$",
        "![x](y)",
        "\x1b[2J",
        "\u202eabc",
    ],
)
def test_prose_that_acts_is_changed(text):
    assert make_harmless(text) != text


@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d",
        "> quote",
        "`x`",
        "$x_1 < 2$",
        "# T",
        "<details><summary>x</summary></details>",
        "the data: 3",
    ],
)
def test_ordinary_prose_is_left_alone(text):
    assert make_harmless(text) == text


def test_another_assignment_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match="JUDGE = False"):
        preprocessor.check_lesson("ps1")


def test_without_a_sandbox_nobody_is_graded(course, monkeypatch):
    root, api = course
    preprocessor._end_judge()
    monkeypatch.setattr(preprocessor, "OPTIONS", Options(judge="tests.judges:Refusing"))
    monkeypatch.setattr(preprocessor, "_REFUSED", [])
    try:
        failed = api.autograde(NAME, "a-solved", force=True, create=True)
    finally:
        preprocessor._end_judge()
    assert not failed["success"] and "no sandbox on this machine" in failed["log"]
    assert not (root / "autograded/a-solved").is_dir() or not os.listdir(
        root / "autograded/a-solved"
    )


def test_the_stock_way_still_works(tmp_path, monkeypatch):
    """`JUDGE = False`: kernels, as nbgrader does it."""
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    shutil.copytree(ROOT / "grader/source/01_rmsnorm", tmp_path / "source/01_rmsnorm")
    shutil.copytree(ROOT / "grader/templates", tmp_path / "templates")
    settings = (ROOT / "grader/nbgrader_config.py").read_text()
    assert "\nJUDGE = True\n" in settings
    (tmp_path / "nbgrader_config.py").write_text(settings.replace("JUDGE = True", "JUDGE = False"))
    target = tmp_path / "submitted/solved/01_rmsnorm/01_rmsnorm.ipynb"
    target.parent.mkdir(parents=True)
    shutil.copy(ROOT / "solutions/01_rmsnorm.ipynb", target)
    monkeypatch.chdir(tmp_path)
    api = nbgrader(tmp_path)
    succeed(api.generate_assignment("01_rmsnorm", force=True, create=True))
    succeed(api.autograde("01_rmsnorm", "*", force=True, create=True))
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as found:
        assert found.find_submission("01_rmsnorm", "solved").score == 2
    succeed(api.generate_feedback("01_rmsnorm", "solved", force=True))
    page = (tmp_path / "feedback/solved/01_rmsnorm/01_rmsnorm.html").read_text()
    assert "The same numbers" in page, "a figure without its table"
    assert loads(page) == [] and "HIDDEN TESTS" not in page
