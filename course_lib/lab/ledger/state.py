"""The learner's state, rebuilt from the events alone: never stored, so never wrong for long."""

from dataclasses import dataclass
from datetime import datetime

from course_lib.lab import registry
from course_lib.lab.events import in_order, stamp
from course_lib.lab.ledger import concepts, reviews
from course_lib.lab.ledger.blind_spots import BlindSpot, blind_spots
from course_lib.lab.ledger.levels import Attempts, Change, Levels
from course_lib.lab.ledger.sessions import Session, sessions
from course_lib.lab.reviews.schedule import Scheduled


@dataclass(frozen=True)
class Milestone:
    """A goal of the course: all exercises of some lessons passed."""

    slug: str
    title: str
    passed: int
    total: int
    reached: datetime | None


@dataclass(frozen=True, kw_only=True)
class State:
    """Everything that the ledger shows."""

    now: datetime
    events: list[dict]
    levels: dict[str, int]
    """Level of every concept that the course teaches, and of those that only the record knows."""
    changes: list[Change]
    evidence: dict[str, list[str]]
    """What each level rests on, a line a change, oldest first."""
    exercises: dict[str, Attempts]
    sessions: list[Session]
    schedule: dict[str, Scheduled]
    """`review.schedule.Scheduled` by review item."""
    blind_spots: list[BlindSpot]
    milestones: list[Milestone]


def derive(events: list[dict], now: datetime) -> State:
    """The state after `events`, as of `now` (UTC, aware). Pure; the order of events is free.

    An event cannot be later than now: where a clock was wrong, it counts as now.
    """
    limit, events = stamp(now), in_order(events)
    schedule = reviews.schedule_items(events, now)  # it has rules of its own for wrong clocks
    events = [e | {"t": min(e["t"], limit)} for e in events]
    found, levels = sessions(events), Levels()
    for session in found:
        levels.see(session)
    evidence: dict[str, list[str]] = {}
    for change in levels.changes:
        evidence.setdefault(change.concept, []).append(change.evidence())
    known = registry.exercises()
    exercises = {item: a for item, a in levels.exercises.items() if item in known}
    return State(
        now=now,
        events=events,
        levels=levels.levels,
        changes=levels.changes,
        evidence=evidence,
        exercises=exercises,
        sessions=found,
        schedule=schedule,
        blind_spots=blind_spots(found, levels.levels, reviews.recall(schedule, now), now),
        milestones=_milestones(exercises),
    )


def next_exercise(state: State) -> registry.Exercise | None:
    """The first open exercise after the one passed last, else the first of all; None when done."""
    cards = list(registry.exercises().values())
    first = max(
        (
            (_time_passed(state, e.id), n + 1)
            for n, e in enumerate(cards)
            if _time_passed(state, e.id)
        ),
        default=(None, 0),
    )[1]
    return next((e for e in cards[first:] + cards[:first] if not _time_passed(state, e.id)), None)


def passed_exercises(state: State) -> list[str]:
    """Ids of the exercises passed, in the course's order."""
    return [item for item in registry.exercises() if _time_passed(state, item)]


def _time_passed(state: State, item: str) -> datetime | None:
    attempts = state.exercises.get(item)
    return attempts.passed if attempts else None


def _milestones(exercises: dict[str, Attempts]) -> list[Milestone]:
    found = []
    for goal in concepts.goals():
        wanted = [e.id for e in registry.exercises().values() if e.lesson in goal["lessons"]]
        times = [exercises[i].passed for i in wanted if i in exercises and exercises[i].passed]
        reached = max(times) if times and len(times) == len(wanted) else None
        found.append(Milestone(goal["slug"], goal["title"], len(times), len(wanted), reached))
    return found
