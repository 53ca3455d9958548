"""A learner's first lesson in a real JupyterLab: fail the check, solve it, pass; use the figure."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import harness
import lab as jupyter
import pytest

from course_lib.lab import figures
from tests.soak import campaign, times

if TYPE_CHECKING:
    from playwright.sync_api import Locator

LESSON = "01_rmsnorm"
EXERCISE = "rmsnorm"
LINK = re.compile(r"\[[^\]]+\]\((?!https?:)[^)]+\)")
CARD = re.compile(r"<details><summary>[^<]*<code>.*?</details>", re.S)
LEADS = """async () => {
    const links = [...document.querySelectorAll('.jp-Notebook a[href*="/files/"]')];
    return Promise.all(links.map(async (link) => {
        const path = new URL(link.href).pathname.replace('/files/', '');
        return [path, (await fetch(`/api/contents/${path}?content=0`)).status];
    }));
}"""


def numbers(notebook: dict) -> dict[str, int]:
    """Place of each cell, by id."""
    return {cell["id"]: number for number, cell in enumerate(notebook["cells"])}


def add_all_figures(path: Path) -> None:
    """Cells at the end for the figures of the other lessons: one notebook shows every figure."""
    book = json.loads(path.read_text(encoding="utf-8"))
    shown = {"".join(cell["source"]) for cell in book["cells"]}
    for name in figures.figures():
        if (source := f'figure("{name}")') not in shown:
            cell = {"cell_type": "code", "id": f"figure-{name}", "metadata": {}, "outputs": []}
            book["cells"].append(cell | {"execution_count": None, "source": source})
    path.write_text(json.dumps(book), encoding="utf-8")


def add_all_links(path: Path) -> None:
    """A cell at the top with a question for review and every link of every lesson.

    At the top, because JupyterLab leaves what is far from the window undrawn.
    """
    text = [
        "".join(cell["source"])
        for other in sorted(path.parent.glob("*.ipynb"))
        for cell in json.loads(other.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "markdown"
    ]
    links = [link for source in text for link in LINK.findall(source)]
    card = next(m[0] for source in text if (m := CARD.search(source)))
    book = json.loads(path.read_text(encoding="utf-8"))
    source = " and ".join(links) + f"\n\n{card}"
    cell = {"cell_type": "markdown", "id": "links", "metadata": {}, "source": source}
    book["cells"].insert(0, cell)
    path.write_text(json.dumps(book), encoding="utf-8")


@pytest.fixture(scope="module")
def lab(chrome: harness.Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[jupyter.Lab]:
    home = jupyter.course_home(tmp_path_factory.mktemp("course"))
    add_all_figures(home / "notebooks" / f"{LESSON}.ipynb")
    add_all_links(home / "notebooks" / f"{LESSON}.ipynb")
    with jupyter.started(home, LESSON) as running:
        yield running


@pytest.fixture(scope="module")
def seen(chrome: harness.Browser, lab: jupyter.Lab) -> Iterator[tuple[harness.Page, harness.Watch]]:
    page = chrome.new_page(viewport={"width": 1400, "height": 1200})
    watched = harness.watch(page, lab.origin)
    jupyter.open_notebook(page, lab)
    jupyter.wait_for_kernel(page, lab)
    yield page, watched
    page.close()


@pytest.fixture
def page(seen: tuple[harness.Page, harness.Watch]) -> harness.Page:
    return seen[0]


@pytest.fixture
def book(lab: jupyter.Lab) -> dict:
    return json.loads(lab.notebook.read_text(encoding="utf-8"))


def test_the_table_of_contents_is_open_and_nothing_pops_up(page: harness.Page, book: dict) -> None:
    text = "\n".join("".join(cell["source"]) for cell in book["cells"])
    contents = page.locator("#table-of-contents")
    contents.get_by_text(re.search(r"^## (.+)$", text, re.M)[1]).first.wait_for()
    assert contents.is_visible() and contents.bounding_box()["x"] < 200
    page.wait_for_timeout(1500)  # the news question would come with a delay
    assert page.locator(".Toastify__toast").count() == 0
    assert page.locator(".jp-Dialog").count() == 0


def test_the_kernel_is_of_this_environment_and_quiet(page: harness.Page, lab: jupyter.Lab) -> None:
    kernels = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_bytes().split(b"\0")
            home = f"COURSE_HOME={lab.home}".encode()
            if b"ipykernel_launcher" in command and home in (process / "environ").read_bytes():
                kernels.append(command[0].decode())
    assert kernels == [sys.executable]
    log = (lab.home / "learning" / "lab.log").read_text(encoding="utf-8", errors="replace")
    assert "without encryption" not in log and "Traceback" not in log, log


def test_a_notebook_that_was_only_opened_is_not_modified(page: harness.Page) -> None:
    """The kernel has written its version into the metadata by now."""
    assert page.locator(".lm-DockPanel .lm-TabBar-tab").count() == 1
    assert page.locator(".lm-DockPanel .lm-TabBar-tab.jp-mod-dirty").count() == 0


def test_a_learner_sees_nothing_of_nbgrader(page: harness.Page) -> None:
    assert page.locator(".lm-MenuBar-item", has_text="Kernel").count() == 1
    assert page.locator(".lm-MenuBar-item", has_text="Nbgrader").count() == 0
    assert page.locator(".jp-NotebookPanel-toolbar").get_by_text("Validate").count() == 0


def test_imports_are_folded(page: harness.Page, book: dict) -> None:
    first = next(n for n, cell in enumerate(book["cells"]) if cell["cell_type"] == "code")
    assert jupyter.cell(page, first).locator(".jp-InputPlaceholder").is_visible()
    assert not jupyter.cell(page, first).locator(".cm-content").is_visible()


def test_review_questions_are_cards(page: harness.Page) -> None:
    question = jupyter.cell(page, 0).locator("summary")
    page.wait_for_function(  # the cell may be drawn anew at this moment
        """() => [...document.querySelectorAll('.jp-Cell summary')].some((e) =>
            getComputedStyle(e).cursor == 'pointer'
            && getComputedStyle(e).listStyleType == 'disclosure-closed'
            && getComputedStyle(e.parentElement).borderTopStyle == 'solid')"""
    )
    assert question.locator("code").count() and "`" not in question.inner_text()


def test_every_link_between_lessons_leads_to_a_notebook(page: harness.Page, book: dict) -> None:
    wanted, found = len(LINK.findall("".join(book["cells"][0]["source"]))), []
    assert wanted > 100
    for _ in range(5):  # the cell may be drawn anew at this moment
        page.locator('.jp-Notebook a[href*="/files/"]').nth(100).wait_for(state="attached")
        found = page.evaluate(LEADS)
        if len(found) >= wanted:
            break
    assert len(found) >= wanted
    assert not [one for one in found if one[1] != 200]
    assert (
        not [  # a page of the reference has no notebook, and is read as it is
            one
            for one in found
            if not one[0].endswith(".ipynb") and "book/reference/" not in one[0]
        ]
    )


def test_the_next_lesson_is_one_click_away(page: harness.Page) -> None:
    jupyter.cell(page, 0).locator("a[href*='02_rope.ipynb']").last.click()
    tabs = page.locator(".lm-DockPanel .lm-TabBar-tab")
    tabs.filter(has_text="02_rope.ipynb").wait_for()
    page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) h1", has_text="02 RoPE").wait_for()
    tabs.filter(has_text=LESSON).click()


def test_stub_fails_solution_passes(page: harness.Page, lab: jupyter.Lab, book: dict) -> None:
    at = numbers(book)
    for number in range(at[EXERCISE] + 1):
        if book["cells"][number]["cell_type"] == "code":
            jupyter.run_cell(page, number)
    said = jupyter.run_cell(page, at[f"{EXERCISE}-check"])
    assert "[STUB]" in said.strip().splitlines()[0], said

    solved = json.loads((jupyter.ROOT / "solutions" / f"{LESSON}.ipynb").read_text("utf-8"))
    source = "".join(next(c["source"] for c in solved["cells"] if c["id"] == EXERCISE))
    jupyter.rewrite_cell(page, at[EXERCISE], source)
    jupyter.run_cell(page, at[EXERCISE])
    said = jupyter.run_cell(page, at[f"{EXERCISE}-check"])
    assert "\N{CHECK MARK}" in said.strip().splitlines()[0], said

    kept = jupyter.saved(page, lab)["cells"][at[EXERCISE]]
    assert "".join(kept["source"]).strip() == source.strip()
    assert (lab.home / "mine" / f"{EXERCISE}.py").is_file()
    events = (lab.home / "learning" / "events.jsonl").read_text(encoding="utf-8").splitlines()
    results = [json.loads(line) for line in events]
    assert [e["result"] for e in results if e["kind"] == "check"] == ["fail", "pass"]


def figure_cells(book: dict) -> list[int]:
    return [n for n, c in enumerate(book["cells"]) if "".join(c["source"]).startswith("figure(")]


def show_figure(page: harness.Page, number: int) -> Locator:
    """The figure of a cell, drawn; the cell is run when it has not been.

    On a machine that is far behind, JupyterLab may lose the connection to its kernel and with it
    the views of widgets, so a figure that does not come is asked for once more, as a person would.
    """
    where = jupyter.cell(page, number)
    figure = where.locator("[data-state=ready]").first
    for seconds in (jupyter.PATIENCE / 3, jupyter.PATIENCE):
        if not figure.count():
            jupyter.run_cell(page, number)
        with contextlib.suppress(harness.TooLate):
            figure.wait_for(timeout=1000 * seconds)
            figure.scroll_into_view_if_needed()
            return figure
    status = page.locator("#jp-main-statusbar").inner_text()
    raise AssertionError(f"cell {number} shows no figure: {where.inner_text()!r}, {status!r}")


@campaign
def test_keys_in_a_figure_never_reach_the_notebook(page: harness.Page, book: dict) -> None:
    """JupyterLab binds b and x to "insert" and "cut" wherever the focus is in command mode."""
    assert len(figure_cells(book)) == len(figures.figures())
    for number in figure_cells(book)[:: times(4, 1)]:
        figure = show_figure(page, number)
        # the one place of the cell that is no control: its left margin; then command mode
        jupyter.cell(page, number).locator(".jp-OutputPrompt, .jp-InputPrompt").first.click()
        page.keyboard.press("Escape")
        assert page.locator(".jp-Notebook.jp-mod-commandMode").count()
        before = page.locator(".jp-Cell").count()
        figure.evaluate("(root) => root.setAttribute('data-same', '')")
        controls = "button, input, select, textarea, [tabindex='0']"
        visited = 0
        for place in range(figure.locator(controls).count()):
            control = figure.locator(controls).nth(place)
            for key in ("ArrowRight", "b", "x", "Enter", "Space"):
                if control.is_visible() and control.is_enabled():
                    control.focus()
                    page.keyboard.press(key)
                    visited += 1
        page.wait_for_timeout(300)
        assert visited >= 5
        assert page.locator(".jp-Cell").count() == before
        assert jupyter.cell(page, number).locator("[data-same][data-state=ready]").count() == 1


@campaign
def test_figures_break_no_rule_of_accessibility(page: harness.Page, book: dict) -> None:
    for number in figure_cells(book)[1 :: times(4, 1)]:
        show_figure(page, number).evaluate("(root) => root.setAttribute('data-axe', '')")
        assert harness.axe(page, "[data-axe]") == []


def test_nothing_was_asked_outside_and_no_error_came(
    page: harness.Page, seen: tuple[harness.Page, harness.Watch]
) -> None:
    assert seen[1].external == []
    assert seen[1].errors == []
