"""Figures of the static site: without JavaScript, and by keyboard alone."""

from __future__ import annotations

import re

import harness
import pytest
from pages import Site, opened, visit

# What is not laid out yet has no innerText.
WHOLE = """() => document.head.insertAdjacentHTML(
    'beforeend', '<style>* {content-visibility: visible !important}</style>')"""
AS_TEXT = """() => [...document.querySelectorAll('[data-figure]')].map((box) => ({
    name: box.dataset.figure,
    words: box.querySelector('[data-fallback]')?.innerText.trim().length ?? 0,
    rows: box.querySelectorAll('[data-fallback] tbody tr').length,
}))"""


def test_without_javascript_figures_are_text(chrome: harness.Browser, site: Site) -> None:
    problems, figures = [], 0
    with opened(chrome, java_script_enabled=False) as page:
        for name in site.lessons:
            page.goto(f"{site.origin}/{name}")
            page.evaluate(WHOLE)
            found = page.evaluate(AS_TEXT)  # the test's own script runs, the page's do not
            figures += len(found)
            problems += [f"{name}: {one}" for one in found if not one["words"] or not one["rows"]]
    assert not problems, "\n".join(problems)
    assert figures


def test_keyboard_reaches_and_moves_a_figure(chrome: harness.Browser, site: Site) -> None:
    """Tab alone visits every enabled control of the first figure, sees its focus, and leaves it."""
    name = next(n for n in site.lessons if "data-figure" in site.text(n))
    with opened(chrome) as page:
        visit(page, site, name)
        controls = "[data-figure] :is(button, input, select):not(:disabled)"
        skip = page.locator("[data-figure] button", has_text=re.compile("skip", re.IGNORECASE))
        if skip.count():  # the question before the figure opens its controls
            skip.first.focus()
            page.keyboard.press("Enter")
        page.evaluate(
            """(selector) => {
                const groups = new Set();
                for (const one of document.querySelectorAll(selector)) {
                    // of a radio group Tab visits one; hidden controls none
                    if (!one.checkVisibility()) continue;
                    if (one.type === 'radio' && groups.has(one.name)) continue;
                    groups.add(one.name);
                    one.dataset.wanted = '';
                }
                document.querySelector('[data-figure]').tabIndex = -1;
                document.querySelector('[data-figure]').focus();
            }""",
            controls,
        )
        assert page.locator("[data-wanted]").count()
        for _ in range(200):
            page.keyboard.press("Tab")
            inside = page.evaluate(
                """() => {
                    const now = document.activeElement, style = getComputedStyle(now);
                    const box = now.closest('[data-figure]');
                    if (!box) return false;
                    delete now.dataset.wanted;
                    const group = now.type === 'radio' ? document.getElementsByName(now.name) : [];
                    for (const one of group) delete one.dataset.wanted;
                    if (style.outlineStyle === 'none') box.dataset.unseen = now.outerHTML;
                    return true;
                }"""
            )
            if not inside:
                break
        else:
            pytest.fail("Tab never leaves the figure")
        left = page.locator("[data-wanted]").evaluate_all("all => all.map((e) => e.outerHTML)")
        assert not left, f"Tab does not reach {left}"
        assert page.locator("[data-unseen]").count() == 0, "a focused control shows no outline"
