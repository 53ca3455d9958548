"""What a rank sends and what it holds, noted while the program runs.

What it is: `Traffic`, every collective in order with its bytes, by hand or from a wrapper of
torch's; `Held`, the bytes of the tensors that are alive, and the most there ever were. What it
leaves out: how a backend carries a collective out, and the reserve of torch's allocator.
"""

import time
import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from course_lib.collectives import collective_cost

# c10d has several spellings of one collective: a list of tensors, one tensor, functional
PLAIN = {"all_reduce": "allreduce", "all_gather_into_tensor": "allgather",
         "reduce_scatter_tensor": "reduce_scatter", "allgather_into_tensor_coalesced": "allgather",
         "reduce_scatter_tensor_coalesced": "reduce_scatter"}  # fmt: skip
RINGS = {"allreduce": "all_reduce", "allgather": "all_gather", "reduce_scatter": "reduce_scatter"}


class _Recorder(TorchDispatchMode):
    """A mode that torch.compile need not know of."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # else the first operation imports the compiler: 1.5 s in every fresh process
        return False


class Traffic(_Recorder):
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


class Held(_Recorder):
    """Follows the bytes of tensors made inside `with Held() as held:`, those of autograd too.

    Storages count once, at the size they have now, for as long as anything keeps them: a name, a
    graph that waits for its backward pass, or a hook. For small models: each operation looks
    through all of them.
    """

    def __init__(self):
        super().__init__()
        self._known: dict[int, tuple[weakref.ref, bool]] = {}  # storage, and whether it counts
        self.peak = 0
        """Most bytes that were alive after any one operation."""

    def bytes(self) -> int:
        """Bytes that are alive now."""
        alive = {key: ref() for key, (ref, _) in self._known.items()}
        self._known = {key: known for key, known in self._known.items() if alive[key] is not None}
        return sum(alive[key].nbytes() for key, (_, counts) in self._known.items() if counts)

    def settled(self) -> int:
        """As `bytes`, when the threads of gloo have let go of what they carried: it takes a moment."""
        least, same = self.bytes(), 0
        while same < 5:
            time.sleep(0.005)
            now = self.bytes()
            least, same = min(least, now), same + 1 if now >= least else 0
        return least

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self._note((args, kwargs), counts=False)  # what was there before, unless it is known
        out = func(*args, **(kwargs or {}))
        self._note(out, counts=True)
        self.peak = max(self.peak, self.bytes())
        return out

    def _note(self, values: Any, *, counts: bool) -> None:
        for leaf in tree_leaves(values):
            if isinstance(leaf, Tensor):
                storage = _storage(leaf)
                known = self._known.get(storage._cdata)
                if known is None or known[0]() is None:  # an address may be used again
                    self._known[storage._cdata] = weakref.ref(storage), counts


def sent_bytes(seen: Iterable[tuple[str, int]], world_size: int) -> float:
    """Bytes that one of `world_size` ranks sends for these collectives, if each goes in a ring.

    Names and bytes as in `Traffic.seen`. A broadcast counts once, a receive and a mark nothing.
    """
    return sum(
        collective_cost(RINGS[name], num_bytes, world_size)["bytes"] if name in RINGS
        else (name in ("send", "broadcast")) * num_bytes
        for name, num_bytes in seen
    )  # fmt: skip


def _bytes(value: Any) -> int:
    """Bytes of the tensors in a tensor, or in lists of lists of them."""
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    return sum(map(_bytes, value)) if isinstance(value, (list, tuple)) else 0


def held_now(tensors: Iterable[Tensor]) -> int:
    """Bytes of the distinct storages behind these tensors."""
    storages: list[torch.UntypedStorage] = [_storage(x) for x in tensors]
    return sum({s._cdata: s.nbytes() for s in storages}.values())


def _storage(x: Tensor) -> torch.UntypedStorage:
    """What holds the numbers; of a sharded tensor (DTensor) those of the part that is here."""
    return getattr(x, "_local_tensor", x).untyped_storage()  # the DTensor's own says the whole size
