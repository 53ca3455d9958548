"""The review items, as the lessons have them: read from `reviews.json`, which is generated.

An item is a question of less than 90 seconds about one exercise. It is stored in all its variants,
each with its own numbers, so that what is remembered is the way and not the result.
"""

import functools
import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from course_lib.lab.reviews.answers import Accept, accept

FILE = Path(__file__).parents[1] / "reviews.json"


class Variant(NamedTuple):
    """One question with its numbers; `accept` is None where the learner grades herself."""

    question: str
    answer: str
    accept: Accept | None


@dataclass(frozen=True, kw_only=True)
class Item:
    """One item's card."""

    id: str
    exercise: str
    lesson: str
    concepts: tuple[str, ...]
    rows: tuple[tuple[str, str, str], ...]
    """A question, its answer, and `KIND RIGHT` for each variant; the page shows the first.

    The last is empty where no machine can compare.
    """
    within: str = ""

    @property
    def question(self) -> str:
        """As the page shows it."""
        return self.rows[0][0]

    @property
    def answer(self) -> str:
        """As the page shows it, folded."""
        return self.rows[0][1]

    @property
    def variants(self) -> int:
        """How many there are, 1 for an item that cannot vary."""
        return len(self.rows)

    def variant(self, seed: int) -> Variant:
        """The variant of that seed; `variants` seeds in a row never repeat one."""
        order = sorted(range(self.variants), key=lambda i: _digest(f"{self.id}/{i}"))
        drawn = self.variant_at(order[seed % len(order)])
        if drawn.accept is None or not drawn.accept.options:
            return drawn
        mixed = sorted(drawn.accept.options, key=lambda option: _digest(f"{seed}/{option}"))
        return drawn._replace(accept=replace(drawn.accept, options=tuple(mixed)))

    def variant_at(self, index: int) -> Variant:
        """The variant of row `index`, in the order in which the lesson writes them."""
        question, answer, right = self.rows[index]
        return Variant(question, answer, accept(right, self.within) if right else None)


@functools.cache
def items() -> dict[str, Item]:
    """All items by id, in the order of the lessons.

    ValueError where `course build` has not yet written them.
    """
    if not FILE.exists():
        raise ValueError(f"{FILE.name} is missing: run `course build` in the course folder")
    cards = json.loads(FILE.read_text(encoding="utf-8"))
    return {i: Item(id=i, **{k: _freeze(v) for k, v in card.items()}) for i, card in cards.items()}


def dumps(found: Iterable[Item]) -> str:
    """The text of `reviews.json`: the items in the order given, a variant a line."""
    lines = []
    for item in found:
        card = {k: v for k, v in asdict(item).items() if k not in ("id", "rows") and v}
        rows = ",\n ".join(json.dumps(row, ensure_ascii=False) for row in item.rows)
        head = json.dumps(card, ensure_ascii=False)[:-1]
        lines.append(f'{json.dumps(item.id)}: {head}, "rows": [\n {rows}]}}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _freeze(value):
    return tuple(map(_freeze, value)) if isinstance(value, list) else value


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
