"""Expectations that every suite shares: type, shape, dtype, NaN, values, known wrong patterns.

Each raises `Wrong` with a generic code (NONE, TYPE, SHAPE, DTYPE, NAN, OTHER) or the pattern's own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course_lib.checks.report import Wrong, as_float, number, vector


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """A wrong answer that learners really write, recognized by the numbers it gives."""

    code: str
    value: Tensor | float
    """What that wrong answer returns for the same input."""
    finding: str
    fits: str
    look: str
    hides: str = ""
    preset: str = ""


def tensor(
    out: Any, *, shape: Sequence[int], dtype: torch.dtype, tried: str = "", finite: bool = True
) -> Tensor:
    """`out`, if it is a tensor of that shape and dtype, `finite` unless told; otherwise `Wrong`."""
    not_none(out, f"a tensor of shape {tuple(shape)}", tried=tried)
    if not isinstance(out, Tensor):
        raise Wrong(
            "TYPE",
            f"the answer returned a {type(out).__name__}",
            tried=tried,
            expected=f"a torch.Tensor of shape {tuple(shape)}",
            got=f"{type(out).__name__}: {str(out)[:60]}",
            look="what stands after `return`.",
        )
    if tuple(out.shape) != tuple(shape):
        raise Wrong(
            "SHAPE",
            "the shape is another one",
            tried=tried,
            expected=f"shape {tuple(shape)}",
            got=f"shape {tuple(out.shape)}",
            look="`dim=`, `keepdim=`, and the order of dimensions.",
        )
    if out.dtype != dtype:
        raise Wrong(
            "DTYPE",
            f"the dtype is {_name(out.dtype)}",
            tried=tried,
            expected=f"{_name(dtype)}, the dtype that came in",
            got=_name(out.dtype),
            hides="the next layer then runs in another precision, or refuses.",
            look="the last step before `return`: `.to(...)`, `.type_as(...)`.",
        )
    if finite:
        not_finite(out, tried=tried)
    return out


def not_none(out: Any, wanted: str, *, tried: str = "") -> None:
    """`Wrong` NONE where nothing was returned and `wanted` should have been."""
    if out is None:
        raise Wrong(
            "NONE",
            "the answer returned None",
            tried=tried,
            expected=wanted,
            got="None",
            look="the last line: is there a `return`?",
        )


def dict_of(found: Any, keys: Sequence[str], code: str, *, tried: str) -> None:
    """`found` is a dict with exactly these keys; otherwise `Wrong`, other keys with `code`."""
    wanted = f"a dict with {', '.join(keys)}"
    not_none(found, wanted, tried=tried)
    if not isinstance(found, dict):
        raise Wrong(
            "TYPE",
            "the answer is not a dict",
            tried=tried,
            expected=wanted,
            got=f"a {type(found).__name__}",
            look="what stands after `return`.",
        )
    if set(found) != set(keys):
        raise Wrong(
            code,
            "the dict has other keys",
            tried=tried,
            expected=wanted,
            got=", ".join(sorted(map(str, found)))[:60] or "no key",
            look="the docstring: Returns.",
        )


def not_finite(out: Tensor, *, tried: str = "") -> None:
    """`Wrong` NAN when a float tensor holds NaN or infinity."""
    if out.is_floating_point() and not torch.isfinite(out).all():
        index = tuple(int(i) for i in (~torch.isfinite(out)).nonzero()[0])
        raise Wrong(
            "NAN",
            "the output holds NaN or infinity",
            tried=tried,
            expected="finite numbers for finite inputs",
            got=f"{out[index].item()} at index {index}; "
            f"{int((~torch.isfinite(out)).sum())} of {out.numel()} are not finite",
            look="divisions by zero, and exp or squares of large numbers.",
        )


def values(
    out: Tensor,
    reference: Tensor,
    patterns: Iterable[Pattern] = (),
    *,
    rtol: float,
    atol: float,
    tried: str = "",
    finding: str = "the values differ",
    look: str = "",
) -> None:
    """`out` equals `reference` within the tolerance; else the pattern that fits best, or OTHER."""
    if torch.allclose(out, reference, rtol=rtol, atol=atol):
        return
    expected, got = _first_bad(out, reference, rtol, atol)
    fitting = []  # two mistakes may give nearly the same numbers; the closer one was made
    for pattern in patterns:
        value = torch.as_tensor(pattern.value, dtype=out.dtype).expand_as(out)
        if torch.allclose(out, value, rtol=10 * rtol, atol=10 * atol, equal_nan=True):
            fitting.append((_distance(out, value), len(fitting), pattern))
    if fitting:
        nearest, _, best = min(fitting)
        as_near = [pattern for distance, _, pattern in sorted(fitting) if distance == nearest]
        raise name_pattern(best, as_near, tried=tried, expected=expected, got=got)
    raise Wrong("OTHER", finding, tried=tried, expected=expected, got=got, look=look)


def integer(out: Any, reference: int, patterns: Iterable[Pattern] = (), *, tried: str = "") -> None:
    """`out` is the whole number `reference`; a float of that value is told apart by TYPE."""
    not_none(out, f"{reference:,}", tried=tried)
    if isinstance(out, bool) or not isinstance(out, int):
        raise Wrong(
            "TYPE",
            f"the answer returned a {type(out).__name__}",
            tried=tried,
            expected=f"an int: {reference:,}",
            got=f"{out!r}"[:60],
            look="`/` makes a float, `//` keeps an int.",
        )
    if out == reference:
        return
    if fitting := [pattern for pattern in patterns if out == pattern.value]:
        texts = dict(tried=tried, expected=f"{reference:,}", got=f"{out:,}")
        raise name_pattern(fitting[0], fitting, **texts)
    ratio = f", {number(as_float(out) / reference)} times the expected" if reference else ""
    raise Wrong(
        "OTHER",
        "the count differs",
        tried=tried,
        expected=f"{reference:,}",
        got=f"{out:,}{ratio}",
        look="one term at a time, for this input.",
    )


def name_pattern(
    best: Pattern, fitting: Sequence[Pattern], *, tried: str, expected: str, got: str
) -> Wrong:
    """The message that names `best`, and one more of `fitting` where two mistakes give these very
    numbers."""
    said = [best.fits, *(pattern.fits for pattern in fitting)]
    causes = list(dict.fromkeys(text.rstrip(".") for text in said))[:2]
    return Wrong(
        best.code,
        best.finding,
        tried=tried,
        expected=expected,
        got=got,
        fits="; or ".join(causes) + ".",
        hides=best.hides,
        look=best.look,
        preset=best.preset,
    )


def _distance(out: Tensor, value: Tensor) -> float:
    """Largest difference, where both are numbers."""
    return (out - value).abs().nan_to_num(0.0, 0.0).max().item() if out.numel() else 0.0


def _first_bad(out: Tensor, reference: Tensor, rtol: float, atol: float) -> tuple[str, str]:
    bad = ~torch.isclose(out, reference, rtol=rtol, atol=atol)
    index = tuple(int(i) for i in bad.nonzero()[0])
    row = index[:-1]
    if out.dim() and out.shape[-1] <= 6:  # a short row says more than one number
        place = f"row {row}: " if row else ""
        return f"{place}{vector(reference[row])}", f"{place}{vector(out[row])}"
    return (
        f"{number(reference[index].item())} at index {index}",
        f"{number(out[index].item())} there; {int(bad.sum())} of {out.numel()} values differ",
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
