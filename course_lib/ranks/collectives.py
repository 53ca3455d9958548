"""Collectives by hand: send and receive, made into reduce-scatter, all-gather and all-reduce.

What it is: the two rings, all-reduce as one after the other, the same through one root for
comparison, a model of what they cost, and torch's own two for the files that build on them. What it
leaves out: trees, several machines with links of several speeds, and overlap (ddp.py).

Sources: Patarasuk and Yuan 2009 ("Bandwidth optimal all-reduce algorithms for clusters of
workstations"), sections 3 and 4; Hockney 1994 (latency plus bytes over bandwidth).

R ranks, rank r. The ring: r sends to r + 1 and receives from r - 1, both modulo R. A group of None is
the default group, as in torch; where there is none, the world has one rank and nothing is sent.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

# torch 2.13 renamed both and warns of the old names
_all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def place(group: dist.ProcessGroup | None = None) -> tuple[int, int]:
    """(rank, world_size) of this process in `group`; (0, 1) where no group was ever made."""
    if group is None and not dist.is_initialized():
        return 0, 1
    return dist.get_rank(group), dist.get_world_size(group)


def pass_on(chunk: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """One step of the ring: send `chunk` to the next rank, return what the one before sent.

    A new tensor of the shape and dtype of `chunk`, which the chunks of all ranks must share. Each rank
    sends the bytes of one chunk and receives as many, at the same time: two ranks that both send before
    they receive could wait for each other for ever.
    """
    rank, world_size = place(group)
    chunk, received = chunk.contiguous(), torch.empty_like(chunk)
    received = received.contiguous()
    both = [
        dist.P2POp(dist.isend, chunk, group=group, group_peer=(rank + 1) % world_size),
        dist.P2POp(dist.irecv, received, group=group, group_peer=(rank - 1) % world_size),
    ]
    for request in dist.batch_isend_irecv(both):
        request.wait()
    return received


def in_chunks(x: Tensor, world_size: int) -> tuple[Tensor, ...]:
    """`x` in `world_size` equal views along dim 0; ValueError where that does not work out."""
    if x.dim() == 0 or x.shape[0] % world_size:
        raise ValueError(
            f"expected a dim 0 that {world_size} ranks divide, got shape {tuple(x.shape)}: "
            f"pad it with zeros, see pad_to_multiple"
        )
    return x.tensor_split(world_size)


def ring_reduce_scatter(x: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """Chunk r of the sum of all ranks' `x`, for rank r: a new tensor, (n, ...) of (R * n, ...).

    `x` has the same shape and dtype on every rank: R chunks of n rows along dim 0 (`in_chunks`). It
    may be transposed in memory, and stays as it is. R - 1 steps of the ring (`pass_on`), each of
    one chunk: a rank adds its own part of that chunk to the sum that arrives and passes it on. The
    sum of chunk c starts on rank c + 1 and arrives, complete, on rank c. A rank sends (R - 1) / R
    times the bytes of `x`, all to rank r + 1, and calls no collective. Beside `x` it holds at most
    three chunks, five if `x` is transposed, and keeps only the result. ValueError when R does not
    divide the rows. Ranks are those in `group`; None is the default group.
    """
    rank, world_size = place(group)
    chunks = in_chunks(x, world_size)
    partial = chunks[(rank - 1) % world_size].clone()
    for step in range(1, world_size):
        partial = pass_on(partial, group)
        partial += chunks[(rank - 1 - step) % world_size]
    return partial


def ring_all_gather(shard: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """All ranks' `shard`s in the order of the ranks, on every rank: (R * n, ...) of (n, ...).

    `shard` has the same shape and dtype on every rank. It may be transposed in memory, and stays as
    it is. The result is a new tensor of that dtype, on one rank too. R - 1 steps of the ring
    (`pass_on`), each of one shard: a rank sends its own first, then always the one that has just
    arrived. It sends (R - 1) / R times the bytes of the result, all to rank r + 1, and calls no
    collective. ValueError for a single number, which has no dim 0. Ranks are those in `group`; None
    is the default group.
    """
    if shard.dim() == 0:
        raise ValueError("expected a shard with a dim 0 to gather along, got a single number")
    rank, world_size = place(group)
    whole = shard.new_empty(world_size * shard.shape[0], *shard.shape[1:])
    chunks = in_chunks(whole, world_size)
    chunks[rank].copy_(shard)
    for step in range(world_size - 1):
        arrived = pass_on(chunks[(rank - step) % world_size], group)
        chunks[(rank - step - 1) % world_size].copy_(arrived)
    return whole


def ring_all_reduce(x: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """The sum of all ranks' `x`, on every rank: a new tensor of its shape and dtype.

    Reduce-scatter, then all-gather, over the flat tensor with zeros up to a multiple of R. 2 (R - 1)
    messages, which are together 2 (R - 1) / R times the bytes of `x`.
    """
    _, world_size = place(group)
    padded = pad_to_multiple(x.reshape(-1), world_size)
    total = ring_all_gather(ring_reduce_scatter(padded, group), group)
    return total[: x.numel()].view(x.shape)


def root_all_reduce(x: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """As `ring_all_reduce`, but all send to rank 0, which adds and sends the sum to all.

    Rank 0 receives and sends R - 1 times the bytes of `x`; the others send and receive it once.
    """
    rank, world_size = place(group)
    total = x.clone(memory_format=torch.contiguous_format)
    if rank > 0:
        dist.send(total, group=group, group_dst=0)
        dist.recv(total, group=group, group_src=0)
        return total
    part = torch.empty_like(total)
    for other in range(1, world_size):
        dist.recv(part, group=group, group_src=other)
        total += part
    for other in range(1, world_size):
        dist.send(total, group=group, group_dst=other)
    return total


def collective_cost(
    name: str,
    num_bytes: int,
    world_size: int,
    *,
    latency_s: float = 0.0,
    bytes_per_s: float = float("inf"),
) -> dict[str, float]:
    """What a ring collective costs each of `world_size` ranks: "messages", "bytes", "seconds".

    `name`: "reduce_scatter", "all_gather" or "all_reduce". `num_bytes`: those of the whole tensor,
    which is cut into `world_size` chunks of num_bytes / world_size bytes, whole or not. The tensor
    is the input of a reduce-scatter, the output of an all-gather, and both in an all-reduce.
    "messages" (int) and "bytes" (float) are what one rank sends. "seconds" is the time if sending
    and receiving overlap and a message of b bytes takes latency_s + b / bytes_per_s. One rank alone
    sends nothing. ValueError for another name or a world_size below 1.

    Source: Patarasuk and Yuan 2009, section 4; Hockney 1994 for the time of one message.
    """
    rounds = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}
    if name not in rounds:
        raise ValueError(f"name must be one of {', '.join(rounds)}, got {name!r}")
    if world_size < 1:
        raise ValueError(f"world_size must be at least 1, got {world_size}")
    messages = rounds[name] * (world_size - 1)
    each = num_bytes / world_size
    seconds = messages * (latency_s + each / bytes_per_s)
    return {"messages": messages, "bytes": messages * each, "seconds": seconds}


def reduce_scatter(x: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """As `ring_reduce_scatter`, by torch's own collective: one, of the bytes of `x`."""
    _, world_size = place(group)
    mine = torch.empty_like(in_chunks(x, world_size)[0], memory_format=torch.contiguous_format)
    if not dist.is_initialized():
        return mine.copy_(x)
    _reduce_scatter_single(mine, x.contiguous(), group=group)  # (R - 1) / R * bytes of x sent
    return mine


def all_gather(shard: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """As `ring_all_gather`, by torch's own collective: one, of the bytes of the result."""
    _, world_size = place(group)
    whole = shard.new_empty(world_size * shard.shape[0], *shard.shape[1:])
    if not dist.is_initialized():
        return whole.copy_(shard)
    _all_gather_single(whole, shard.contiguous(), group=group)  # (R - 1) / R * bytes of whole sent
    return whole


def pad_to_multiple(x: Tensor, multiple: int) -> Tensor:
    """Flat `x` with zeros behind it, up to the next length that `multiple` divides."""
    return F.pad(x, (0, -x.numel() % multiple))
