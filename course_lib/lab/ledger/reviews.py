"""What the ledger takes from the reviews: when each is due, and how well it would be recalled."""

from datetime import datetime, timedelta
from math import ceil

from course_lib.lab.reviews import items as review_items
from course_lib.lab.reviews import queue, schedule

MINUTES = 1.5
"""A review takes up to 90 seconds."""
HORIZONS = (("Today", timedelta(0)), ("This week", timedelta(days=7)), ("Later", timedelta.max))


def schedule_items(events: list[dict], now: datetime) -> dict[str, schedule.Scheduled]:
    """Every review item that the learner has met, by id."""
    return schedule.schedule(events, now)


def recall(found: dict[str, schedule.Scheduled], now: datetime) -> dict[str, float]:
    """Each concept's lowest chance to be recalled now, over its items."""
    lowest: dict[str, float] = {}
    for item, when in found.items():
        if when.last < now:  # an item of this moment has no chance computed yet
            for slug in items()[item].concepts:
                lowest[slug] = min(when.retrievability, lowest.get(slug, 1.0))
    return lowest


def due_now(events: list[dict], now: datetime, levels: dict[str, int]) -> list[schedule.Scheduled]:
    """What `course review` would ask now."""
    return queue.due(events, now, levels)


def horizons(
    found: dict[str, schedule.Scheduled], now: datetime
) -> dict[str, list[schedule.Scheduled]]:
    """The queue in three: today, this week, later; each in order of its dates."""
    order = sorted(found.values(), key=lambda when: (when.due, when.item))
    sorted_out: dict[str, list] = {name: [] for name, _ in HORIZONS}
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    for when in order:
        name = next(n for n, span in HORIZONS if n == "Later" or when.due < midnight + span)
        sorted_out[name].append(when)
    return sorted_out


def next_day(found: dict[str, schedule.Scheduled], now: datetime) -> tuple[datetime, int] | None:
    """The first day with a review due, never before today, and how many are asked on it."""
    if not found:
        return None
    first = max(now, min(when.due for when in found.values()))
    due = sum(when.due.date() <= first.date() for when in found.values())
    return first, min(due, queue.A_DAY)


def minutes(count: int) -> int:
    """How long that many reviews take, in whole minutes."""
    return ceil(count * MINUTES)


def question(item: str) -> str:
    """The question of a review item, on one line."""
    return " ".join(items()[item].question.split())


def items() -> dict[str, review_items.Item]:
    """All review items of the course, by id."""
    return review_items.items()
