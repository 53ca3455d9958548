"""What is asked today: overdue first, chapters mixed, at most eight a day."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from course_lib.lab import registry
from course_lib.lab.events import in_order, parse_time
from course_lib.lab.reviews.items import Item, items
from course_lib.lab.reviews.schedule import Scheduled, schedule

A_DAY = 8
SOLVED = 2
"""The level, solved with help, that an item's prerequisites need."""


def due(events: Iterable[dict], now: datetime, levels: Mapping[str, int]) -> list[Scheduled]:
    """What to ask now, in order: eight a day less what was answered today (UTC) already."""
    events = list(events)
    return waiting(events, now, levels)[: left_today(events, now)]


def waiting(events: Iterable[dict], now: datetime, levels: Mapping[str, int]) -> list[Scheduled]:
    """All that is due by the end of today and may be asked, in the order of asking.

    Overdue items come before those of today. Within both, the longest due comes first, but not
    twice the same chapter, nor exercise, in a row while there is another.
    """
    today = now.astimezone(UTC).date()
    found = [
        one
        for one in schedule(events, now).values()
        if one.due.date() <= today and not missing(items()[one.item], levels)
    ]
    found.sort(key=lambda one: (one.due, one.item))
    overdue = [one for one in found if one.due.date() < today]
    fresh = [one for one in found if one.due.date() == today]
    return _mix_concepts(overdue + fresh, len(overdue))


def find_blocked_items(
    events: Iterable[dict], now: datetime, levels: Mapping[str, int]
) -> dict[str, list[str]]:
    """Concepts that must reach level 2 first, by the id of the item that is due and waits."""
    today = now.astimezone(UTC).date()
    found = {
        one.item: missing(items()[one.item], levels)
        for one in schedule(events, now).values()
        if one.due.date() <= today
    }
    return {item: concepts for item, concepts in found.items() if concepts}


def left_today(events: Iterable[dict], now: datetime) -> int:
    """How many may still be asked today."""
    today = now.astimezone(UTC).date()
    answered = sum(
        e["kind"] == "review" and parse_time(e).date() == today for e in in_order(events)
    )
    return max(0, A_DAY - answered)


def prerequisites(item: Item) -> list[str]:
    """Concepts that an item stands on: taught by an exercise that its own one needs or uses."""
    cards = registry.exercises()
    own = cards.get(item.exercise)
    if own is None:
        return []
    needed = {c for name in own.needs if name in cards for c in cards[name].teaches}
    taught = {c for card in cards.values() for c in card.teaches}
    return sorted((needed | (set(own.uses) & taught)) - set(own.teaches))


def missing(item: Item, levels: Mapping[str, int]) -> list[str]:
    """The prerequisites below level 2."""
    return [concept for concept in prerequisites(item) if levels.get(concept, 0) < SOLVED]


def _mix_concepts(found: list[Scheduled], overdue: int) -> list[Scheduled]:
    """The first `overdue` before the rest, and both with neighbors from different chapters."""
    order: list[Scheduled] = []
    for tier in (found[:overdue], found[overdue:]):
        left = list(tier)
        while left:
            best = min(left, key=lambda one: _likeness(order[-1], one) if order else 0)
            left.remove(best)
            order.append(best)
    return order


def _likeness(before: Scheduled, one: Scheduled) -> int:
    """2 for the same exercise, 1 for the same chapter, else 0; `min` takes the first, longest due."""
    a, b = items()[before.item], items()[one.item]
    return (a.exercise == b.exercise) + (a.lesson == b.lesson)
