"""Records that a hand has spoiled: whatever stands in the fields, everything can still be shown."""

import json
import random
from datetime import UTC, datetime

import pytest

from course_lib.lab import events, registry
from course_lib.lab.ledger import exports, page, summary, terminal, web
from course_lib.lab.ledger.state import derive
from course_lib.lab.reviews.items import items

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
KINDS = ("check", "hint", "solution", "predict", "reveal", "review", "session", "note", "journal",
         "forget", "odd")  # fmt: skip
FIELDS = ("item", "exercise", "concepts", "result", "code", "attempt", "hint", "rating", "note",
          "confidence", "secs", "text", "started", "ended", "number", "guess", "measured", "preset",
          "src", "session", "variant", "action", "unit", "v")  # fmt: skip
JUNK = (None, 1, -1, 2.5, 10**30, True, "", "pass", "fail", 5, "A-B", [], {}, ["upcasting"], "x:y",
        ["a\nb", "<!-- ledger:end now -->"], "2026-11-01T00:00:00Z", "2026-11-18T05:00:00+03:00",
        "<!-- ledger:end mastered -->", "\ud800", "x|y\n<b>", "=1+1\t::\r\n", "rmsnorm")  # fmt: skip


@pytest.fixture(autouse=True)
def learning(course_home):
    (course_home / "learning").mkdir()


def spoiled(draw: random.Random) -> str:
    """A line with a kind and a time, mostly, and anything else."""
    event = {"v": 1, "kind": draw.choice(KINDS)}
    event["t"] = f"2026-11-{draw.randrange(1, 21):02}T{draw.randrange(24):02}:00:00Z"
    for name in draw.sample(FIELDS, draw.randrange(len(FIELDS))):
        event[name] = draw.choice(JUNK)
    if draw.random() < 0.1:
        event["t"] = draw.choice(JUNK)
    if draw.random() < 0.5:
        event["item"] = draw.choice([*registry.exercises(), *items()])
    return json.dumps(event)


@pytest.mark.parametrize("seed", range(60))
def test_everything_can_be_shown(seed):
    draw = random.Random(seed)
    events.path().write_text("\n".join(spoiled(draw) for _ in range(draw.randrange(1, 25))))
    state = derive(events.read(), NOW)
    text = page.update_page("", state)
    assert page.update_page(text, state) == text
    shown = [text, web.html(state), terminal.describe_state(state)]
    shown += [make(state) for make, _ in exports.FORMATS.values() if state.schedule]
    shown += [summary.summary(state, session) for session in state.sessions]
    assert all(one.encode() for one in shown)
