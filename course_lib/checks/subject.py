"""A subject: the only door between a check and an answer.

A check never touches the learner's objects. It asks a subject to call them and gets plain values
back: tensors, arrays, numbers, strings, None, and tuples, lists or dicts of these. In the notebook the
subject calls the objects in place; when grading, another subject of the same shape sends the inputs
to a confined worker and gets bytes back. So a suite is written once.
"""

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from course_lib.checks.report import Wrong
from course_lib.measure.memory import saved_bytes
from course_lib.measure.sharing import find_shared_memory
from course_lib.ranks import local_ranks
from course_lib.runs.plain import is_plain_container

RANKS_S = 8.0
"""Seconds that the ranks of one `run_ranks` may compute or wait, start included; less than a suite's
limit."""


class AnswerError(Exception):
    """The answer's own code raised.

    `error` is what it raised, `tried` what it was called with, and `line` where it was, as "line 3 of
    the cell: ...", when that is not in the error's traceback.
    """

    def __init__(self, error: BaseException, *, tried: str = "", line: str = ""):
        try:
            text = str(error)
        except Exception:  # its own `__str__` does not work
            text = "an error whose text cannot be had"
            error = RuntimeError(text)
        super().__init__(f"{type(error).__name__}: {text}")
        self.error, self.tried, self.line = error, tried, line


class OutOfTime(BaseException):
    """The answer does not end. Not an Exception: an answer's own `except` must not swallow it.

    `waited` says that it did not compute, but waited.
    """

    def __init__(self, *, waited: bool = False):
        super().__init__()
        self.waited = waited


class Module(Protocol):
    """An `nn.Module` built from the answer's class."""

    def forward(self, *args) -> Any: ...
    def vjp(
        self, *args, upstream: Tensor, item: int | None = None
    ) -> tuple[list[Tensor | None], dict[str, Tensor]]: ...
    def saved_bytes(self, *args, training: bool = True) -> int: ...
    def to(self, dtype: torch.dtype) -> None: ...
    def method(self, name: str, *args, **kwargs) -> Any: ...
    def probe(self, name: str, *args) -> Any: ...
    def state(self) -> dict[str, Tensor]: ...
    def load(self, state: dict[str, Tensor]) -> None: ...


class Subject(Protocol):
    """One answer."""

    def call(self, *args, **kwargs) -> Any: ...
    def vjp(self, *args, upstream: Tensor, item: int | None = None) -> list[Tensor | None]: ...
    def module(self, *args, seed: int = 0, **kwargs) -> Module: ...
    def run_ranks(
        self, args_by_rank: Sequence[tuple], *, probe: str | None = None
    ) -> list[local_ranks.Rank]: ...
    def prepare_ranks(self) -> None: ...
    def probe(self, name: str, *args) -> Any: ...
    def shared_memory(self, *args, **kwargs) -> str: ...


class LocalSubject:
    """Calls an answer that lives in this process.

    Inputs are cloned before every call, so an answer cannot change what the check holds; an answer
    that writes into its inputs is told so. `seconds` sums the time spent in the answer's code.
    """

    def __init__(self, answer: Callable):
        self.answer = answer
        self.seconds = 0.0

    def call(self, *args, **kwargs) -> Any:
        """`answer(*args, **kwargs)`."""
        return self._run(self.answer, args, kwargs)

    def vjp(self, *args, upstream: Tensor, item: int | None = None) -> list[Tensor | None]:
        """Gradients of sum(upstream * answer(*args)) for every float tensor in `args`, in order.

        `item` picks one output of an answer that returns several.
        """
        return self._vjp(self.answer, args, upstream, item)

    def module(self, *args, seed: int = 0, **kwargs) -> "LocalModule":
        """`answer(*args, **kwargs)` built under that seed; the random state is restored."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return LocalModule(self._run(self.answer, args, kwargs), self)

    def prepare_ranks(self) -> None:
        """What takes seconds before the first ranks of a process, so that no answer pays for it."""
        local_ranks.SERVER.start()

    def run_ranks(
        self, args_by_rank: Sequence[tuple], *, probe: str | None = None
    ) -> list[local_ranks.Rank]:
        """`answer(*args_by_rank[rank])` on each rank of a gloo group, each in a process of its own.

        With `probe` "module:name" of the library, `name(answer, *args_by_rank[rank])` on each.
        Raises Wrong with the code RANKS-STUCK when some ranks wait for others for ever. A suite
        that calls this says with `Suite.ranks` how many there are at most.
        """
        began = time.perf_counter()
        given = [tuple(_clone(a) for a in args) for args in args_by_rank]
        try:
            return local_ranks.run(self.answer, given, seconds=RANKS_S, probe=probe, again=True)
        except local_ranks.RankFailed as failure:
            error = failure.rebuild_exception()
            asked = describe_call(args_by_rank[failure.rank])
            tried = f"{len(given)} rank{'s' * (len(given) > 1)}; rank {failure.rank} with {asked}"
            raise AnswerError(error, tried=tried, line=failure.where) from error
        except local_ranks.RanksStuck as stuck:
            raise ranks_stuck(len(given), str(stuck)) from None
        finally:
            self.seconds += time.perf_counter() - began

    def probe(self, name: str, *args) -> Any:
        """`name` "module:function" of the library, as function(answer, *args), in another process.

        For answers that want what cannot be sent to them, such as a clock, and for those that
        could leave a mark on this process. OutOfTime when it does not come back. In this process
        where the answer cannot be copied, such as a function under `functools.cache`.
        """
        try:
            return self.run_ranks([args], probe=name)[0].value
        except local_ranks.NotCopied:
            return self._run(local_ranks.bind_probe(self.answer, name), args, {})
        except Wrong:  # one rank waits for nobody
            raise OutOfTime from None

    def shared_memory(self, *args, **kwargs) -> str:
        """What `answer(*args, **kwargs)` gives back that shares memory, or "": `find_shared_memory`."""
        given = tuple(_clone(a) for a in args)
        return find_shared_memory(given, self._run(self.answer, given, kwargs, clone=False))

    def _run(self, function: Callable, args: tuple, kwargs: dict, *, clone: bool = True) -> Any:
        given = tuple(_clone(a) for a in args) if clone else args
        named = {name: _clone(a) for name, a in kwargs.items()} if clone else kwargs
        began = time.perf_counter()
        try:
            out = function(*given, **named)
        except (OutOfTime, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise AnswerError(error, tried=describe_call(args, kwargs)) from error
        finally:
            self.seconds += time.perf_counter() - began
        _refuse_changed((*args, *kwargs.values()), (*given, *named.values()))
        return out

    def _vjp(
        self, function: Callable, args: tuple, upstream: Tensor, item: int | None = None
    ) -> list[Tensor | None]:
        given = tuple(_clone(a, grad=True) for a in args)
        began = time.perf_counter()
        try:
            out = function(*given)
            out = out if item is None else out[item]
            if isinstance(out, Tensor) and out.requires_grad:
                (out * upstream).sum().backward()
        except (OutOfTime, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise AnswerError(error, tried=describe_call(args)) from error
        finally:
            self.seconds += time.perf_counter() - began
        return [a.grad for a in given if isinstance(a, Tensor) and a.is_floating_point()]


class LocalModule:
    """A module that lives in this process; made by `LocalSubject.module`."""

    def __init__(self, module: Any, subject: LocalSubject):
        self._module, self._subject = module, subject

    def forward(self, *args) -> Any:
        """`module(*args)` with gradients off."""
        with torch.no_grad():
            return self._subject._run(self._module, args, {})

    def vjp(
        self, *args, upstream: Tensor, item: int | None = None
    ) -> tuple[list[Tensor | None], dict[str, Tensor]]:
        """Gradients of sum(upstream * module(*args)) for float inputs, and for parameters by name.

        `item` picks one output of a module that returns several.
        """
        self._module.zero_grad(set_to_none=True)
        inputs = self._subject._vjp(self._module, args, upstream, item)
        return inputs, {n: p.grad for n, p in self._module.named_parameters() if p.grad is not None}

    def saved_bytes(self, *args, training: bool = True) -> int:
        """Bytes of distinct tensors, parameters aside, that `module(*args)` keeps for backward."""
        self._module.train(training)
        try:
            return saved_bytes(lambda: self._subject._run(self._module, args, {}))
        finally:
            self._module.train()

    def to(self, dtype: torch.dtype) -> None:
        """Cast the floating-point parameters and buffers, in place."""
        self._module.to(dtype)

    def method(self, name: str, *args, **kwargs) -> Any:
        """`module.name(*args, **kwargs)`."""
        return self._subject._run(self._find_method(name), args, kwargs)

    def probe(self, name: str, *args) -> Any:
        """`name` "module:function" of the library, as function(module, *args)."""
        return self._subject._run(local_ranks.bind_probe(self._module, name), args, {})

    def state(self) -> dict[str, Tensor]:
        """Copies of parameters and buffers by name."""
        state = self._subject._run(self._find_method("state_dict"), (), {})
        return {name: value.detach().clone() for name, value in state.items()}

    def load(self, state: dict[str, Tensor]) -> None:
        """Overwrite parameters and persistent buffers; the names must match."""
        load = self._find_method("load_state_dict")
        load({name: value.clone() for name, value in state.items()})

    def _find_method(self, name: str) -> Callable:
        if not hasattr(self._module, name):
            raise Wrong(
                "TYPE",
                f"what the answer makes has no `{name}`",
                expected="an object of the class that the exercise asks for",
                got=f"type {type(self._module).__name__}",
                look="the line that begins with `class`, and what its base is.",
            )
        return getattr(self._module, name)


def ranks_stuck(world_size: int, text: str) -> Wrong:
    """What is said when ranks wait for one another."""
    return Wrong(
        "RANKS-STUCK",
        "some ranks wait for others that never come",
        tried=f"{world_size} ranks",
        expected=f"all of them finished within {RANKS_S:g} seconds",
        got=text.partition(":")[0],
        fits="a collective that only some ranks call, or in another order.",
        look="what stands under `if rank == ...`, and who sends to whom first.",
    )


def describe_call(args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> str:
    """What a call was given, short: "float32 (2, 8), 3, eps=1e-05"."""
    said = [_describe(value) for value in args]
    said += [f"{name}={_describe(value)}" for name, value in (kwargs or {}).items()]
    text = ", ".join(said) or "no argument"
    return text if len(text) <= 150 else text[:147] + "..."


def _describe(value: Any) -> str:
    if isinstance(value, (Tensor, np.ndarray)):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)[:40]
    if isinstance(value, (list, tuple)) and value and len(value) <= 4:
        return f"[{', '.join(map(_describe, value))}]"
    size = f" of {len(value)}" if isinstance(value, (list, tuple, dict)) else ""
    return f"{type(value).__name__}{size}"


def _clone(value: Any, *, grad: bool = False) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    if is_plain_container(value):
        return copy.deepcopy(value)
    if not isinstance(value, Tensor):
        return value
    clone = value.detach().clone()
    return clone.requires_grad_() if grad and clone.is_floating_point() else clone


def _is_unchanged(kept: Any, used: Any) -> bool:
    """Whether a tensor, an array, or a list or dict of plain values still holds what it held."""
    if isinstance(kept, np.ndarray):
        return np.array_equal(kept, used)
    if is_plain_container(kept):
        return repr(kept) == repr(used)  # where a nan is itself, and an order counts
    return not isinstance(kept, Tensor) or are_the_same(kept, used)


def are_the_same(kept: Tensor, used: Tensor) -> bool:
    """Whether two tensors hold the same numbers, NaN in the same places."""
    if torch.equal(kept, used):
        return True
    alike = kept.shape == used.shape and kept.dtype == used.dtype and kept.is_floating_point()
    return alike and torch.allclose(kept, used, rtol=0, atol=0, equal_nan=True)


def _refuse_changed(before: tuple, after: tuple) -> None:
    for position, (kept, used) in enumerate(zip(before, after, strict=True)):
        if not _is_unchanged(kept, used):
            plain = is_plain_container(kept)
            raise Wrong(
                "INPLACE",
                f"argument {position} was changed in place",
                expected="inputs are the same after the call as before it",
                got=f"argument {position} holds other {'values' if plain else 'numbers'} now",
                hides=""
                if plain
                else "in a model the same tensor also feeds the residual path, which would then\n"
                "carry the changed numbers.",
                look="`append`, `pop`, `sort`, `update`, or assignment to an item."
                if plain
                else "methods that end in an underscore, `+=`, or assignment to a slice.",
            )
