"""The review items, as the lessons have them: read from `reviews.json`, which is generated.

An item is a question of less than 90 seconds about one exercise. It holds templates; `variant`
computes the numbers of one variant, so that what is remembered is the way and not the result.
"""

import functools
import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from course_lib.lab.review.answers import Accept, accept
from course_lib.lab.review.arithmetic import Value, evaluate, render

FILE = Path(__file__).parents[1] / "reviews.json"
Vary = tuple[tuple[tuple[str, ...], tuple[tuple[Value, ...], ...]], ...]


class Variant(NamedTuple):
    """One question with its numbers; `accept` is None where the learner grades herself."""

    question: str
    answer: str
    accept: Accept | None


@dataclass(frozen=True, kw_only=True)
class Item:
    """One item's card. Its grammar is told in `grammar`."""

    id: str
    exercise: str
    concepts: tuple[str, ...]
    ask: str
    tell: str
    lesson: str = ""
    vary: Vary = ()
    let: tuple[tuple[str, str], ...] = ()
    right: str = ""
    """`KIND RIGHT`, or empty where no machine can compare."""
    within: str = ""
    fixed: str = ""
    """Why there is one variant only."""

    @property
    def question(self) -> str:
        """As the page shows it."""
        return self.rendered(0).question

    @property
    def answer(self) -> str:
        """As the page shows it, folded."""
        return self.rendered(0).answer

    @property
    def variants(self) -> int:
        """How many combinations of rows there are, 1 for an item that cannot vary."""
        total = 1
        for _, rows in self.vary:
            total *= len(rows)
        return total

    def variant(self, seed: int) -> Variant:
        """The variant of that seed; `variants` seeds in a row never repeat one."""
        order = sorted(range(self.variants), key=lambda i: _digest(f"{self.id}/{i}"))
        drawn = self.rendered(order[seed % len(order)])
        if drawn.accept is None or not drawn.accept.options:
            return drawn
        mixed = sorted(drawn.accept.options, key=lambda option: _digest(f"{seed}/{option}"))
        return drawn._replace(accept=replace(drawn.accept, options=tuple(mixed)))

    def rendered(self, index: int) -> Variant:
        """Combination `index` of the rows, in the order they are written."""
        names = self.names(index)
        right = render(self.right, names)
        return Variant(
            render(self.ask, names),
            render(self.tell, names),
            accept(right, self.within) if right else None,
        )

    def names(self, index: int) -> dict[str, Value]:
        """What the names in braces stand for in combination `index`."""
        names: dict[str, Value] = {}
        for columns, rows in reversed(self.vary):
            index, row = divmod(index, len(rows))
            names |= dict(zip(columns, rows[row], strict=True))
        for name, expression in self.let:
            names[name] = evaluate(expression, names)
        return names


@functools.cache
def items() -> dict[str, Item]:
    """All items by id, in the order of the lessons."""
    if not FILE.exists():
        raise ValueError(f"{FILE.name} is missing: run `course build` in the course folder")
    cards = json.loads(FILE.read_text(encoding="utf-8"))
    return {i: Item(id=i, **{k: _tuple(v) for k, v in card.items()}) for i, card in cards.items()}


def dumps(found: Iterable[Item]) -> str:
    """The text of `reviews.json`: one item a line, in the order given."""
    lines = []
    for item in found:
        card = {k: v for k, v in asdict(item).items() if k != "id" and v}
        lines.append(f"{json.dumps(item.id)}: {json.dumps(card, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _tuple(value):
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
