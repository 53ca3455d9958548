"""What an entry is about: an exercise, a concept, a lesson, or anything else the learner names."""

import ast
import difflib
import functools
import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from course_lib.lab import mine
from course_lib.lab.home import home
from course_lib.lab.journal.entry import slug
from course_lib.lab.registry import Exercise, exercises

LESSONS = Path(__file__).parents[1] / "lessons.json"


@dataclass(frozen=True)
class Subject:
    """The subject and the part of the course that belongs to it."""

    slug: str
    title: str
    lesson: str | None = None
    exercises: tuple[Exercise, ...] = ()

    @property
    def concepts(self) -> list[str]:
        """What these exercises teach; a concept stands for itself."""
        taught = [c for e in self.exercises for c in e.teaches]
        return [self.slug] if self.slug in taught else list(dict.fromkeys(taught))


@functools.cache
def lessons() -> dict[str, dict]:
    """Of each lesson: title, what it is about, its journal prompt, the names of its predictions.

    ValueError where `course build` has not yet written them.
    """
    if not LESSONS.exists():
        raise ValueError(f"{LESSONS.name} is missing: run `course build` in the course folder")
    return json.loads(LESSONS.read_text(encoding="utf-8"))


def subject(text: str, *, own: bool = False) -> Subject:
    """The subject called `text`; with `own` it is the learner's, whatever the course has.

    Anything may have an entry. Only what looks like a typing error is refused: ValueError.
    """
    title = " ".join(text.split())
    wanted = slug(title)
    found = None if own else _exercise(wanted) or _concept(wanted) or _lesson(wanted)
    if found:
        return found
    known = [*exercises(), *_concepts(), *lessons()]
    close = difflib.get_close_matches(wanted, known, n=1, cutoff=0.8)
    if close and not own:
        raise ValueError(
            f"nothing in the course is called {title!r}: did you mean {close[0]!r}? "
            "With --own it is a subject of your own."
        )
    return Subject(wanted, title)


def latest(events: list[dict]) -> str:
    """The exercise that was last checked, hinted or solved; ValueError before any was."""
    for event in reversed(events):
        item = str(event.get("item"))  # of a record edited by hand, anything
        if event["kind"] in ("check", "hint", "solution") and item in exercises():
            return item
    raise ValueError(
        "what about? Name an exercise, a concept, a lesson or a subject of your own, "
        "as in: course journal new rmsnorm"
    )


def definition(card: Exercise) -> str:
    """Where the library defines the exercise, as file:line; nothing is imported for it."""
    source = Path(find_spec(card.module).origin)
    node: Any = ast.parse(source.read_text(encoding="utf-8"))
    for name in card.path.split("."):
        node = next(n for n in node.body if getattr(n, "name", None) == name)
    return f"{card.module.replace('.', '/')}.py:{node.lineno}"


def own_definition(card: Exercise) -> str | None:
    """Where the learner's passed answer defines it, as file:line; None before it passed."""
    file = mine.file_of(card)
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return None
    lines = [n.lineno for n in tree.body if getattr(n, "name", None) == card.name]
    return f"{file.relative_to(home()).as_posix()}:{lines[0] if lines else 1}"


def _exercise(wanted: str) -> Subject | None:
    card = exercises().get(wanted)
    return card and Subject(card.id, card.title, card.lesson, (card,))


def _concepts() -> dict[str, tuple[Exercise, ...]]:
    found: dict[str, tuple[Exercise, ...]] = {}
    for field in ("teaches", "uses"):  # what uses a concept stands for it when nothing teaches it
        for card in exercises().values():
            for concept in getattr(card, field):
                if field == "teaches" or all(
                    concept not in c.teaches for c in exercises().values()
                ):
                    found[concept] = (*found.get(concept, ()), card)
    return found


def _concept(wanted: str) -> Subject | None:
    cards = _concepts().get(wanted)
    return cards and Subject(wanted, wanted.replace("-", " "), cards[0].lesson, cards)


def _lesson(wanted: str) -> Subject | None:
    wanted = wanted.replace("-", "_")
    number = f"{int(wanted):02d}_" if wanted.isascii() and wanted.isdigit() else None
    for name, lesson in lessons().items():
        if wanted in (name, name[3:]) or number and name.startswith(number):
            cards = tuple(e for e in exercises().values() if e.lesson == name)
            return Subject(slug(name), lesson["title"], name, cards)
    return None
