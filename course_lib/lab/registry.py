"""The exercises, as the lessons describe them: read from `exercises.json`, which is generated."""

import difflib
import functools
import json
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("exercises.json")


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """One exercise's card."""

    id: str
    lesson: str
    number: str
    title: str
    target: str
    """"module:Name" or "module:Class.method" of the definition in course_lib."""
    blank: tuple[str, ...]
    points: int
    difficulty: int
    importance: int
    minutes: int
    needs: tuple[str, ...]
    teaches: tuple[str, ...]
    uses: tuple[str, ...]
    hints: tuple[str, str, str]
    ready_made: tuple[str, ...]
    """Functions of torch and of the library that would be an answer, `*` for any end of a name."""
    setup: str
    """Source of the lesson's import cell."""
    stub: str
    core: int | None = None

    @property
    def module(self) -> str:
        return self.target.partition(":")[0]

    @property
    def path(self) -> str:
        """ "Name" or "Class.method"."""
        return self.target.partition(":")[2]

    @property
    def name(self) -> str:
        """What the cell defines: the function or the class."""
        return self.path.partition(".")[0]


@functools.cache
def exercises() -> dict[str, Exercise]:
    """All exercises by id, in the order of the lessons.

    ValueError where `course build` has not yet written them.
    """
    if not FILE.exists():
        raise ValueError(f"{FILE.name} is missing: run `course build` in the course folder")
    cards = json.loads(FILE.read_text(encoding="utf-8"))
    found = [
        Exercise(id=i, **{k: tuple(v) if isinstance(v, list) else v for k, v in card.items()})
        for i, card in cards.items()
    ]
    return {e.id: e for e in sorted(found, key=lambda e: [int(n) for n in e.number.split(".")])}


def exercise(name: str) -> Exercise:
    """The exercise with that id; ValueError names the closest one, or all by lesson."""
    known = exercises()
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=1)
    guess = f"did you mean {close[0]!r}?" if close else f"there are\n{_list_by_lesson()}"
    raise ValueError(f"no exercise is called {name!r}; {guess}")


def _list_by_lesson() -> str:
    lessons: dict[str, list[str]] = {}
    for card in exercises().values():
        lessons.setdefault(card.lesson, []).append(card.id)
    return "\n".join(f"  {lesson:<22} {', '.join(ids)}" for lesson, ids in lessons.items())
