"""Hostile, broken and awkward submissions of lesson 02_rope, one noun a file."""

from tests.hostile import allowances, deaths, files, forgeries, marks, reaches, styles

CASES = [*styles.CASES, *marks.CASES, *forgeries.CASES, *reaches.CASES, *deaths.CASES,
         *allowances.CASES, *files.CASES]  # fmt: skip
assert len({case.student for case in CASES}) == len(CASES)
