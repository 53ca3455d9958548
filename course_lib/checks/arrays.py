"""Expectations for rows of whole numbers: NumPy arrays, known mistakes, refusals, in few words."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from course_lib.checks import expect
from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError

Known = tuple[str, Any, str, str, str]
"""Code, the value that a known mistake gives, finding, fits, look."""


def array(out: Any, *, shape: tuple[int, ...] | None, tried: str = "") -> np.ndarray:
    """`out`, if it is an array of that shape; `shape` None asks for one dimension."""
    expect.not_none(out, "a NumPy array", tried=tried)
    if not isinstance(out, np.ndarray):
        raise Wrong(
            "TYPE",
            f"the answer returned a {type(out).__name__}",
            tried=tried,
            expected="a NumPy array",
            got=value_line(out),
            look="what stands after `return`.",
        )
    if out.ndim != 1 or (shape is not None and out.shape != shape):
        raise Wrong(
            "SHAPE",
            "the shape is another one",
            tried=tried,
            got=f"shape {out.shape}",
            expected=f"shape {shape or 'of one dimension: one row of ids'}",
            look="how the parts are joined, or cut.",
        )
    return out


def compare(out: Any, reference: list[int], known: list[Known], *, tried: str) -> None:
    """One row of ids against the reference; the first known mistake that fits is named."""
    got = array(out, shape=None, tried=tried).tolist()
    if got == reference:
        return
    facts = dict(tried=tried, expected=row(reference), got=row(got))
    for code, value, finding, fits, look in known:
        if got == value:
            raise Wrong(code, finding, fits=fits, look=look, **facts)
    raise Wrong("OTHER", "the ids differ", look="one document at a time.", **facts)


def expect_refusal(
    call: Callable[[], Any], code: str, finding: str, *, tried: str, fits: str, look: str
) -> None:
    """The call raises ValueError; `code`, or `code`-ERROR when it raises something else."""
    facts = dict(tried=tried, expected="a ValueError", look=look)
    try:
        out = call()
    except AnswerError as failure:
        if isinstance(failure.error, ValueError):
            return
        raise Wrong(
            f"{code}-ERROR", "refused with another error", got=error_line(failure), **facts
        ) from None
    raise Wrong(code, finding, got=value_line(out), fits=fits, **facts)


def error_line(failure: AnswerError) -> str:
    """What the answer raised, in one line."""
    return f"{type(failure.error).__name__}: {failure.error}"[:70]


def value_line(out: Any) -> str:
    """A value in one line: kind, shape and first numbers of an array."""
    if isinstance(out, np.ndarray):
        return f"{out.dtype} of shape {out.shape}: {row(out)}" if out.ndim == 1 else str(out.shape)
    plain = out is None or isinstance(out, (bool, int, float, str, list, tuple))
    return f"{out!r}"[:60] if plain else type(out).__name__


def row(ids: Iterable) -> str:
    """The first numbers of a row."""
    ids = [*ids]
    shown = ", ".join(f"{id:g}" if isinstance(id, float) else str(id) for id in ids[:12])
    return f"[{shown}{f', ... {len(ids) - 12} more' if len(ids) > 12 else ''}]"
