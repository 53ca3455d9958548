"""Proofs of the review items of 03_swiglu."""

import torch
import torch.nn.functional as F

from course_lib.gpt import MLP
from course_lib.measure.memory import saved_bytes


def swiglu_1(n):
    return sum(p.numel() for p in MLP(n.D, n.F).parameters())


def swiglu_2(n):
    return round(F.silu(torch.tensor(float(n.z))).item() * n.u, 2) + 0.0


def swiglu_3(n):
    dtype = getattr(torch, n.dtype)
    x = torch.empty(1, 1, 16, dtype=dtype, device="meta", requires_grad=True)
    with torch.device("meta"):
        mlp = MLP(16, n.F).to(dtype)
    return saved_bytes(mlp, x) - x.nbytes


def swiglu_4(n):
    return round((F.silu(a := torch.tensor(float(n.a))) - F.silu(-a)).item(), 4)
