"""Muon by hand: one update of one matrix as a pure function, and an optimizer for a whole model.

What it is: `muon_step`, the arithmetic of `torch.optim.Muon` with the state in arguments and result,
and `Muon`, which gives it the matrices inside the blocks and all other tensors to `adamw_step`. What
it leaves out: matrices that are cut into shards, and products in bfloat16.

Sources: Jordan et al. 2024 ("Muon: An optimizer for hidden layers in neural networks"); Liu et al.
2025 ("Muon is Scalable for LLM Training"), section 2.2, for decay and the length of a step.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.gpt import GPT
from course_lib.training.adamw import adamw_step


def muon_step(
    param: Tensor,
    grad: Tensor,
    m: Tensor,
    *,
    lr: float,
    weight_decay: float,
    beta: float = 0.95,
    coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
    rounds: int = 5,
    eps: float = 1e-7,
) -> tuple[Tensor, Tensor]:
    """One update of one matrix: the new (param, m). The arguments stay as they are.

    `param`, `grad`, `m` and the results are (A, B), all of one float dtype. ValueError for any
    other number of dimensions. `m` is the running mean of the gradients, 0 before the first update.
    An update keeps `beta` of it. The direction (Nesterov) is what the new `m` would become if the
    same gradient came once more. X is the direction divided by its Frobenius norm, or by `eps`
    where that is larger. Each of the `rounds` replaces X by a X + b G X + c G G X, with G = X X^T
    and (a, b, c) = `coefficients`. Where A is above B, the rounds work on the transpose, and their
    result is turned back, so G is never larger than min(A, B) x min(A, B). The step is
    0.2 * sqrt(max(A, B)) * lr times that result. The decay takes lr * weight_decay of the old
    `param`. `m` and the decay are computed in the dtype of `param` or a wider one, and the settings
    stay the Python floats that they are; the rounds may be in bfloat16.
    Give inf and nan in `grad` no special treatment, since the caller looks for those.
    """
    if param.dim() != 2:
        raise ValueError(
            f"muon_step takes matrices, got {param.dim()} dimensions: use adamw_step for this tensor"
        )
    m = beta * m + (1 - beta) * grad
    x = beta * m + (1 - beta) * grad
    x = x / x.norm().clamp(min=eps)  # no singular value above 1; beyond 1.26 the rounds diverge
    tall = x.size(0) > x.size(1)
    if tall:
        x = x.T
    a, b, c = coefficients
    for _ in range(rounds):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    if tall:
        x = x.T
    length = 0.2 * math.sqrt(max(param.shape)) * lr  # root mean square about that of AdamW's step
    return (1 - lr * weight_decay) * param - length * x, m


class Muon(torch.optim.Optimizer):
    """Muon for the matrices inside the blocks of `model`, AdamW for all its other parameters.

    Three groups with one learning rate, `lr`: the matrices of the blocks, then the other tensors of
    two and more dimensions, embedding and head, then gains and biases, which do not decay. State:
    one tensor ("m") for each parameter of the first group, two ("m", "v") for the others. `betas`
    are AdamW's; Muon keeps `muon_step`'s own. Parameters that take no gradient are left out.
    """

    def __init__(self, model: GPT, *, lr: float, betas: tuple[float, float], weight_decay: float):
        params = [p for p in model.parameters() if p.requires_grad]
        inside = {id(p) for p in model.blocks.parameters() if p.dim() == 2}
        parts = (
            ([p for p in params if id(p) in inside], True, weight_decay),
            ([p for p in params if id(p) not in inside and p.dim() >= 2], False, weight_decay),
            ([p for p in params if p.dim() < 2], False, 0.0),
        )
        groups = [
            {"params": part, "muon": muon, "weight_decay": decay} for part, muon, decay in parts
        ]
        super().__init__(groups, {"lr": lr, "betas": betas})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        """Update every parameter that has a gradient."""
        assert closure is None, "the trainer computes gradients before the step"
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, self.state[p], group)

    def _update(self, p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        state.setdefault("m", torch.zeros_like(p))
        options = {"lr": group["lr"], "weight_decay": group["weight_decay"]}
        if group["muon"]:
            new, state["m"] = muon_step(p, p.grad, state["m"], **options)
        else:
            state.setdefault("v", torch.zeros_like(p))
            state["step"] = state.get("step", 0) + 1
            options["betas"] = group["betas"]
            new, state["m"], state["v"] = adamw_step(
                p, p.grad, state["m"], state["v"], state["step"], **options
            )
        p.copy_(new)
