"""One walk over the site in one mode, looking for everything at once: pages are slow to open."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

import harness
from pages import Site, opened, visit

from tests.soak import times

STATE = """() => ({
    theme: document.documentElement.dataset.theme,
    formulas: document.querySelectorAll('mjx-container').length,
    unread: [...document.querySelectorAll('mjx-merror')].map((one) => one.textContent),
    figures: [...document.querySelectorAll('[data-figure]')].map((box) => ({
        name: box.dataset.figure, state: box.dataset.state,
        drawn: [...box.querySelectorAll('svg')].some((svg) => svg.getBoundingClientRect().width),
    })),
    folds: [...document.querySelectorAll('details.hide')].map((fold) => ({
        code: (fold.querySelector('pre')?.textContent ?? '').slice(0, 60),
        shown: [...fold.querySelectorAll('pre, img, table')].some((one) => one.checkVisibility()),
        named: Boolean(fold.querySelector('summary').innerText.trim()),
    })),
    stubs: [...document.querySelectorAll('.highlight-python')]
        .filter((one) => one.textContent.includes('NotImplementedError')).length,
})"""
CUT = """() => [...document.querySelectorAll(
    '.bd-article :is(.cell_input, .highlight-python, .highlight-ipython3) pre')]
    .filter((one) => one.scrollWidth > one.clientWidth + 1)
    .map((one) => one.textContent.slice(0, 60))"""
TALL = """() => [...document.querySelectorAll('[data-figure] .cf')]
    .map((one) => [one.parentElement.parentElement.dataset.figure, one.offsetHeight])
    .filter(([, height]) => height > 800).map((one) => one.join(' '))"""
ON_PAPER = """() => [...document.querySelectorAll(
    '[data-figure] :is(button, input, select), .copybtn, .bd-sidebar-primary, ' +
    '.theme-switch-button, .prev-next-footer, .headerlink')]
    .filter((one) => one.checkVisibility({visibilityProperty: true}))
    .map((one) => one.outerHTML.slice(0, 120))"""
PRESETS = "() => document.querySelectorAll('[data-figure] button[aria-pressed]').length"
PRESS = """async (index) => {
    for (const one of document.querySelectorAll('[data-figure] button'))
        if (/^skip/i.test(one.innerText)) one.click();  // the question before the figure
    const preset = document.querySelectorAll('[data-figure] button[aria-pressed]')[index];
    preset.click();
    await new Promise((drawn) => setTimeout(drawn, 60));
    return preset.innerText;
}"""


@dataclass
class Survey:
    """What was wrong, by kind, as lines that begin with the page; and how much was looked at."""

    problems: dict[str, list[str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def note(self, kind: str, page: str, found: list[str]) -> None:
        self.problems.setdefault(kind, []).extend(f"{page}: {line}" for line in found)


def survey(chrome: harness.Browser, site: Site, *, scheme: str, width: int) -> Survey:
    """Visits every page in one color scheme and width."""
    result = Survey()
    with opened(chrome, color_scheme=scheme, viewport={"width": width, "height": 900}) as page:
        watched = harness.watch(page, site.origin)
        for place, name in enumerate(site.pages):
            if scheme == "dark" and place % times(2, 1):
                continue  # colors come from rules that all pages share
            visit(page, site, name)
            state = page.evaluate(STATE)
            look_at_state(result, site, name, state, scheme)
            # Both schemes show the same elements, so the second one needs the rules on color only.
            rules = harness.COLOUR_RULES if scheme == "dark" else ()
            if width == 1280 or place % times(3, 1) == 0:  # most rules hold for every width
                result.note("accessibility", name, harness.axe(page, rules=rules))
            result.note("width", name, harness.sideways(page))
            result.note("labels", name, harness.label_problems(page, "[data-figure] svg"))
            if width == 1280:
                result.note("cut", name, page.evaluate(CUT))
                result.note("tall", name, page.evaluate(TALL))
            if scheme == "light":  # where things stand does not depend on color
                look_at_presets(result, page, name)
                look_at_paper(result, page, name)
            result.note("loading", name, watched.problems())
            watched.clear()
            result.counts["pages"] += 1
    return result


def look_at_state(result: Survey, site: Site, name: str, state: dict, scheme: str) -> None:
    """Theme, formulas, figures and solutions, from the answer of STATE."""
    source = (site.folder / name).read_text(encoding="utf-8")
    wanted, folds = len(re.findall(r'class="math[ "]', source)), state["folds"]
    missing = [one for one in state["figures"] if one["state"] != "ready" or not one["drawn"]]
    result.note("theme", name, [state["theme"]] if state["theme"] != scheme else [])
    result.note("formulas", name, state["unread"])
    if state["formulas"] < wanted:
        result.note("formulas", name, [f"{state['formulas']} of {wanted} drawn"])
    result.note("figures", name, [f"not drawn: {one}" for one in missing])
    result.note("solutions", name, [f"in view: {one['code']}" for one in folds if one["shown"]])
    result.note("solutions", name, ["fold without a name" for one in folds if not one["named"]])
    result.note("solutions", name, ["no stub"] if folds and not state["stubs"] else [])
    for kind in ("figures", "folds"):
        result.counts[kind] += len(state[kind])
    result.counts["formulas"] += state["formulas"]


def look_at_presets(result: Survey, page: harness.Page, name: str) -> None:
    """Labels and width in every preset of every figure."""
    for index in range(page.evaluate(PRESETS)):
        pressed = page.evaluate(PRESS, index)
        found = harness.label_problems(page, "[data-figure] svg")
        result.note("labels", name, [f"preset {pressed}: {line}" for line in found])
        if page.viewport_size["width"] == 1280:
            result.note("tall", name, [f"preset {pressed}: {x}" for x in page.evaluate(TALL)])
        result.note("width", name, [f"preset {pressed}: {x}" for x in harness.sideways(page)])
        result.counts["presets"] += 1


def look_at_paper(result: Survey, page: harness.Page, name: str) -> None:
    """On paper everything is unfolded and no control is left; afterwards all is as it was."""
    page.emulate_media(media="print")
    page.wait_for_function("() => !document.querySelector('details:not([open])')")
    result.note("paper", name, page.evaluate(ON_PAPER))
    page.emulate_media(media="screen")
    page.wait_for_function("() => !document.querySelector('details.hide[open]')")
