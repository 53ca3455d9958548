"""Proofs of the review items of 19_collectives."""

from unittest import mock

import torch

from course_lib.ranks import collectives

ARGUED = {
    "ring-reduce-scatter-3": "who waits for whom: lesson 19 runs it",
}


def on_one_rank(rank: int, world_size: int, **replaced):
    """`collectives` as that rank sees it, with messages replaced."""
    replaced["place"] = lambda group=None: (rank, world_size)
    return mock.patch.multiple(collectives, **replaced)


def ring_reduce_scatter_1(n):
    """The rows of `x` say which chunk they are; the first one passed on is kept."""
    sent = []
    with on_one_rank(n.r, n.R, pass_on=lambda chunk, group: sent.append(chunk.item()) or chunk):
        collectives.ring_reduce_scatter(torch.arange(n.R))
    return sent[0]


def ring_reduce_scatter_2(n):
    with on_one_rank(0, n.R, pass_on=lambda chunk, group: chunk):
        return collectives.ring_reduce_scatter(torch.zeros(n.n)).numel()


def ring_all_gather_1(n):
    """What arrives says in which step; the place it gets is that of the rank it comes from."""
    steps = iter(range(1, n.R))
    with on_one_rank(n.r, n.R, pass_on=lambda chunk, group: torch.tensor([next(steps)])):
        return collectives.ring_all_gather(torch.tensor([0])).tolist().index(n.s)


def ring_all_gather_2(n):
    num_bytes = n.n * getattr(torch, n.dtype).itemsize
    names = ("reduce_scatter", "all_gather", "all_reduce")
    first, second, both = (collectives.collective_cost(x, num_bytes, 4)["bytes"] for x in names)
    return {1.0: "the same", 0.5: "half"}[(first + second) / both]


def collective_cost_1(n):
    return collectives.collective_cost("all_reduce", n.S, n.R)["bytes"]


def collective_cost_2(n):
    sent = []
    wire = mock.Mock(send=lambda x, **to: sent.append(x.numel()))
    with on_one_rank(0, n.R, dist=wire):
        collectives.root_all_reduce(torch.zeros(n.S))
    return sum(sent)


def collective_cost_3(n):
    """Seconds of latency, over the seconds that a megabyte takes."""
    late = collectives.collective_cost("all_reduce", 0, n.R, latency_s=n.a * 1e-6)
    per_mb = collectives.collective_cost("all_reduce", 10**6, n.R, bytes_per_s=n.B * 1e9)
    return late["seconds"] / per_mb["seconds"]
