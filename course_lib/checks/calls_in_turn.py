"""Many calls in turn: their results are kept, their tensors used again, the weights change in between.

What is here: `expect_calls_in_turn`, for results that are kept and for tensors whose numbers are
written over; `expect_weights_of_now`, for a module whose weights change. Both call in every way: with
gradients off and on, a module in eval mode and in training. What it leaves out: two calls and the same
inputs again (calls.py, second_call.py).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.report import Wrong, vector
from course_lib.checks.subject import Module

CALLS = 4
"""Calls of each shape: one more than are kept where two or three results take turns."""


def expect_calls_in_turn(
    probe: Callable[..., Any],
    groups: list[list[tuple]],
    gives: Callable[..., Sequence[Tensor]],
    *,
    names: Sequence[str],
    tried: str,
    rtol: float,
    atol: float,
    within_16: float = 0.0,
) -> None:
    """All calls of all `groups` give what `gives(*args)` has, by `names`, and their results stay.

    A group's calls differ in their numbers alone. Its tensors may be the same objects from call to
    call, with other numbers written into them. `probe` is that of a module or of a subject, whose
    suite then says `ranks=1`. Results in 16 bits may be off by `within_16` of themselves and
    `within_16` more. Else `Wrong` RESULT-CHANGES, REMEMBERS, or what `expect.values` says.
    """
    right = [[list(gives(*args)) for args in calls] for calls in groups]

    def is_near(got: Tensor, want: Tensor) -> bool:
        sixteen = got.element_size() == 2
        near = (within_16, within_16) if sixteen else (rtol, atol)
        return torch.allclose(got.to(want.dtype), want, rtol=near[0], atol=near[1])

    for words, *rounds in probe("course_lib.probes.calls:results_in_turn", groups):
        for i, calls in enumerate(groups):
            for j, args in enumerate(calls):
                said = f"{tried}; {_describe(args)},\ncall {j + 1} of {len(calls)}, {words}"
                found = [_parts_of(results[i][j], right[i][j], said) for results in rounds]
                for at, (name, want) in enumerate(zip(names, right[i][j], strict=True)):
                    came, later, again = (parts[at] for parts in found)
                    if not is_near(came, want):
                        old = any(is_near(came, before[at]) for before in right[i][:j])
                        raise _other_numbers(name, old=old, got=came, want=want, tried=said)
                    if not is_near(later, want):
                        raise _changed_later(name, got=later, want=want, tried=said)
                    if not is_near(again, want):
                        raise _kept_by_address(got=again, want=want, tried=said)


def _parts_of(result: Any, right: list[Tensor], tried: str) -> Sequence[Tensor]:
    """The tensors that a call gave, of the shapes of `right`; else `Wrong`."""
    parts = [result] if len(right) == 1 else result
    if not isinstance(parts, (tuple, list)) or len(parts) != len(right):
        raise Wrong(
            "TYPE",
            "another kind of result comes back",
            tried=tried,
            expected=f"{len(right)} tensors",
            got=f"a {type(result).__name__}",
            look="what stands after `return`.",
        )
    for part, want in zip(parts, right, strict=True):
        dtype = part.dtype if isinstance(part, Tensor) else want.dtype
        expect.tensor(part, shape=want.shape, dtype=dtype, tried=tried)
    return parts


def _other_numbers(name: str, *, old: bool, got: Tensor, want: Tensor, tried: str) -> Wrong:
    return Wrong(
        "REMEMBERS" if old else "OTHER",
        f"{name} is that of an earlier call" if old else f"{name} has other numbers",
        tried=tried,
        expected=_show(want, got, want),
        got=_show(got, got, want),
        fits="something kept from an earlier call." if old else "",
        look="what outlives a call: a cache, a global name, an attribute."
        if old
        else "code for this shape alone, and what outlives a call.",
    )


def _changed_later(name: str, *, got: Tensor, want: Tensor, tried: str) -> Wrong:
    return Wrong(
        "RESULT-CHANGES",
        f"{name} changes when the answer is called again",
        tried=tried,
        expected=f"{_show(want, got, want)}, after all other calls too",
        got=_show(got, got, want),
        fits="tensors that several calls write into and return.",
        look="`out=`, a buffer on `self` or outside the function, a slice that is returned.",
    )


def _kept_by_address(*, got: Tensor, want: Tensor, tried: str) -> Wrong:
    return Wrong(
        "REMEMBERS",
        "the same tensors with other numbers in them give old ones",
        tried=f"{tried}; its arguments written over in place",
        expected=_show(want, got, want),
        got=_show(got, got, want),
        fits="something kept by a tensor's address: `data_ptr()`, `id` or `is`.",
        hides="freed memory is given out again, so a new tensor may have an old one's address.",
        look="what is stored on `self`, in a global, in a default argument or by `cache`.",
    )


def _describe(args: tuple) -> str:
    first = args[0]
    return f"{str(first.dtype).removeprefix('torch.')} {tuple(first.shape)}"


def _show(x: Tensor, got: Tensor, want: Tensor) -> str:
    """Numbers of `x` from the place on where `got` and `want` differ most."""
    at = int((got.to(want.dtype) - want).abs().nan_to_num(torch.inf).argmax())
    return vector(x.flatten()[at:], 4)


def expect_weights_of_now(
    module: Module,
    state: dict[str, Tensor],
    args: tuple,
    gives: Callable[[dict[str, Tensor]], Tensor],
    *,
    rtol: float,
    atol: float,
) -> None:
    """After each parameter has got other numbers, results are those of the new ones: `gives(state)`.

    `state` has all parameters of `module` by name. Else `Wrong` REMEMBERS.
    """
    states = [state]
    for name, old in state.items():
        states.append(states[-1] | {name: old.flip(0)})
    changed = ["all", *state]
    for words, results in module.probe(
        "course_lib.probes.modules:results_of_weights", states, args
    ):
        for name, now, out in zip(changed, states, results, strict=True):
            right = gives(now)
            tried = f"other numbers in {name}, {words}"
            expect.tensor(out, shape=right.shape, dtype=args[0].dtype, tried=tried)
            bad = ~torch.isclose(out.to(right.dtype), right, rtol=rtol, atol=atol)
            if bad.any():
                row = tuple(int(i) for i in bad.nonzero()[0])[:-1]
                raise Wrong(
                    "REMEMBERS",
                    "other weights give a result of the weights before",
                    tried=tried,
                    expected=vector(right[row]),
                    got=vector(out[row]),
                    fits="weights joined, cast or copied once and kept for later calls.",
                    hides="what is loaded or trained between two calls would be without effect.",
                    look="what is kept on `self`, or outside, between two calls.",
                )
