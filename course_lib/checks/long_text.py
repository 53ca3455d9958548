"""Attention over thousands of tokens, at the price of one call.

What is here: `expect_long_text`. All scores are 0, so token t gives the mean of values 0..t. Each
column of v is 0 before one token and 1 from it on: the mean then says how many tokens were read, and
any part of a later one shows where 0 belongs. What it leaves out: scores, which the other checks of
a suite have.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.report import Wrong, number
from course_lib.checks.subject import AnswerError

STEPS = (1, 130, 256, 257, 258, 2048, 2049, 2050)
"""Tokens at which a column of v begins: bfloat16 has no 257, and float16 no 2,049."""
LENGTHS = ((torch.float32, 2100), (torch.bfloat16, 260), (torch.float16, 2052))


def expect_long_text(
    call: Callable[..., Any],
    H: int,
    G: int,
    code: str,
    *,
    lengths: Sequence[tuple[torch.dtype, int]] = LENGTHS,
) -> None:
    """`call(q, k, v)` is causal attention of H heads of q and G of k and v, for texts of each length
    in its dtype; else `Wrong` with `code`."""
    for dtype, T in lengths:
        begins = torch.tensor([t if t < T else T // 2 for t in STEPS])
        here = torch.arange(T)[:, None]
        v = (here >= begins).to(dtype).expand(1, G, -1, -1).contiguous()
        q = torch.zeros(1, H, T, len(begins), dtype=dtype)
        tried = f"{T:,} tokens in {str(dtype)[6:]}, H = {H}, G = {G}, all scores equal"
        look = "any length written as a number, and the dtype of the positions."
        try:
            out = call(q, torch.zeros_like(v), v)
        except AnswerError as failure:
            raise Wrong(
                code,
                "a long text raises",
                tried=tried,
                expected="the same rule, however long the text is",
                got=f"{type(failure.error).__name__}: {failure.error}"[:76],
                fits="a mask of a fixed size.",
                look=look,
            ) from None
        expect.tensor(out, shape=q.shape, dtype=dtype, tried=tried)
        right = (here + 1 - begins).clamp(min=0) / (here + 1.0)
        _expect_means(out.float(), right, begins, dtype, code, tried=tried, look=look)


def _expect_means(
    out_BHTK: Tensor,
    right_TK: Tensor,
    begins: Tensor,
    dtype: torch.dtype,
    code: str,
    **facts: str,
) -> None:
    """Where 0 belongs is 0, elsewhere more than 0, and in float32 the share of the ones."""
    least, most = out_BHTK.amin((0, 1)), out_BHTK.amax((0, 1))
    closed = right_TK == 0
    # float32: sums of thousands of equal weights. In 16 bits they may be rounded on the way
    off = ~torch.isclose(out_BHTK, right_TK, rtol=2e-3, atol=1e-6).all(1).all(0)
    narrow = dtype != torch.float32
    for bad, finding, place in (
        (closed & (most.abs() > 1e-6), "in a long text a token reads later ones", most),
        (~closed & (least <= 0), "in a long text a token does not read what it may", least),
        (off & ~closed & (not narrow), "in a long text later tokens differ", least),
    ):
        if not bad.any():
            continue
        t, column = (int(i) for i in bad.nonzero()[0])
        raise Wrong(
            code,
            finding,
            expected=f"token {t} gives {number(right_TK[t, column].item())}, "
            f"where v is 0 before token {int(begins[column])} and 1 from there on",
            got=number(place[t, column].item()),
            fits="positions in 16 bits, which have no 257 (bfloat16) and no 2,049 (float16)."
            if narrow
            else "a mask or a window of a fixed size, or positions in 16 bits.",
            **facts,
        )
