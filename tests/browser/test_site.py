"""The static site in a real browser: every page, light and dark, wide and narrow."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import harness
import pytest
from pages import Site, opened, visit
from survey import Survey

from grader.lesson import LessonSource
from tests.course import lessons
from tests.soak import campaign, times

ROOT = Path(__file__).resolve().parents[2]
LIGHT = [("light", 1280), ("light", 320)]
NARROW_DARK = pytest.param(("dark", 320), marks=campaign)  # what it may find, two others find
MODES = [*LIGHT, ("dark", 1280), *times(0, 1) * [NARROW_DARK]]
MARKERS = ("BEGIN SOLUTION", "END SOLUTION", "BEGIN HIDDEN", "END HIDDEN")
Surveys = Callable[[str, int], Survey]


def expect_none(survey: Survey, kind: str, *, looked_at: str = "pages") -> None:
    """Fails with every problem of the kind; and when there was nothing to look at."""
    assert not survey.problems[kind], "\n".join(survey.problems[kind])
    assert survey.counts[looked_at], f"no {looked_at} on the site: nothing was tested"


def test_every_lesson_of_the_toc_is_a_page(site: Site) -> None:
    named = re.findall(r"file: (\S+)", (ROOT / "_toc.yml").read_text(encoding="utf-8"))
    assert named and {f"{name}.html" for name in named} <= set(site.pages)


@pytest.mark.parametrize("lesson", lessons(), ids=lambda x: x.name)
def test_the_checks_on_a_page_passed(site: Site, lesson: LessonSource) -> None:
    """The build ran the page's cells, with the library's answers, in a kernel of their own."""
    assert site.text(f"book/{lesson.name}.html").count("[PASS]") == len(lesson.exercises)


def test_no_marker_of_the_grader_is_published(site: Site) -> None:
    found = [
        f"{path.relative_to(site.folder)}: {marker}"
        for path in site.folder.rglob("*")
        if path.suffix in (".html", ".js", ".json", ".md", ".txt", ".ipynb", ".py")
        for marker in MARKERS
        if marker in path.read_text(encoding="utf-8", errors="replace")
    ]
    assert not found


def test_no_source_of_a_lesson_is_published(site: Site) -> None:
    assert not (site.folder / "_sources").exists()
    assert not [*site.folder.rglob("*.ipynb"), *site.folder.rglob("*.err.log")]


def test_pages_name_no_outside_script_style_or_font(site: Site) -> None:
    outside = re.compile(
        r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=\"(?:https?:)?//[^\"]+"
    )
    found = [
        f"{page}: {tag}"
        for page in (*site.pages, "index.html")
        for tag in outside.findall((site.folder / page).read_text(encoding="utf-8"))
    ]
    assert not found


def test_every_page_says_its_language_title_and_description(site: Site) -> None:
    wanted = ('<html lang="en"', "<title>", '<meta name="description" content="')
    found = [
        f"{page}: no {part}"
        for page in site.pages
        for part in wanted
        if part not in (site.folder / page).read_text(encoding="utf-8")
    ]
    assert not found


@pytest.mark.parametrize("mode", MODES)
def test_pages_load_without_outside_requests_errors_or_gaps(
    surveys: Surveys, mode: tuple[str, int]
) -> None:
    expect_none(surveys(*mode), "loading")


@pytest.mark.parametrize("mode", MODES)
def test_pages_follow_the_color_scheme(surveys: Surveys, mode: tuple[str, int]) -> None:
    expect_none(surveys(*mode), "theme")


@pytest.mark.parametrize("mode", MODES)
def test_pages_break_no_accessibility_rule(surveys: Surveys, mode: tuple[str, int]) -> None:
    expect_none(surveys(*mode), "accessibility")


@pytest.mark.parametrize("mode", MODES)
def test_pages_never_scroll_sideways(surveys: Surveys, mode: tuple[str, int]) -> None:
    expect_none(surveys(*mode), "width")


@pytest.mark.parametrize("mode", LIGHT[:1])  # beside the others that want this walk
def test_no_code_is_cut(surveys: Surveys, mode: tuple[str, int]) -> None:
    expect_none(surveys(*mode), "cut")


@pytest.mark.parametrize("mode", LIGHT[:1])
def test_every_figure_fits_a_window_of_800_pixels(surveys: Surveys, mode: tuple[str, int]) -> None:
    """Before the prediction, after it, and in every preset."""
    expect_none(surveys(*mode), "tall", looked_at="presets")


def test_the_front_page_leads_on_in_its_first_screen(chrome: harness.Browser, site: Site) -> None:
    with opened(chrome, viewport={"width": 1280, "height": 800}) as page:
        visit(page, site, "book/index.html")
        for part in ("a.course-start", "svg.course-model", "text=make lab"):
            box = page.locator(part).first.bounding_box()
            assert box["y"] + box["height"] <= 800, (part, box)
        hours = page.locator("article table.table td:last-child").all_inner_texts()
        assert hours[0] == "½" and len(hours) == 6
        assert all(re.fullmatch(r"[1-9]\d*½?", text) for text in hours[1:])
        assert all(float(text.replace("½", ".5")) > 1 for text in hours[1:])
        page.locator("a.course-start").click()
        page.wait_for_url("**/00_start.html")


@pytest.mark.parametrize("mode", MODES)
def test_formulas_are_drawn(surveys: Surveys, mode: tuple[str, int]) -> None:
    expect_none(surveys(*mode), "formulas", looked_at="formulas")


@pytest.mark.parametrize("mode", MODES)
def test_figures_are_drawn(surveys: Surveys, mode: tuple[str, int]) -> None:
    expect_none(surveys(*mode), "figures", looked_at="figures")


@pytest.mark.parametrize("mode", MODES)
def test_solutions_stay_folded(surveys: Surveys, mode: tuple[str, int]) -> None:
    expect_none(surveys(*mode), "solutions", looked_at="folds")


@pytest.mark.parametrize("mode", LIGHT)
def test_labels_stay_apart_in_every_preset(surveys: Surveys, mode: tuple[str, int]) -> None:
    expect_none(surveys(*mode), "labels", looked_at="presets")


@pytest.mark.parametrize("mode", LIGHT)
def test_paper_shows_everything_but_controls(surveys: Surveys, mode: tuple[str, int]) -> None:
    expect_none(surveys(*mode), "paper")


def test_start_page_leads_to_the_course(chrome: harness.Browser, site: Site) -> None:
    with opened(chrome) as page:
        page.goto(f"{site.origin}/")
        page.wait_for_url("**/book/index.html")


def test_solution_opens_by_keyboard(chrome: harness.Browser, site: Site) -> None:
    folded = "details.hide"
    name = next(n for n in site.lessons if 'class="admonition hide' in site.text(n))
    with opened(chrome) as page:
        visit(page, site, name)
        page.locator(f"{folded} summary").first.focus()
        page.keyboard.press("Enter")
        assert page.locator(f"{folded} pre").first.is_visible()


def test_search_finds_a_word(chrome: harness.Browser, site: Site) -> None:
    with opened(chrome) as page:
        watched = harness.watch(page, site.origin)
        page.goto(f"{site.origin}/search.html?q=attention")
        page.locator(
            "#search-results li a", has_text=re.compile("attention", re.I)
        ).first.wait_for()
        assert not watched.problems() + harness.axe(page) + harness.sideways(page)


def test_mode_switch_works_and_is_kept(chrome: harness.Browser, site: Site) -> None:
    theme = "document.documentElement.dataset.theme"
    with opened(chrome, color_scheme="light") as page:
        visit(page, site, "book/index.html")
        for _ in range(3):
            page.locator(".theme-switch-button").first.click()
            if page.evaluate(theme) == "dark":
                break
        assert page.evaluate(theme) == "dark"
        visit(page, site, "search.html")
        assert page.evaluate(theme) == "dark"
