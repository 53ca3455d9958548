"""What the checks of muon_step share: the contract in float64, matrices to try it on, and the call.

What a step adds to a matrix is compared in units of its length, 0.2 * sqrt(max(A, B)) * lr, where the
matrix that comes out of the rounds is of size 1.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.report import Wrong, vector
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw

LR, BETA, EPS = 0.01, 0.95, 1e-7
QUINTIC, CUBIC = (3.4445, -4.7750, 2.0315), (1.5, -0.5, 0.0)
# where the rounds end is not steep for these three, so that products in bfloat16, as most programs
# have them, move a number by 0.02 at most; another number of rounds moves some of them by 0.2
SIZES = (1.0, 0.7, 0.3)
CLOSE = 0.04


def matrix(draw: Draw, rows: int, columns: int, sizes: tuple[float, ...] = SIZES) -> Tensor:
    """A matrix with these singular values, float64."""
    sides = [draw.randn(n, len(sizes), dtype=torch.float64) for n in (rows, columns)]
    left, right = (torch.linalg.qr(side)[0] for side in sides)
    return (left * torch.tensor(sizes, dtype=torch.float64)) @ right.T


def turn(
    x: Tensor,
    coefficients: tuple[float, float, float] = QUINTIC,
    rounds: int = 5,
    norm: Tensor | None = None,
    eps: float = EPS,
) -> Tensor:
    """What comes out of the rounds, in float64; `norm` in place of Frobenius's."""
    a, b, c = coefficients
    x = x / (x.norm() if norm is None else norm).clamp(min=eps)
    for _ in range(rounds):
        gram = x @ x.T
        x = a * x + b * (gram @ x) + c * (gram @ gram @ x)
    return x


def length_of(shape: tuple[int, ...]) -> float:
    """What a step with LR multiplies the matrix that comes out of the rounds with."""
    return 0.2 * math.sqrt(max(shape)) * LR


def ask(subject: Subject, *args, tried: str, **options) -> tuple[Tensor, Tensor]:
    """What the answer returns, if it is two tensors like `param`."""
    out, param = subject.call(*args, **(dict(lr=LR, weight_decay=0.0) | options)), args[0]
    expect.not_none(out, "(param, m)", tried=tried)
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        got = f"{len(out)} values" if isinstance(out, (tuple, list)) else type(out).__name__
        raise Wrong(
            "MUON-PAIR",
            "the answer is not two tensors",
            tried=tried,
            expected="(param, m)",
            got=got,
            hides="without its m the next update has no memory.",
            look="what is behind `return`.",
        )
    for name, value in zip(("param", "m"), out, strict=True):
        if isinstance(value, Tensor) and not torch.isfinite(value).all():
            _refuse_not_finite(args[1], value, name, tried)
        expect.tensor(value, shape=param.shape, dtype=param.dtype, tried=f"{tried}; the new {name}")
    return tuple(out)


def _refuse_not_finite(grad: Tensor, value: Tensor, name: str, tried: str) -> None:
    facts = dict(tried=tried, expected="finite numbers", got=f"the new {name}: {row(value)}")
    if not grad.any():
        raise Wrong(
            "MUON-NO-EPS",
            "a silent matrix becomes NaN",
            **facts,
            fits="0 / 0.",
            hides="a matrix whose branch is switched off for an update would be lost.",
            look="what the direction is divided by where its norm is 0.",
        )
    raise Wrong(
        "MUON-RUNAWAY",
        "the rounds run away",
        **facts,
        look="what the direction is divided by before the first round;\n"
        "which of a, b and c goes with which product.",
    )


def row(x: Tensor) -> str:
    """The first numbers of a matrix, in words."""
    return vector(x.flatten(), 4)


def compare(found: Tensor, wanted: Tensor, named: Sequence[tuple[str, Tensor]], tried: str) -> None:
    """`found` is `wanted`; else the code of the nearest of `named`, or OTHER."""
    if is_near(found, wanted):
        return
    facts = dict(tried=tried, expected=f"in lengths of a step: {row(wanted)}", got=row(found))
    distances = [(found - value).abs().max().item() for _, value in named]
    if distances and min(distances) < CLOSE:
        code = named[distances.index(min(distances))][0]
        finding, fits, look = WORDS[code]
        raise Wrong(code, finding, fits=fits, look=look, **facts)
    raise Wrong("OTHER", "the step differs", look="m, direction, norm, rounds, in turn.", **facts)


WORDS = {
    "MUON-NO-NESTEROV": ("the direction is m itself", "the new m, without the gradient once more.",
                         "the docstring: direction."),
    "MUON-NO-MOMENTUM": ("the step ignores m", "the gradient alone.", "the docstring: direction."),
    "MUON-NOT-A-MEAN": ("gradient and m are not weighted as in a mean", "grad + beta * m.",
                        "the weight of the gradient in the direction."),
    "MUON-OTHER-NORM": ("the norm is another one", "division by the largest singular value.",
                        "which norm: all numbers squared, added up, and the root."),
    "MUON-EXACT": ("the singular values are all exactly 1", "U V^T, as from an SVD.",
                   "the rounds of the contract, which end near 1."),
    "MUON-ROUNDS": ("the number of rounds is another one", "one round more or less.",
                    "where the rounds begin and end."),
    "MUON-FIXED-ROUNDS": ("`rounds` has no effect", "five rounds.", "the `rounds` of the signature."),
    "MUON-COEFFICIENTS": ("`coefficients` have no effect", "the numbers of the signature.",
                          "where a, b and c come from."),
}  # fmt: skip


def is_near(found: Tensor, wanted: Tensor) -> bool:
    """Whether no number is off by more than rounds in bfloat16 make it."""
    return bool((found - wanted).abs().max() < CLOSE)
