"""Proofs of the review items of 20_ddp."""

import torch
from torch import nn

from course_lib.parallel import ddp
from course_lib.ranks import local_ranks
from course_lib.ranks.collectives import collective_cost

ARGUED = {
    "ddp-sync-3": "what a skipped collective meets is tested in test_ddp",
    "ddp-no-sync-1": "the bytes of micro-batches are counted in test_ddp",
    "ddp-no-sync-2": "what a flag that stays does is found by the checks' mutants",
}


def synced(grads):
    args = [([torch.zeros(1)], [g]) for g in grads]
    found = {rank.value[0].item() for rank in local_ranks.run(ddp.sync_gradients, args)}
    assert len(found) == 1
    return found.pop()


def ddp_sync_1(n):
    grads = [torch.tensor([float(g)]) for g in (n.a, n.b, n.c)]
    return synced(grads)


def ddp_sync_2(n):
    return synced([torch.tensor([float(n.g)]), *[None] * (n.R - 1)])


def ddp_buckets_1(n):
    params = [nn.Parameter(torch.zeros(int(size))) for size in (n.a, n.b, n.c, n.d)]
    model = ddp.DataParallel(nn.ParameterList(params), bucket_bytes=4 * int(n.cap))
    return sum(p.numel() for p in model.buckets[-1])


def ddp_buckets_2(n):
    ends = 0.0
    for i in range(1, n.k + 1):
        ready = i / n.k if n.when == "as they fill" else 1.0
        ends = max(ends, ready) + 1 / n.k
    return round(100 * (ends - 1), 6)


def ddp_buckets_3(n):
    return collective_cost("all_reduce", 4 * n.n, n.R)["bytes"]
