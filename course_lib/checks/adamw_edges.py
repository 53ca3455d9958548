"""Checks of adamw_step at its edges: digits that dtypes keep, settings of 0, late updates, memory.

Oracle: the textbook formulas in float64.
"""

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.adamw_formula import CLOSE, NAMES, ask, expect_spread, state, update
from course_lib.checks.calls import expect_separate_calls
from course_lib.checks.layouts import expect_any_layout
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw

OPTIONS = dict(lr=0.01, betas=(0.9, 0.95), weight_decay=0.1, eps=1e-8)


def exact(subject: Subject, draw: Draw) -> None:
    """float64 tensors are updated in float64, settings and all."""
    given = state(draw, 4, dtype=torch.float64)
    for step in (1, 3):
        tried = f"float64 tensors, update {step}"
        out = ask(subject, *given, step, **OPTIONS, tried=tried)
        right = update(*given, step, **OPTIONS)
        _expect_near(
            "OTHER",
            "float64 tensors are updated otherwise",
            out,
            right,
            rtol=1e-3,
            tried=tried,
            fits="",
            look="m, v, corrections, step, in turn.",
        )
        _expect_near(
            "ADAMW-FLOAT32",
            "float64 tensors keep float32's digits",
            out,
            right,
            rtol=1e-10,
            tried=tried,
            fits="a step in float32 on the way.",
            look="`.float()`, and `torch.tensor(...)` around settings: it makes float32.",
        )


def near_one(subject: Subject, draw: Draw) -> None:
    """Betas that bfloat16 and float16 cannot hold act as they are given."""
    for dtype, betas in (
        (torch.bfloat16, (0.998, 0.999)),
        (torch.bfloat16, (0.9, 0.998)),
        (torch.float16, (0.9998, 0.9997)),
    ):
        grad = (1 + draw.randn(4).abs().clamp(max=1)).to(dtype)
        zero = torch.zeros(4, dtype=dtype)
        tried = f"update 1 of zeros, {str(dtype)[6:]}, betas {betas}, gradient {vector(grad)}"
        # not `ask`: a beta that becomes 1 divides by 0
        out = subject.call(
            zero, grad, zero, zero, 1, lr=0.01, betas=betas, weight_decay=0.0, eps=1e-8
        )
        _expect_near(
            "ADAMW-ROUNDED",
            "settings are rounded to the dtype of the tensors",
            tuple(out),
            update(zero, grad, zero, zero, 1, betas=betas),
            rtol=0.05,  # a few roundings of 2^-8 each; a rounded beta makes 1 - beta 17% off or more
            tried=tried,
            fits="betas as tensors of that dtype: near 1 bfloat16 has steps of 0.004.",
            look="`torch.tensor(beta, dtype=...)`; numbers of Python keep their digits.",
        )


def zeros(subject: Subject, draw: Draw) -> None:
    """0 is a setting like any other, for eps, the rate, the decay and each beta."""
    param, grad, m, v = state(draw, 4)
    tiny = 1e-9 * grad.sign() * (1 + grad.abs())
    for name, options, given in (
        ("eps", dict(eps=0.0), (param, tiny, 0 * m, 0 * v)),
        ("lr", dict(lr=0.0), (param, grad, m, v)),
        ("weight_decay", dict(weight_decay=0.0, lr=0.5), (10 * param, grad, m, v)),
        ("betas[0]", dict(betas=(0.0, 0.95)), (param, grad, m, v)),
        ("betas[1]", dict(betas=(0.9, 0.0)), (param, grad, m, v)),
    ):
        settings = OPTIONS | options
        tried = f"update 1, {name} = 0"
        out = ask(subject, *given, 1, **settings, tried=tried)
        _expect_near(
            "ADAMW-ZERO",
            f"{name} = 0 is not taken as 0",
            out,
            update(*given, 1, **settings),
            terms=_terms(*given),
            rtol=2e-5,
            tried=tried,
            fits="a default in place of 0.",
            look="`or`, and `if` on a number: 0 counts as false there.",
        )


def late_and_loud(subject: Subject, draw: Draw) -> None:
    """Late updates are corrected too, loud gradients counted in full, and steps may be long."""
    loud = torch.tensor([0.05, -0.5, 20, -1000]) * (1 + draw.randn(4).abs().clamp(max=1))
    param, grad, m, v = state(draw, 4)
    zero = torch.zeros(4)
    for code, finding, fits, given, step, betas in (
        ("ADAMW-LATE", "a late update differs", "a correction that ends after some updates.",
         (param, grad, m, v), 5000, (0.9, 0.9999)),
        ("ADAMW-CLIPPED", "loud gradients count less", "gradients that are clipped.",
         (param, loud, m, v), 2, (0.9, 0.95)),
        ("ADAMW-CLIPPED", "a long step is cut", "steps of lr at most.",
         (param, grad, zero, zero), 1000, (0.9, 0.999)),
    ):  # fmt: skip
        tried = f"update {step}, betas {betas}, gradient {vector(given[1])}"
        out = ask(subject, *given, step, betas=betas, tried=tried)
        _expect_near(
            code,
            finding,
            out,
            update(*given, step, betas=betas),
            terms=_terms(*given),
            rtol=1e-4,
            tried=tried,
            fits=fits,
            look="conditions on `step`." if code == "ADAMW-LATE" else "`clamp`, `clip`, `min`.",
        )


def _terms(param: Tensor, grad: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    """How large the terms are of which the new param, m and v are sums: they may cancel."""
    return param.abs(), m.abs() + grad.abs(), v + grad.square()


def _expect_near(
    code: str,
    finding: str,
    out: tuple[Tensor, ...],
    right: tuple[Tensor, ...],
    *,
    rtol: float,
    tried: str,
    fits: str,
    look: str,
    terms: tuple[Tensor, ...] | None = None,
) -> None:
    """Errors up to `rtol` of each number, and of its terms where they are given."""
    terms = terms or (torch.zeros(()),) * 3
    for name, got, wanted, beside in zip(NAMES, out, right, terms, strict=True):
        expect.tensor(got, shape=wanted.shape, dtype=wanted.dtype, tried=tried, finite=False)
        error = (got.double() - wanted.double()).abs()
        size = wanted.double().abs() + beside.double() + 1e-12
        if not (error <= rtol * size).all():
            share = (error / size).max().item()
            small = share < 1e-4  # digits that a message does not show
            raise Wrong(
                code,
                finding,
                tried=f"{tried}; the new {name}",
                expected=f"errors up to {number(rtol)} of a number" if small else vector(wanted),
                got=f"one of {number(share)}" if small else vector(got),
                fits=fits,
                look=look,
            )


def not_finite(subject: Subject, draw: Draw) -> None:
    """Infinity and NaN go through the formula as other gradients do, number by number."""
    for dtype in (torch.float32, torch.float16):
        for put in ((torch.inf,), (-torch.inf,), (torch.nan,), (torch.inf, torch.nan, -torch.inf)):
            param, grad, m, v = state(draw, 6, dtype=dtype)
            bad = torch.arange(6) % 2 == 1
            bad &= torch.arange(6) < 2 * len(put)
            grad[bad] = torch.tensor(put, dtype=dtype)
            tried = f"update 3, {str(dtype)[6:]}, gradient {vector(grad)}"
            out = subject.call(param, grad, m, v, 3, **OPTIONS | dict(eps=1e-4))
            right = update(param, grad, m, v, 3, **OPTIONS | dict(eps=1e-4))
            for name, got, wanted in zip(NAMES, out, right, strict=True):
                at = f"{tried}; the new {name}"
                expect.tensor(got, shape=(6,), dtype=dtype, tried=at, finite=False)
                expect_spread(got, wanted, bad, code="ADAMW-NOT-FINITE", tried=at)


def any_shape(subject: Subject, draw: Draw) -> None:
    """Any number of dimensions, any order in memory."""
    for shape in ((), (0,), (1,), (2, 1, 3), (draw.size(3, 2), 4, 5)):
        given = state(draw, *shape)
        tried = f"tensors of shape {shape}, update 2"
        out = ask(subject, *given, 2, **OPTIONS, tried=tried)
        right = update(*given, 2, **OPTIONS)
        for name, got, wanted in zip(NAMES, out, right, strict=True):
            expect.values(got, wanted, **CLOSE, tried=f"{tried}; the new {name}")
    near = dict(rtol=1e-4, atol=1e-5)
    *given, v = state(draw, 3, 4, 5)

    def call(*tensors: Tensor) -> tuple:
        return tuple(subject.call(*tensors, 2, **OPTIONS))

    expect_any_layout(call, *given, v, tried="tensors of shape (3, 4, 5)", **near)
    flat = [t.flatten() for t in given] + [v.flatten()]
    for place, name in ((0, "param"), (1, "grad"), (2, "m"), (3, "v")):

        def call_one(one: Tensor, place: int = place) -> tuple:
            whole = [t.reshape(3, 4, 5) for t in flat]
            return call(*whole[:place], one, *whole[place + 1 :])

        tried = f"{name} of shape (3, 4, 5)"
        expect_any_layout(call_one, flat[place].reshape(3, 4, 5), tried=tried, **near)


def separate_calls(subject: Subject, draw: Draw) -> None:
    """Each call depends on its own arguments alone, in 16 bits too, and its results stay as they are."""
    # 16 bits: a few roundings of 2^-9; betas of a half, beside which every argument shows
    for dtype, steps, betas, close in (
        (torch.float32, (3, 2), (0.9, 0.999), dict(rtol=1e-5, atol=1e-7)),
        (torch.float32, (2, 6), (0.9, 0.999), dict(rtol=1e-5, atol=1e-7)),
        (torch.bfloat16, (2, 2), (0.5, 0.5), dict(rtol=0.03, atol=0.03)),
        (torch.float16, (2, 2), (0.5, 0.5), dict(rtol=0.03, atol=0.03)),
    ):
        first, second = (
            (10 * param, *rest, step)
            for step in steps
            for param, *rest in [state(draw, 2, 3, dtype=dtype)]
        )
        tried = f"updates {steps[0]}, {steps[1]} and {steps[0]} of tensors of one shape"
        tried += f", {str(dtype).removeprefix('torch.')}"
        options = OPTIONS | dict(betas=betas)
        out = expect_separate_calls(
            subject.probe, first, second, tried=tried, options=options, **close
        )
        for name, got, right in zip(NAMES, out, update(*second, **options), strict=True):
            if not torch.allclose(got, right, **close):
                raise Wrong(
                    "REMEMBERS",
                    "a second call differs from a first one",
                    tried=tried,
                    expected=f"{name} {vector(right.flatten())}",
                    got=f"{name} {vector(got.flatten())}",
                    fits="something kept from an earlier call.",
                    look="what is stored in a global, in a default argument or by `cache`.",
                )
