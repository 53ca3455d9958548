"""Taking an exercise's own definition out of the library, before an answer runs beside it.

The reference must not be there to be imported, called, inherited, or found by its frames or by the
garbage collector. Whether it really is gone is asked of weak references, not assumed.
"""

import gc
import importlib
import sys
import weakref
from types import FunctionType, ModuleType
from typing import Any

from grader.judge import witness

LIBRARY: list[ModuleType] = []
"""Modules of the course, as `remember` found them."""


class ErasureError(Exception):
    """The definition can still be reached: a fault of the course, with which no answer is graded."""


def remember_modules() -> None:
    """Note the library's modules once, in the zygote.

    A worker that looked through all loaded modules would change the reference count of each, and
    so copy thousands of the memory pages that it shares with the zygote.
    """
    LIBRARY[:] = [m for name, m in sys.modules.items() if name.split(".")[0] == "course_lib"]


def erase_definition(target: str, blank: list[str]) -> None:
    """Remove "module:Name" or "module:Class.method" from the library as loaded in this process.

    A name at the top of a module goes from every module of the course that has it. A class loses
    its blanked methods too, since its subclasses and `__subclasses__` would lead to them.
    """
    module_name, _, path = target.partition(":")
    name, _, method = path.partition(".")
    module = importlib.import_module(module_name)
    found = getattr(module, name)
    methods = [method] if method else blank if isinstance(found, type) else []
    doomed = [found.__dict__[m] for m in methods] or [found]
    witness.forget_definitions(doomed)
    traces = [weakref.ref(code) for thing in doomed for code in _plain_functions(thing)]
    for m in methods:
        delattr(found, m)
    if not method:
        _delete_aliases(name, found)
    del doomed, found, module
    if any(trace() is not None for trace in traces):
        gc.unfreeze()
        gc.collect()
    if any(trace() is not None for trace in traces):
        raise ErasureError(f"{target} could not be removed from the library")


def _plain_functions(thing: Any) -> list[FunctionType]:
    """The plain functions behind a definition, decorated or not."""
    found = []
    while thing is not None:
        thing = getattr(thing, "__func__", getattr(thing, "fget", None) or thing)
        if isinstance(thing, FunctionType):
            found.append(thing)
        thing = getattr(thing, "__wrapped__", None)
    return found


def _delete_aliases(name: str, found: Any) -> None:
    for module in LIBRARY:
        for alias in [k for k, v in vars(module).items() if v is found]:
            delattr(module, alias)
