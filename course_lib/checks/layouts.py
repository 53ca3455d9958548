"""Inputs whose numbers do not lie in memory in the order of their indices, as a model hands them on.

What is here: `transpose_layout`, which lays a tensor out so, and `expect_any_layout`, which refuses an
answer that works only on tensors in one piece.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

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
