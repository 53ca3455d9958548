"""How well each concept is known, 0 to 5, decided by rules alone.

    0 unseen       nothing was done with it
    1 met          tried, or a hint opened, not solved
    2 with help    solved after a hint or the solution
    3 alone        solved without either
    4 retained     a review passed a week or more after that
    5 transferred  solved alone where another lesson uses it

A review passed a week or more later raises 2 to 3 and 3 to 4. A failed review lowers by one, never
below 2. Running a cell again that passed before shows nothing new; written anew in a later session,
without help, it counts.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from course_lib.lab import registry
from course_lib.lab.events import parse_time
from course_lib.lab.ledger.concepts import concepts, is_taught
from course_lib.lab.ledger.sessions import Session

NAMES = ("unseen", "met", "solved with help", "solved alone", "retained", "transferred")
WEEK = timedelta(days=7)
ALONE, HELPED = "no hint", "with help"


@dataclass(frozen=True)
class Change:
    """A concept's level went from `before` to `after`, and why."""

    time: datetime
    concept: str
    before: int
    after: int
    why: str
    where: str
    """The exercise, as "4.1 causal_attention", or "review"."""

    def evidence(self) -> str:
        """One line: "3 on 2026-11-20: 1.1 RMSNorm.forward, no hint"."""
        return f"{self.after} on {self.time:%Y-%m-%d}: {self.where}, {self.why}"


@dataclass
class Attempts:
    """What is known of one exercise."""

    passed: datetime | None = None
    """The first pass."""
    is_alone: bool = False
    """Passed at least once without help."""
    tries: int = 0
    hints: int = 0
    saw_solution: bool = False
    last: datetime | None = None
    helped_in: int = 0
    """Number of the last session in which help was opened; 0 for never."""
    sources: set = field(default_factory=set)
    """Of the answers that passed."""

    def counts_as_alone(self, session: int, source: str | None) -> bool:
        """Whether a pass now shows that the learner can do it without help."""
        if not self.helped_in:
            return True
        is_new = source is not None and source not in self.sources
        return self.passed is not None and session > self.helped_in and is_new


class Levels:
    """The levels after the events shown to `see`, one after the other."""

    def __init__(self):
        self.levels: dict[str, int] = {slug: 0 for slug in concepts() if is_taught(slug)}
        self.exercises: dict[str, Attempts] = defaultdict(Attempts)
        self.changes: list[Change] = []
        self._since: dict[str, datetime] = {}  # what a review's week is counted from

    def see(self, session: Session) -> None:
        """Take in the events of one session."""
        for event in session.events:
            step = getattr(self, f"_take_{event['kind']}", None)
            if step and event["kind"] in ("check", "hint", "solution", "review", "journal"):
                step(event, session.number)

    def _take_hint(self, event: dict, session: int) -> None:
        attempts = self._attempts(event)
        attempts.hints = max(attempts.hints, event.get("hint", 1))
        attempts.helped_in = session
        self._meet_concept(event, "a hint")

    def _take_solution(self, event: dict, session: int) -> None:
        attempts = self._attempts(event)
        attempts.saw_solution, attempts.helped_in = True, session
        self._meet_concept(event, "the solution")

    def _take_journal(self, event: dict, session: int) -> None:
        self._meet_concept(event, "a journal entry")

    def _take_check(self, event: dict, session: int) -> None:
        attempts = self._attempts(event)
        attempts.tries += 1
        if event.get("result") != "pass":
            self._meet_concept(event, "not solved yet")
            return
        alone = attempts.counts_as_alone(session, event.get("src"))
        for slug in _taught_concepts(event):
            self._raise_level(event, slug, 3 if alone else 2, ALONE if alone else HELPED)
        if alone:
            self._transfer_concepts(event)
        attempts.passed = attempts.passed or parse_time(event)
        attempts.is_alone |= alone
        attempts.sources.add(event.get("src"))

    def _transfer_concepts(self, event: dict) -> None:
        card = registry.exercises().get(event.get("item", ""))
        for slug in card.uses if card else ():
            known = concepts().get(slug)
            if known and known.lesson and known.lesson != card.lesson:
                target = {2: 3, 3: 5, 4: 5}.get(self.levels[slug], 0)
                self._raise_level(event, slug, target, "used there, no hint")

    def _take_review(self, event: dict, session: int) -> None:
        passed = event.get("result") == "pass"
        for slug in _taught_concepts(event):
            level, since = self.levels.get(slug, 0), self._since.get(slug)
            if not passed and level > 2:
                self._set_level(event, slug, level - 1, "failed")
            elif passed and level in (2, 3) and since and parse_time(event) - since >= WEEK:
                self._set_level(
                    event, slug, level + 1, f"passed after {(parse_time(event) - since).days} days"
                )
            elif level == 0:
                self._set_level(event, slug, 1, "asked about it")

    def _attempts(self, event: dict) -> Attempts:
        attempts = self.exercises[event.get("item", "")]
        attempts.last = parse_time(event)
        return attempts

    def _meet_concept(self, event: dict, why: str) -> None:
        for slug in _taught_concepts(event):
            self._raise_level(event, slug, 1, why)

    def _raise_level(self, event: dict, slug: str, level: int, why: str) -> None:
        if level > self.levels.get(slug, 0):
            self._set_level(event, slug, level, why)

    def _set_level(self, event: dict, slug: str, level: int, why: str) -> None:
        before, self.levels[slug] = self.levels.get(slug, 0), level
        self._since[slug] = parse_time(event)
        self.changes.append(Change(parse_time(event), slug, before, level, why, where(event)))


def _taught_concepts(event: dict) -> list[str]:
    """The event's concepts, without those that the course assumes: these have no level."""
    return [slug for slug in event.get("concepts", ()) if is_taught(slug)]


def where(event: dict) -> str:
    """What an event is about, for people: "4.1 causal_attention", "a review"."""
    if event["kind"] == "review":
        return "review"
    item = event.get("item", "")
    card = registry.exercises().get(item)
    return f"{card.number} {card.title}" if card else item or "an entry"
