"""How often a campaign repeats: briefly in `make test`, at length in `make soak`."""

import os

import pytest


def times(short: int, long: int) -> int:
    """`long` under `make soak`, else `short`. Mark the test with `campaign`, or soak passes it by."""
    return long if os.environ.get("COURSE_SOAK") else short


def fewer(answers: list) -> list:
    """`answers`; in `make test`, where some cost seconds each, a right one and every sixth wrong one."""
    if times(0, 1):
        return answers
    right, wrong = ([a for a in answers if (a.code is None) == kind] for kind in (True, False))
    return right[:1] + wrong[::6]


campaign = pytest.mark.soak
