"""The ledger's HTML page in a browser: every rule of accessibility, light and dark, wide and narrow."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import harness
import pytest
from pages import opened

from course_lib.lab import registry
from course_lib.lab.ledger import web
from tests.learner import Learner, at


@pytest.fixture(scope="module")
def ledger(tmp_path_factory) -> Path:
    """The page of someone who has done a bit of everything."""
    learner = Learner()
    for day, item in enumerate(registry.exercises()):
        if day % 3 == 0:
            learner.check(at(day), item, "SOME-MISTAKE", confidence=5)
            learner.check(at(day) + timedelta(hours=2), item, "SOME-MISTAKE", confidence=5)
        if day % 3 == 1:
            learner.hint(at(day), item, 2)
        if day < 12:
            learner.check(at(day, 13), item)
        learner.add(at(day, 13.1), "session", note="Ein Satz. 一句话 <script>alert(1)</script>" * 3)
    learner.review(at(10), "bytes-1")
    folder = tmp_path_factory.mktemp("ledger")
    web.write(learner.state(at(40)), folder / "ledger.html")
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
def test_the_page_is_for_everyone(chrome, ledger, scheme, width):
    with (
        harness.serve(ledger) as origin,
        opened(chrome, color_scheme=scheme, viewport={"width": width, "height": 900}) as page,
    ):
        watched = harness.watch(page, origin)
        page.goto(f"{origin}/ledger.html")
        page.evaluate(
            "() => document.querySelectorAll('details').forEach((one) => one.open = true)"
        )
        assert harness.axe(page) == []
        assert harness.label_problems(page) == []
        assert harness.sideways(page) == []
        assert watched.problems() == []
        assert page.evaluate("() => document.scripts.length") == 0
