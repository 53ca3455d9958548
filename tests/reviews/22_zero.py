"""Proofs of the review items of 22_zero."""

import torch

from course_lib.parallel.zero import zero_memory, zero_traffic
from course_lib.ranks.collectives import collective_cost
from course_lib.training.adamw import adamw_step


def zero_memory_1(n):
    return sum(zero_memory(n.N * 10**9, n.R, n.s).values()) / 1e9


def zero_memory_2(n):
    shard = zero_memory(n.n, n.R, 3, param_bytes=1)["weights"]
    return [shard, n.R * shard - n.n]


def zero_memory_3(n):
    sizes = dict(param_bytes=n.w, grad_bytes=n.g, optimizer_bytes=n.o)
    plain, cut = (sum(zero_memory(10**9, 10**6, stage, **sizes).values()) for stage in (0, n.s))
    return round(plain / cut, 3)  # what is left of a shard on a million ranks


def zero1_step_1(n):
    return n.X * zero_traffic(1000, 4, n.s) / zero_traffic(1000, 4, 0)


def zero1_step_2(n):
    """Both moments of AdamW after some updates, by the sum over by the mean."""
    grads, fixed = torch.randn(5, 100), dict(lr=0.01, betas=(0.9, 0.95), weight_decay=0.0)
    ends = []
    for factor in (n.R, 1):
        state = (torch.zeros(100),) * 3
        for step, grad in enumerate(grads, 1):
            state = adamw_step(state[0], factor * grad, *state[1:], step, **fixed)
        ends.append(state)
    assert torch.allclose(ends[0][0], ends[1][0], atol=1e-5), "the weights come out right"
    return [round((a / b).mean().item(), 3) for a, b in zip(ends[0][1:], ends[1][1:], strict=True)]


def zero1_step_3(n):
    return collective_cost("all_gather", 4 * n.n, n.R)["bytes"]


def zero1_step_4(n):
    halves = [collective_cost(name, 100, 8)["bytes"] for name in ("reduce_scatter", "all_gather")]
    return (n.k * halves[0] + halves[1]) / sum(halves)
