"""Sharded updates on one rank, with what each sent, held and changed.

What it is: the probe that checks of `zero1_step` run on every rank (`local_ranks.run(..., probe=)`).
What it leaves out: the update itself, and what is right about it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.measure.held import held_now
from course_lib.ranks.collectives import place
from course_lib.ranks.traffic import Traffic

INPUTS = ("grad", "master", "m", "v", "step")


def updates(step_function: Callable, cases: Sequence[tuple[dict, dict]]) -> list[dict[str, Any]]:
    """What `step_function(*inputs, **settings)` does, for each case (inputs by name, settings).

    Of each: "out", what it returned; "seen", its collectives (`Traffic.seen`); "held", the bytes of
    the storages of all but the first of several results; "changed", names of inputs that hold
    other numbers afterwards.
    """
    return [_run_update(step_function, inputs, settings) for inputs, settings in cases]


def updates_in_pairs(
    step_function: Callable, cases: Sequence[tuple[dict, dict]]
) -> list[dict[str, Any]]:
    """As `updates`, with group=: ranks 0 and 1 share one, ranks 2 and 3 the next."""
    rank, world_size = place()
    groups = [dist.new_group([first, first + 1]) for first in range(0, world_size, 2)]
    mine = {"group": groups[rank // 2]}
    return [_run_update(step_function, inputs, settings | mine) for inputs, settings in cases]


def _run_update(step_function: Callable, inputs: dict, settings: dict) -> dict[str, Any]:
    given = {name: _copy(value) for name, value in inputs.items()}
    with Traffic() as traffic:
        out = step_function(*(given[name] for name in INPUTS), **settings)
    kept = [x for x in out[1:] if isinstance(x, Tensor)] if isinstance(out, (tuple, list)) else []
    changed = [
        n for n, x in given.items() if isinstance(x, Tensor) and not _are_equal(x, inputs[n])
    ]
    return {"out": out, "seen": traffic.seen, "held": held_now(kept), "changed": changed}


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def _are_equal(found: Tensor, given: Tensor) -> bool:
    return found.shape == given.shape and torch.equal(found.nan_to_num(), given.nan_to_num())
