"""What the checks of adamw_step share: the textbook formulas, tensors to try them on, and the call.

Steps are compared in units of lr: a weight moves by 1 of them in its first update.
"""

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.report import Wrong, vector
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw

NAMES = ("param", "m", "v")
# one update is a dozen float32 operations of 6e-8 each; lr units of weights near 0.1 add 1e-5
CLOSE = dict(rtol=1e-4, atol=1e-4)


def state(
    draw: Draw, *shape: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """param, grad, m, v as they might be in the middle of a run. v is so large that no step is
    longer than lr, which is tried on its own."""
    param, grad, m = (size * draw.randn(*shape, dtype=dtype) for size in (0.1, 0.5, 0.3))
    v = 0.1 + draw.randn(*shape, dtype=dtype).square()
    return param, grad, m, v + 4 * (grad.abs() + m.abs()).square()


def ask(subject: Subject, *args, tried: str, **options) -> tuple[Tensor, Tensor, Tensor]:
    """What the answer returns, if it is three tensors like `param`."""
    options = dict(lr=0.01, betas=(0.9, 0.999), weight_decay=0.0, eps=1e-8) | options
    out, param = subject.call(*args, **options), args[0]
    expect.not_none(out, "(param, m, v)", tried=tried)
    if not isinstance(out, (tuple, list)) or len(out) != 3:
        got = f"{len(out)} values" if isinstance(out, (tuple, list)) else type(out).__name__
        raise Wrong(
            "ADAMW-TRIPLE",
            "the answer is not three tensors",
            tried=tried,
            expected="(param, m, v)",
            got=got,
            hides="without its state the next update has no memory.",
            look="what stands after `return`.",
        )
    for name, value in zip(NAMES, out, strict=True):
        if isinstance(value, Tensor) and not torch.isfinite(value).all():
            _not_finite(param, args, value, name, tried)
        expect.tensor(value, shape=param.shape, dtype=param.dtype, tried=f"{tried}; the new {name}")
    return tuple(out)


def _not_finite(param: Tensor, args: tuple, value: Tensor, name: str, tried: str) -> None:
    facts = dict(
        tried=tried, expected="finite numbers", got=f"the new {name}: {vector(value.flatten())}"
    )
    if not args[1].any():
        raise Wrong(
            "ADAMW-NO-EPS",
            "a silent weight becomes NaN",
            **facts,
            fits="0 / 0.",
            hides="an embedding row whose token has not come yet would be lost.",
            look="what is added to the root.",
        )
    if args[4] == 1:
        raise Wrong(
            "ADAMW-STEP-OFF",
            "the first update divides by zero",
            **facts,
            fits="beta ** (step - 1): 1 - beta ** 0 is 0.",
            look="`step` counts this update: it is 1 in the first.",
        )
    expect.not_finite(value, tried=tried)


def expect_spread(got: Tensor, right: Tensor, bad: Tensor, *, code: str, tried: str) -> None:
    """Where `bad` says, no number is finite; elsewhere `got` is `right`.

    Whether infinity or NaN comes out there depends on the order of the arithmetic.
    """
    near = dict(rtol=1e-2, atol=1e-2) if got.dtype.itemsize < 4 else dict(rtol=1e-4, atol=1e-5)
    kept = torch.isfinite(got) & bad
    other = ~torch.isclose(got.float(), right.float(), **near) & ~bad
    if not (kept | other).any():
        return
    at = tuple((kept if kept.any() else other).nonzero()[0].tolist())
    raise Wrong(
        code,
        "gradients that are not finite are taken as others, or left out"
        if kept.any()
        else "one gradient that is not finite changes what becomes of the others",
        tried=tried,
        expected=f"NaN or infinity at index {at}"
        if kept.any()
        else f"{right[at]:.5g} at index {at}",
        got=f"{got[at]:.5g}",
        hides="the formula has no condition: a loss scaler, which stands outside, skips updates.",
        look="`isfinite`, `isnan`, `nan_to_num`, `clamp`, and what they decide.",
    )


def update(
    param: Tensor,
    grad: Tensor,
    m: Tensor,
    v: Tensor,
    step: int,
    *,
    lr: float = 0.01,
    betas: tuple[float, float] = (0.9, 0.999),
    weight_decay: float = 0.0,
    eps: float = 1e-8,
    at: int | None = None,
    first: Tensor | None = None,
    second: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The textbook formulas in float64; `at`, `first`, `second` replace step, m and v."""
    p, g, m, v = (t.double() for t in (param, grad, m, v))
    (b1, b2), at = betas, step if at is None else at
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    top = (m if first is None else first.double()) / (1 - b1**at)
    root = ((v if second is None else second.double()) / (1 - b2**at)).sqrt()
    new = p - lr * (top / (root + eps) + weight_decay * p)
    return new.to(param.dtype), m.to(param.dtype), v.to(param.dtype)
