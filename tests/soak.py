"""How often a campaign repeats: briefly in `make test`, at length in `make soak`."""

import os

import pytest


def times(short: int, long: int) -> int:
    """`long` under `make soak`, else `short`. Mark the test with `campaign`, or soak passes it by."""
    return long if os.environ.get("COURSE_SOAK") else short


campaign = pytest.mark.soak
