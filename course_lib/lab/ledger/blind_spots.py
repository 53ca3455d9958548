"""Blind spots: what the learner does not see. Each says why, and one thing to do in five minutes.

    misconception   the same code in two sessions or more
    overconfident   sure (4 or 5 of 5) and failed, twice, at one exercise or its reviews
    fading          level 3 or more, and the chance to recall it below 0.7

The first two are cleared by two passes without help since the last sighting. A pass of the same
answer counts once.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from course_lib.lab import registry
from course_lib.lab.events import parse_time
from course_lib.lab.ledger import concepts
from course_lib.lab.ledger.sessions import Session

SURE = 4
CLEARED_BY = 2
FADED = 0.7
NOT_IDEAS = ("CHECK-BROKE", "NO-ANSWER")


@dataclass(frozen=True, kw_only=True)
class BlindSpot:
    """One blind spot, for people."""

    kind: str
    name: str
    """The code, the exercise's id, or the concept."""
    concepts: tuple[str, ...]
    why: str
    remedy: str
    since: datetime


@dataclass
class _Sightings:
    """What was seen of one mistake, since it was last cleared."""

    exercise: str = ""
    events: list[dict] = field(default_factory=list)
    sessions: set[int] = field(default_factory=set)
    passes: set = field(default_factory=set)

    def add(self, event: dict, session: int) -> None:
        self.exercise = _exercise(event)
        self.events.append(event)
        self.sessions.add(session)
        self.passes.clear()

    def take(self, answer: object) -> None:
        self.passes.add(answer)
        if len(self.passes) >= CLEARED_BY:
            self.events.clear()
            self.sessions.clear()
            self.passes.clear()


def is_misconception(code: str | None) -> bool:
    """Codes of two words name an idea ("ACC-SUM"); those of one, a slip ("SHAPE")."""
    return bool(code) and "-" in code and code not in NOT_IDEAS


def blind_spots(
    sessions: list[Session],
    levels: dict[str, int],
    recall: dict[str, float],
    now: datetime,
) -> list[BlindSpot]:
    """All of them, oldest first; `recall` gives each concept's lowest chance."""
    codes: dict[str, _Sightings] = defaultdict(_Sightings)
    sure: dict[str, _Sightings] = defaultdict(_Sightings)
    for session in sessions:
        _walk_events(session, codes, sure)
    found = [*_misconceptions(codes, levels), *_overconfident(sure, levels)]
    return sorted(found, key=lambda spot: spot.since) + list(_fading(levels, recall, now))


def _walk_events(session: Session, codes: dict, sure: dict) -> None:
    helped: set[str] = set()
    for event in session.events:
        item = _exercise(event)
        if event["kind"] in ("hint", "solution"):
            helped.add(item)
        if event["kind"] not in ("check", "review"):
            continue
        if event.get("result") == "fail":
            if is_misconception(event.get("code")):
                codes[event["code"]].add(event, session.number)
            if event.get("confidence", 0) >= SURE:
                sure[item].add(event, session.number)
        elif event.get("result") == "pass" and item not in helped:
            answer = event.get("src") or (event["kind"], event["t"])
            for sightings in (*codes.values(), *sure.values()):
                if sightings.exercise == item:
                    sightings.take(answer)


def _exercise(event: dict) -> str:
    return event.get("exercise") or event.get("item", "")


def _misconceptions(codes: dict, levels: dict[str, int]) -> Iterable[BlindSpot]:
    for code, seen in codes.items():
        if len(seen.sessions) >= 2:
            last = seen.events[-1]
            yield BlindSpot(
                kind="misconception",
                name=code,
                concepts=tuple(last.get("concepts", ())),
                why=f"{_ordinal(len(seen.sessions))} session with the same mistake, "
                f"in {_titles([seen.exercise])}",
                remedy=remedy(last, levels),
                since=parse_time(seen.events[0]),
            )


def _overconfident(sure: dict, levels: dict[str, int]) -> Iterable[BlindSpot]:
    for item, seen in sure.items():
        if len(seen.events) >= 2:
            last = seen.events[-1]
            yield BlindSpot(
                kind="overconfident",
                name=item,
                concepts=tuple(last.get("concepts", ())),
                why=f"sure {len(seen.events)} times, and failed, in {_titles([item])}",
                remedy=remedy(last, levels),
                since=parse_time(seen.events[0]),
            )


def _fading(levels: dict, recall: dict, now: datetime) -> Iterable[BlindSpot]:
    for slug, chance in recall.items():
        if levels.get(slug, 0) >= 3 and chance < FADED:
            yield BlindSpot(
                kind="fading",
                name=slug,
                concepts=(slug,),
                why=f"{concepts.title(slug)}: solved once, recalled now with a chance of "
                f"{100 * chance:.0f} %",
                remedy="course review",
                since=now,
            )


def remedy(event: dict, levels: dict[str, int]) -> str:
    """One thing to do in five minutes: a figure's preset, what it stands on, or its pages."""
    figure, _, preset = event.get("preset", "").partition(":")
    if figure and preset:
        return f'figure("{figure}"), preset {preset}'
    needed = concepts.weakest_needed(list(event.get("concepts", ())), levels)
    if needed:
        lesson = concepts.lessons()[concepts.concepts()[needed].lesson]
        return f"what it stands on: {concepts.title(needed)}, lesson {lesson.title}"
    card = registry.exercises().get(_exercise(event))
    if not card:
        return "course review"
    lesson = concepts.lessons()[card.lesson].title
    return f"read what comes before {card.title} in lesson {lesson}, then say what went wrong"


def _titles(items: list[str]) -> str:
    known = registry.exercises()
    return ", ".join(f"{known[i].number} {known[i].title}" if i in known else i for i in items)


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third", 4: "fourth", 5: "fifth"}.get(number, f"{number}th")
