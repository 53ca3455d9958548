"""Which answers of a class are the same, or nearly: for a person's eyes, never for points."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace

from grader.judge.grade import Result
from grader.judge.prints import FEWEST, SHARE, compute_share

MOST_NAMES = 5  # of partners in a sentence


class Partners:
    """Which notebooks of a class have the same answers; a function of the results and of no order."""

    def __init__(self, results: Iterable[Result]):
        self._names: dict[str, dict[tuple[int, ...], list[str]]] = {}
        """By exercise and hashes, the notebooks that have them."""
        for result in results:
            for name, row in result.exercises.items():
                if len(row.prints) >= FEWEST:
                    alike = self._names.setdefault(name, {}).setdefault(row.prints, [])
                    alike.append(result.notebook)
        self._near = {name: _find_near(found) for name, found in self._names.items()}

    def mark(self, result: Result) -> Result:
        """The result with the flag SAME, and a sentence with the partners' names."""
        rows, notes = {}, []
        for name, row in result.exercises.items():
            alike = self._names.get(name, {})
            near = [row.prints, *self._near.get(name, {}).get(row.prints, ())]
            found = sorted(
                {n for prints in near for n in alike.get(prints, ())} - {result.notebook}
            )
            rows[name] = replace(row, prints=())
            if found:
                rows[name] = replace(rows[name], flags=tuple(sorted({*row.flags, "SAME"})))
                more = f" and {len(found) - MOST_NAMES} more" if len(found) > MOST_NAMES else ""
                notes.append(f"{name}: as in {', '.join(found[:MOST_NAMES])}{more}")
        return replace(result, exercises=rows, notes=(*result.notes, *notes))


def _find_near(found: Collection[tuple[int, ...]]) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
    """By hashes, other hashes of which enough are the same.

    Two that share so much have one of their rarest hashes in common, and only those are looked up:
    otherwise what the whole class writes would lead from each answer to each other one.
    """
    count = Counter(h for prints in found for h in prints)
    holders: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    near: dict[tuple[int, ...], list[tuple[int, ...]]] = defaultdict(list)
    for prints in sorted(found):
        rarest = sorted(prints, key=lambda h: (count[h], h))
        rarest = rarest[: len(prints) - math.ceil(SHARE * len(prints)) + 1]
        for other in dict.fromkeys(other for h in rarest for other in holders[h]):
            if compute_share(prints, other) >= SHARE:
                near[prints].append(other)
                near[other].append(prints)
        for h in rarest:
            holders[h].append(prints)
    return near
