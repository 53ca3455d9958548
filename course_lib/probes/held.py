"""What a call holds while it runs, told in bytes, and what is left of it after the next one.

What it is: the probes of checks that measure the memory of an answer, where the answer is. What it
leaves out: how much is right, which course_lib.checks says.
"""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from course_lib.measure.held import Held
from course_lib.probes.calls import call_between


def held_bytes(answer: Callable, args: tuple, kwargs: dict[str, Any]) -> int:
    """Most bytes of tensors that `answer(*args, **kwargs)` has made and not let go, at any time."""
    with Held() as held:
        answer(*args, **kwargs)
    return held.peak


def bytes_of_everything(answer: Callable, args: tuple, kwargs: dict[str, Any]) -> int:
    """Most bytes that a call holds at any time in tensors, and in NumPy arrays and Python's objects.

    It is the second of two calls, so what a first one imports or prepares does not count.
    """
    answer(*args, **kwargs)
    tracemalloc.start()
    try:
        with Held() as held:
            answer(*args, **kwargs)
        return held.peak + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def bytes_of_read_only(answer: Callable, args: tuple, kwargs: dict[str, Any]) -> int:
    """The same with a first argument, a NumPy array, that cannot be written to, as those of a file
    that is mapped for reading."""
    first = np.frombuffer(args[0].tobytes(), args[0].dtype).reshape(args[0].shape)
    return bytes_of_everything(answer, (first, *args[1:]), kwargs)


def largest_made(answer: Callable, args: tuple, kwargs: dict[str, Any]) -> int:
    """Elements of the largest tensor that `answer(*args, **kwargs)` makes."""
    with torch.no_grad(), Held() as held:
        answer(*args, **kwargs)
    return held.largest


def head_memory(
    head: nn.Module, x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor
) -> tuple[int, int]:
    """Most bytes that `head.loss_and_gradients` holds at one time, its arguments not counted, and the
    elements of the largest tensor that it makes."""
    with torch.no_grad(), Held() as held:
        head.loss_and_gradients(x_ND, weight_VD, targets_N)
    return held.peak, held.largest


def compare_head_calls(head: nn.Module, first: tuple, second: tuple, options: dict) -> tuple:
    """`call_between` of `head.loss_and_gradients`."""
    return call_between(head.loss_and_gradients, first, second, options)
