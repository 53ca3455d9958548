"""Whether results live in the same memory as what they were made from, or as one another.

What it is: `find_shared_memory`, for functions that promise results of their own. What it is not:
a count of bytes; that is `memory`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def find_shared_memory(args: Sequence[Any], out: Any) -> str:
    """Two arrays or tensors, one of them in `out`, of which a write to one changes the other.

    In words, such as "result 0 and argument 1", or "" when all results have memory of their own.
    Tensors on a GPU are not looked at.
    """
    results = [(f"result {i}", x) for i, x in enumerate(_find_arrays(out))]
    given = [(f"argument {i}", x) for i, a in enumerate(args) for x in _find_arrays(a)]
    for i, (name, one) in enumerate(results):
        for other_name, other in (*results[i + 1 :], *given):
            if np.shares_memory(one, other):
                return f"{name} and {other_name}"
    return ""


def _find_arrays(value: Any) -> Iterator[np.ndarray]:
    """Every array and every tensor on the CPU in a value, as arrays over the same bytes."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, Tensor) and value.device.type == "cpu":
        plain = value.detach()
        wide = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        yield plain.view(wide.get(plain.element_size(), plain.dtype)).numpy()
    elif isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _find_arrays(part)
