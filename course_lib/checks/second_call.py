"""A second call of an answer that gives what is kept from the first.

What is here: `expect_second_call`, which makes the calls of calls.py and compares what came between
them. What it leaves out: answers whose results are no tensors.
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from course_lib.checks.calls import expect_separate_calls
from course_lib.checks.report import Wrong, vector


def expect_second_call(
    probe: Callable[..., Any],
    first: tuple,
    second: tuple,
    right: Sequence[Tensor],
    *,
    names: Sequence[str],
    tried: str,
    rtol: float,
    atol: float,
) -> None:
    """`second`, called between two calls with `first`, gives `right`, whose parts have these `names`.

    Else `Wrong` REMEMBERS, or what `expect_separate_calls` says.
    """
    between = expect_separate_calls(probe, first, second, tried=tried, rtol=rtol, atol=atol)
    parts = between if isinstance(between, (tuple, list)) else (between,)
    for name, got, want in zip(names, parts, right, strict=True):
        if not got.isclose(want.to(got.dtype), rtol=rtol, atol=atol).all():
            raise Wrong(
                "REMEMBERS",
                f"{name} of the second call differs",
                tried=tried,
                expected=vector(want.flatten()),
                got=vector(got.flatten()),
                fits="something kept from the first call.",
                look="what is stored outside the call, by `cache`, or in a default argument.",
            )
