"""Cases of lesson 16 that both passes are asked: other sizes, options together, low scores.

What is here: the inputs, each with who may read whom, and the comparison that names a case. What it
leaves out: the right results, which come from the formula of each pass.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from course_lib.checks.report import Wrong, number
from course_lib.checks.suite import Draw


@dataclass(frozen=True)
class Case:
    """q, k and v, the options, and `may` (..., T, T): who reads whom."""

    code: str
    finding: str
    look: str
    tried: str
    qkv: list[Tensor]
    may: Tensor
    options: dict[str, Any] = field(default_factory=dict)

    def expect(self, name: str, got: Tensor, right: Tensor, *, rtol: float, atol: float) -> None:
        """`Wrong` with the case's code unless `got` is `right`, -inf where that is -inf."""
        right = right.to(got.dtype)
        good = got.isclose(right, rtol=rtol, atol=atol)
        if good.all():
            return
        index = tuple(int(i) for i in (~good).nonzero()[0])
        raise Wrong(
            self.code,
            f"{name} {self.finding}",
            tried=f"{self.tried}; {name}",
            expected=f"{number(right[index].item())} at index {index}",
            got=f"{number(got[index].item())} there; {int((~good).sum())} of {got.numel()} differ",
            look=self.look,
        )


def draw_sizes(draw: Draw) -> list[Case]:
    """Heads of other sizes, tiles of 1 and beyond T, one token, one of everything."""
    cases = []
    for shape, tile in (
        ((2, 3, 5, 6), 2),
        ((1, 2, 3, 7), 1),
        ((2, 1, 3, 2), 64),
        ((1, 1, 1, 1), 4),
    ):
        qkv = [draw.randn(*shape) for _ in range(3)]
        tried = f"q, k, v {shape}, tile = {tile}, causal=True"
        case = Case(
            "FLASH-SIZES",
            "differs at other sizes",
            "sizes written as numbers; the scale is that of q's last dimension.",
            tried,
            qkv,
            _causal_mask(shape[2]),
            dict(tile=tile),
        )
        cases.append(case)
    return cases


def draw_options(draw: Draw, dtype: torch.dtype = torch.float32) -> list[Case]:
    """One q, k and v with each `causal` and several `num_keys`: none at all, some, and all."""
    qkv = [draw.randn(2, 2, 6, 3, dtype=dtype) for _ in range(3)]
    cases = []
    for keys in ([5, 2], [1, 6], None, [0, 0], [6, 6], [2, 5]):
        for causal in (True, False):
            may = _causal_mask(6) if causal else torch.ones(6, 6, dtype=torch.bool)
            options: dict[str, Any] = dict(tile=4, causal=causal)
            if keys is not None:
                options["num_keys"] = torch.tensor(keys)
                may = may & (torch.arange(6) < options["num_keys"].view(-1, 1, 1, 1))
            case = Case(
                "FLASH-OPTIONS",
                "differs when options come together, or after others",
                "each of `causal` and `num_keys` acts in every call: 0 keys are no keys.",
                f"{str(dtype)[6:]}, T = 6, tile = 4, causal={causal}, num_keys = {keys}",
                qkv,
                may,
                options,
            )
            cases.append(case)
    return cases


def draw_low_scores(draw: Draw) -> Case:
    """Scores of -2e9 and lower, with a diagonal and padding: the largest of a row is key 0's."""
    T = 6
    q, k, v = torch.zeros(2, 1, T, 4), torch.zeros(2, 1, T, 4), draw.randn(2, 1, T, 4)
    q[..., 0], k[..., 0] = 2.0, -2.0e9 - 4096 * torch.arange(T)  # over sqrt(4), as float32 has them
    num_keys = torch.tensor([0, 5])
    return Case(
        "FLASH-LOW",
        "differs for low scores",
        "`== -inf` finds rows without a key; a finite number in its place is no -inf.",
        f"scores of -2e9 and lower, T = {T}, tile = 4, num_keys = [0, 5]",
        [q, k, v],
        _causal_mask(T) & (torch.arange(T) < num_keys.view(-1, 1, 1, 1)),
        dict(tile=4, num_keys=num_keys),
    )


# (dtype, a score that low beside a peak of 0): its weight is a normal number of float32, or of float64
DEPTHS = (
    (torch.float32, -85.0),
    (torch.float64, -700.0),
    (torch.bfloat16, -80.0),
    (torch.float16, -9.0),
)


def draw_tiny_weights(draw: Draw) -> list[tuple[Case, float]]:
    """Key 0 has a score of 0 and v = 0; others have a very low one, but for padding, whose v is the
    largest number there is. With each case, a number that makes up for such a weight.

    With it as v, or as a gradient, such keys weigh as much as key 0 does.
    """
    cases = []
    T, tile = 6, 2
    for dtype, low in DEPTHS:
        power = math.exp(-low)
        for causal in (True, False):
            q, k, v = (torch.zeros(1, 2, T, 4, dtype=dtype) for _ in range(3))
            q[..., 0], k[..., 1:, 0] = 2.0, low  # over sqrt(4)
            v[:, :, 1:] = (1 + draw.randn(1, 2, T - 1, 4, dtype=dtype).abs().clamp(max=1)) / 4
            num_keys = torch.tensor([T - 1])
            may = _causal_mask(T) if causal else torch.ones(T, T, dtype=torch.bool)
            case = Case(
                "FLASH-CUT-OFF",
                "lacks what small weights add, or has what others do",
                "`clamp`, thresholds, and tiles that are left out: each exp(score - peak) counts.",
                f"{str(dtype)[6:]}, scores of {low:g}, but 0 for key 0; T = {T}, tile = {tile}, "
                f"causal={causal}",
                [q, k, v],
                may & (torch.arange(T) < num_keys.view(-1, 1, 1, 1)),
                dict(tile=tile, causal=causal, num_keys=num_keys),
            )
            cases.append((case, power))
    return cases


def draw_16_bits(draw: Draw, dtype: torch.dtype) -> Case:
    """Scores near 30 of 16-bit q and k."""
    q, k, v = (draw.randn(2, 4, 24, 4).clamp(-2, 2) for _ in range(3))
    return Case(
        "FLASH-SCORES-16",
        "is that of rounded scores",
        "the dtype in which q meets k: `sums_dtype`.",
        f"{str(dtype)[6:]}, scores of up to 60, T = 24, tile = 8, causal=False",
        [(x * by).to(dtype) for x, by in ((q, 4.0), (k, 4.0), (v, 1.0))],
        torch.ones(24, 24, dtype=torch.bool),
        dict(tile=8, causal=False),
    )


def largest_share(got: Tensor, right: Tensor) -> float:
    """The largest error, as a share of the largest right number; inf for nan."""
    off = (got.double() - right).abs().max() / right.abs().max()
    return off.item() if math.isfinite(off) else math.inf


def _causal_mask(T: int) -> Tensor:
    return torch.ones(T, T, dtype=torch.bool).tril()
