"""When each item is due: a pure function of the record, by the algorithm FSRS.

A passed exercise creates its items, rated by how it was passed; every review rates its item again.
The same events give the same dates: nothing is stored beside them, and nothing is drawn by chance.

FSRS (Ye and others, github.com/open-spaced-repetition) models how fast one memory fades and asks
again when the chance to recall it has fallen to 90 percent. Its weights are those of the library.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fsrs import Card, Rating, ReviewLog, Scheduler

from course_lib.lab.events import in_order, parse_time
from course_lib.lab.reviews.items import items

FSRS = Scheduler(
    desired_retention=0.9,
    learning_steps=(),  # FSRS would ask a new item again after ten minutes
    relearning_steps=(),
    maximum_interval=180,  # about as long as the course takes
    enable_fuzzing=False,  # it draws from an unseeded generator
)
NO_ANSWER = ("STUB", "SYNTAX", "UNDEFINED", "REFERENCE")
"""Codes of checks that found nothing to judge; they are not tries."""
SKEW = timedelta(days=1)
"""Two machines' clocks may differ; what lies further ahead is a clock that was wrong."""


@dataclass(frozen=True)
class Scheduled:
    """One item's date."""

    item: str
    due: datetime
    last: datetime
    """When it was asked last, or created."""
    reviews: int
    """How often it was asked; 0 after its exercise passed."""
    retrievability: float
    """The chance to recall it now."""


def schedule(events: Iterable[dict], now: datetime) -> dict[str, Scheduled]:
    """Every item that the learner has met, by id. `now` is aware; only `retrievability` and the
    limit of the future depend on it.

    Reviews of items that this release does not have, and events dated in the future, do not count;
    `set_aside` says so. An item that only such an event speaks of is due now.
    """
    past, future = _split_future(in_order(events), now)
    ratings: dict[str, list[tuple[datetime, Rating]]] = {}
    for exercise, time, rating in _passes(past):
        for item in _items_of(exercise):
            ratings.setdefault(item, []).append((time, rating))
    asked: dict[str, int] = {}
    for event in _reviews(past):
        ratings.setdefault(event["item"], []).append((parse_time(event), Rating(_rating(event))))
        asked[event["item"]] = asked.get(event["item"], 0) + 1
    found = {i: _schedule_item(i, logs, asked.get(i, 0), now) for i, logs in ratings.items()}
    for exercise, _, _ in _passes(future):
        for item in _items_of(exercise):
            found.setdefault(item, Scheduled(item, now, now, 0, 0.0))
    return {item: found[item] for item in items() if item in found}  # in the course's order


def rate_pass(history: Iterable[dict]) -> Rating:
    """How well an exercise was passed: `history` is its events up to the pass, in order.

    The solution opened before: Again. Hint 2 or 3, or three tries: Hard. Else Good. Easy asks for a
    first try without a hint by someone who was sure (4 or 5 of 5). How long the first try took is
    not in the record, so speed does not count here; in reviews it does.
    """
    tries, hint, sure = 0, 0, False
    for event in history:
        if event["kind"] == "solution":
            return Rating.Again
        if event["kind"] == "hint":
            hint = max(hint, event.get("hint", 1))
        elif event.get("code") not in NO_ANSWER:
            tries += 1
            sure = _confidence(event) >= 4
    if hint >= 2 or tries >= 3:
        return Rating.Hard
    return Rating.Easy if tries == 1 and not hint and sure else Rating.Good


def set_aside(events: Iterable[dict], now: datetime) -> list[str]:
    """What does not count and why, a sentence each; empty when everything counts."""
    past, future = _split_future(in_order(events), now)
    said = []
    if future:
        said.append(
            f"{_describe_count(future, 'event is', 'events are')} dated after now, {_day(now)}; the last is "
            f"of {_day(parse_time(future[-1]))}. Is the clock of this machine right? What lies ahead "
            "stays in the record and counts from its date on; an exercise passed there is asked "
            "about from today."
        )
    gone = sorted({str(e.get("item")) for e in past if _is_review(e)} - set(items()))
    if gone:
        shown = ", ".join(gone[:5]) + (", ..." if len(gone) > 5 else "")
        said.append(
            f"{_describe_count(gone, 'reviewed item is', 'reviewed items are')} not in this release "
            f"({shown}): removed since, or from a newer one. The reviews stay in the record."
        )
    return said


def _describe_count(found: list, one: str, many: str) -> str:
    return f"{len(found)} {one if len(found) == 1 else many}"


def _day(time: datetime) -> str:
    return f"{time.day} {time:%b %Y}"


def _split_future(events: list[dict], now: datetime) -> tuple[list[dict], list[dict]]:
    limit = now + SKEW
    past = [e for e in events if parse_time(e) <= limit]
    return past, [e for e in events if parse_time(e) > limit]


def _passes(events: list[dict]) -> list[tuple[str, datetime, Rating]]:
    """The first pass of each exercise: (exercise, when, rating)."""
    history: dict[str, list[dict]] = {}
    found = {}
    for event in events:
        exercise = event.get("item")
        if event["kind"] not in ("check", "hint", "solution") or exercise in found:
            continue
        history.setdefault(exercise, []).append(event)
        if event["kind"] == "check" and event.get("result") == "pass":
            found[exercise] = (parse_time(event), rate_pass(history[exercise]))
    return [(exercise, *rest) for exercise, rest in found.items()]


def _reviews(events: list[dict]) -> list[dict]:
    return [e for e in events if _is_review(e) and e.get("item") in items()]


def _is_review(event: dict) -> bool:
    return event["kind"] == "review" and _rating(event) is not None


def _rating(event: dict) -> int | None:
    """1 to 4; from the result where a hand has spoiled it, None where nothing is known."""
    rating = event.get("rating")
    if isinstance(rating, int) and 1 <= rating <= 4:
        return int(rating)
    return {"pass": 3, "fail": 1}.get(event.get("result"))


def _confidence(event: dict) -> int:
    confidence = event.get("confidence")
    return confidence if isinstance(confidence, int) else 0


def _items_of(exercise: str) -> list[str]:
    return [item.id for item in items().values() if item.exercise == exercise]


def _schedule_item(item: str, ratings: list, asked: int, now: datetime) -> Scheduled:
    # An id of one's own: the default is the time in milliseconds, after a millisecond's sleep.
    number = int.from_bytes(hashlib.sha256(item.encode()).digest()[:6], "big")
    first = min(time for time, _ in ratings)
    logs = [ReviewLog(number, rating, time.astimezone(UTC), None) for time, rating in ratings]
    card = FSRS.reschedule_card(Card(card_id=number, due=first), logs)
    chance = FSRS.get_card_retrievability(card, now.astimezone(UTC))
    return Scheduled(item, card.due, card.last_review, asked, chance)
