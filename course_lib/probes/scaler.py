"""What a loss scaler does with an optimizer of several groups, told in plain values.

What it is: the probe of the checks of `LossScaler`, since an optimizer cannot be sent to another
process. What it leaves out: what is right, which course_lib.checks says.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.training.loss_scaling import LARGEST

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
    returned = scaler.step(optimizer, max_norm=max_norm)
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


def step_edges(kind: Callable) -> dict[str, Any]:
    """What `step` does where there is little or much. Weights are 1, the optimizer SGD of rate 1.

    "none": what it returns and `finite` when no gradient is there, after a bad update. "limit": the
    weight after a gradient of 1 and a max_norm of 0. "early": returned, for a float16 gradient of
    60,000 and a scale of 0.5. "half": `finite` for an infinity in float16, beside float32. "sum":
    `finite` for gradients whose sum leaves the range, in float32 and float16. "state": tensors of
    state that AdamW has after a bad update. "odd": the weights after gradients of 1 for a transposed
    tensor, an empty one and one number; or what was raised, as a text. "later": the weight of a
    group that is added after the first step. "clipped": a gradient of 2 after a step with max_norm 1.
    """
    lone, later = _Steps(kind, [torch.ones(1)]), _Steps(kind, [torch.ones(1)])
    lone.step([torch.tensor([math.nan])])
    none = lone.step([None])
    limit = _Steps(kind, [torch.ones(1)])
    limit.step([torch.ones(1)], max_norm=0.0)
    early = _Steps(kind, [torch.ones(1).half()], scale=0.5)
    mixed = _Steps(kind, [torch.ones(2), torch.ones(2).half()])
    mixed.step([torch.ones(2), torch.tensor([1.0, math.inf]).half()])
    sums = []
    for dtype, size in ((torch.float32, 3e38), (torch.float16, 6e4)):
        steps = _Steps(kind, [torch.ones(3, dtype=dtype)], scale=1.0)
        steps.step([torch.full((3,), size, dtype=dtype)])
        sums.append(bool(steps.scaler.finite))
    adamw = _Steps(kind, [torch.ones(1)], torch.optim.AdamW)
    adamw.step([torch.tensor([math.inf])])
    clipped = _Steps(kind, [torch.ones(1)])
    clipped.step([torch.full((1,), 2.0)], max_norm=1.0)
    later.step([torch.ones(1)])
    new = nn.Parameter(torch.ones(1))
    later.params.append(new)
    later.optimizer.add_param_group({"params": [new]})
    later.step([torch.ones(1), torch.ones(1)])
    return {
        "none": [none, bool(lone.scaler.finite)],
        "limit": limit.params[0].item(),
        "early": early.overflow(),
        "half": bool(mixed.scaler.finite),
        "sum": sums,
        "state": len(adamw.optimizer.state),
        "odd": _step_odd(kind),
        "later": new.item(),
        "clipped": math.nan if clipped.params[0].grad is None else clipped.params[0].grad.item(),
    }


class _Steps:
    """A scaler, an optimizer and its weights, to be stepped with true gradients."""

    def __init__(self, kind: Callable, weights: Sequence[Tensor], optimizer=None, scale=4.0):
        self.scaler = kind(scale)
        self.params = [nn.Parameter(weight) for weight in weights]
        self.optimizer = (optimizer or torch.optim.SGD)(self.params, lr=1.0)

    def step(self, grads: Sequence[Tensor | None], **options) -> float | None:
        for p, grad in zip(self.params, grads, strict=True):
            p.grad = None if grad is None else grad * self.scaler.value
        return self.scaler.step(self.optimizer, **options)

    def overflow(self) -> float | None:
        """A step whose scaled gradient is in the range of float16, and the true one is not."""
        self.params[0].grad = torch.tensor([6e4]).half()
        return self.scaler.step(self.optimizer)


def _step_odd(kind: Callable) -> list[Tensor] | str:
    shapes = [torch.ones(3, 2).T, torch.ones(0, 2), torch.ones(())]
    steps = _Steps(kind, shapes)
    try:
        steps.step([weight.clone() for weight in shapes])
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return [p.detach() for p in steps.params]


def update_edges(kind: Callable) -> dict[str, Any]:
    """What `update` makes of attributes that others have set.

    "flag": the scales after updates with `finite` False, then True, from 8, interval 1. "changed":
    the scales of a scaler whose `growth`, `backoff` and `growth_interval` are 8, 1/8 and 1 after its
    first update: a good one, then a bad one. "cap": the scale after two good updates, and scale and
    count after five, growth 4 and interval 2, from half of LARGEST. "above": the scale after one good
    update and after two, interval 2, from four times LARGEST.
    """
    flag = kind(8.0, growth_interval=1)
    changed = kind(8.0)
    changed.update()
    changed.growth, changed.backoff, changed.growth_interval = 8.0, 0.125, 1
    changed.good_steps = 0
    cap = kind(LARGEST / 2, growth=4.0, growth_interval=2)
    rows = [_update(cap, True) for _ in range(2)]
    rows += [_update(cap, True) for _ in range(3)]
    above = kind(4 * LARGEST, growth_interval=2)
    return {
        "flag": [_update(flag, good)[0] for good in (False, True)],
        "changed": [_update(changed, good)[0] for good in (True, False)],
        "cap": [rows[1][0], rows[-1][0], rows[-1][1]],
        "above": [_update(above, True)[0] for _ in range(2)],
    }


def _update(scaler: Any, finite: bool) -> tuple[float, int]:
    scaler.finite = finite
    scaler.update()
    return scaler.value, scaler.good_steps


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
