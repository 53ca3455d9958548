"""Proofs of the review items of 23_fsdp."""

import torch

from course_lib.parallel.zero import zero_traffic
from course_lib.ranks.collectives import pad_to_multiple
from course_lib.training.fsdp_config import FSDPConfig
from tests.reviews import yes

ARGUED = {
    "mini-fsdp-2": "collectives are counted in test_sharding",
    "fsdp-policy-1": "a product; the peak is measured in test_fsdp",
    "fsdp-policy-2": "what a call of fully_shard takes is tested in test_fsdp",
}


def mini_fsdp_1(n):
    return pad_to_multiple(torch.zeros(n.N), n.R).numel() // n.R


def mini_fsdp_3(n):
    grads = torch.rand(n.R, 3) + 1
    return round((grads.sum(0) / grads.mean(0)).mean().item(), 3)


def sharding_strategy_1(n):
    size = FSDPConfig(sharding="HYBRID_SHARD", shard_size=n.S).ranks_per_copy(n.R)
    return f"({n.R // size}, {size})"


def sharding_strategy_2(n):
    stage = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0}[n.name]
    return zero_traffic(1000, 8, stage) / zero_traffic(1000, 8, 0)


def mixed_precision_policy_1(n):
    return [getattr(torch, n.dtype).itemsize, torch.float32.itemsize]


def mixed_precision_policy_2(n):
    total = torch.tensor(1.0, dtype=getattr(torch, n.dtype))
    return yes(total + n.x != total)
