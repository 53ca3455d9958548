"""JupyterLab for the browser tests, started by `course lab` itself, and what a learner does in it.

Run as a program it prints, as JSON, the seconds one start took: `python tests/browser/lab.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import harness

if TYPE_CHECKING:
    from playwright.sync_api import Locator

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 240  # seconds; generous, because the browser tests share the machine with others
READY = re.compile(r"JupyterLab is ready .*?: ((http://[^/]+)/\S+)")


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab."""

    home: Path
    address: str
    """Of the lesson's notebook, token included."""
    origin: str
    notebook: Path


def course_home(folder: Path) -> Path:
    """A course home with copies of the repository's notebooks, so that those stay untouched."""
    for name in ("notebooks", "book"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("_build"))
    return folder


@contextmanager
def started(folder: Path, lesson: str) -> Iterator[Lab]:
    """`course lab LESSON --no-browser` in that course home, with settings of nobody else."""
    user = folder / "user"
    user.mkdir()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "IPYTHON", "XDG"))}
    environment = kept | {"HOME": str(user), "COURSE_HOME": str(folder)}
    command = [sys.executable, "-m", "grader.cli", "lab", lesson, "--no-browser"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said = []
        for line in process.stdout:
            said.append(line)
            if found := READY.search(line):
                break
        else:
            raise AssertionError("course lab ended: " + "".join(said))
        page = found[1].partition("/tree/")[2].partition("?")[0]
        yield Lab(folder, found[1], found[2], folder / page)
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def open_notebook(page: harness.Page, lab: Lab) -> None:
    """Shows the lesson and waits until its cells are there."""
    page.set_default_timeout(PATIENCE * 1000)
    page.goto(lab.address, wait_until="commit")
    cells = ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell"
    page.wait_for_selector(cells)


def wait_for_kernel(page: harness.Page, lab: Lab) -> None:
    """Waits for an idle, connected kernel.

    The dot in the toolbar says idle before there is a connection, and what is run then is lost; the
    status bar and the server's own list of sessions tell the truth.
    """
    page.wait_for_function(
        "() => /\\| Idle/.test(document.querySelector('#jp-main-statusbar')?.innerText || '')"
    )
    token = lab.address.partition("?token=")[2]
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"{lab.origin}/api/sessions?token={token}") as answer:
            kernels = [session["kernel"] for session in json.load(answer)]
        if any(k["execution_state"] == "idle" and k["connections"] > 0 for k in kernels):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"no idle kernel after {PATIENCE} s: {kernels}")


def cell(page: harness.Page, number: int) -> Locator:
    """Cell `number` of the notebook in view, from 0."""
    return page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell").nth(number)


def run_cell(page: harness.Page, number: int) -> str:
    """Runs a code cell with Control+Enter and returns the text of its output."""
    where = cell(page, number)
    prompt = where.locator(".jp-InputPrompt").first
    before = prompt.inner_text()
    if (folded := where.locator(".jp-InputPlaceholder")).count():  # a setup cell
        folded.first.click()
    where.locator(".cm-content").first.click()
    page.keyboard.press("Control+Enter")
    deadline = time.monotonic() + PATIENCE
    while not re.search(r"\d", prompt.inner_text()) or prompt.inner_text() == before:
        assert time.monotonic() < deadline, f"cell {number} did not finish: {prompt.inner_text()}"
        page.wait_for_timeout(50)
    page.wait_for_timeout(200)  # outputs may come after the reply that ends the cell
    return where.locator(".jp-OutputArea").first.inner_text()


def rewrite_cell(page: harness.Page, number: int, source: str) -> None:
    """Replaces a cell's text in its editor, as a paste does."""
    cell(page, number).locator(".cm-content").first.click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(source)


def saved(page: harness.Page, lab: Lab) -> dict:
    """The notebook's file after Control+S."""
    before = lab.notebook.stat().st_mtime_ns
    page.keyboard.press("Control+S")
    deadline = time.monotonic() + PATIENCE
    while True:
        page.wait_for_timeout(100)
        if lab.notebook.stat().st_mtime_ns != before:
            with contextlib.suppress(ValueError):  # it is still being written
                return json.loads(lab.notebook.read_text(encoding="utf-8"))
        assert time.monotonic() < deadline, "Control+S saved nothing"


def measure(lesson: str) -> dict[str, float]:
    """Seconds from `course lab` to a ready server, a visible notebook, the first cell's end."""
    with harness.browser() as chrome, tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        with started(course_home(Path(folder)), lesson) as lab:
            seconds = {"server_ready_s": time.perf_counter() - begin}
            page = chrome.new_page(viewport={"width": 1400, "height": 1000})
            open_notebook(page, lab)
            seconds["notebook_visible_s"] = time.perf_counter() - begin
            wait_for_kernel(page, lab)
            cells = json.loads(lab.notebook.read_text(encoding="utf-8"))["cells"]
            run_cell(page, next(i for i, c in enumerate(cells) if c["cell_type"] == "code"))
            seconds["first_cell_done_s"] = time.perf_counter() - begin
    return seconds


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1] if len(sys.argv) > 1 else "01_rmsnorm")))
