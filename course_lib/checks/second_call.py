"""A second call of an answer that gives what is kept from the first.

What is here: `expect_second_call`, which makes the calls of calls.py and compares what came between
them; `expect_second_16_bits`, the same in 16 bits, since what is kept may be a copy in 16 bits alone.
What it leaves out: answers whose results are no tensors.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.checks.calls import expect_separate_calls
from course_lib.checks.report import Wrong, vector

SIXTEEN = (torch.bfloat16, torch.float16)


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
        bad = ~got.isclose(want.to(got.dtype), rtol=rtol, atol=atol).flatten()
        if bad.any():
            at = int(bad.nonzero()[0])
            raise Wrong(
                "REMEMBERS",
                f"{name} of the second call differs",
                tried=tried,
                expected=f"{vector(want.flatten()[at:], 4)} from place {at} on",
                got=vector(got.flatten()[at:], 4),
                fits="something kept from the first call.",
                look="what is stored outside the call, by `cache`, or in a default argument.",
            )


def expect_second_16_bits(
    probe: Callable[..., Any],
    first: tuple,
    second: tuple,
    gives: Callable[..., Sequence[Tensor]],
    *,
    names: Sequence[str],
    tried: str,
    within: float,
    dtypes: Sequence[torch.dtype] = SIXTEEN,
    cast: int | None = None,
) -> None:
    """`expect_second_call` in each of `dtypes`, with the right results as `gives(*second)` has them.

    The first `cast` arguments are rounded to that dtype, all where it is None, but whole numbers.
    Roundings may make a number wrong by `within` of itself and `within` more.
    """
    for dtype in dtypes:
        rounded = [
            tuple(
                x.to(dtype) if x.is_floating_point() and (cast is None or i < cast) else x
                for i, x in enumerate(args)
            )
            for args in (first, second)
        ]
        expect_second_call(
            probe, *rounded, gives(*rounded[1]), names=names, rtol=within, atol=within,
            tried=f"{tried}, in {str(dtype).removeprefix('torch.')}",
        )  # fmt: skip
