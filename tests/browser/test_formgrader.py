"""An instructor's round by mouse: release, autograding, scores, feedback in nbgrader's menu.

The server is a stock JupyterLab in a course folder, as an instructor starts one, with a copy of
the course's sources, settings and templates. None of its pages may ask for anything outside.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import harness
import pytest

from grader.lesson import lessons
from tests.outside import loads

if TYPE_CHECKING:
    from playwright.sync_api import FrameLocator, Locator

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 240  # seconds; generous, because the browser tests share the machine with others
LESSON = "01_rmsnorm"
STUDENTS = {"solved": "solutions", "blank": "notebooks"}
SECRET = ("fresh=True", "HIDDEN TESTS", "BEGIN SOLUTION")
QUIET = (
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
)


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course folder with two submissions: one solved, one as it was handed out."""
    folder = tmp_path_factory.mktemp("formgrader")
    for name in ("source", "templates"):
        shutil.copytree(ROOT / "grader" / name, folder / name)
    shutil.copy(ROOT / "grader/nbgrader_config.py", folder)
    for student, origin in STUDENTS.items():
        target = folder / "submitted" / student / LESSON
        target.mkdir(parents=True)
        shutil.copy(ROOT / origin / f"{LESSON}.ipynb", target)
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Settings of nobody else, this environment's tools first: nbgrader calls alembic by name."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "IPYTHON", "XDG"))}
    tools = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    return kept | {"HOME": str(folder), "COURSE_HOME": str(folder), "PATH": tools}


@contextmanager
def jupyterlab(folder: Path, home: Path) -> Iterator[str]:
    """JupyterLab with `folder` as its root; yields the origin. Nobody needs a token."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", *QUIET]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    command += ["--ServerApp.ip=127.0.0.1", "--IdentityProvider.token="]
    log = home / "jupyterlab.log"
    origin = f"http://127.0.0.1:{port}"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(home), stdout=out, stderr=out
        )
        try:
            wait_for(f"{origin}/api/status", process, log)
            yield origin
        finally:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(address: str, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert process.poll() is None, "JupyterLab ended: " + log.read_text("utf-8")[-3000:]
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.3)
    raise AssertionError(f"no answer in {PATIENCE} s: " + log.read_text("utf-8")[-3000:])


@pytest.fixture(scope="module")
def origin(
    chrome: harness.Browser, course: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with jupyterlab(course, tmp_path_factory.mktemp("home")) as address:
        yield address


@pytest.fixture(scope="module")
def seen(chrome: harness.Browser, origin: str) -> Iterator[tuple[harness.Page, harness.Watch]]:
    page = chrome.new_page(viewport={"width": 1500, "height": 1100})
    page.set_default_timeout(PATIENCE * 1000)
    watched = harness.watch(page, origin)
    page.goto(f"{origin}/lab", wait_until="commit")
    yield page, watched
    page.close()


@pytest.fixture(scope="module")
def grader(seen: tuple[harness.Page, harness.Watch]) -> FrameLocator:
    """The formgrader, opened in JupyterLab's menu; a frame whose pages the tests click through."""
    page = seen[0]
    page.locator(".lm-MenuBar-itemLabel").get_by_text("Nbgrader", exact=True).click()
    page.locator(".lm-Menu-itemLabel").get_by_text("Formgrader", exact=True).click()
    return page.frame_locator("#formgrader iframe")


def row(grader: FrameLocator, name: str) -> Locator:
    """The table's row of an assignment or a student."""
    cell = grader.locator("td.name, td.student-id").get_by_text(name, exact=True)
    return grader.locator("#main-table tr").filter(has=cell)


def rows(grader: FrameLocator, column: str) -> list[str]:
    grader.locator(f"#main-table td.{column}").first.wait_for()
    return grader.locator(f"#main-table td.{column}").all_inner_texts()


def follow(page: harness.Page, link: Locator) -> None:
    """Clicks a link of the formgrader and waits for the next page: two of them share a name."""
    (frame,) = (f for f in page.frames if "/formgrader" in f.url)
    before = frame.url
    link.click()
    ends = time.monotonic() + PATIENCE
    while frame.url == before and time.monotonic() < ends:
        page.wait_for_timeout(50)
    frame.wait_for_load_state()


def press(grader: FrameLocator, button: Locator) -> str:
    """Clicks a button of the table; returns the text of the dialog that says how it went."""
    button.click()
    dialog = grader.locator("#success-modal.in, #error-modal.in")
    dialog.wait_for()
    said = dialog.inner_text()
    assert dialog.get_attribute("id") == "success-modal", said
    dialog.get_by_role("button", name="OK").click()
    dialog.wait_for(state="detached")
    return said


def test_the_table_lists_the_lessons(grader: FrameLocator) -> None:
    row(grader, LESSON).wait_for()
    assert rows(grader, "name") == [lesson.name for lesson in lessons(ROOT)]
    row(grader, LESSON).locator(".num-submissions").get_by_text("2", exact=True).wait_for()


def test_generate_writes_the_release(grader: FrameLocator, course: Path) -> None:
    said = press(grader, row(grader, LESSON).locator(".assign a"))
    assert f"Successfully created the student version of '{LESSON}'" in said
    text = (course / "release" / LESSON / f"{LESSON}.ipynb").read_text("utf-8")
    assert not [word for word in SECRET if word in text]
    row(grader, LESSON).locator(".preview a").wait_for()


def test_autograding_shows_the_scores(grader: FrameLocator) -> None:
    row(grader, LESSON).locator(".num-submissions a").click()
    row(grader, "solved").wait_for()
    assert sorted(rows(grader, "student-id")) == sorted(STUDENTS)
    for student, score in (("solved", "2 / 2"), ("blank", "0 / 2")):
        said = press(grader, row(grader, student).locator(".autograde a"))
        assert f"Successfully autograded '{LESSON}' for student '{student}'" in said
        row(grader, student).locator(".score").get_by_text(score, exact=True).wait_for()
        assert row(grader, student).locator(".status").inner_text().strip() == "graded"


def test_feedback_is_written_and_loads_nothing(
    grader: FrameLocator, course: Path, chrome: harness.Browser
) -> None:
    said = press(grader, row(grader, "blank").locator(".generate-feedback a"))
    assert f"Successfully generated feedback for '{LESSON}' for student 'blank'" in said
    file = course / "feedback/blank" / LESSON / f"{LESSON}.html"
    text = file.read_text("utf-8")
    assert not [word for word in SECRET if word in text]
    assert loads(text) == []
    page = chrome.new_page()
    watched = harness.watch(page, "file://")  # as a learner opens the file that was handed back
    page.goto(file.as_uri(), wait_until="load")
    shown = page.locator("body").inner_text()
    figures = page.locator("[data-figure]").count()
    page.close()
    assert watched.problems() == []
    assert figures == 0, "the judge runs no cell, so what is shown is its verdict alone"
    assert f"{LESSON} (Score: 0.0 / 2.0)" in shown and "[STUB]" in shown


def test_a_submission_opens_for_grading_by_hand(
    grader: FrameLocator, seen: tuple[harness.Page, harness.Watch]
) -> None:
    """The page of manual grading has its own template: one for feedback must not replace it."""
    for link in ("Manual Grading", LESSON, LESSON, "Submission #1"):
        follow(seen[0], grader.get_by_role("link", name=link, exact=True))
    grader.locator("input.score").first.wait_for()
    assert grader.locator(".help").count() == 1
    grader.locator(".tabbable:focus").wait_for()  # its script ran to the end: keys work
    assert seen[1].external == []
    assert seen[1].errors == []


def test_validate_names_what_fails_in_the_release(
    seen: tuple[harness.Page, harness.Watch], origin: str, grader: FrameLocator
) -> None:
    page = seen[0]
    page.goto(f"{origin}/lab/tree/release/{LESSON}/{LESSON}.ipynb", wait_until="commit")
    notebook = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    notebook.locator(".jp-Cell").first.wait_for()
    dialog = page.locator(".jp-Dialog")
    for _ in range(3):  # Jupyter gives a kernel free ports, and another program may take one first
        notebook.locator(".validate-button").click()
        dialog.wait_for()
        said = dialog.inner_text()
        if "Kernel died" not in said:
            break
        dialog.locator("button").first.click()
        dialog.wait_for(state="detached")
    assert "Validation Results" in said
    assert "The following cell failed:" in said and 'check("rmsnorm")' in said
    assert "[STUB]" in said and not [word for word in SECRET if word in said]
    dialog.get_by_role("button", name="OK").click()


def test_nothing_was_asked_outside(seen: tuple[harness.Page, harness.Watch]) -> None:
    assert seen[1].external == []
    assert seen[1].errors == []
