"""An answer that is given what can be gone through once, where a contract says Iterable.

What it is: a probe of checks, since a generator cannot be sent to another process. What it leaves
out: what is right, which course_lib.checks says.
"""

from collections.abc import Callable, Sequence
from typing import Any


def call_once_through(answer: Callable, values: Sequence, *more) -> Any:
    """`answer(generator, *more)` with a generator of `values`; as text what it raises."""
    try:
        return answer((value for value in values), *more)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
