"""A small interpreter for kernels in Triton's language: one program at a time, each access counted.

What it is: the dozen operations of `triton.language` that kernels over rows need, on ordinary
tensors, with `jit` and `kernel[grid](...)` as Triton spells them. The same source runs under real
Triton, where `tl` is Triton's own. A load or store that leaves its tensor is refused: a GPU would
read or write whatever lies there. What it leaves out: speed, matrix products, atomics, and the
order in which the programs of a GPU run.

A block is a torch tensor, a pointer a tensor's memory with offsets into it: `x[:, None]`, `.to` and
arithmetic are torch's. Lanes that a load leaves out without `other` hold NaN here (-1 for whole
numbers), so that a kernel that uses them shows it; on a GPU they hold anything.
"""

import builtins
import contextlib
import functools
import importlib
import importlib.util
import inspect
import itertools
import os
import sys
import types
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

bfloat16, float16, float32, float64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
int32, int64 = torch.int32, torch.int64
exp, sqrt, rsqrt, where = torch.exp, torch.sqrt, torch.rsqrt, torch.where

_PLACE: ContextVar[tuple] = ContextVar("place")  # the running program's numbers, and the grid
_LOG: ContextVar[list | None] = ContextVar("log", default=None)
_OPTIONS = {"num_warps", "num_stages", "num_ctas"}  # how a GPU runs a kernel, not what it computes


class OutOfBounds(IndexError):
    """A program reads or writes outside of a tensor: `doing` ("load", "store") of argument `name`.

    `between`: not past its end, but between two of its rows.
    """

    def __init__(self, text: str, doing: str, name: str, between: bool):
        super().__init__(text)
        self.doing, self.name, self.between = doing, name, between


class constexpr(int):  # noqa: N801  Triton's spelling
    """Annotation of an argument that is fixed when the kernel is compiled, such as a block size."""


@dataclass
class Launch:
    """What one launch of a kernel loaded and stored: times for each element, by argument."""

    kernel: str
    programs: int
    loads: dict[str, Tensor]
    stores: dict[str, Tensor]
    num_bytes: int = 0
    """All loads and stores together."""


@contextlib.contextmanager
def count_launches() -> Iterator[list[Launch]]:
    """Collects the launches inside `with count_launches() as launches:`; this interpreter runs them all."""
    launches: list[Launch] = []
    token = _LOG.set(launches)
    try:
        yield launches
    finally:
        _LOG.reset(token)


class Kernel:
    """A kernel; `kernel[grid](*arguments)` runs it once for each place of the grid.

    `grid` is a tuple of one to three numbers, or a function from the arguments by name to one.
    """

    def __init__(self, function: Callable):
        functools.update_wrapper(cast(Any, self), function)
        self.name = function.__name__
        self.function, self.signature = function, inspect.signature(function)

    def __getitem__(self, grid: tuple | Callable) -> Callable:
        return functools.partial(self.launch, grid)

    def launch(self, grid: tuple | Callable, *args, **options) -> None:
        """By real Triton where that can run: on a GPU, or by its own interpreter, if asked for."""
        on_gpu = any(isinstance(x, Tensor) and x.is_cuda for x in args)
        asked = on_gpu or os.environ.get("TRITON_INTERPRET") == "1"
        if asked and _LOG.get() is None and importlib.util.find_spec("triton"):
            self.triton[grid](*args, **options)
        else:
            self.interpret(grid, *args, **options)

    @functools.cached_property
    def triton(self) -> Any:
        """The same source as a kernel of real Triton's."""
        language = importlib.import_module("triton.language")
        return importlib.import_module("triton").jit(self.with_language(language))

    def with_language(self, language: types.ModuleType) -> Callable:
        """A copy of the function in which `tl` is `language`."""
        function = self.function
        scope = function.__globals__ | {"tl": language}
        copy = types.FunctionType(
            function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
        )
        return functools.update_wrapper(copy, function, updated=())

    def interpret(self, grid: tuple | Callable, *args, **options) -> None:
        """Run the programs of the grid one after the other in this process, and log the launch."""
        options = {name: value for name, value in options.items() if name not in _OPTIONS}
        given = self.signature.bind(*args, **options)
        given.apply_defaults()
        grid = grid(dict(given.arguments)) if callable(grid) else grid
        memories = {n: _Memory(n, x) for n, x in given.arguments.items() if isinstance(x, Tensor)}
        given.arguments |= {
            n: Pointer(m, torch.zeros((), dtype=int64)) for n, m in memories.items()
        }
        function = self.with_language(sys.modules[__name__])
        places = list(itertools.product(*map(builtins.range, grid)))
        for place in places:
            token = _PLACE.set((place, grid))
            try:
                function(*given.args, **given.kwargs)
            except OutOfBounds as problem:
                problem.args = (f"{self.name}, program {place[0]}: {problem}",)
                raise
            finally:
                _PLACE.reset(token)
        if (log := _LOG.get()) is not None:
            log.append(_launch(self.name, len(places), memories))


jit = Kernel


class _Memory:
    """The elements of a tensor where they lie, and how often each was loaded and stored."""

    def __init__(self, name: str, x: Tensor):
        span = 1 + builtins.sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
        span = span if x.numel() else 0
        self.name, self.tensor = name, x.detach()
        self.flat = self.tensor.as_strided((span,), (1,))
        self.inside = torch.zeros(span, dtype=torch.bool, device=x.device)
        self.as_shaped(self.inside).fill_(True)  # not what lies between the rows of a slice
        self.loads, self.stores = (torch.zeros(span, dtype=int32, device=x.device) for _ in "ls")

    def as_shaped(self, flat: Tensor) -> Tensor:
        return flat.as_strided(self.tensor.shape, self.tensor.stride(), 0)

    def check_offsets(self, offsets: Tensor, doing: str) -> Tensor:
        """`offsets`, all of which lie inside; OutOfBounds otherwise."""
        past = offsets[(offsets < 0) | (offsets >= len(self.flat))]
        if len(past):
            raise OutOfBounds(
                f"a {doing} at offset {int(past[0])} of {self.name}, whose numbers lie at "
                f"0 to {len(self.flat) - 1}",
                doing,
                self.name,
                False,
            )
        outside = offsets[~self.inside[offsets]]
        if len(outside):
            raise OutOfBounds(
                f"a {doing} at offset {int(outside[0])} of {self.name}, between two of its rows",
                doing,
                self.name,
                True,
            )
        return offsets


@dataclass(frozen=True)
class Pointer:
    """Addresses: offsets in elements, a block of them or one, into a tensor's memory."""

    memory: _Memory
    offsets: Tensor

    def __add__(self, more: Tensor | int) -> "Pointer":
        return Pointer(self.memory, self.offsets + more)

    __radd__ = __add__

    def __sub__(self, less: Tensor | int) -> "Pointer":
        return Pointer(self.memory, self.offsets - less)

    @property
    def dtype(self) -> types.SimpleNamespace:
        """`pointer.dtype.element_ty` is the dtype of what it points to."""
        return types.SimpleNamespace(element_ty=self.memory.flat.dtype)


def load(
    pointer: Pointer, mask: Tensor | None = None, other: Tensor | float | None = None, **how
) -> Tensor:
    """The elements at `pointer`; where `mask` is False nothing is read, and the block holds `other`."""
    memory, (offsets, chosen) = pointer.memory, _broadcast_mask(pointer, mask)
    dtype = memory.flat.dtype
    if other is None:
        other = float("nan") if dtype.is_floating_point else -1
    block = torch.empty(offsets.shape, dtype=dtype, device=offsets.device)
    block.copy_(torch.as_tensor(other))
    places = memory.check_offsets(offsets[chosen], "load")
    block[chosen] = memory.flat[places]
    memory.loads.index_add_(0, places, torch.ones_like(places, dtype=int32))
    return block


def store(pointer: Pointer, value: Tensor | float, mask: Tensor | None = None, **how) -> None:
    """Write `value` where `mask` is True, rounded to the dtype of the tensor."""
    memory, (offsets, chosen) = pointer.memory, _broadcast_mask(pointer, mask)
    places = memory.check_offsets(offsets[chosen], "store")
    value = torch.as_tensor(value).expand(offsets.shape)[chosen]
    memory.flat[places] = value.to(memory.flat.dtype)
    memory.stores.index_add_(0, places, torch.ones_like(places, dtype=int32))


def _broadcast_mask(pointer: Pointer, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    chosen = torch.as_tensor(True if mask is None else mask)
    return torch.broadcast_tensors(pointer.offsets, chosen.to(pointer.offsets.device))


def _launch(kernel: str, programs: int, memories: dict[str, _Memory]) -> Launch:
    loads = {name: m.as_shaped(m.loads) for name, m in memories.items()}
    stores = {name: m.as_shaped(m.stores) for name, m in memories.items()}
    num_bytes = builtins.sum(
        int(m.loads.sum() + m.stores.sum()) * m.flat.element_size() for m in memories.values()
    )
    return Launch(kernel, programs, loads, stores, num_bytes)


def program_id(axis: int) -> Tensor:
    """The running program's number along an axis of the grid; ValueError unless it is 0, 1 or 2."""
    if axis not in (0, 1, 2):
        raise ValueError(f"expected axis 0, 1 or 2 of the grid, got {axis}")
    place = _PLACE.get()[0]
    return torch.tensor(place[axis] if axis < len(place) else 0, dtype=int32)


def num_programs(axis: int) -> int:
    """Size of the grid along an axis."""
    grid = _PLACE.get()[1]
    return grid[axis] if axis < len(grid) else 1


def arange(start: int, end: int) -> Tensor:
    """start..end - 1; as in Triton, their number must be a power of two."""
    return torch.arange(start, start + _power(end - start), dtype=int32)


def zeros(shape: tuple, dtype: torch.dtype) -> Tensor:
    """A block of zeros."""
    return full(shape, 0, dtype)


def full(shape: tuple, value: float, dtype: torch.dtype) -> Tensor:
    """A block of one value."""
    return torch.full([_power(n) for n in shape], value, dtype=dtype)


def sum(input: Tensor, axis: int | None = None, keep_dims: bool = False) -> Tensor:
    """Along an axis, or all; in the block's own dtype: halves are added until one number is left."""
    if axis is None:
        input, axis = input.flatten(), 0
    while input.shape[axis] > 1:
        low, high = input.chunk(2, axis)
        input = low + high
    return input if keep_dims else input.squeeze(axis)


def max(input: Tensor, axis: int | None = None, keep_dims: bool = False) -> Tensor:
    """The largest along an axis, or of all."""
    return input.max() if axis is None else input.amax(axis, keepdim=keep_dims)


def maximum(x: Tensor | float, y: Tensor | float) -> Tensor:
    """The larger, element by element."""
    return where(torch.as_tensor(x > y), x, y)


def minimum(x: Tensor | float, y: Tensor | float) -> Tensor:
    """The smaller, element by element."""
    return where(torch.as_tensor(x < y), x, y)


def cdiv(x: int, y: int) -> int:
    """x / y, rounded up."""
    return -(-x // y)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is `n` or more."""
    return 1 << builtins.max(n - 1, 0).bit_length()


def _power(n: int) -> int:
    if n < 1 or n & (n - 1):
        raise ValueError(f"a block has a power of two elements along each dimension, got {n}")
    return n
