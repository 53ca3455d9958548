"""`review()` in a real JupyterLab: its form is drawn, answers, and keeps its keys."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import harness
import lab as jupyter

from course_lib.lab.events import stamp

LESSON = "00_start"


def test_a_review_in_jupyterlab(chrome: harness.Browser, tmp_path_factory) -> None:
    home = jupyter.course_home(tmp_path_factory.mktemp("course"))
    path = home / "notebooks" / f"{LESSON}.ipynb"
    book = json.loads(path.read_text(encoding="utf-8"))
    source = "from course_lib.lab import review\nreview()"
    cell = {"cell_type": "code", "id": "asked", "metadata": {}, "outputs": [], "source": source}
    book["cells"].insert(0, cell | {"execution_count": None})
    path.write_text(json.dumps(book), encoding="utf-8")
    record = home / "learning" / "events.jsonl"
    record.parent.mkdir()
    then = stamp(datetime.now(UTC) - timedelta(days=3))
    event = {"v": 1, "t": then, "kind": "check", "item": "bytes", "result": "pass", "code": "PASS"}
    record.write_text(json.dumps(event) + "\n", encoding="utf-8")

    with jupyter.started(home, LESSON) as lab:
        page = chrome.new_page(viewport={"width": 1400, "height": 1200})
        watched = harness.watch(page, lab.origin)
        jupyter.open_notebook(page, lab)
        jupyter.wait_for_kernel(page, lab)
        jupyter.run_cell(page, 0)
        form = page.locator("[data-phase]").first
        form.get_by_text("1 of 3").wait_for()
        jupyter.cell(page, 0).locator(".jp-OutputPrompt, .jp-InputPrompt").first.click()
        page.keyboard.press("Escape")
        assert page.locator(".jp-Notebook.jp-mod-commandMode").count()
        page.wait_for_function(  # on a busy machine cells are still being drawn
            "() => window.cells == (window.cells = document.querySelectorAll('.jp-Cell').length)",
            polling=500,
        )
        before = page.locator(".jp-Cell").count()
        controls = form.locator("button, input, select")
        for place in range(controls.count()):
            for key in ("ArrowRight", "b", "x"):
                controls.nth(place).focus()
                page.keyboard.press(key)
        assert page.locator(".jp-Cell").count() == before and form.is_visible()
        form.evaluate("(root) => root.setAttribute('data-axe', '')")
        assert harness.axe(page, "[data-axe]") == []
        form.get_by_role("button", name="I do not know").press("Enter")
        form.get_by_text("The answer:").wait_for()
        assert watched.external == [] and watched.errors == []
        page.close()
    kinds = [json.loads(line)["kind"] for line in record.read_text("utf-8").splitlines()]
    assert kinds.count("review") == 1
