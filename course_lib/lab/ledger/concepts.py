"""What the course teaches: read from `concepts.json`, which `course build` writes."""

import functools
import json
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parents[1] / "concepts.json"


@dataclass(frozen=True, kw_only=True)
class Concept:
    """One idea, what it stands on, and the lesson that teaches it first."""

    slug: str
    title: str
    requires: tuple[str, ...]
    lesson: str | None
    """None when the course assumes it."""


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """A lesson's title, "01 RMSNorm", and the question it leaves the learner with."""

    title: str
    question: str


@functools.cache
def _stored_graph() -> dict:
    if not FILE.exists():
        raise ValueError(f"{FILE.name} is missing: run `course build` in the course folder")
    return json.loads(FILE.read_text(encoding="utf-8"))


@functools.cache
def concepts() -> dict[str, Concept]:
    """All concepts by slug: the assumed ones, then those taught, in the course's order."""
    found = _stored_graph()["concepts"].items()
    return {slug: Concept(slug=slug, **c | {"requires": tuple(c["requires"])}) for slug, c in found}


@functools.cache
def lessons() -> dict[str, Lesson]:
    """All lessons by name."""
    return {name: Lesson(**lesson) for name, lesson in _stored_graph()["lessons"].items()}


def goals() -> list[dict]:
    """The milestones: slug, title and the names of the lessons that make them."""
    return _stored_graph()["milestones"]


def title(slug: str) -> str:
    """The concept's title; the slug itself when the course no longer has it."""
    known = concepts().get(slug)
    return known.title if known else slug


def is_taught(slug: str) -> bool:
    """False for what the course assumes."""
    return slug not in concepts() or concepts()[slug].lesson is not None


def weakest_needed(slugs: list[str], levels: dict[str, int]) -> str | None:
    """The lowest of the concepts these stand on, at any depth, when it is below level 3.

    The earliest taught of equals. Lowering its level is not ours: a failure further up shows
    nothing about it alone.
    """
    below, todo = set(), list(slugs)
    while todo:
        known = concepts().get(todo.pop())
        fresh = set(known.requires if known else ()) - below
        below |= fresh
        todo += fresh
    taught = [slug for slug in concepts() if slug in below - set(slugs) and is_taught(slug)]
    lowest = min(taught, key=lambda slug: levels.get(slug, 0), default=None)
    return lowest if lowest and levels.get(lowest, 0) < 3 else None
