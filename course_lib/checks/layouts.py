"""Inputs whose numbers do not lie in memory in the order of their indices, as a model hands them on.

What is here: `transpose_layout`, which lays a tensor out so; `expect_any_layout`, which refuses an
answer that works only on tensors in one piece; `expect_expanded`, one that writes over numbers which
`expand` made one number in memory.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.checks.calls import is_close
from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError


def transpose_layout(x: Tensor) -> Tensor:
    """The same tensor as a view that is not contiguous; its last dimension still is in one piece.

    For (B, H, T, K) in memory (T, H, B, K): what heads are after a transpose.
    """
    order = [*reversed(range(x.dim() - 1)), x.dim() - 1]
    return x.permute(order).contiguous().permute(order)


def expect_any_layout(call: Callable[..., Any], *args: Any, tried: str, rtol: float, atol: float):
    """`call` gives the same tensor, or tensors, for transposed views; else `Wrong` STRIDED.

    The tensors of three and more dimensions among `args` are laid out anew.
    """
    views = [transpose_layout(a) if isinstance(a, Tensor) and a.dim() > 2 else a for a in args]
    facts = dict(
        tried=f"{tried}, as a transposed view: not contiguous",
        expected="what the same numbers in one piece give",
        hides="heads are a transposed view: the model hands them on so.",
    )
    wanted = call(*args)
    try:
        out = call(*views)
    except AnswerError as failure:
        text = f"{type(failure.error).__name__}: {failure.error}"
        viewed = "view" in text and "stride" in text
        raise Wrong(
            "STRIDED",
            "a tensor that is not contiguous raises",
            got=text[:76],
            fits="`view`, which never copies." if viewed else "",
            look="`reshape` copies where it has to." if viewed else "what asks for one piece.",
            **facts,
        ) from None
    pairs = [(wanted, out)] if isinstance(wanted, Tensor) else zip(wanted, out, strict=True)
    for right, other in pairs:
        same = isinstance(other, Tensor) and other.shape == right.shape
        if not same or not torch.allclose(other.to(right.dtype), right, rtol=rtol, atol=atol):
            raise Wrong(
                "STRIDED",
                "a tensor that is not contiguous gives other numbers",
                got="other numbers",
                fits="the memory read in its own order, not in that of the indices.",
                look="`as_strided`, `data_ptr`, `storage`, `frombuffer`.",
                **facts,
            )


def expect_expanded(probe: Callable[..., Any], *args: Any, tried: str, rtol: float, atol: float):
    """The answer gives the same tensor, or tensors, for `args` expanded along a dimension as for their
    copies, for each dimension in turn; else `Wrong` STRIDED.

    `probe` is that of a module or of a subject, whose suite then says `ranks=1`: an expanded tensor
    is made where the answer is, since it arrives elsewhere as a copy.
    """
    for dim, (right, found) in enumerate(probe("course_lib.probes.calls:call_expanded", args)):
        facts = dict(
            tried=f"{tried}, expanded along dimension {dim}: one number in memory for many places",
            expected="what the same numbers give after `.contiguous()`",
            hides="masks, tables and shared heads are often expanded; nobody copies them first.",
        )
        if isinstance(found, str):
            overlap = "single memory location" in found
            raise Wrong(
                "STRIDED",
                "an expanded tensor raises",
                got=found[:76],
                fits="a write to numbers that share their place in memory." if overlap else "",
                look="`empty_strided`, and what is written into: `empty_like` and `clone` part "
                "the numbers."
                if overlap
                else "what asks for one piece, as `view` does.",
                **facts,
            )
        if not is_close(right, found, rtol=rtol, atol=atol):
            raise Wrong(
                "STRIDED",
                "an expanded tensor gives other numbers",
                got="other numbers",
                fits="the memory read or written in its own order, not in that of the indices.",
                look="`as_strided`, `empty_strided`, `data_ptr`, `storage`.",
                **facts,
            )
