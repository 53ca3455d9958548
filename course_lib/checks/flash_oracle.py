"""The formulas of lesson 16 with the whole matrices, in float64, and calls of both passes.

What is here: the oracles, tensors to try, and the answer's results once their kind, shapes and
dtypes are right; nan in them is for a check to explain.
"""

import math

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.report import Wrong
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw

K = 4
TILE = 4
RESULTS = ("out", "logsumexp")
NAMES = ("dq", "dk", "dv")


def explicit_attention(
    q: Tensor, k: Tensor, v: Tensor, may: Tensor, *, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """(out, logsumexp) in float64; `may` (..., T, T) says who reads whom. Empty rows: 0 and -inf."""
    q, k, v = q.double(), k.double(), v.double()
    scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores.masked_fill(~may, -math.inf)
    lse = scores.logsumexp(-1)
    weights = (scores - lse.masked_fill(lse == -math.inf, 0.0).unsqueeze(-1)).exp()
    return weights @ v, lse


def full_mask(T: int) -> Tensor:
    """Each token reads all."""
    return torch.ones(T, T, dtype=torch.bool)


def draw_qkv(
    draw: Draw, T: int, *, B: int = 1, H: int = 2, dtype: torch.dtype = torch.float32
) -> list:
    """q, k, v."""
    return [draw.randn(B, H, T, K, dtype=dtype) for _ in range(3)]


def call_forward(subject: Subject, qkv: list, tried: str, **options) -> tuple[Tensor, Tensor]:
    """(out, logsumexp), of the right kind, shape and dtype; nan is for the caller to explain."""
    q = qkv[0]
    out = subject.call(*qkv, **options)
    if out is None:
        raise Wrong(
            "NONE",
            "the answer returned None",
            tried=tried,
            got="None",
            expected="(out, logsumexp)",
            look="the last line: is there a `return`?",
        )
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        got = f"{len(out)} values" if isinstance(out, (tuple, list)) else type(out).__name__
        raise Wrong(
            "FLASH-PAIR",
            "the answer is not two tensors",
            tried=tried,
            got=got,
            expected="(out, logsumexp)",
            look="what stands after `return`.",
            hides="the backward pass needs the logsumexp.",
        )
    accurate = torch.promote_types(q.dtype, torch.float32)
    for name, value, shape in (("out", out[0], q.shape), ("logsumexp", out[1], q.shape[:-1])):
        plain = torch.zeros_like(value) if isinstance(value, Tensor) else value
        if name == "logsumexp" and isinstance(value, Tensor) and value.dtype != accurate:
            raise Wrong(
                "FLASH-LSE-DTYPE",
                f"the logsumexp is {str(value.dtype)[6:]}",
                tried=tried,
                expected=str(accurate)[6:],
                got=str(value.dtype)[6:],
                hides="the backward pass takes exp(score - logsumexp): an error of 0.03 there\n"
                "makes every weight wrong by 3 percent.",
                look="the dtype in which `lse` is made.",
            )
        expect.tensor(
            plain,
            shape=shape,
            dtype=q.dtype if name == "out" else accurate,
            tried=f"{tried}; {name}",
        )
    return out[0], out[1]


def draw_tensors(draw: Draw, T: int, may: Tensor, **options) -> list[Tensor]:
    """grad, q, k, v, out, lse, as a training step would hand them over."""
    q, k, v = draw_qkv(draw, T, **options)
    out, lse = explicit_attention(q, k, v, may)
    accurate = torch.promote_types(q.dtype, torch.float32)
    grad = draw.randn(*q.shape, dtype=q.dtype)
    return [grad, q, k, v, out.to(q.dtype), lse.to(accurate)]


def gradients(
    tensors: list[Tensor],
    may: Tensor,
    *,
    scale: float = 1.0,
    weight: Tensor | None = None,
    row_sums: bool = True,
    transposed: bool = True,
) -> tuple[Tensor, ...]:
    """(dq, dk, dv) in float64; `scale` is a factor on the right one, the others make mistakes."""
    g, q, k, v, out, lse = (x.double() for x in tensors)
    if weight is None:
        scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~may, -math.inf)
        weight = (scores - lse.masked_fill(lse == -math.inf, 0.0).unsqueeze(-1)).exp()
    ds = weight * (g @ v.mT - row_sums * (g * out).sum(-1, keepdim=True))
    ds = ds * q.shape[-1] ** -0.5 * scale
    ds_t, weight_t = (ds.mT, weight.mT) if transposed else (ds, weight)
    return ds @ k, ds_t @ q, weight_t @ g


def call_backward(
    subject: Subject, tensors: list[Tensor], tried: str, **options
) -> tuple[Tensor, ...]:
    """(dq, dk, dv) of the shape and dtype of q; nan is for the caller to explain."""
    q, out = tensors[1], subject.call(*tensors, **options)
    if out is None:
        raise Wrong(
            "NONE",
            "the answer returned None",
            tried=tried,
            got="None",
            expected="(dq, dk, dv)",
            look="the last line: is there a `return`?",
        )
    if not isinstance(out, (tuple, list)) or len(out) != 3:
        got = f"{len(out)} values" if isinstance(out, (tuple, list)) else type(out).__name__
        raise Wrong(
            "FLASH-TRIPLE",
            "the answer is not three tensors",
            tried=tried,
            got=got,
            expected="(dq, dk, dv)",
            look="what stands after `return`.",
        )
    for name, value in zip(NAMES, out, strict=True):
        plain = torch.zeros_like(value) if isinstance(value, Tensor) else value
        expect.tensor(plain, shape=q.shape, dtype=q.dtype, tried=f"{tried}; {name}")
    return tuple(out)
