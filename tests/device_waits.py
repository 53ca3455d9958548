"""Where a program would wait for its device, counted without one.

What counts as being on the device is all that is computed from given tensors, a model's weights say.
Reading such a tensor, by `.item()`, `float()`, `if`, `.cpu()`, `.tolist()` or `.numpy()`, makes the host
wait until a GPU has computed it, and so does an operation whose output has as many elements as the
numbers say.
"""

import traceback
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

READS = {"_local_scalar_dense", "equal", "nonzero", "masked_select", "_unique2"}
COPIES = {"cpu", "tolist", "numpy", "__array__"}


class DeviceWaits(TorchDispatchMode):
    """Inside `with DeviceWaits(tensors) as waits:` notes in `waits.seen` the lines that would wait."""

    def __init__(self, tensors: Iterable[Tensor]):
        super().__init__()
        self.seen: list[str] = []
        self._there: dict[int, torch.UntypedStorage] = {}  # kept, so that no address comes back
        self._copies = _Copies(self)
        self._add(list(tensors))

    def __enter__(self):
        self._copies.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self._copies.__exit__(*error)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(kind not in (Tensor, torch.nn.Parameter) for kind in types):
            return NotImplemented  # a DTensor says first what it does to its parts
        kwargs = kwargs or {}
        # a copy to a device that is named, as in `x.to(self.device, copy=True)`, lands there
        there = self.is_there((args, kwargs)) or kwargs.get("device") is not None
        if there and func._opname in READS:
            self.note(func._opname)
        out = func(*args, **kwargs)
        if there:
            self._add((out, _written(func, args, kwargs)))
        return out

    def is_there(self, values) -> bool:
        """Whether one of these tensors is on the device."""
        return any(_storage(x)._cdata in self._there for x in _tensors(values))

    def note(self, what: str) -> None:
        """A wait, and the nearest line of the course or of torch that is not this file's."""
        lines = [f for f in traceback.extract_stack() if f.filename != __file__]
        ours = [f for f in lines if "course_lib" in f.filename] or lines
        self.seen.append(
            f"{what}: {Path(ours[-1].filename).name}:{ours[-1].lineno} {ours[-1].line}"
        )

    def _add(self, values) -> None:
        for x in _tensors(values):
            storage = _storage(x)
            self._there[storage._cdata] = storage


class _Copies(TorchFunctionMode):
    """What copies a tensor to the host: on a CPU no operation is dispatched for it."""

    def __init__(self, waits: DeviceWaits):
        self.waits = waits

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        # the text alone: torch.device("cpu") is where the tensor is, in place of the device
        to_host = name == "to" and any(type(a) is str and a == "cpu" for a in args[1:])
        if (name in COPIES or to_host) and self.waits.is_there(args[0]):
            self.waits.note(name)
        return func(*args, **(kwargs or {}))


def _tensors(values) -> list[Tensor]:
    return [x for x in tree_leaves(values) if isinstance(x, Tensor)]


def _storage(x: Tensor) -> torch.UntypedStorage:
    return getattr(x, "_local_tensor", x).untyped_storage()


def _written(func, args, kwargs) -> list:
    """The arguments that the operation writes into."""
    named = func._schema.arguments
    given = [
        *zip(named, args, strict=False),
        *((a, kwargs[a.name]) for a in named if a.name in kwargs),
    ]
    return [value for a, value in given if a.alias_info is not None and a.alias_info.is_write]
