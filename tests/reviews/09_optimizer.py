"""Proofs of the review items of 09_optimizer."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from course_lib.gpt import GPT, GPTConfig
from course_lib.measure.memory import counted_state_bytes
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.muon import Muon, muon_step
from tests.reviews import SMALL, moved, yes


def adamw_step_1(n):
    assert moved(n.large, n.lr) == pytest.approx(moved(n.small, n.lr), rel=1e-3)
    return moved(n.large, n.lr)


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


def muon_step_1(n):
    A, B = eval(str(n.shape))
    grad = torch.zeros(A, B)
    grad.fill_diagonal_(1.0)  # all its singular values are 1
    old = torch.zeros(A, B)
    new, _ = muon_step(old, grad, old, lr=n.lr, weight_decay=0, rounds=0)
    return new.square().mean().sqrt().item() * min(A, B) ** 0.5  # rounds=0 leaves a norm of 1


def muon_step_2(n):
    weight = nn.Parameter(torch.ones(n.d, n.d))
    model = SimpleNamespace(parameters=lambda: [weight], blocks=nn.ParameterList([weight]))
    if n.optimizer == "Muon":
        optimizer = Muon(model, lr=0.1, betas=(0.9, 0.95), weight_decay=0)
    else:
        optimizer = torch.optim.AdamW([weight])
    weight.grad = torch.ones_like(weight)
    optimizer.step()
    holder = nn.Module()
    holder.weight = weight
    return counted_state_bytes(holder, optimizer)["optimizer"]


def muon_step_3(n):
    s = float(n.s)
    grad = torch.diag(torch.tensor([s, (1 - s * s) ** 0.5], dtype=torch.float64))
    old = torch.zeros(2, 2, dtype=torch.float64)
    coefficients = (float(n.a), float(n.b), 0.0)
    new, _ = muon_step(old, grad, old, lr=1.0, weight_decay=0, coefficients=coefficients, rounds=1)
    return round(-new[0, 0].item() / (0.2 * 2**0.5), 6)


def muon_step_4(n):
    model = GPT(GPTConfig(num_layers=1, max_seq_len=8, **SMALL))
    part = {
        "a query projection": model.blocks[0].attention.q_proj.weight,
        "the embedding": model.embedding.weight,
        "the gain of a norm": next(p for p in model.parameters() if p.dim() == 1),
        "the down projection of an MLP": model.blocks[0].mlp.down_proj.weight,
    }[n.part]
    groups = Muon(model, lr=0.1, betas=(0.9, 0.95), weight_decay=0).param_groups
    (own,) = [g for g in groups if any(p is part for p in g["params"])]
    return yes(own["muon"])
