"""One call after another: a result stays what it was, and an answer remembers nothing.

What is here: `expect_separate_calls`. What it leaves out: whether any of the results is right, which
the other checks of a suite say.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from course_lib.checks.report import Wrong


def expect_separate_calls(
    probe: Callable[..., Any],
    first: tuple,
    second: tuple,
    *,
    tried: str,
    rtol: float,
    atol: float,
    options: dict[str, Any] | None = None,
) -> Any:
    """Call the answer with `first`, `second` and `first`; what `second` gave, for the caller to check.

    `probe` is that of a module or of a subject, whose suite then says `ranks=1`. Each call gets
    `options` by name. The first result is
    the same object before and after the second call, and the third equals it; else `Wrong`
    RESULT-CHANGES or REMEMBERS.
    """
    came, later, between, again = probe(
        "course_lib.probes.calls:call_between", first, second, options or {}
    )
    for code, found, finding, fits, look in (
        (
            "RESULT-CHANGES",
            later,
            "a result changes when the answer is called again",
            "one tensor that every call writes into and returns.",
            "`out=`, a buffer on `self` or outside the function, a slice that is returned.",
        ),
        (
            "REMEMBERS",
            again,
            "the same inputs give another result later",
            "something kept from an earlier call.",
            "what is stored on `self`, in a global, in a default argument or by `cache`.",
        ),
    ):
        if not _is_close(came, found, rtol=rtol, atol=atol):
            raise Wrong(
                code,
                finding,
                tried=tried,
                expected="each call depends on its own inputs alone",
                got="other numbers than the first time",
                fits=fits,
                look=look,
            )
    return between


def _is_close(right: Any, other: Any, *, rtol: float, atol: float) -> bool:
    if isinstance(right, (list, tuple)):
        same = type(right) is type(other) and len(right) == len(other)
        return same and all(
            _is_close(a, b, rtol=rtol, atol=atol) for a, b in zip(right, other, strict=True)
        )
    if not isinstance(right, Tensor) or not isinstance(other, Tensor):
        return right == other
    if right.shape != other.shape or right.dtype != other.dtype:
        return False
    return bool(right.isclose(other, rtol=rtol, atol=atol, equal_nan=True).all())
