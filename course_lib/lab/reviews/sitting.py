"""One sitting: which question is next, what an answer is worth, and its place in the record.

The terminal and the notebook ask the same sitting. Each answer is recorded the moment it is given,
so that whatever ends a sitting loses none.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from course_lib.lab import events
from course_lib.lab.reviews import queue
from course_lib.lab.reviews.items import Item, Variant, items
from course_lib.lab.reviews.schedule import schedule

AGAIN, HARD, GOOD, EASY = 1, 2, 3, 4
FAST, SLOW = 20, 90
"""Seconds: what comes at once, and what was too long for a review."""
SURE = 4
Levels = Mapping[str, int]


@dataclass(frozen=True)
class Question:
    """One item with the numbers of one seed, and where it stands in the sitting."""

    item: Item
    seed: int
    variant: Variant
    number: int
    total: int

    @property
    def title(self) -> str:
        """ "2 of 5 · 01 rmsnorm · rmsnorm-1"."""
        lesson = self.item.lesson.replace("_", " ", 1)
        dot = "\N{MIDDLE DOT}"
        return f"{self.number} of {self.total} {dot} {lesson} {dot} {self.item.id}"


@dataclass(frozen=True)
class Outcome:
    """What became of an answer."""

    passed: bool
    rating: int
    due: datetime
    """When the item comes back."""

    @property
    def coming(self) -> str:
        """ "It comes back on 2 Dec 2026." """
        return f"It comes back on {self.due.day} {self.due:%b %Y}."


def rate(passed: bool, secs: float, confidence: int | None) -> int:
    """How well an answer was known. Wrong: Again. Right, but after 90 seconds: Hard. Right within
    20 by someone who was sure (4 or 5 of 5): Easy. Otherwise Good."""
    if not passed:
        return AGAIN
    if secs > SLOW:
        return HARD
    return EASY if secs <= FAST and (confidence or 0) >= SURE else GOOD


def levels_of(found: list[dict], now: datetime) -> Levels:
    """Each concept's level after these events, as the ledger derives it."""
    from course_lib.lab.ledger import state  # late: the ledger imports the reviews

    return state.derive(found, now).levels


class Sitting:
    """The questions due now, at most `limit`; ValueError when `limit` is below 1.

    `clock` gives the time, aware; `levels` the level of each concept after some events.
    """

    def __init__(
        self,
        limit: int | None = None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        levels: Callable[[list[dict], datetime], Levels] = levels_of,
    ):
        if limit is not None and limit < 1:
            raise ValueError(
                f"--limit is a number of questions from 1 to {queue.A_DAY}, got {limit}"
            )
        self.clock = clock
        self.events = events.read()
        self.now = clock()
        self.levels = levels(self.events, self.now)
        self.due = queue.due(self.events, self.now, self.levels)[:limit]
        self.place, self.passed, self.answered = 0, 0, 0
        self._shown = time.monotonic()

    def question(self) -> Question | None:
        """The question to ask now; None when all were asked. Its seconds begin to count."""
        if self.place >= len(self.due):
            return None
        one = self.due[self.place]
        item = items()[one.item]
        self._shown = time.monotonic()
        return Question(item, one.reviews, item.variant(one.reviews), self.place + 1, len(self.due))

    def elapsed_seconds(self) -> float:
        """Seconds since the question was shown."""
        return time.monotonic() - self._shown

    def skip(self) -> None:
        """Leave the question for another time; nothing is recorded."""
        self.place += 1

    def answer(
        self,
        question: Question,
        *,
        secs: float,
        passed: bool | None = None,
        rating: int | None = None,
        confidence: int | None = None,
    ) -> Outcome:
        """Record an answer, rated by `passed`, or by the learner herself with `rating` 1 to 4."""
        if rating is None:
            rating = rate(bool(passed), secs, confidence)
        fields = {
            "item": question.item.id,
            "exercise": question.item.exercise,
            "concepts": list(question.item.concepts),
            "result": "fail" if rating == AGAIN else "pass",
            "rating": rating,
            "secs": round(secs, 1),
            "variant": question.seed,
            "confidence": confidence,
        }
        events.record("review", **fields)
        now = self.clock()
        # Counted from memory, so that a full disk, which `record` tells of, changes no sentence.
        self.events.append({"v": 1, "t": events.stamp(now), "kind": "review", **fields})
        self.place += 1
        self.answered += 1
        self.passed += rating > AGAIN
        due = schedule(self.events, now)[question.item.id].due
        return Outcome(rating > AGAIN, rating, due)

    def summary(self) -> str:
        """What was done and what comes next, in two sentences."""
        done = f"{self.answered} answered, {self.passed} right." if self.answered else ""
        return f"{done} {self._describe_next()}".strip()

    def _describe_next(self) -> str:
        now = self.clock()
        waiting = len(queue.waiting(self.events, now, self.levels))
        if waiting and not queue.left_today(self.events, now):
            return f"That is {queue.A_DAY} today, which is enough; {waiting} wait for tomorrow."
        if waiting:
            return f"{waiting} more {'is' if waiting == 1 else 'are'} due: `course review`."
        today = now.astimezone(UTC).date()
        later = sorted(
            one.due.date() for one in schedule(self.events, now).values() if one.due.date() > today
        )
        if not later:
            return "Reviews come with the exercises that you pass."
        count = later.count(later[0])
        plural = "review" if count == 1 else "reviews"
        return f"Next: {count} {plural} on {later[0].day} {later[0]:%b %Y}."
