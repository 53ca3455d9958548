"""The roofline: whether arithmetic or memory limits an operation, on this machine.

What it is: FLOPs and bytes of the operations of a transformer, the two ceilings of the machine as
measured here, and the speed that follows. What it leaves out: caches, of which a machine has several
ceilings, and launches, which limit small operations on a GPU.

Source: Williams, Waterman and Patterson 2009 ("Roofline: an insightful visual performance model for
multicore architectures").
"""

from dataclasses import dataclass

import torch

from course_lib.measure.timing import time_it


@dataclass(frozen=True)
class Cost:
    """What one operation asks for."""

    flops: int
    """A multiply-add is 2."""
    num_bytes: int
    """Read from memory and written to it, each number once: what no kernel can avoid."""

    @property
    def intensity(self) -> float:
        """FLOPs per byte."""
        return self.flops / self.num_bytes


@dataclass(frozen=True)
class Ceilings:
    """What a machine reaches at best."""

    flops_per_s: float
    bytes_per_s: float

    @property
    def ridge(self) -> float:
        """FLOPs per byte from which on arithmetic is the limit."""
        return self.flops_per_s / self.bytes_per_s

    def attainable(self, cost: Cost) -> float:
        """FLOPs per second that an operation of this cost can reach: the lower of the two roofs."""
        return min(self.flops_per_s, cost.intensity * self.bytes_per_s)

    def seconds(self, cost: Cost) -> float:
        """The least time it can take here."""
        return max(cost.flops / self.flops_per_s, cost.num_bytes / self.bytes_per_s)


def matmul(M: int, K: int, N: int, *, number_bytes: int = 2) -> Cost:
    """(M, K) @ (K, N): 2 M K N FLOPs; both inputs are read, the result is written."""
    return Cost(2 * M * K * N, number_bytes * (M * K + K * N + M * N))


def matmul_roof(
    M: int, K: int, N: int, *, number_bytes: int, flops_per_s: float, bytes_per_s: float
) -> dict[str, float]:
    """The roofline of (M, K) @ (K, N) in numbers of `number_bytes` bytes each.

    One of the three sizes may be 0. The machine does `flops_per_s` at best, and moves `bytes_per_s`
    at best. Returns a dict:

        "flops"       of the product; a multiply-add is 2
        "bytes"       read and written: each number of both inputs and of the output once
        "intensity"   FLOPs per byte of this product
        "ridge"       the intensity from which on arithmetic is this machine's limit, not memory
        "attainable"  FLOPs per second that this product can reach on this machine
    """
    flops = 2 * M * K * N
    num_bytes = number_bytes * (M * K + K * N + M * N)
    intensity = flops / num_bytes
    return {
        "flops": flops,
        "bytes": num_bytes,
        "intensity": intensity,
        "ridge": flops_per_s / bytes_per_s,
        "attainable": min(flops_per_s, intensity * bytes_per_s),
    }


def elementwise(
    numel: int, *, reads: int = 1, writes: int = 1, flops: int = 1, number_bytes: int = 2
) -> Cost:
    """`flops` a number, over `reads` tensors that come in and `writes` that go out, each of `numel`."""
    return Cost(flops * numel, number_bytes * numel * (reads + writes))


def measured_ceilings(
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    *,
    size: int = 1024,
    copied_bytes: int = 1 << 28,
) -> Ceilings:
    """Ceilings of this machine, the best of ten runs each.

    Arithmetic: a product of two size x size matrices in `dtype`. Memory: a copy of `copied_bytes`,
    far more than a cache holds; it counts twice, once read and once written. Half a second on two
    CPU cores. On a GPU give size=8192, or the launch is measured.
    """
    a = torch.randn(size, size, device=device).to(dtype)
    source = torch.ones(copied_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    product = time_it(lambda: a @ a, warmup=2, repeats=10, device=device)
    copy = time_it(lambda: target.copy_(source), warmup=2, repeats=10, device=device)
    return Ceilings(2 * size**3 / min(product.seconds), 2 * copied_bytes / min(copy.seconds))
