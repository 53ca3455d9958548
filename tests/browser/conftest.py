"""Fixtures of the browser tests."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import harness
import pytest
from chromium import CACHE, BrowserMissing
from filelock import FileLock
from pages import Site
from survey import Survey, survey

from grader import book

ROOT = Path(__file__).resolve().parents[2]


def alone(name: str) -> FileLock:
    """One of the processes that share out the tests at a time."""
    CACHE.mkdir(parents=True, exist_ok=True)
    return FileLock(CACHE / f"{name}.lock")


@pytest.fixture(scope="session")
def chrome() -> Iterator[harness.Browser]:
    """One browser for the whole session; without one each test is reported as not run."""
    with ExitStack() as stack:
        try:
            with alone("browser"):
                started = stack.enter_context(harness.browser())
                harness.axe_source()
        except BrowserMissing as error:
            pytest.skip(f"browser not available: {error}")
        yield started


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """Builds the site once, as `course book` does, and serves it."""
    stamp, this_run = CACHE / "site_of_run", os.environ.get("PYTEST_XDIST_TESTRUNUID", "alone")
    with alone("site"):  # the second worker to come finds it built
        if this_run == "alone" or not stamp.is_file() or stamp.read_text() != this_run:
            os.environ.setdefault("COURSE_MINUTE", "2")  # seconds that lesson 06 trains, not 20
            assert book.build(ROOT) == 0, "course book failed; its messages are above"
            stamp.write_text(this_run)
    folder = book.site(ROOT)
    pages = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.html"))]
    pages = [name for name in pages if name != "index.html" and not name.startswith("_static/")]
    with harness.serve(folder) as origin:
        yield Site(folder, origin, tuple(pages))


@pytest.fixture(scope="session")
def surveys(chrome: harness.Browser, site: Site) -> Callable[[str, int], Survey]:
    """`surveys(scheme, width)`: the walk over all pages in one mode, done on first use."""
    return functools.cache(lambda scheme, width: survey(chrome, site, scheme=scheme, width=width))
