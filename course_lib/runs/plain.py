"""Lists and dicts of plain values: what can be copied, sent and compared without knowing whose it is.

What it is: `is_plain_container`. What it leaves out: tensors, arrays and objects.
"""

from typing import Any


def is_plain_container(value: Any) -> bool:
    """Whether it is a list or a dict of numbers, texts, None, and of such containers or tuples."""
    return type(value) in (list, dict) and _is_plain(value)


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))
