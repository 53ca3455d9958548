"""What a loss scaler does with an optimizer of several groups, told in plain values.

What it is: the probe of the checks of `LossScaler`, since an optimizer cannot be sent to another
process. What it leaves out: what is right, which course_lib.checks says.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

DECAY = 0.25
RATES = (1.0, 0.5)
"""The rate of each group."""


def step_groups(kind: Callable, cases: Sequence[dict]) -> list[dict[str, Any]]:
    """`step` with these gradients, for each case: "groups", true gradients of each group, whose
    weights are 1; "scale"; "max_norm".

    Of each: "returned"; "finite"; "weights" and "grads" afterwards, by group; "same", whether the
    gradients lie where they lay. The optimizer is SGD with RATES and a decay of DECAY, so that a step
    is seen whatever the gradients are.
    """
    return [_step_groups(kind, **case) for case in cases]


def _step_groups(
    kind: Callable, groups: Sequence[Sequence[Tensor]], scale: float, max_norm: float = math.inf
) -> dict[str, Any]:
    scaler = kind(scale)
    params = [[nn.Parameter(torch.ones_like(g)) for g in group] for group in groups]
    optimizer = torch.optim.SGD(
        [{"params": group, "lr": lr} for group, lr in zip(params, RATES, strict=True)],
        weight_decay=DECAY,
    )
    for group, grads in zip(params, groups, strict=True):
        for p, grad in zip(group, grads, strict=True):
            p.grad = grad * scale
    before = [[p.grad for p in group] for group in params]
    returned = scaler.step(optimizer, max_norm)
    pairs = [
        (p, g)
        for group, old in zip(params, before, strict=True)
        for p, g in zip(group, old, strict=True)
    ]
    return {
        "returned": returned,
        "finite": bool(scaler.finite),
        "weights": [[p.detach() for p in group] for group in params],
        "grads": [[p.grad for p in group] for group in params],
        "same": all(p.grad is not None and p.grad.data_ptr() == g.data_ptr() for p, g in pairs),
    }


def settings(kind: Callable, refused: Sequence[dict]) -> dict[str, Any]:
    """A scaler as it is made: "value", "growth", "backoff", "interval" without any settings; "scaled",
    3 times a scale of 8; "kept", whether the loss and the updates that were given are as before;
    "errors", what is raised for each of the settings in `refused`."""
    scaler, loss = kind(), torch.tensor(3.0)
    found = {
        "value": scaler.value,
        "growth": scaler.growth,
        "backoff": scaler.backoff,
        "interval": scaler.growth_interval,
        "scaled": float(kind(8.0).scale(loss)),
    }
    updates = [[torch.ones(2)], [torch.ones(2)]]
    rows = kind(8.0).rehearse(updates)
    kept = float(loss) == 3.0 and [len(u) for u in updates] == [1, 1]
    found["rows"] = [row["weights"][0] for row in rows]
    return found | {"kept": kept, "errors": [_error_name(kind, changes) for changes in refused]}


def _error_name(kind: Callable, changes: dict) -> str:
    try:
        kind(**changes)
    except Exception as error:
        return "ValueError" if isinstance(error, ValueError) else type(error).__name__
    return "no error"
