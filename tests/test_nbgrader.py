"""Stock nbgrader on the generated sources: release, autograde, feedback, with its own gradebook."""

import os
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI
from traitlets.config import PyFileConfigLoader

from grader.course import ROOT
from tests.course import lessons
from tests.outside import loads
from tests.soak import campaign, times

LESSONS = lessons()[:: times(3, 1)]  # what differs from lesson to lesson, `test_notebooks` has run
NAMES = [lesson.name for lesson in LESSONS]
SECRET = ("fresh=True", "HIDDEN TESTS", "BEGIN SOLUTION")


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    """A course folder as an instructor has it: our sources and settings, three students."""
    root = tmp_path_factory.mktemp("course")
    for folder in ("source", "templates"):
        shutil.copytree(ROOT / "grader" / folder, root / folder)
    shutil.copy(ROOT / "grader/nbgrader_config.py", root)
    for name in NAMES:
        submit(root, "solved", name, ROOT / f"solutions/{name}.ipynb")
        submit(root, "blank", name, ROOT / f"notebooks/{name}.ipynb")
    return root


def submit(root: Path, student: str, name: str, notebook: Path) -> Path:
    target = root / "submitted" / student / name / f"{name}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(notebook, target)
    return target


@pytest.fixture(scope="module")
def api(course, tmp_path_factory):
    """nbgrader's own API in this process, which the command line also uses."""
    before = Path.cwd(), dict(os.environ)
    os.chdir(course)
    os.environ |= {"COURSE_MINUTE": "1", "COURSE_HOME": str(tmp_path_factory.mktemp("home"))}
    config = PyFileConfigLoader("nbgrader_config.py", path=str(course)).load_config()
    config.CourseDirectory.root = str(course)
    yield NbGraderAPI(config=config)
    os.chdir(before[0])
    os.environ.clear()
    os.environ.update(before[1])


def succeed(outcome: dict) -> None:
    assert outcome["success"], (outcome.get("error") or "") + (outcome.get("log") or "")[-3000:]


def score(course: Path, name: str, student: str) -> tuple[float, float]:
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        found = book.find_submission(name, student)
        return found.score, found.max_score


@campaign
@pytest.mark.parametrize("lesson", LESSONS, ids=NAMES)
def test_release_autograde_feedback(lesson, course, api):
    name, points = lesson.name, sum(lesson.points.values())
    succeed(api.generate_assignment(name, force=True, create=True))
    release = nbformat.read(course / "release" / name / f"{name}.ipynb", 4)
    student = nbformat.read(ROOT / f"notebooks/{name}.ipynb", 4)
    assert [c.source for c in release.cells] == [c.source for c in student.cells]
    released = (course / "release" / name / f"{name}.ipynb").read_text()
    assert not [word for word in SECRET if word in released]

    for student, expected in (("solved", points), ("blank", 0)):
        succeed(api.autograde(name, student, force=True, create=True))
        assert score(course, name, student) == (expected, points), student
        succeed(api.generate_feedback(name, student, force=True))
        page = (course / "feedback" / student / name / f"{name}.html").read_text()
        assert not [word for word in SECRET if word in page]
        assert loads(page) == [], "feedback asks for something outside"
    shown = (course / "feedback/blank" / name / f"{name}.html").read_text()
    for exercise in lesson.exercises.values():
        body = [
            x.strip() for x in exercise.solution.splitlines() if x not in exercise.stub.splitlines()
        ]
        longest = max(body, key=len)
        assert longest not in shown, "feedback shows a solution"
    assert "[STUB]" in shown


def test_a_warning_on_stderr_costs_nothing(course, api):
    path = submit(course, "loud", "01_rmsnorm", ROOT / "solutions/01_rmsnorm.ipynb")
    book = nbformat.read(path, 4)
    cell = next(c for c in book.cells if c.id == "rmsnorm")
    marker = "        x_f32 = x.float()"
    lines = ("import sys, warnings", "warnings.warn('slow')", "print('note', file=sys.stderr)")
    loud = "".join(f"        {line}\n" for line in lines)
    assert marker in cell.source
    cell.source = cell.source.replace(marker, loud + marker)
    nbformat.write(book, path)
    succeed(api.generate_assignment("01_rmsnorm", force=True, create=True))
    succeed(api.autograde("01_rmsnorm", "loud", force=True, create=True))
    assert score(course, "01_rmsnorm", "loud") == (2, 2)


def test_a_wrong_answer_scores_zero_and_the_feedback_names_it(course, api):
    path = submit(course, "wrong", "01_rmsnorm", ROOT / "solutions/01_rmsnorm.ipynb")
    book = nbformat.read(path, 4)
    cell = next(c for c in book.cells if c.id == "rmsnorm")
    assert ".mean(-1, keepdim=True)" in cell.source
    cell.source = cell.source.replace(".mean(-1, keepdim=True)", ".sum(-1, keepdim=True)")
    nbformat.write(book, path)
    succeed(api.generate_assignment("01_rmsnorm", force=True, create=True))
    succeed(api.autograde("01_rmsnorm", "wrong", force=True, create=True))
    assert score(course, "01_rmsnorm", "wrong") == (0, 2)
    succeed(api.generate_feedback("01_rmsnorm", "wrong", force=True))
    assert "[RMS-SUM]" in (course / "feedback/wrong/01_rmsnorm/01_rmsnorm.html").read_text()


def test_the_ordinary_commands(tmp_path):
    """What the instructors' page says to type, as processes, in a folder of their own.

    Without `templates/`: settings and sources are enough to grade.
    """
    shutil.copytree(ROOT / "grader/source/01_rmsnorm", tmp_path / "source/01_rmsnorm")
    shutil.copy(ROOT / "grader/nbgrader_config.py", tmp_path)
    submit(tmp_path, "solved", "01_rmsnorm", ROOT / "solutions/01_rmsnorm.ipynb")
    env = os.environ | {"COURSE_HOME": str(tmp_path)}
    for command in (
        "generate_assignment 01_rmsnorm --create",
        "autograde 01_rmsnorm --create",
        "generate_feedback 01_rmsnorm",
    ):
        done = subprocess.run(
            ["nbgrader", *command.split()],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"nbgrader {command}\n{done.stderr[-3000:]}"
    assert score(tmp_path, "01_rmsnorm", "solved") == (2, 2)
    assert not (tmp_path / "mine").exists(), "grading must not keep answers as the instructor's own"
