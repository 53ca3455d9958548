"""Data parallelism by hand: one model on every rank, and one gradient among them.

What it is: the same weights for all, gradients averaged after backward, and the same in buckets that
are reduced while backward still computes. What it leaves out: what torch's
DistributedDataParallel does beyond it (gradients as views of the buckets, unequal numbers of batches,
communication hooks, a first bucket that is smaller).

Source: Li et al. 2020 ("PyTorch Distributed: Experiences on Accelerating Data Parallel Training"),
sections 3.2 and 4.2.

R ranks. A group of None is the default group; where there is none, the world has one rank.
"""

import contextlib
from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.ranks.collectives import place

BUCKET_BYTES = 25 * 2**20
"""Bytes of gradients that travel together, as in torch: large enough that latency is small beside
the transfer, small enough that the first bucket leaves while most of backward is still to come."""


def broadcast_state(module: nn.Module, group: dist.ProcessGroup | None = None) -> None:
    """Overwrite parameters and buffers with those of rank 0, in place.

    One broadcast of its bytes per tensor, frozen ones too; a tied one travels once.
    """
    if not dist.is_initialized():
        return
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor, group=group, group_src=0)


def sync_gradients(
    params: Sequence[Tensor], grads: Sequence[Tensor | None], group: dist.ProcessGroup | None = None
) -> list[Tensor]:
    """For each parameter the mean of its gradient over the R ranks: new tensors, in order.

    `params` and `grads` have the same length and order on every rank, and parameters are contiguous.
    grads[i] has the shape and dtype of params[i], and so has its mean. On a rank that did not use the
    parameter it is None and counts as zeros. A gradient may be part of a graph. It may be transposed in
    memory on some ranks and not on others. The arguments stay as they are. No mean shares their memory
    or is part of a graph.
    All ranks issue the same all-reduces and no other collective. Together these reduce as many
    bytes as the gradients have; a rank sends 2 (R - 1) / R times as many. `place(group)` gives the
    pair (rank, R). If no process group has been initialized, R is 1, no collective is issued, and
    the means are copies.
    """
    _, world_size = place(group)
    means = []
    for p, grad in zip(params, grads, strict=True):
        # a collective that one rank leaves out hangs the others, or meets that one's next
        total = torch.zeros_like(p, memory_format=torch.contiguous_format)
        if grad is not None:
            total.copy_(grad.detach())  # ranks add what lies at one place in memory
        if dist.is_initialized():
            dist.all_reduce(total, group=group)
        means.append(total / world_size)
    return means


class Replica(nn.Module):
    """`module` as one of R copies, and a flag that says whether its gradients are to be averaged.

    Args: `module`; `group`.
    """

    def __init__(self, module: nn.Module, group: dist.ProcessGroup | None = None):
        super().__init__()
        self.module, self.group = module, group
        self.world_size = place(group)[1]
        self.syncing = True
        """False inside `no_sync`."""

    def forward(self, *args, **kwargs):
        """What `module` returns."""
        return self.module(*args, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes inside only add to `p.grad`: `self.syncing` is False there.

        Use it for all micro-batches of an update but the last, whose backward pass then sends the
        sum of all of them, once. On leaving, `self.syncing` is again what it was before: after an
        error or an interrupt too, which goes on to the caller, and inside another such context. No
        collective is issued here, no gradient touched.
        """
        before, self.syncing = self.syncing, False
        try:
            yield
        finally:
            self.syncing = before


class DataParallel(Replica):
    """`module` on every rank, with gradients that are averaged while backward runs.

    Call it as the module. After the last `backward()` of an update call `finish()`, then the
    optimizer. Collectives: when it is made, one broadcast per parameter and buffer; in each update,
    one all-reduce per bucket. These together reduce the bytes of the gradients; a rank sends
    2 (R - 1) / R times as many. Args: `module`; `bucket_bytes`, see `fill_buckets`; `group`.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        bucket_bytes: int = BUCKET_BYTES,
        group: dist.ProcessGroup | None = None,
    ):
        super().__init__(module, group)
        self.buckets = self.fill_buckets(bucket_bytes)
        self.bucket_of = {p: i for i, bucket in enumerate(self.buckets) for p in bucket}
        self.start_over()
        self.attach()

    def start_over(self) -> None:
        """Forget what is under way: no gradient is ready, no bucket is started."""
        self.missing = [set(bucket) for bucket in self.buckets]
        """By bucket: the parameters whose gradient is not ready yet."""
        self.started: list[tuple[Tensor, dist.Work | None]] = []
        """By bucket, for those started: the flat gradients and the all-reduce to wait for."""

    def start_bucket(self) -> None:
        """Start the all-reduce of the next bucket and add it to `self.started`; does not wait.

        What travels is one new flat tensor: the gradients in the bucket's order, with zeros for a
        parameter that has none. Without a group nothing travels, and the work is None.
        """
        bucket = self.buckets[len(self.started)]
        flat = torch.cat(
            [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in bucket]
        )
        work = None
        if dist.is_initialized():
            work = dist.all_reduce(flat, group=self.group, async_op=True)
        self.started.append((flat, work))

    def fill_buckets(self, bucket_bytes: int) -> list[list[Tensor]]:
        """The parameters of `self.module` that take a gradient, last first, in buckets.

        Backward runs from the end of the model to its beginning, so gradients get ready in this
        order. A bucket takes parameters as long as their bytes together are at most `bucket_bytes`.
        Another dtype or device also begins a new bucket. A parameter larger than `bucket_bytes` has
        a bucket to itself. ValueError for `bucket_bytes` below 1.
        """
        if bucket_bytes < 1:
            raise ValueError(f"bucket_bytes must be at least 1, got {bucket_bytes}")
        buckets: list[list[Tensor]] = []
        room, last = 0, None
        for p in reversed([p for p in self.module.parameters() if p.requires_grad]):
            num_bytes, kind = p.numel() * p.element_size(), (p.dtype, p.device)
            if num_bytes > room or kind != last:
                buckets.append([])
                room, last = bucket_bytes, kind
            buckets[-1].append(p)
            room -= num_bytes
        return buckets

    def attach(self) -> None:
        """Make the copies equal, and have every gradient reported.

        All ranks get the parameters and buffers of rank 0 (`broadcast_state`). From then on each
        backward pass calls `self.gradient_ready(p)` for every p in the buckets, as soon as its
        gradient is final (`p.register_post_accumulate_grad_hook`).
        """
        broadcast_state(self.module, self.group)
        for p in self.bucket_of:
            p.register_post_accumulate_grad_hook(self.gradient_ready)

    def gradient_ready(self, p: Tensor) -> None:
        """Called in the backward pass, once `p.grad` is final; starts every bucket that may start.

        Buckets start strictly in order, because every rank must issue the same collectives in the
        same order, whichever parameters it used. The next bucket is number `len(self.started)`.
        Once its set in `self.missing` is empty, `start_bucket` starts it; then the one behind it
        may start in the same call. Nothing is waited for: backward goes on.
        While `self.syncing` is False, it does nothing and refuses nothing. Otherwise ValueError if
        p's bucket, `self.bucket_of[p]`, has started: this is a second backward pass before
        `finish()`.
        """
        if not self.syncing:
            return
        bucket = self.bucket_of[p]
        if bucket < len(self.started):
            raise ValueError(
                "a second backward pass before finish(): its gradients would be lost; "
                "call finish() after each, or make all but the last in no_sync()"
            )
        self.missing[bucket].discard(p)
        while len(self.started) < len(self.buckets) and not self.missing[len(self.started)]:
            self.start_bucket()

    def finish(self) -> None:
        """After backward: every `p.grad` becomes the mean over the ranks.

        A bucket that has not started, because this rank did not use one of its parameters, starts
        now. Then each bucket in `self.started` is waited for (`work.wait()`, unless the work is
        None), divided by R, and copied back. Parameters without a gradient get it too; one that no
        rank used gets zeros. The mean may lie in the old `p.grad` or in a new tensor. Ends with
        `start_over`.
        """
        while len(self.started) < len(self.buckets):
            self.start_bucket()
        for bucket, (flat, work) in zip(self.buckets, self.started, strict=True):
            if work is not None:
                work.wait()
            flat /= self.world_size
            for p, mean in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                if p.grad is None:
                    p.grad = torch.empty_like(p)
                p.grad.copy_(mean.view_as(p))
        self.start_over()
