"""What the settings of a program may be: a range or a set of values for each field of a dataclass.

What it is: one check for all configs, and the words of what is wrong. What it leaves out: conditions
between two fields, which the configs check themselves.
"""

import dataclasses
import math
import numbers
import os
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, or without these ends where they are `open`; never nan."""

    low: float
    high: float
    open: bool = False
    advice: str = ""
    """What to do, where that is more than taking a number of the range."""

    def __contains__(self, value: float) -> bool:
        if self.open:
            return self.low < value < self.high
        return self.low <= value <= self.high

    def __str__(self) -> str:
        if self.open:
            return f"lie between {self.low:g} and {self.high:g}, without these two"
        if self.high == MANY:
            return "be 0 or more" if self.low == 0 else f"be at least {self.low:g}"
        return f"be {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Words:
    """Texts of one or more of `choices`, each at most once, joined by commas."""

    choices: tuple[str, ...]

    def __contains__(self, value: object) -> bool:
        words = value.split(",") if isinstance(value, str) else [""]
        return set(words) <= set(self.choices) and len(set(words)) == len(words)

    def __str__(self) -> str:
        return f"be some of {', '.join(self.choices)}, joined by commas"


MANY = 10**9
"""More than any run, batch or model has of anything."""
COUNT = Range(1, MANY)
ZERO_OR_MORE = Range(0, MANY)
SEED = Range(0, 2**63 - 1)
PATH = None
"""Any text but the empty one: the name of a file or folder."""

Allowed = Mapping[str, Any]
"""A Range, Words, a tuple of values, or PATH for each field."""


def check_settings(config: Any, allowed: Allowed) -> None:
    """ValueError names the first field of the dataclass `config` that is not as `allowed` says.

    `allowed` has a Range, Words, the values themselves, or PATH for each field; a field of type bool needs
    no entry, and one of type "X | None" may also be None. Numbers must be of the field's type: a
    bool, a text or an infinite number is none.
    """
    kinds = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        kind, value = kinds[field.name], getattr(config, field.name)
        if isinstance(kind, types.UnionType):
            if value is None:
                continue
            (kind,) = (k for k in typing.get_args(kind) if k is not type(None))
        if kind is bool:
            expected = "" if isinstance(value, bool) else "be True or False"
            advice = ""
        else:
            assert field.name in allowed, f"{type(config).__name__}.{field.name} has no range"
            expected, advice = _find_fault(kind, value, allowed[field.name])
        if expected:
            raise ValueError(f"{field.name} must {expected}, got {value!r}" + advice)


def _find_fault(kind: type, value: Any, allowed: Any) -> tuple[str, str]:
    """(what was expected, what to do), both empty for a value that is allowed."""
    if kind is str:
        if allowed is PATH:
            good = isinstance(value, str | os.PathLike) and os.fspath(value) != ""
            return ("" if good else "be a name that is not empty"), ""
        if isinstance(allowed, Words):
            return ("" if value in allowed else str(allowed)), ""
        return ("" if value in allowed else f"be one of {', '.join(allowed)}"), ""
    number = numbers.Integral if kind is int else numbers.Real
    good = isinstance(value, number) and not isinstance(value, bool)
    if not good or not math.isfinite(value):
        what = "a whole number" if kind is int else "a finite number"
        return f"{allowed} and {what}", ""
    if value in allowed:
        return "", ""
    return str(allowed), f": {allowed.advice}" if allowed.advice else ""
