"""Proofs of the review items of 09_optimizer."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from course_lib.training.adamw import adamw_step
from course_lib.training.ddp_trainer import DistributedTrainer
from tests.reviews import moved, yes


def adamw_step_1(n):
    assert moved(n.large, n.lr) == pytest.approx(moved(n.small, n.lr), rel=1e-3)
    return moved(n.large, n.lr)


def adamw_step_2(n):
    one, zero = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    _, m, v = adamw_step(zero, 7 * one, zero, zero, 1, lr=1.0, betas=(n.b1, n.b2), weight_decay=0)
    return (m / v.sqrt()).item()


def adamw_step_3(n):
    if n.optimizer == "AdamW":
        return round(moved(3.0 * n.k, 0.1) / moved(3.0, 0.1), 6)
    steps = []
    for gradient in (3.0, 3.0 * n.k):
        weight = nn.Parameter(torch.ones(1))
        weight.grad = torch.tensor([gradient])
        torch.optim.SGD([weight], lr=0.1).step()
        steps.append(1 - weight.item())
    return round(steps[1] / steps[0], 4)


def adamw_step_4(n):
    return moved(float(n.g), n.lr, w=float(n.w), decay=n.decay)


def param_groups_1(n):
    return moved(0.0, n.lr, w=float(n.w), decay=n.decay)


def param_groups_2(n):
    dimensions = n.part[n.part.index("(") :].strip("()").rstrip(",").count(",") + 1
    params = [nn.Parameter(torch.ones([3] * dimensions)), nn.Parameter(torch.ones(2, 2))]
    params.append(nn.Parameter(torch.ones(2)))
    config = SimpleNamespace(weight_decay=0.1, beta1=0.9, beta2=0.95, lr=1e-3)
    model = SimpleNamespace(parameters=lambda: iter(params))
    trainer = SimpleNamespace(config=config, plain_model=model)
    groups = DistributedTrainer._setup_optimizer(trainer).param_groups
    (own,) = [g for g in groups if any(p is params[0] for p in g["params"])]
    return yes(own["weight_decay"] > 0)


def param_groups_3(n):
    model = nn.LayerNorm(4)
    params = eval(n.made, {"model": model})
    first = [p for p in params if p.dim() >= 2]
    return yes([p for p in params if p.dim() < 2] and not first)
