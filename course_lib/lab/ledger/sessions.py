"""Sessions of work, found in the events: a pause of half an hour ends one, `end-session` too."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from course_lib.lab.events import parse_time

PAUSE = timedelta(minutes=30)
SILENT = ("forget",)
"""Kinds that are no work."""


@dataclass
class Session:
    """What happened between two pauses."""

    number: int
    started: datetime
    ended: datetime
    events: list[dict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """The learner's sentences, as written."""
    is_closed: bool = False
    """Ended by the learner, so what follows is another session."""

    @property
    def minutes(self) -> int:
        return max(1, round((self.ended - self.started).total_seconds() / 60))

    def passed_exercises(self) -> list[str]:
        """Exercises passed in it, in order."""
        passes = [e for e in self.events if e["kind"] == "check" and e.get("result") == "pass"]
        return list(dict.fromkeys(e["item"] for e in passes if "item" in e))

    def open(self) -> list[str]:
        """Exercises tried in it and not passed in it, in order."""
        tried = [e["item"] for e in self.events if e["kind"] == "check" and "item" in e]
        return [item for item in dict.fromkeys(tried) if item not in self.passed_exercises()]


def sessions(events: list[dict]) -> list[Session]:
    """The sessions in order, numbered from 1; `events` as `events.in_order` gives them."""
    found: list[Session] = []
    for event in events:
        if event["kind"] == "session":
            _close_session(found, event)
        elif event["kind"] not in SILENT:
            _add_event(found, event)
    return found


def _add_event(found: list[Session], event: dict) -> None:
    time = parse_time(event)
    if not found or found[-1].is_closed or time - found[-1].ended > PAUSE:
        found.append(Session(len(found) + 1, time, time))
    found[-1].events.append(event)
    found[-1].ended = max(found[-1].ended, time)
    if event["kind"] == "note" and event.get("text"):
        found[-1].notes.append(event["text"])


def _close_session(found: list[Session], event: dict) -> None:
    """End the last session, or add to its notes; one of its own when its work is not recorded."""
    started = _time(event.get("started"), parse_time(event))
    ended = max(_time(event.get("ended"), parse_time(event)), started)
    if not found or started - found[-1].ended > PAUSE:  # its events are gone, or elsewhere
        found.append(Session(len(found) + 1, started, ended))
    last = found[-1]
    last.is_closed = True
    if ended - last.ended <= PAUSE:  # said hours later, it does not lengthen the work
        last.ended = max(last.ended, ended)
    if event.get("note"):
        last.notes.append(event["note"])


def _time(text: str | None, instead: datetime) -> datetime:
    """The time in a field that a hand may have edited; never later than the event itself."""
    try:
        time = datetime.fromisoformat(text)
    except (ValueError, TypeError):
        return instead
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return min(time, instead)
