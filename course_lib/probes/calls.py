"""What is left of one call when another has been made: results that change, answers that remember."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def call_between(
    answer: Callable, first: tuple, second: tuple, options: dict[str, Any] | None = None
) -> tuple[Any, Any, Any, Any]:
    """`answer(*first)` as it came, the same result after `answer(*second)`, that of `second`, and what
    `answer(*first)` gives then. Every call gets tensors of its own, and `options` by name."""
    named = options or {}
    with torch.no_grad():
        result = answer(*_copy(first), **named)
        came = _copy(result)
        between = _copy(answer(*_copy(second), **named))
        return came, _copy(result), between, _copy(answer(*_copy(first), **named))


def _copy(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    return type(value)(map(_copy, value)) if type(value) in (list, tuple) else value
