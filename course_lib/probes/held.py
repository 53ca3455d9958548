"""What a call holds while it runs, told in bytes.

What it is: the probe of checks that measure the memory of an answer, where the answer is. What it
leaves out: how much is right, which course_lib.checks says.
"""

from collections.abc import Callable
from typing import Any

from course_lib.measure.held import Held


def held_bytes(answer: Callable, args: tuple, kwargs: dict[str, Any]) -> int:
    """Most bytes of tensors that `answer(*args, **kwargs)` has made and not let go, at any time."""
    with Held() as held:
        answer(*args, **kwargs)
    return held.peak
