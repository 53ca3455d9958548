"""States of a softmax that takes its scores tile by tile, for the checks of lesson 16: add_tile.

What is here: the empty state, the right state for given scores (all at once, in float64), calls to
try, and the answer's new state once its kind, shapes and dtypes are right. A row begins at
(-inf, 0, 0).
"""

import math

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.report import Wrong
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw

NAMES = ("peak", "total", "mixed")
EMPTY = -math.inf
# exp and sums of a few float32 numbers, each rounded at 6e-8
CLOSE = dict(rtol=1e-4, atol=1e-6)


def start(*rows: int, K: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """A softmax that has seen nothing."""
    total = torch.zeros(rows, dtype=dtype)
    return torch.full_like(total, EMPTY), total, torch.zeros(*rows, K, dtype=dtype)


def sums(scores: Tensor, values: Tensor) -> tuple[Tensor, ...]:
    """(peak, total, mixed) over all scores at once."""
    peak = scores.double().amax(-1)
    weights = (scores.double() - peak.masked_fill(peak == EMPTY, 0.0).unsqueeze(-1)).exp()
    parts = peak, weights.sum(-1), weights @ values.double()
    return tuple(part.to(scores.dtype) for part in parts)


def call_answer(
    subject: Subject, state: tuple, scores: Tensor, values: Tensor, tried: str
) -> tuple:
    """What the answer makes of one more tile, if it is a state of the same shape without nan."""
    out = subject.call(*state, scores, values)
    if out is None:
        raise Wrong(
            "NONE",
            "the answer returned None",
            tried=tried,
            got="None",
            expected="(peak, total, mixed)",
            look="the last line: is there a `return`?",
        )
    if not isinstance(out, (tuple, list)) or len(out) != 3:
        got = f"{len(out)} values" if isinstance(out, (tuple, list)) else type(out).__name__
        raise Wrong(
            "SOFTMAX-TRIPLE",
            "the answer is not three tensors",
            tried=tried,
            expected="(peak, total, mixed)",
            got=got,
            look="what stands after `return`.",
            hides="the next tile needs all three.",
        )
    for name, value, old in zip(NAMES, out, state, strict=True):
        plain = (
            torch.zeros_like(value) if isinstance(value, Tensor) else value
        )  # -inf may stand here
        expect.tensor(plain, shape=old.shape, dtype=old.dtype, tried=f"{tried}; the new {name}")
    return tuple(out)


def draw_calls(draw: Draw, rows: tuple, J: int, width: int, dtype: torch.dtype = torch.float32):
    """(a state after 3 keys, what it becomes) and the tile (scores, values) between the two."""
    old, new = draw.randn(*rows, 3, dtype=dtype), draw.randn(*rows, J, dtype=dtype)
    v, w = (draw.randn(*rows[:-1], n, width, dtype=dtype) for n in (3, J))
    after = sums(torch.cat([old, new], -1), torch.cat([v, w], -2))
    return (sums(old, v), after), (new, w)
