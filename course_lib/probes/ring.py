"""What a ring collective does on its rank: the result, what it sent and to whom, what it held.

Probes for `local_ranks.run(function, ..., probe="course_lib.probes.ring:calls")`: each takes
the function first and gives back plain values.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.measure.held import Held
from course_lib.ranks.traffic import Traffic


class Letters(Traffic):
    """`Traffic` that also notes to whom each send goes: its rank in the group."""

    def __init__(self):
        super().__init__()
        self.receivers: list[int] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "c10d" and func._opname == "send":  # tensors, group, receiver, tag
            self.receivers.append(int(args[2]))
        return super().__torch_dispatch__(func, types, args, kwargs)


def calls(function: Callable, inputs: list[Tensor]) -> list[dict[str, Any]]:
    """What `function(x)` gives and does for each of `inputs`.

    By name: the "value"; whether the input stays the "same"; whether the result is its "own", not the
    input's memory; bytes it keeps alive ("kept"); most bytes of new tensors at a time ("peak"); "seen",
    (name, bytes) of each collective; "receivers" of the sends.
    """
    return [_call(function, x) for x in inputs]


def laid_out_anew(function: Callable, inputs: list[Tensor]) -> list[Any]:
    """What `function(x)` returns for each of `inputs`, matrices, as views that are not contiguous."""
    found = [function(x.mT.contiguous().mT) for x in inputs]
    return [value.contiguous() if isinstance(value, Tensor) else value for value in found]


def in_pairs(function: Callable, x: Tensor) -> list[dict[str, Any]]:
    """The same for `function(x, group)` on four ranks, where 0 and 2 are a group, 1 and 3 another."""
    groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    return [_call(function, x, groups[dist.get_rank() % 2])]


def refusal(function: Callable, x: Tensor) -> tuple[str, str]:
    """The kind and the text of the exception that `function(x)` raises; two empty texts for none."""
    try:
        function(x)
    except NotImplementedError:
        raise
    except Exception as error:
        return type(error).__name__, str(error)[:60]
    return "", ""


def _call(function: Callable, x: Tensor, *group: dist.ProcessGroup) -> dict[str, Any]:
    given = x.clone()
    with Letters() as letters, Held() as held:
        value = function(given, *group)
    tensor = isinstance(value, Tensor)
    return {
        "value": value,
        "same": torch.equal(given, x),
        "own": not tensor or _memory(value).data_ptr() != _memory(given).data_ptr(),
        "kept": _memory(value).nbytes() if tensor else 0,
        "peak": held.peak,
        "seen": letters.seen,
        "receivers": letters.receivers,
    }


def _memory(x: Tensor) -> torch.UntypedStorage:
    return x.untyped_storage()
