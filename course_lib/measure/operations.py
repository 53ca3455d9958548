"""The operations that a function issues, with the bytes that each reads and writes.

What it is: `Operations`, a mode that sees what reaches ATen below autograd, forward and backward,
and the traffic through memory that follows if every operation reads its inputs from there and
writes its results back. What it leaves out: caches, what an operation keeps for itself while it
runs, and what a compiler has fused, which is no operation of ATen's any more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@dataclass(frozen=True)
class Operation:
    """One operation that ran."""

    name: str
    """ATen's name, without namespace and overload: "mul", "add_", "native_layer_norm"."""
    read: int
    """Bytes."""
    written: int
    """Bytes."""


class Operations(TorchDispatchMode):
    """Lists what runs inside `with Operations() as operations:`, in order, in `operations.seen`.

    Changes no result. May be used again, and inside another one: then each of them sees everything.
    """

    def __init__(self):
        super().__init__()
        self.seen: list[Operation] = []

    @property
    def num_bytes(self) -> int:
        """Bytes that all of them read and wrote."""
        return sum(operation.read + operation.written for operation in self.seen)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Run `func(*args, **kwargs)` once, return what it returns, and note it in `self.seen`.

        The note is `Operation(name, read, written)`: `func._opname` and two numbers of bytes.
        An operation is noted if it wrote numbers, into new memory or into a tensor it was given.
        Not noted are:
          - views and other names for old memory (view, transpose, detach, split);
          - memory that is reserved and not written (empty, empty_like, new_empty, empty_strided,
            new_empty_strided);
          - an operation that raised, even if it wrote a part.
        `read`: the bytes `in_memory` of all tensors that it was given. `written`: of all tensors
        that it wrote. In each, the same tensor object counts once, and so does an expanded
        dimension. Tensors may stand in lists or among the keywords. A tensor that is overwritten
        (copy_, out=) counts as read too: the call does not show whether its old content is needed.
        You are given no empty tensors and no resizing.

        At hand: `tensors(value)`, `written_arguments(func, args, kwargs)`, `home(x)`,
        `in_memory(xs)`.
        """
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        given = tensors((args, kwargs))
        homes = {home(x) for x in given}
        made = [x for x in tensors(out) if home(x) not in homes]  # the others are views of inputs
        written = tensors((written_arguments(func, args, kwargs), made))
        if written and not func._opname.startswith(("empty", "new_empty")):
            self.seen.append(Operation(func._opname, in_memory(given), in_memory(written)))
        return out


def tensors(value: Any) -> list[Tensor]:
    """The distinct tensors in `value`, in order, however deep in lists, tuples and dicts."""
    found = {id(x): x for x in tree_leaves(value) if isinstance(x, Tensor)}
    return list(found.values())


def written_arguments(func, args: tuple, kwargs: dict) -> list[Tensor]:
    """Those arguments in which this call writes numbers, as its schema says: in place, or out=."""
    if torch.Tag.inplace_view in func.tags:  # t_, unsqueeze_ and such: another shape, no numbers
        return []
    named = dict(_arguments_by_name(func, args), **kwargs)
    return tensors([named.get(name) for name in _mutable(func)])


def home(x: Tensor) -> int:
    """The same number for tensors that share memory."""
    return x.untyped_storage()._cdata


def in_memory(xs: list[Tensor]) -> int:
    """Bytes that these tensors take in memory; along an expanded dimension there is one number."""
    return sum(_numbers(x) * x.element_size() for x in xs)


def _numbers(x: Tensor) -> int:
    count = 1
    for size, stride in zip(x.shape, x.stride(), strict=True):
        count *= size if stride or not size else 1
    return count


def _arguments_by_name(func, args: tuple) -> Iterator[tuple[str, Any]]:
    return zip((a.name for a in func._schema.arguments), args, strict=False)


def _mutable(func) -> Iterator[str]:
    return (a.name for a in func._schema.arguments if a.alias_info and a.alias_info.is_write)
