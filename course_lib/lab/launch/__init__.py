"""Launching ranks from a notebook: `%torchrun --nproc_per_node=auto train.py`.

    course_lib.lab.launch.magic      the magic          terminal   course launch
    preflight, plan, script, gpus    before the start   start, rank, processes   the processes
    watch, stacks, cause             what ranks do, where they stand, why they failed
    panel, plain                     how it is shown    folder     what is left of a run

`latest()` is the newest run: its events, logs and summary.
"""

from importlib import import_module

_HOME = {"latest": "folder", "Run": "folder", "LaunchFailed": "run", "Refused": "script"}

__all__ = [*_HOME]


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
