"""What a call depends on besides its inputs: other calls before or after it, torch's default dtype."""

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


def call_under_defaults(
    answer: Callable, args: tuple, options: dict[str, Any] | None = None
) -> list[Any]:
    """`answer(*args)` as it is, then with float64 and then with bfloat16 as torch's default dtype.

    What a call raised under another default comes back as its text.
    """
    before, results = torch.get_default_dtype(), []
    for default in (before, torch.float64, torch.bfloat16):
        try:
            torch.set_default_dtype(default)
            with torch.no_grad():
                results.append(_copy(answer(*_copy(args), **(options or {}))))
        except Exception as error:
            if default == before:
                raise
            results.append(f"{type(error).__name__}: {error}")
        finally:
            torch.set_default_dtype(before)
    return results


def _copy(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    return type(value)(map(_copy, value)) if type(value) in (list, tuple) else value
