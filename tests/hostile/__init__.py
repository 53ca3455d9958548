"""Hostile, broken and awkward submissions of lesson 02_rope, one noun a file."""

from tests.hostile import allowances, deaths, files, forgeries, marks, reaches, styles
from tests.hostile.case import Case
from tests.soak import times

EVERY = [*styles.CASES, *marks.CASES, *forgeries.CASES, *reaches.CASES, *deaths.CASES,
         *allowances.CASES, *files.CASES]  # fmt: skip
assert len({case.student for case in EVERY}) == len(EVERY)
ALWAYS = {"active-text", "files-beside-it", "a-link-to-the-gradebook", "half-characters"}
"""Names of those that later tests look at one by one."""


def spread(cases: list[Case], most: int) -> list[Case]:
    """At most `most` of them, from all along the list, and those of ALWAYS."""
    step = -(-len(cases) // most)
    return [case for i, case in enumerate(cases) if i % step == 0 or case.name in ALWAYS]


def of_row(row: int) -> list[Case]:
    """The submissions to a row of the acceptance list: three or so, in a long run every one."""
    cases = [case for case in EVERY if case.row == row]
    return spread(cases, times(3, len(cases)))


CASES = [case for row in range(1, 26) for case in of_row(row)]
