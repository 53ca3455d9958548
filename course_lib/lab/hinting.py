"""Hints, one at a time, and the solution. What was opened is recorded: it rates the reviews."""

import importlib
import inspect
from datetime import UTC, datetime, timedelta

from course_lib.lab import events
from course_lib.lab.registry import Exercise, exercise

LEVELS = 3


def hint(name: str, level: int | None = None, *, in_terminal: bool = False) -> None:
    """Print the next hint of exercise `name`: a question, where to look, the line with one blank.

    A further one opens by itself after another failing check or after the exercise's minutes;
    `hint(name, level)` opens it at once. ValueError for an unknown exercise or level. With
    `in_terminal` what it tells to type are commands.
    """
    card = exercise(name)
    if level is not None and level not in range(1, LEVELS + 1):
        raise ValueError(f"hints have levels 1 to {LEVELS}, got {level}; then solution({name!r})")
    opened = _opened_hints(name)
    reached = max((e.get("hint", 0) for e in opened), default=0)
    wanted = level if level is not None else min(reached + 1, LEVELS)
    if level is None and reached and wanted > reached and not _is_due(card, opened[-1]):
        print(
            f"Hint {reached} of {LEVELS} is open: {card.hints[reached - 1]}\n\n"
            f"Hint {wanted} opens after another failing check or {card.minutes} minutes. "
            + (f"course hint {name} {wanted}" if in_terminal else f'hint("{name}", {wanted})')
            + " opens it now."
        )
        return
    if level is None and reached == LEVELS:
        shows = f"course hint {name} --solution" if in_terminal else f'solution("{name}")'
        print(f"All {LEVELS} hints are open. {shows} shows the code.\n")
    events.record("hint", item=name, hint=wanted, concepts=list(card.teaches))
    print(
        f"{card.number} {card.title} \N{MIDDLE DOT} hint {wanted} of {LEVELS}\n\n"
        f"{card.hints[wanted - 1]}"
    )


def solution(name: str) -> None:
    """Print the library's own code for exercise `name`."""
    card = exercise(name)
    obj = importlib.import_module(card.module)
    for part in card.path.split("."):
        obj = getattr(obj, part)
    events.record("solution", item=name, concepts=list(card.teaches))
    print(inspect.getsource(obj))


def _opened_hints(name: str) -> list[dict]:
    return [e for e in events.read() if e["kind"] == "hint" and e.get("item") == name]


def _is_due(card: Exercise, last: dict) -> bool:
    """A failing check after the last hint, or the exercise's minutes gone by."""
    seen = False
    for event in events.read():
        if event == last:
            seen = True
        elif seen and event["kind"] == "check" and event.get("item") == card.id:
            return True
    opened = datetime.fromisoformat(last.get("t", "2000-01-01T00:00:00Z"))
    return datetime.now(UTC) - opened > timedelta(minutes=card.minutes)
