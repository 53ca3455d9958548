"""What a worker notes of its answer for a person: ready-made functions that it calls, and definitions
of the library, of torch and of Python that it replaced.

Calls are noted where they happen, so another name for a function or a `getattr` hides nothing. The
drivers of checks are put back before each use. All this runs in the answer's own process: notes are
the worker's word, they cost no points, and who sets out to silence them can.
"""

import contextlib
import fnmatch
import functools
import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterator
from types import FunctionType, ModuleType
from typing import Any

DRIVERS = ["course_lib.probes", "course_lib.ranks.local_ranks", "course_lib.ranks.traffic",
           "course_lib.ranks.collectives", "course_lib.measure.held", "course_lib.measure.memory",
           "course_lib.measure.sharing", "course_lib.runs.plain"]  # fmt: skip
"""What takes the facts of a check in the worker: put back when an answer has replaced a part of it."""
LIBRARIES = ("builtins", "math", "time", "gc", "os", "numpy", "torch", "torch.nn",
             "torch.nn.functional", "torch.autograd", "torch.autograd.graph", "torch.distributed",
             "torch.distributed.distributed_c10d", "torch.utils.checkpoint",
             "torch.utils._python_dispatch", "torch.Tensor", "torch.nn.Module", "torch.nn.Linear",
             "torch.autograd.Function", "torch.optim.Optimizer")  # fmt: skip
LIBRARY = "course_lib"
"""Drivers build on it: looked at once, at the end, and left as the answer made it."""
MOST = 8  # names of one kind in a report
MISSING = object()
RENEWED = {"torch.manual_seed", "torch.Storage", f"{LIBRARY}.training.muon.Muon.step",
           f"{LIBRARY}.parallel.zero.ShardedAdamW.step"}  # fmt: skip
"""By torch itself: when torch._dynamo is loaded, with a default dtype, with a first optimizer."""


def _is_driver(name: str) -> bool:
    return any(name == top or name.startswith(top + ".") for top in DRIVERS) and name != __name__


def _is_ours(name: str) -> bool:
    return _is_driver(name) or name.startswith(LIBRARY + ".")


class Definitions:
    """What the modules of the drivers and some of other libraries hold, as they were loaded."""

    def __init__(self) -> None:
        self.modules: dict[str, ModuleType] = {}
        self.held: list[tuple[str, Any, dict[str, Any]]] = []
        self.bodies: list[tuple[str, FunctionType, tuple]] = []
        for name, module in list(sys.modules.items()):
            if isinstance(module, ModuleType) and (_is_ours(name) or name in LIBRARIES):
                self.modules[name] = module
                self._add(name, module)
        for name in LIBRARIES:
            if name not in sys.modules and isinstance(found := _find(name), type):
                self._add(name, found)

    def _add(self, name: str, owner: Any) -> None:
        plain = {
            key: value
            for key, value in vars(owner).items()
            if not (key.startswith("__") and isinstance(owner, ModuleType))
            and key not in SLOTS
            and (_is_driver(name) or (callable(value) and (_is_ours(name) or key[0] != "_")))
        }
        self.held.append((name, owner, plain))
        for key, value in plain.items() if _is_ours(name) else ():
            function = _plain_function(value)
            if isinstance(function, FunctionType):
                self.bodies.append((f"{name}.{key}", function, _body(function)))
            if isinstance(value, type) and value.__module__ == name:
                self._add(f"{name}.{key}", value)

    def forget(self, things: list) -> None:
        """Hold these definitions no longer, nor the functions in them."""
        ids = {id(thing) for thing in things}
        functions = {id(_plain_function(thing)) for thing in things}
        for _, _, plain in self.held:
            for key in [key for key, value in plain.items() if id(value) in ids]:
                del plain[key]
        self.bodies = [found for found in self.bodies if id(found[1]) not in functions]

    def find_changes(
        self, allowed: Callable[[Any], bool], *, drivers: bool
    ) -> Iterator[tuple[str, Callable]]:
        """The name of each definition that is another now, with what puts it back; with `drivers` of
        these alone. Each look copies memory that the worker shares with the zygote."""
        for name, module in self.modules.items():
            if sys.modules.get(name) is not module:
                yield (
                    f"sys.modules[{name!r}]",
                    functools.partial(sys.modules.update, {name: module}),
                )
        for name, owner, plain in self.held:
            if drivers and not _is_driver(name):
                continue
            now = vars(owner)
            for key, value in plain.items():
                # what is missing was taken out before the answer ran
                found = now.get(key, MISSING)
                same = found is value or found is MISSING or f"{name}.{key}" in RENEWED
                if not same and not allowed(found):
                    yield f"{name}.{key}", functools.partial(setattr, owner, key, value)
            if _is_driver(name) and len(now) > len(plain):
                for key in [k for k in now if k not in plain and not _comes_later(owner, k)]:
                    yield f"{name}.{key}", functools.partial(delattr, owner, key)
        for name, function, body in self.bodies:
            if drivers and not _is_driver(name):
                continue
            if any(a is not b for a, b in zip(_body(function), body, strict=True)):
                yield name, functools.partial(_set_body, function, body)


SLOTS = {"__dict__", "__weakref__", "__doc__", "_abc_impl", "__abstractmethods__"}


def _comes_later(owner: Any, key: str) -> bool:
    """Whether a name that was not there is Python's own doing, such as a submodule's."""
    return (
        (key.startswith("__") and isinstance(owner, ModuleType))
        or key in SLOTS
        or isinstance(vars(owner)[key], ModuleType)
    )


def _plain_function(value: Any) -> Any:
    """The function behind a method, a property or a decorator."""
    return inspect.unwrap(getattr(value, "__func__", getattr(value, "fget", None) or value))


def _body(function: FunctionType) -> tuple:
    return function.__code__, function.__defaults__, function.__kwdefaults__


def _set_body(function: FunctionType, body: tuple) -> None:
    function.__code__, function.__defaults__, function.__kwdefaults__ = body


def _find(name: str) -> Any:
    """What a full name stands for among the modules that are loaded; None when it is not there."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        found = sys.modules.get(".".join(parts[:end]))
        if found is not None:
            for part in parts[end:]:
                found = getattr(found, part, None)
            return found
    return None


DEFINITIONS: list[Definitions] = []


def remember_definitions(own: Collection[str]) -> None:
    """Note what the library and torch hold: once, in the zygote, before any answer. `own` are the
    modules of the worker itself."""
    DRIVERS.extend(own)
    DEFINITIONS[:] = [Definitions()]


def forget_definitions(things: list) -> None:
    """Let go of definitions that are about to be taken out of the library."""
    for definitions in DEFINITIONS:
        definitions.forget(things)


class Witness:
    """Notes of one answer. Ranks, which are forks of the worker, write into the same pipe."""

    def __init__(self, callers: Collection[str]) -> None:
        """`callers`: modules that call the answer itself."""
        self.callers = callers
        self.watching = False
        """Whether the answer is being asked: what its cell tries for itself counts for nothing."""
        self._inside = False
        self._noted: set[str] = set()
        self._ours: set[int] = set()
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)

    def watch_calls(self, names: list[str]) -> None:
        """Have every call of these functions noted; a `*` at the end of a name stands for any end."""
        for name in names:
            for full in _expand(name):
                self._watch(name, full)

    def _watch(self, name: str, full: str) -> None:
        path, _, key = full.rpartition(".")
        owner = _find(path)
        if path == "torch.ops.aten":
            with contextlib.suppress(AttributeError):
                setattr(
                    owner, key, _Packet(getattr(owner, key), functools.partial(self.note, name))
                )
            return
        if isinstance(owner, type):
            owner = next((kind for kind in owner.__mro__ if key in vars(kind)), owner)
        raw = inspect.getattr_static(owner, key, None) if owner is not None else None
        function = getattr(raw, "__func__", raw)
        if not callable(function) or isinstance(function, type) or id(raw) in self._ours:
            return
        watched = self._make_watched(name, function)
        watched = type(raw)(watched) if isinstance(raw, staticmethod | classmethod) else watched
        self._ours.add(id(watched))
        for place, alias in _find_places(owner, raw):
            setattr(place, alias, watched)

    def _make_watched(self, name: str, function: Callable) -> Callable:
        @functools.wraps(function)
        def call_and_note(*args, **kwargs):
            if self._inside or not self.watching:
                return function(*args, **kwargs)
            self.note(name)
            self._inside = True  # what a ready-made function is made of is not the answer's doing
            try:
                return function(*args, **kwargs)
            finally:
                self._inside = False

        del call_and_note.__wrapped__
        return call_and_note

    def note(self, name: str) -> None:
        """Note a call of `name`, if it is the answer that calls."""
        if self.watching and name not in self._noted and self._is_asked_by_answer():
            self._say("called", name)

    def _is_asked_by_answer(self) -> bool:
        """Whether code of the notebook is among the callers, or the answer is the function itself."""
        frame, nearest = sys._getframe(2), ""
        while frame is not None:
            file, module = frame.f_code.co_filename, frame.f_globals.get("__name__") or ""
            if file.startswith("<") and not file.startswith("<frozen"):
                return True
            if not nearest and module != __name__ and not module.startswith("torch"):
                nearest = module
            frame = frame.f_back
        return nearest in self.callers

    def put_back(self, *, drivers: bool = True) -> None:
        """Note what the answer has replaced, and put the drivers back."""
        for name, restore in self._find_changes(drivers=drivers):
            self._say("replaced", name)
            if _is_driver(name) or name.startswith("sys.modules["):
                with contextlib.suppress(Exception):
                    restore()

    def watch_rank(self, function: Callable) -> Callable:
        """`function`, after which a rank notes what has been replaced in it."""

        def call_and_note(*args):
            value = function(*args)
            for name, _ in self._find_changes(drivers=True):
                self._say("replaced", name)
            return value

        return call_and_note

    def _find_changes(self, *, drivers: bool) -> Iterator[tuple[str, Callable]]:
        for definitions in DEFINITIONS:
            found = definitions.find_changes(lambda new: id(new) in self._ours, drivers=drivers)
            yield from list(found)

    def _say(self, kind: str, name: str) -> None:
        if name not in self._noted and len(self._noted) < 100:
            self._noted.add(name)
            with contextlib.suppress(OSError):
                os.write(self._write, f"{kind} {name}\n".encode()[:500])

    def read(self) -> dict[str, list[str]]:
        """All notes so far, of the ranks too: {"called": names, "replaced": names}."""
        self.put_back(drivers=False)
        text = b""
        with contextlib.suppress(OSError):
            text = os.read(self._read, 1 << 16)
        found: dict[str, dict[str, None]] = {"called": {}, "replaced": {}}
        for line in text.decode(errors="replace").splitlines():
            kind, _, name = line.partition(" ")
            found.get(kind, {})[name] = None
        return {kind: sorted(names)[:MOST] for kind, names in found.items()}


class _Packet:
    """An operator of torch, as `torch.ops.aten` has it, that says when it is used."""

    def __init__(self, packet: Any, say: Callable[[], None]):
        self._packet, self._say = packet, say

    def __call__(self, *args, **kwargs):
        self._say()
        return self._packet(*args, **kwargs)

    def __getattr__(self, name: str):
        self._say()
        return getattr(self._packet, name)


@functools.cache
def _expand(name: str) -> list[str]:
    """The full names that a card's name stands for; torch's own functions are operators too."""
    path, _, key = name.rpartition(".")
    owner = _find(path)
    found = fnmatch.filter(vars(owner), key) if owner is not None and "*" in key else [key]
    names = [f"{path}.{key}" for key in found]
    if path == "torch":
        import torch

        known = (full.partition(".")[0] for full in torch._C._dispatch_get_all_op_names())
        keys = {op.removeprefix("aten::") for op in known if op.startswith("aten::")}
        names += [f"torch.ops.aten.{k}" for k in sorted(fnmatch.filter(keys, key))]
    return names


def _find_places(owner: Any, raw: Any) -> list[tuple[Any, str]]:
    """Where a function can be found by name: its owner, and modules that imported it."""
    places = [(owner, key) for key, value in vars(owner).items() if value is raw]
    if isinstance(owner, ModuleType):
        places += PLACES.get(id(raw), [])
    return places


PLACES: dict[int, list[tuple[Any, str]]] = {}
"""By the identity of a ready-made function, the modules that have it and under which name."""


def remember_places(names: list[str]) -> None:
    """Find all names of the ready-made functions once, in the zygote: a worker that looked through
    all modules would copy the memory that it shares with the others."""
    PLACES.clear()
    _expand.cache_clear()
    wanted = {id(_find(full)) for name in names for full in _expand(name) if "ops.aten" not in full}
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType):
            for key, value in list(vars(module).items()):
                if id(value) in wanted and value is not None:
                    PLACES.setdefault(id(value), []).append((module, key))
