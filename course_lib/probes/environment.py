"""An answer in an environment that says something: what it is told counts, not what it finds there."""

import os
from collections.abc import Callable
from typing import Any


def call_in(answer: Callable, variables: dict[str, str], args: list, named: dict) -> Any:
    """`answer(*args, **named)` where these variables of the environment are set."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        return answer(*args, **named)
    finally:
        os.environ.clear()
        os.environ.update(before)
