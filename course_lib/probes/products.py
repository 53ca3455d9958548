"""How many products of matrices a call takes, by their sizes.

What it is: the probe of checks that an answer leaves out what it need not compute. What it leaves out:
sums of products that are written out element by element.
"""

from collections.abc import Callable
from typing import Any

import torch

from course_lib.measure.held import Recorder

FIRST = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}
"""Where the first of the two matrices stands among the arguments of each operation."""


class _Products(Recorder):
    """Adds up multiplications inside `with _Products() as products:`, in `products.count`."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func._opname in FIRST:
            self.count += out.numel() * args[FIRST[func._opname]].shape[-1]
        return out


def count_products(answer: Callable, args: tuple, options: list[dict[str, Any]]) -> list[int]:
    """Multiplications in the matrix products of `answer(*args, **given)`, for each of `options`."""
    found = []
    for given in options:
        with torch.no_grad(), _Products() as products:
            answer(*args, **given)
        found.append(products.count)
    return found
