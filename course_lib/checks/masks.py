"""Reading an attention answer's weights, and naming the wrong mask they show.

The order of the questions matters: NaN rows; no weight on the future, yet it acts; only the future;
a few diagonals too many; no mask at all; a finite fill; a softmax over another dimension.
"""

import math

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.report import Wrong, number
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw

K = 8
"""Head size of most checks; T is smaller, so that v = identity fits into (T, K)."""


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The formula, in float64, in the dtype of q."""
    scores = q.double() @ k.double().transpose(-2, -1) / math.sqrt(q.shape[-1])
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(diagonal=1)
    return (scores.masked_fill(future, -math.inf).softmax(-1) @ v.double()).to(q.dtype)


def draw_small(draw: Draw, *shape: int) -> Tensor:
    """q or k so small that no weight is near 0, whatever the answer scales with."""
    return 0.5 * draw.randn(*shape, K)


def scores_of(q: Tensor, k: Tensor) -> Tensor:
    """q and k (..., T, K) to the raw scores (..., T, T): no scale, no mask."""
    return q @ k.transpose(-2, -1)


def outputs(subject: Subject, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The answer's outputs, checked for shape, dtype and NaN."""
    return expect.tensor(subject.call(q, k, v), shape=q.shape, dtype=q.dtype)


def weights_of(subject: Subject, q: Tensor, k: Tensor) -> Tensor:
    """The answer's weights (B, H, T, T), read through v = identity."""
    B, H, T, wide = q.shape
    return outputs(subject, q, k, torch.eye(T, wide).expand(B, H, T, wide).contiguous())[..., :T]


def are_close(a: Tensor, b: Tensor) -> bool:
    """Equal but for rounding."""
    return torch.allclose(a, b, rtol=1e-3, atol=1e-4)


def slope(y: Tensor, x: Tensor, where: Tensor) -> float | None:
    """c, if y = c * x at the places `where`; None if no c fits."""
    y, x = y[..., where].double(), x[..., where].double()
    if not torch.isfinite(y).all() or not x.any():
        return None
    c = (x * y).sum() / (x * x).sum()
    fits = torch.allclose(y, c * x, rtol=1e-2, atol=2e-3 * float(y.abs().max()))
    return float(c) if fits and float(c.abs()) > 1e-6 else None


def name_nan_rows(out: Tensor, q: Tensor, k: Tensor, v: Tensor, tried: str) -> None:
    """`Wrong` when some outputs are NaN or infinite: which ones they are tells the cause."""
    rows = (~torch.isfinite(out)).any(-1).any(0).any(0).nonzero().flatten().tolist()
    last = out.shape[2] - 1
    facts = dict(
        tried=tried,
        expected="finite outputs",
        got=f"NaN or infinity in the output of token {', '.join(map(str, rows))}",
    )
    if rows in ([0], [last]):
        raise Wrong(
            "MASK-NAN-ROW",
            f"output {rows[0]} is NaN",
            preset="attention:nan-row",
            fits=f"row {rows[0]} has every key masked; softmax of all -inf is NaN.",
            look="the `diagonal=` of triu/tril: a token must see itself.",
            **facts,
        )
    if len(rows) == last + 1:
        raise Wrong(
            "MASK-ZERO-INF",
            "every output is NaN",
            fits="0 * inf, which is NaN: a mask multiplied by -inf.",
            look="how -inf gets to the masked places; `masked_fill` writes only there.",
            **facts,
        )
    if rows != list(range(last)):
        return
    end, last_scores = out[:, :, last], scores_of(q[:, :, last:], k)
    finding = "every output but the last is NaN or infinite"
    if any(are_close(end, ((c * last_scores).softmax(-1) @ v)[:, :, 0]) for c in (1.0, K**-0.5)):
        raise Wrong(
            "MASK-INF-SIGN",
            finding,
            fits="future scores of +inf; only e^-inf is 0.",
            look="the sign of the fill.",
            **facts,
        )
    if any(are_close(end, (c * last_scores @ v)[:, :, 0]) for c in (1.0, K**-0.5)):
        raise Wrong(
            "ATT-NO-SOFTMAX",
            finding,
            fits="scores @ v: the -inf of the mask meets v directly.",
            look="where softmax belongs.",
            **facts,
        )
    raise Wrong(
        "MASK-AXIS",
        finding,
        fits="a softmax over heads or batch, where a masked place finds only -inf.",
        look="the `dim` of softmax.",
        **facts,
    )


def grid(change: Tensor, i: int) -> str:
    """Which tokens output i reads: the row of a table."""
    marks = [
        ("ok" if (c > 2e-6) == (j <= i) else "LEAK" if j > i else "none")
        for j, c in enumerate(change[i])
    ]
    keys = "".join(f"{j:>5}" for j in range(len(marks)))
    return f"key    {keys}\nquery {i}{''.join(f'{mark:>5}' for mark in marks)}"


def leak(weights: Tensor, q: Tensor, k: Tensor, i: int, j: int, change: Tensor) -> Wrong:
    """The message for a leak from token j to output i; the weights tell which mask it is."""
    T = weights.shape[-1]
    upper = weights.triu(1)
    rows = weights.sum(-1)
    facts = dict(
        tried=f"{T} tokens; then key and value of token {j} alone were changed",
        expected=f"outputs 0-{j - 1} stay the same: a token reads itself and the past",
        got=f"output {i} changed by {number(change[i, j].item())}\n{grid(change, i)}",
    )
    if not (upper.abs() > 1e-6).any():
        low, high = rows[0, 0].min().item(), rows[0, 0].max().item()
        if low > 0.999:
            return Wrong(
                "OTHER",
                f"output {i} changed, with no weight on token {j}",
                look="everything between scores and weights that sees all keys.",
                **facts,
            )
        return Wrong(
            "MASK-ZERO-AFTER",
            "the weights of a row do not sum to 1",
            preset="attention:zero-after",
            fits=f"weights set to 0 after the softmax: rows sum to {low:.2f} ... {high:.2f},\n"
            "and the future still stands in the denominator.",
            look="the order of mask and softmax.",
            **facts,
        )
    if not (weights.tril(-1).abs() > 1e-6).any():
        columns = weights.sum(-2)
        if are_close(columns, torch.ones_like(columns)) and not are_close(
            rows, torch.ones_like(rows)
        ):
            return Wrong(
                "ATT-V-TRANSPOSED",
                f"token {i} is read by token {j}, not the reverse",
                fits="weights^T @ v: the columns sum to 1.",
                look="the last product.",
                **facts,
            )
        return Wrong(
            "MASK-TRANSPOSED",
            f"token {i} reads the future and not the past",
            preset="attention:transposed",
            fits="a mask with its two halves exchanged.",
            look="triu against tril, and what True means in `masked_fill`.",
            **facts,
        )
    reach = max(d for d in range(1, T) if (weights.diagonal(d, -2, -1).abs() > 1e-6).any())
    if reach < T - 1:
        far = "one diagonal" if reach == 1 else f"{reach} diagonals"
        return Wrong(
            "MASK-LEAK-1",
            f"token {i} can read token {j}",
            preset="attention:leak-1",
            fits=f"a mask that begins {far} too far to the right.",
            look="the `diagonal=` argument of triu/tril.",
            **facts,
        )
    return _leak_everywhere(weights, q, k, i, j, facts)


def _leak_everywhere(weights: Tensor, q: Tensor, k: Tensor, i: int, j: int, facts: dict) -> Wrong:
    T = weights.shape[-1]
    weights, q, k = weights[:1, :1], q[:1, :1], k[:1, :1]
    every, lower = torch.ones(T, T, dtype=torch.bool), torch.ones(T, T, dtype=torch.bool).tril()
    scores = scores_of(q, k)
    relative, logs = scores - scores[..., :1], weights.log() - weights.log()[..., :1]
    if slope(logs, relative, every) is not None:
        return Wrong(
            "MASK-NONE",
            f"token {i} reads every token",
            preset="attention:no-mask",
            fits="a softmax over all keys: no mask acts.",
            look="whether the masked scores are the ones that softmax gets.",
            **facts,
        )
    c = slope(logs, relative, lower)
    if c is not None:
        fill = (logs + c * scores[..., :1])[..., ~lower]
        if torch.allclose(fill, fill.mean(), atol=1e-2):
            value = fill.mean().item()
            value = 0.0 if abs(value) < 5e-3 else value
            return Wrong(
                "MASK-FINITE-FILL",
                f"token {i} can read token {j}",
                preset="attention:finite-fill",
                fits=f"future scores that equal {number(value)}: exp({number(value)}) "
                f"= {number(math.exp(value))}, not 0.",
                look="the number that masked scores are set to.",
                **facts,
            )
    if not (weights >= -1e-6).all():
        return Wrong(
            "ATT-NO-SOFTMAX",
            "some weights are negative",
            fits="scores @ v, without a softmax.",
            look="where softmax belongs.",
            **facts,
        )
    columns = weights.sum(-2)
    if are_close(columns, torch.ones_like(columns)):
        return Wrong(
            "MASK-AXIS",
            "the columns sum to 1, not the rows",
            fits="a softmax over the queries: `dim=-2` where the keys are dim -1.",
            look="the `dim` of softmax.",
            **facts,
        )
    return Wrong(
        "OTHER", f"token {i} can read token {j}", look="where mask and softmax act.", **facts
    )
