"""What a process holds in tensors, counted while it runs.

What it is: `Held`, the bytes of the tensors that are alive, and the most there ever were;
`bytes_held` now and `most_held` in one call, on a GPU from its allocator. What it leaves out: the
reserve of torch's allocator.
"""

import gc
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Recorder(TorchDispatchMode):
    """A mode that torch.compile need not know of."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # else the first operation imports the compiler: 1.5 s in every fresh process
        return False


class Held(Recorder):
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
        self.largest = 0
        """Most elements of one tensor that was made."""

    def bytes(self) -> int:
        """Bytes that are alive now."""
        alive = {key: ref() for key, (ref, _) in self._known.items()}
        self._known = {key: known for key, known in self._known.items() if alive[key] is not None}
        return sum(alive[key].nbytes() for key, (_, counts) in self._known.items() if counts)

    def settled_bytes(self) -> int:
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
                if storage.device.type == "meta":
                    continue  # it says a size and holds nothing
                known = self._known.get(storage._cdata)
                if known is None or known[0]() is None:  # an address may be used again
                    self._known[storage._cdata] = weakref.ref(storage), counts
                    if counts:
                        self.largest = max(self.largest, storage.nbytes() // leaf.element_size())


def held_now(tensors: Iterable[Tensor]) -> int:
    """Bytes of the distinct storages behind these tensors."""
    storages: list[torch.UntypedStorage] = [_storage(x) for x in tensors]
    return sum({s._cdata: s.nbytes() for s in storages}.values())


def bytes_held(device: str | torch.device) -> int:
    """Bytes of tensors that this process holds on `device` now, in all.

    On a GPU its allocator counts. On a CPU they are the storages of the tensors that Python knows,
    and of their gradients.
    """
    if torch.device(device).type == "cuda":
        return torch.cuda.memory_allocated(device)
    return _find_on_cpu().bytes()


def most_held(call: Callable[[], object], device: str | torch.device) -> int:
    """Most bytes of tensors that this process holds on `device` during `call()`, in all.

    On a GPU its allocator counts. On a CPU they are those of `bytes_held` before the call, and the
    storages of the tensors that the call makes. A storage that is there already, is emptied and
    filled again, counts while it is filled, such as the gathered weights of FSDP.
    """
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        call()
        return torch.cuda.max_memory_allocated(device)
    held = _find_on_cpu()
    before = held.bytes()
    with held:
        call()
    return max(before, held.peak)


def _find_on_cpu() -> Held:
    """The tensors that are there, followed; a gradient that nobody has read is no object of Python."""
    held = Held()
    known = [x for x in gc.get_objects() if _is_on_cpu(x)]
    held._note([*known, *(x.grad for x in known if x.is_leaf)], counts=True)
    return held


def _is_on_cpu(x: Any) -> bool:
    # not isinstance: some objects of torch warn when they are asked for their class
    return issubclass(type(x), Tensor) and x.device.type == "cpu"


def _storage(x: Tensor) -> torch.UntypedStorage:
    """What holds the numbers; of a sharded tensor (DTensor) those of the part that is here."""
    return getattr(x, "_local_tensor", x).untyped_storage()  # the DTensor's own says the whole size
