"""Proofs of the review items of 11_train_step."""

import numpy as np
import torch
from torch import nn

ARGUED = {
    "train-step-4": "graphs alive at once: a product",
}


def train_step_1(n):
    return np.mean([n.l1] * n.n1 + [n.l2] * n.n2)


def train_step_2(n):
    for factor, acts in ((0.99, False), (1.01, True)):
        weight = nn.Parameter(torch.zeros(1))
        weight.grad = torch.tensor([n.A * factor * n.limit / n.A])
        before = weight.grad.clone()
        nn.utils.clip_grad_norm_([weight], n.limit)
        assert (weight.grad < 0.9999 * before).item() == acts
    return n.limit / n.A


def train_step_3(n):
    weight = nn.Parameter(torch.zeros(4))
    weight.grad = torch.tensor([1.0, float(n.bad), 2.0, 3.0])
    nn.utils.clip_grad_norm_([weight], 1.0)
    left = weight.grad[1] if n.where == "that entry" else weight.grad[0]
    return str(left.item()).removesuffix(".0")
