"""Every solved notebook runs top to bottom, each in a process of its own, within a CPU minute.

In `make test` a few of each kind: the site that the browser tests build runs the cells of all, and
`browser/test_site.py` looks at what their checks said.
"""

import resource
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from grader.course import ROOT
from tests.course import lessons
from tests.kernels import execute
from tests.soak import campaign, times

NAMES = [lesson.name for lesson in lessons()]
MINUTE_S = times(240, 60)  # a timing, so it is held to by `make soak`, on a quiet machine


def run(notebook: nbformat.NotebookNode, folder: Path) -> float:
    """Execute the notebook in a fresh kernel; its seconds of processors, start and end included."""
    where = {"metadata": {"path": str(folder)}}
    used = processor_seconds()
    execute(NotebookClient(notebook, timeout=240, kernel_name="python3", resources=where))
    return processor_seconds() - used


def processor_seconds() -> float:
    """What processes that this one has started, and that have ended, spent on processors."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


@campaign
@pytest.mark.parametrize("name", times(NAMES[1::12], NAMES))
def test_the_solved_notebook_runs(name, tmp_path, monkeypatch, record_property):
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    monkeypatch.setenv("COURSE_MINUTE", "1")  # lesson 06 trains for one second instead of sixty
    notebook = nbformat.read(ROOT / f"solutions/{name}.ipynb", 4)
    seconds = run(notebook, tmp_path)
    record_property("seconds", seconds)
    assert 1 < seconds < MINUTE_S, f"{name} needs {seconds:.0f} s"
    passed = [c for c in notebook.cells if c.source.startswith("check(")]
    for cell in passed:
        shown = "".join(
            str(o.get("data", {}).get("text/plain", "")) + o.get("text", "") for o in cell.outputs
        )
        assert "[PASS]" in shown, f"{cell.source} did not say PASS"
    kept = {p.stem for p in (tmp_path / "mine").glob("*.py")}
    assert len(kept) == len(passed), (
        f"of {len(passed)} passed exercises only {sorted(kept)} were kept"
    )


@campaign
@pytest.mark.parametrize("name", times(NAMES[2::12], NAMES))
def test_the_untouched_notebook_fails_only_at_what_is_open(name, tmp_path, monkeypatch):
    """Check cells say STUB; no other cell before the first exercise fails."""
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    monkeypatch.setenv("COURSE_MINUTE", "1")
    notebook = nbformat.read(ROOT / f"notebooks/{name}.ipynb", 4)
    first = next(i for i, c in enumerate(notebook.cells) if c.source.startswith("check("))
    notebook.cells = notebook.cells[: first + 1]
    where = {"metadata": {"path": str(tmp_path)}}
    execute(
        NotebookClient(
            notebook, timeout=240, kernel_name="python3", allow_errors=True, resources=where
        )
    )
    failed = [
        c for c in notebook.cells if any(o.output_type == "error" for o in c.get("outputs", ()))
    ]
    assert failed == [notebook.cells[first]]
    said = "".join(str(o.get("data", {}).get("text/plain", "")) for o in failed[0].outputs)
    assert "[STUB]" in said
    (error,) = (o for o in failed[0].outputs if o.output_type == "error")
    assert len(error.traceback) == 1, "a failed check shows its message, not a traceback"
