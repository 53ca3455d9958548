"""A learner made of events: what someone did, on which day, without a clock or a file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from course_lib.lab import registry
from course_lib.lab.events import stamp
from course_lib.lab.ledger.state import State, derive
from course_lib.lab.reviews import queue
from course_lib.lab.reviews.items import items

START = datetime(2026, 9, 1, tzinfo=UTC)


def at(day: int, hour: float = 9) -> datetime:
    """That hour of that day, day 0 being the first."""
    return START + timedelta(days=day, hours=hour)


class Learner:
    """Collects events; every method takes the moment first."""

    def __init__(self):
        self.events: list[dict] = []
        self.answers = 0

    def add(self, time: datetime, kind: str, **fields) -> None:
        kept = {k: v for k, v in fields.items() if v is not None}
        self.events.append({"v": 1, "t": stamp(time), "kind": kind} | kept)

    def check(
        self,
        time: datetime,
        item: str,
        code: str = "PASS",
        *,
        confidence: int | None = None,
        src: str | None = None,
        preset: str | None = None,
    ) -> None:
        """A check with that code; a new answer each time, unless `src` says which."""
        self.answers += 1
        self.add(
            time,
            "check",
            item=item,
            concepts=list(registry.exercise(item).teaches),
            result="pass" if code == "PASS" else "fail",
            code=code,
            confidence=confidence,
            src=src or f"sha256:{self.answers:016}",
            preset=preset,
        )

    def hint(self, time: datetime, item: str, level: int = 1) -> None:
        self.add(
            time, "hint", item=item, hint=level, concepts=list(registry.exercise(item).teaches)
        )

    def solution(self, time: datetime, item: str) -> None:
        self.add(time, "solution", item=item, concepts=list(registry.exercise(item).teaches))

    def review(self, time: datetime, item: str, *, passed: bool = True, **fields) -> None:
        card = items()[item]
        self.add(
            time,
            "review",
            item=item,
            exercise=card.exercise,
            concepts=list(card.concepts),
            result="pass" if passed else "fail",
            rating=3 if passed else 1,
            **fields,
        )

    def state(self, now: datetime) -> State:
        return derive(self.events, now)

    def due(self, now: datetime) -> list[str]:
        """What `course review` would ask at that moment."""
        return [one.item for one in queue.due(self.events, now, self.state(now).levels)]
