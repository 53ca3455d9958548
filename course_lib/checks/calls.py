"""A call depends on its own inputs alone, not on other calls or on what a program has set.

What is here: `expect_separate_calls`, a result and the inputs stay what they were, and an answer
remembers nothing; `expect_own_results`, results share no memory; `expect_kept_arrays`, none of many
results changes; `expect_any_default`, torch's default dtype has no effect; `expect_arguments_alone`,
nor have launchers, GPUs and process groups; `expect_no_overflow`, no number is too large. What it
leaves out: whether any of the results is right, which the other checks of a suite say.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError


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
    RESULT-CHANGES or REMEMBERS. The inputs stay as they are with gradients off and on, and where a
    module is in eval mode and in training; else INPLACE.
    """
    came, later, between, again, changed = probe(
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
        if not is_close(came, found, rtol=rtol, atol=atol):
            raise Wrong(
                code,
                finding,
                tried=tried,
                expected="each call depends on its own inputs alone",
                got="other numbers than the first time",
                fits=fits,
                look=look,
            )
    if changed:
        raise Wrong(
            "INPLACE",
            "an argument was changed in place",
            tried=tried,
            expected="inputs are the same after the call as before it",
            got=f"other numbers in {changed}",
            fits="code for this case alone.",
            hides="the caller goes on with this tensor.",
            look="methods that end in an underscore, `+=`, `out=`, assignment to a slice.",
        )
    return between


def expect_own_results(
    probe: Callable[..., Any], calls: list[tuple], *, names: tuple[str, ...], tried: str
) -> None:
    """No result of one of `calls`, made in turn, lies in the memory of an earlier one.

    `probe` is as in `expect_separate_calls`, `names` are those of the results. Else `Wrong`
    RESULT-CHANGES.
    """
    shared = probe("course_lib.probes.calls:shared_results", calls)
    if shared:
        for i, name in enumerate(names):
            shared = shared.replace(f"result {i} of", f"{name} of")
        raise Wrong(
            "RESULT-CHANGES",
            "two calls return the same memory",
            tried=tried,
            expected="new tensors at each call: a write to one changes no other",
            got=f"shared: {shared}",
            fits="results that are kept and returned again, whole or as a slice.",
            look="what outlives a call: a cache, a global name, an attribute.",
        )


def expect_kept_arrays(
    probe: Callable[..., Any], calls: list[tuple[tuple, dict[str, Any]]], *, tried: str
) -> None:
    """The arrays that `calls` of the answer give, (arguments, options) each, stay what they were
    while the others are made.

    `probe` is as in `expect_separate_calls`. Else `Wrong` RESULT-CHANGES.
    """
    place = probe("course_lib.probes.calls:first_changed", calls)
    if place >= 0:
        raise Wrong(
            "RESULT-CHANGES",
            "a result changes when the answer is called again",
            tried=tried,
            expected=f"each of {len(calls)} results stays what it was",
            got=f"other numbers in result {place}",
            fits="one array that every call writes into, or a few in turn.",
            look="`out=`, a buffer outside the function, a slice that is returned.",
        )


WRAPS = dict(
    fits="integers of 64 bits, as numpy and torch have them.",
    look="Python's own numbers have no end.",
)
"""What a message says of a count that is not exact because it is large."""


@contextlib.contextmanager
def expect_no_overflow(code: str, finding: str, *, tried: str, expected: str) -> Iterator[None]:
    """A call of the answer in the body ends without an error of numbers that are too large for it.

    Else `Wrong` with that code and finding.
    """
    try:
        yield
    except AnswerError as failure:
        if not isinstance(failure.error, (OverflowError, RuntimeError, ValueError)):
            raise
        got = f"{type(failure.error).__name__}: {failure.error}"[:70]
        raise Wrong(code, finding, tried=tried, expected=expected, got=got, **WRAPS) from None


def expect_arguments_alone(
    probe: Callable[..., Any],
    args: list,
    options: dict[str, Any] | None = None,
    *,
    tried: str,
    code: str = "ENVIRONMENT",
) -> None:
    """What the answer gives for `args` is the same in every process: under a launcher, on a machine
    with GPUs, on a rank of a group.

    `probe` is as in `expect_separate_calls`. Else `Wrong` with that code.
    """
    found = probe("course_lib.probes.environment:call_anywhere", args, options or {})
    (_, right), *others = found
    for place, other in others:
        if other != right:
            raise Wrong(
                code,
                "the process in which it is called changes the result",
                tried=f"{tried};\nwith {place}",
                expected=f"{right}"[:76],
                got=f"{other}"[:76],
                fits="a number of devices or ranks that is asked for, not the one that is given.",
                look="`torch.distributed`, `torch.cuda`, `os.environ`: arguments alone count.",
            )


def expect_any_default(
    probe: Callable[..., Any],
    args: tuple,
    *,
    tried: str,
    rtol: float,
    atol: float,
    options: dict[str, Any] | None = None,
) -> None:
    """The answer gives for `args` what it always gives, whatever torch's default dtype is.

    `probe` is as in `expect_separate_calls`. Else `Wrong` DEFAULT-DTYPE.
    """
    wanted, *others = probe("course_lib.probes.calls:call_under_defaults", args, options or {})
    for name, found in zip(("float64", "bfloat16"), others, strict=True):
        if not is_close(wanted, found, rtol=rtol, atol=atol):
            raise Wrong(
                "DEFAULT-DTYPE",
                "torch's default dtype changes the result",
                tried=f"{tried}; torch.set_default_dtype(torch.{name})",
                expected=f"what comes without that line: {_describe(wanted)}",
                got=found[:76] if isinstance(found, str) else _describe(found, other=wanted),
                fits="a tensor that is made without `dtype=` and joins in the arithmetic.",
                hides="programs set that default, and the result must be the same in all of them.",
                look="`arange`, `ones`, `zeros`, `tensor(...)`, and whole numbers that are divided.",
            )


def _describe(value: Any, other: Any = None) -> str:
    """The dtypes of what came; "other numbers" where they are those of `other`."""
    parts = value if isinstance(value, (list, tuple)) else (value,)
    kinds = [
        str(x.dtype).removeprefix("torch.") if isinstance(x, Tensor) else type(x).__name__
        for x in parts
    ]
    said = " and ".join(dict.fromkeys(kinds))
    return f"other numbers in {said}" if other is not None and said == _describe(other) else said


def is_close(right: Any, other: Any, *, rtol: float, atol: float) -> bool:
    """Whether two results are alike: kinds, shapes, dtypes, and numbers within the tolerance."""
    if isinstance(right, (list, tuple)):
        same = type(right) is type(other) and len(right) == len(other)
        return same and all(
            is_close(a, b, rtol=rtol, atol=atol) for a, b in zip(right, other, strict=True)
        )
    if not isinstance(right, Tensor) or not isinstance(other, Tensor):
        return right == other
    if right.shape != other.shape or right.dtype != other.dtype:
        return False
    return bool(right.isclose(other, rtol=rtol, atol=atol, equal_nan=True).all())
