"""The built site as the browser tests use it: its pages, and how to open one and wait for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import harness

PATIENCE = 120_000  # ms; a busy machine loads a page in half a minute
MATHS = "window.MathJax?.startup?.promise ? window.MathJax.startup.promise.then(() => true) : true"


@dataclass(frozen=True)
class Site:
    """The built site: its folder, its address, its pages relative to both.

    The redirect at the top, index.html, is not among the pages.
    """

    folder: Path
    origin: str
    pages: tuple[str, ...]

    @property
    def lessons(self) -> list[str]:
        return [page for page in self.pages if re.search(r"/\d\d_\w+\.html$", page)]

    def text(self, page: str) -> str:
        return (self.folder / page).read_text(encoding="utf-8")


@contextmanager
def opened(chrome: harness.Browser, **settings: object) -> Iterator[harness.Page]:
    """A page in a context of its own."""
    context = chrome.new_context(**settings)
    context.set_default_timeout(PATIENCE)
    try:
        yield context.new_page()
    finally:
        context.close()


def visit(page: harness.Page, site: Site, name: str, *, whole: bool = True) -> None:
    """Opens a page and waits until formulas and figures are drawn, or have failed.

    `whole` lays out at once what the page lays out when it comes near: it cuts off what is too wide.
    """
    page.goto(f"{site.origin}/{name}", wait_until="load")
    if whole:
        page.add_style_tag(content="* {content-visibility: visible !important}")
    page.evaluate(MATHS)
    page.wait_for_function(
        "() => [...document.querySelectorAll('[data-figure]')].every((box) => box.dataset.state)"
    )
