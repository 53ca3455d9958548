"""What a rank sends, noted while the program runs.

What it is: `Traffic`, every collective in order with its bytes, by hand or from a wrapper of
torch's. What it leaves out: how a backend carries a collective out.
"""

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from course_lib.measure.held import Recorder
from course_lib.ranks.collectives import collective_cost

# c10d has several spellings of one collective: a list of tensors, one tensor, functional
PLAIN = {"all_reduce": "allreduce", "allreduce_coalesced": "allreduce",
         "all_reduce_coalesced": "allreduce", "all_gather_into_tensor": "allgather",
         "reduce_scatter_tensor": "reduce_scatter", "allgather_into_tensor_coalesced": "allgather",
         "reduce_scatter_tensor_coalesced": "reduce_scatter"}  # fmt: skip
RINGS = {"allreduce": "all_reduce", "allgather": "all_gather", "reduce_scatter": "reduce_scatter"}


class Traffic(Recorder):
    """Notes every operation of torch's process groups in the order in which it is issued."""

    def __init__(self):
        super().__init__()
        self.seen: list[tuple[str, int]] = []
        """(name, bytes): "allreduce", "allgather", "reduce_scatter", "broadcast", "send", "recv" ...
        The bytes are those of the whole tensor: what goes into a reduce-scatter, what comes out of
        an all-gather. A mark counts 0 bytes."""

    def mark(self, name: str) -> None:
        """Write an event of your own between the collectives, such as the end of backward."""
        self.seen.append((name, 0))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._opname.strip("_").removesuffix("_base")
        if func.namespace == "c10d":
            self.seen.append((PLAIN.get(name, name), max(map(_bytes, args), default=0)))
        elif func.namespace == "_c10d_functional" and name in PLAIN:
            out = func(*args, **(kwargs or {}))
            self.seen.append((PLAIN[name], max(_bytes(out), _bytes(args[0]))))
            return out
        return func(*args, **(kwargs or {}))


def sent_bytes(seen: Iterable[tuple[str, int]], world_size: int) -> float:
    """Bytes that one of `world_size` ranks sends for these collectives, if each goes in a ring.

    Names and bytes as in `Traffic.seen`. A broadcast counts once, a receive and a mark nothing.
    """
    return sum(
        collective_cost(RINGS[name], num_bytes, world_size)["bytes"]
        if name in RINGS
        else (name in ("send", "broadcast")) * num_bytes
        for name, num_bytes in seen
    )


def _bytes(value: Any) -> int:
    """Bytes of the tensors in a tensor, or in lists of lists of them."""
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    return sum(map(_bytes, value)) if isinstance(value, (list, tuple)) else 0
