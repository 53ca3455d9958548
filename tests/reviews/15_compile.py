"""Proofs of the review items of 15_compile."""

import torch

from course_lib.fast.tiles import next_power_of_2
from course_lib.measure.operations import Operations


def count_ops_1(n):
    """The chain runs; fused, its first read and its last write are left."""
    x = torch.randn(n.m * 1000)
    with Operations() as found:
        for _ in range(n.n):
            x = x.relu()
    moved = found.seen[:1] if "fused" in n.how else found.seen
    return sum(o.read + o.written for o in moved) / 4000


def count_ops_2(n):
    x, w = torch.ones(n.R, n.C), torch.ones(n.C)
    with Operations() as found:
        eval(n.what, {"x": x, "w": w})
    return found.num_bytes


def fused_rmsnorm_1(n):
    return [B := next_power_of_2(n.D), B - n.D]


def fused_rmsnorm_2(n):
    squares = torch.full((n.D,), n.total / n.D)
    return (squares.sum() / n.B / squares.mean()).item()


def fused_rmsnorm_3(n):
    end = 0.0
    for i in range(1, n.n + 1):
        end = max(i * n.tau, end) + n.t
    return end
