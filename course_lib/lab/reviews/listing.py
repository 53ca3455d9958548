"""What is due, what comes later and what waits for something else, as lines of text."""

from datetime import UTC, datetime, timedelta

from course_lib.lab import registry
from course_lib.lab.reviews import queue
from course_lib.lab.reviews.items import items
from course_lib.lab.reviews.schedule import Scheduled, schedule, set_aside
from course_lib.lab.reviews.sitting import Levels

WIDTH = 88


def listing(found: list[dict], now: datetime, levels: Levels) -> list[str]:
    """The lines of `course review --list`: today's questions, the counts after that, notes."""
    all_of_it = schedule(found, now)
    if not all_of_it:
        return [
            "No review yet: passing an exercise creates its reviews, due two days later.",
            *set_aside(found, now),
        ]
    left = queue.left_today(found, now)
    asked = queue.waiting(found, now, levels)
    lines = [f"Due now: {len(asked)}. Left for today: {left} of {queue.A_DAY}."]
    lines += [
        f"  {_describe_due(one, now):<14}{one.item:<20}{_shorten_question(one)}" for one in asked
    ]
    lines.append(_count_later(all_of_it, now))
    return lines + notes(found, now, levels)


def notes(found: list[dict], now: datetime, levels: Levels) -> list[str]:
    """Why something that one might expect is not asked, a sentence each."""
    return _list_waiting(found, now, levels) + set_aside(found, now)


def _list_waiting(found: list[dict], now: datetime, levels: Levels) -> list[str]:
    """Due items that stand on something not solved yet, a line for each such concept."""
    by_concept: dict[str, list[str]] = {}
    for item, concepts in queue.find_blocked_items(found, now, levels).items():
        by_concept.setdefault(concepts[0], []).append(item)
    return [
        f"Waiting: {', '.join(waiting)}, until {concept} is solved ({_teacher(concept)})."
        for concept, waiting in by_concept.items()
    ]


def _teacher(concept: str) -> str:
    found = [card.id for card in registry.exercises().values() if concept in card.teaches]
    return f"exercise {found[0]}"


def _count_later(all_of_it: dict[str, Scheduled], now: datetime) -> str:
    today = now.astimezone(UTC).date()
    days = [one.due.date() - today for one in all_of_it.values()]
    week = sum(timedelta(0) < day <= timedelta(days=7) for day in days)
    later = sum(day > timedelta(days=7) for day in days)
    return f"In the next seven days: {week}. Later: {later}."


def _describe_due(one: Scheduled, now: datetime) -> str:
    days = (now.astimezone(UTC).date() - one.due.date()).days
    return "today" if days <= 0 else f"{days} day{'s' * (days > 1)} ago"


def _shorten_question(one: Scheduled) -> str:
    text = items()[one.item].variant(one.reviews).question
    room = WIDTH - 36
    return text if len(text) <= room else text[: room - 4].rsplit(" ", 1)[0] + " ..."
