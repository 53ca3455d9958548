"""Two ranks launched in a real JupyterLab: the panel lives, keys are safe, an interrupt ends all."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import harness
import lab as jupyter
import pytest

from course_lib.lab.launch import processes

if TYPE_CHECKING:
    from playwright.sync_api import Locator

LESSON = "00_start"
STEPS = """%%writefile steps.py
import os, time
from course_lib.runs.heartbeat import beat
for step in range(1, 5001):
    time.sleep(0.02)
    beat(step, 5000, loss=5 / step, tokens=step * 64)
    if step % 10 == 0:
        print("rank", os.environ["RANK"], "at", step)
"""
CELLS = ("import course_lib.lab", STEPS, "%torchrun --nproc_per_node=2 steps.py", "print('after')")
LAUNCH = 2


@pytest.fixture(scope="module")
def lab(chrome: harness.Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[jupyter.Lab]:
    home = jupyter.course_home(tmp_path_factory.mktemp("course"))
    file = home / "notebooks" / f"{LESSON}.ipynb"
    book = json.loads(file.read_text(encoding="utf-8"))
    empty = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    book["cells"] = [empty | {"id": f"cell-{n}", "source": text} for n, text in enumerate(CELLS)]
    file.write_text(json.dumps(book), encoding="utf-8")
    with jupyter.started(home, LESSON) as running:
        yield running


@pytest.fixture(scope="module")
def seen(chrome: harness.Browser, lab: jupyter.Lab) -> Iterator[tuple[harness.Page, harness.Watch]]:
    page = chrome.new_page(viewport={"width": 1400, "height": 1000})
    watched = harness.watch(page, lab.origin)
    jupyter.open_notebook(page, lab)
    jupyter.wait_for_kernel(page, lab)
    for number in range(LAUNCH):
        jupyter.run_cell(page, number)
    jupyter.cell(page, LAUNCH).locator(".cm-content").first.click()
    page.keyboard.press("Control+Enter")
    yield page, watched
    page.close()


@pytest.fixture
def page(seen: tuple[harness.Page, harness.Watch]) -> harness.Page:
    return seen[0]


def panel(page: harness.Page) -> Locator:
    """The panel of the launch."""
    return jupyter.cell(page, LAUNCH).locator(".course-launch")


def step(page: harness.Page, rank: int) -> int:
    """The step that the panel shows for that rank; 0 before there is one."""
    text = panel(page).locator("tbody tr").nth(rank).locator("td").nth(1).inner_text()
    return int(text.partition("/")[0] or 0)


def after(page: harness.Page, rank: int, least: int) -> int:
    """The step of that rank once it is beyond `least`."""
    deadline = time.monotonic() + jupyter.PATIENCE
    while (now := step(page, rank)) <= least:
        assert time.monotonic() < deadline, panel(page).inner_text()
        page.wait_for_timeout(50)
    return now


def ranks_of(lab: jupyter.Lab) -> list[int]:
    """Processes of runs of that course home."""
    runs = [p for p in processes.runs_with_processes() if Path(p).is_relative_to(lab.home)]
    return [pid for place in runs for pid in processes.of_run(place)]


def test_the_plan_is_said_and_both_ranks_move(page: harness.Page, lab: jupyter.Lab) -> None:
    panel(page).wait_for(timeout=1000 * jupyter.PATIENCE)
    said = jupyter.cell(page, LAUNCH).locator(".jp-OutputArea").first.inner_text()
    assert "2 ranks · gloo · CPU" in said and "log runs/0001/" in said
    assert "torchrun --standalone --nproc_per_node=2 steps.py" in said
    for rank in (0, 1):
        now = after(page, rank, 0)
        assert after(page, rank, now) > now
    cells = panel(page).locator("tbody tr").first.locator("th, td").all_inner_texts()
    assert cells[:2] == ["0", "running"] and cells[4].replace(",", "").isdigit()
    assert cells[5].endswith(" MB") and cells[6].startswith("rank 0 at")
    assert panel(page).locator("[role=status]").inner_text() == "2 ranks running"
    assert len(ranks_of(lab)) >= 3  # torchrun and two ranks


def test_it_is_updated_at_most_five_times_a_second(page: harness.Page) -> None:
    updates, seconds = page.evaluate(
        """() => new Promise((done) => {
            const body = document.querySelector('.course-launch tbody');
            const began = performance.now();
            let count = 0;
            const look = new MutationObserver(() => { count += 1; });
            look.observe(body, {childList: true, characterData: true, subtree: true});
            setTimeout(() => {
                look.disconnect();
                done([count, (performance.now() - began) / 1000]);
            }, 4000);
        })"""
    )
    assert 2 <= updates <= 1 + 5 * seconds  # a busy machine's timer is late


def test_the_log_of_a_rank_is_chosen_and_keys_stay_inside(page: harness.Page) -> None:
    log, choice = panel(page).locator("pre"), panel(page).locator("select")
    log.get_by_text("rank 0 at").wait_for()
    jupyter.cell(page, LAUNCH).locator(".jp-InputPrompt").first.click()
    page.keyboard.press("Escape")
    assert page.locator(".jp-Notebook.jp-mod-commandMode").count()
    before = page.locator(".jp-Cell").count()
    for control in (choice, log):
        for key in ("b", "Enter", "Space", "ArrowRight", "x"):
            control.focus(timeout=5000)  # a cut cell takes it away
            page.keyboard.press(key)
    page.wait_for_timeout(300)
    assert page.locator(".jp-Cell").count() == before and panel(page).count() == 1
    choice.select_option("1")
    log.get_by_text("rank 1 at").wait_for()
    assert "rank 0 at" not in log.inner_text()


def test_the_panel_breaks_no_rule_of_accessibility_and_cuts_no_word(page: harness.Page) -> None:
    assert harness.axe(page, ".course-launch") == []
    cut = page.evaluate(
        """() => [...document.querySelectorAll('.course-launch :is(th, td:not(:last-child))')]
            .filter((cell) => cell.scrollWidth > cell.clientWidth + 1)
            .map((cell) => cell.textContent)"""
    )
    assert cut == []


def test_an_interrupt_leaves_no_rank(page: harness.Page, lab: jupyter.Lab) -> None:
    page.locator("[data-command='notebook:interrupt-kernel']").first.click()
    output = jupyter.cell(page, LAUNCH).locator(".jp-OutputArea").first
    output.get_by_text("stopped 2 of 2 ranks in").first.wait_for(timeout=1000 * jupyter.PATIENCE)
    output.get_by_text("interrupted: no rank is left").first.wait_for()
    assert ranks_of(lab) == []
    states = panel(page).locator("tbody .state").all_inner_texts()
    assert states == ["stopped", "stopped"]
    assert "after" in jupyter.run_cell(page, LAUNCH + 1)  # the kernel is well
    kept = jupyter.saved(page, lab)["cells"][LAUNCH]["outputs"]
    assert any("stopped 2 of 2 ranks in" in "".join(out.get("text", "")) for out in kept)


def test_nothing_was_asked_outside_and_no_error_came(
    page: harness.Page, seen: tuple[harness.Page, harness.Watch]
) -> None:
    assert seen[1].external == []
    assert seen[1].errors == []
