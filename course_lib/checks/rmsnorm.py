"""Checks of lesson 01: RMSNorm.forward.

Oracle: `torch.nn.functional.rms_norm`. The answer's class is built as `RMSNorm(dim, eps=...)`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.calls import expect_any_default, expect_separate_calls
from course_lib.checks.calls_in_turn import CALLS, expect_calls_in_turn, expect_weights_of_now
from course_lib.checks.expect import Pattern
from course_lib.checks.fixed_input import expect_weight_gradients
from course_lib.checks.layouts import expect_any_layout, expect_expanded
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.rmsnorm_precision import (
    gain_in_low_precision,
    gradient_in_low_precision,
    gradient_of_zeros,
    large_numbers,
    low_precision,
    sixteen_bits_alone,
)
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite


def runs(subject: Subject, draw: Draw) -> None:
    """(2, 3, 8) in, a finite tensor of the same shape and dtype out."""
    x = draw.randn(2, 3, 8)
    out = subject.module(8).forward(x)
    expect.tensor(out, shape=x.shape, dtype=x.dtype, tried="x of shape (2, 3, 8), float32")


def unit_rms(subject: Subject, draw: Draw) -> None:
    """With gain 1, each vector leaves with root mean square 1, whatever its length was."""
    dim = draw.size(4, 6, 10)
    x = 3 * draw.randn(2, 3, dim) + 1
    out = expect.tensor(subject.module(dim).forward(x), shape=x.shape, dtype=x.dtype)
    rms_in, rms_out = _rms(x), _rms(out)
    if torch.allclose(rms_out, torch.ones_like(rms_out), atol=1e-3):  # eps 1e-5 shifts it by 1e-5
        return
    mean_square = x.pow(2).mean(-1)
    index = tuple(int(i) for i in ((rms_out - 1).abs() > 1e-3).nonzero()[0])
    facts = dict(
        tried=f"vectors of {dim} numbers; that at {index} has RMS {number(rms_in[index].item())}",
        expected="RMS 1 after the norm, for every vector",
        got=f"RMS {number(rms_out[index].item())}",
    )
    for code, value, finding, fits, look in (
        (
            "RMS-SUM",
            torch.full_like(rms_out, dim**-0.5),
            "vectors leave with length 1, not RMS 1",
            f"a sum of squares where the mean belongs: RMS is 1/sqrt({dim}).",
            "`sum` against `mean` under the root.",
        ),
        (
            "RMS-NO-ROOT",
            1 / rms_in,
            "vectors leave with RMS 1/RMS, not 1",
            "division by the mean square, without its root.",
            "`rsqrt`, or `sqrt` before dividing.",
        ),
        (
            "RMS-MULTIPLIED",
            rms_in * rms_in,
            "long vectors become longer",
            "multiplication by the RMS where division belongs.",
            "`rsqrt(v)` is 1/sqrt(v): multiply by that one, divide by the other.",
        ),
        (
            "RMS-INVERSE-SQUARE",
            rms_in / mean_square.pow(2),
            "vectors leave with RMS 1/RMS^3, not 1",
            "division by the square of the mean square.",
            "how often the root is missing.",
        ),
    ):
        if torch.allclose(rms_out, value, rtol=1e-3):
            raise Wrong(code, finding, fits=fits, look=look, **facts)
    for code, dims, words in (
        ("RMS-DIM", (0,), "dimension 0"),
        ("RMS-DIM", (1,), "dimension 1"),
        ("RMS-ALL", (0, 1, 2), "the whole tensor"),
    ):
        wrong = x * torch.rsqrt(x.pow(2).mean(dims, keepdim=True) + 1e-5)
        if torch.allclose(out, wrong, atol=1e-4):
            raise Wrong(
                code,
                "vectors are mixed with each other",
                look="the `dim` of `mean`.",
                fits=f"a mean over {words}, not the last dimension.",
                **facts,
            )
    if torch.allclose(out, x, atol=1e-4):
        raise Wrong(
            "RMS-IDENTITY",
            "the input comes back unchanged",
            look="what is returned.",
            fits="a result that is computed and then not used.",
            **facts,
        )
    raise Wrong(
        "OTHER", "the RMS after the norm is not 1", look="x * rsqrt(mean(x^2) + eps).", **facts
    )


def not_centered(subject: Subject, draw: Draw) -> None:
    """A vector of equal numbers becomes ones: nothing is subtracted first."""
    x = torch.full((1, 4), 5.0)
    out = expect.tensor(subject.module(4).forward(x), shape=x.shape, dtype=x.dtype)
    if torch.allclose(out, torch.ones_like(out), atol=1e-3):
        return
    facts = dict(tried="x = [5, 5, 5, 5], gain 1", expected="[1, 1, 1, 1]", got=vector(out[0]))
    if torch.allclose(out, torch.zeros_like(out), atol=1e-2):
        raise Wrong(
            "RMS-CENTERED",
            "equal numbers became zeros",
            preset="rmsnorm:shifted",
            fits="LayerNorm: the mean is subtracted before the scale is taken.",
            look="any `x - x.mean(...)` or `var(...)`.",
            **facts,
        )
    raise Wrong(
        "OTHER", "equal numbers did not become ones", look="the line with the mean.", **facts
    )


def gain(subject: Subject, draw: Draw) -> None:
    """Each of the dim numbers is scaled by its own learned gain, after the division."""
    dim = draw.size(5, 7, 9)
    x, weight = draw.randn(3, dim), draw.randn(dim)
    module = subject.module(dim)
    if set(module.state()) != {"weight"}:
        raise Wrong(
            "RMS-STATE",
            "the parameters have other names",
            expected="one parameter, `weight`",
            got=", ".join(module.state()) or "none",
            look="`__init__`: it came with the exercise, as it must stay.",
        )
    module.load({"weight": weight})
    out = expect.tensor(module.forward(x), shape=x.shape, dtype=x.dtype)
    normed = F.rms_norm(x, (dim,), eps=1e-5)
    expect.values(
        out,
        normed * weight,
        [
            Pattern(
                code="RMS-NO-GAIN",
                value=normed,
                finding="the learned gain is not used",
                fits="a return without `self.weight`.",
                look="the last product.",
            ),
            Pattern(
                code="RMS-GAIN-PLUS-1",
                value=normed * (1 + weight),
                finding="the gain is 1 too large",
                fits="`1 + weight`, the convention of Gemma; here the gain itself starts at 1.",
                look="the last product.",
            ),
            Pattern(
                code="RMS-GAIN-FIRST",
                value=F.rms_norm(x * weight, (dim,), eps=1e-5),
                finding="the gain is applied before the norm",
                fits="a norm of `x * weight`: its RMS is 1 again.",
                look="the order of the steps.",
            ),
        ],
        # another eps moves this by eps / (2 * mean square), 1e-4 where the mean square is 0.05: that
        # is for the next check to name
        rtol=1e-3,
        atol=1e-5,
        tried=f"random gains, {dim} of them",
        finding="the gain acts otherwise",
        look="where `self.weight` enters.",
    )


def each_call_alone(subject: Subject, draw: Draw) -> None:
    """A result depends on the x and the gain of its own call, and stays when another one follows."""
    module, first, second = subject.module(5), draw.randn(2, 3, 5), draw.randn(2, 3, 5)
    tried = "two inputs of shape (2, 3, 5), then the first one again"
    close = dict(rtol=1e-4, atol=1e-5)
    out = expect_separate_calls(module.probe, (first,), (second,), tried=tried, **close)
    expect.values(
        out, F.rms_norm(second, (5,), eps=1e-5), **close, tried=tried,
        finding="the second of two calls is wrong", look="what outlives a call.",
    )  # fmt: skip
    expect_any_default(module.probe, (first,), tried="the gain and x in float32", **close)
    expect_weights_of_now(
        module, {"weight": draw.randn(5)}, (first,),
        lambda state: F.rms_norm(first, (5,), state["weight"], eps=1e-5), **close,
    )  # fmt: skip


def calls_in_turn(subject: Subject, draw: Draw) -> None:
    """Results of many calls, of one vector and of several, keep their own numbers side by side."""
    module, weight = subject.module(5), 1 + 0.3 * draw.randn(5)
    module.load({"weight": weight})
    shapes = ((5,), (1, 5), (1, 1, 5), (2, 1, 5), (2, 3, 5))
    sizes = [(shape, torch.float32) for shape in shapes]
    sizes += [((1, 1, 5), dtype) for dtype in (torch.bfloat16, torch.float16)]
    groups = [[(draw.randn(*shape, dtype=d),) for _ in range(CALLS)] for shape, d in sizes]
    expect_calls_in_turn(
        module.probe, groups, lambda x: (F.rms_norm(x.float(), (5,), weight, eps=1e-5),),
        names=("the result",), tried="x of several shapes", rtol=1e-4, atol=1e-5, within_16=0.02,
    )  # fmt: skip


def epsilon(subject: Subject, draw: Draw) -> None:
    """eps is added to the mean square, inside the root; zeros stay zeros."""
    eps = 1e-4  # beside a mean square of 9e-6, so that 1e-4, 1e-5, 1e-6 and none all differ
    x = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.003, -0.003, 0.003, -0.003]])
    out = subject.module(4, eps=eps).forward(x)
    tried = f"eps = {eps}; one vector of zeros, one of RMS 0.003"
    if isinstance(out, Tensor) and torch.isnan(out[0]).any():
        raise Wrong(
            "RMS-NO-EPS",
            "a vector of zeros became NaN",
            tried=tried,
            preset="rmsnorm:all-zero",
            expected="[0, 0, 0, 0]: 0 / sqrt(0 + eps)",
            got=vector(out[0]),
            fits="0 / 0: no eps under the root.",
            look="`self.eps`.",
        )
    out = expect.tensor(out, shape=x.shape, dtype=x.dtype, tried=tried)
    rms = x.pow(2).mean(-1, keepdim=True).sqrt()
    expect.values(
        out,
        F.rms_norm(x, (4,), eps=eps),
        [
            Pattern(
                code="RMS-NO-EPS",
                value=torch.where(rms > 0, x / rms, 0.0),
                finding="eps has no effect",
                fits="a division by the RMS alone.",
                look="`self.eps`.",
                preset="rmsnorm:tiny",
            ),
            Pattern(
                code="RMS-EPS-OUTSIDE",
                value=x / (rms + eps),
                finding="eps stands outside the root",
                fits="x / (sqrt(mean square) + eps).",
                look="what is inside `sqrt` or `rsqrt`.",
                preset="rmsnorm:tiny",
            ),
            Pattern(
                code="RMS-EPS-FIXED",
                value=F.rms_norm(x, (4,), eps=1e-5),
                finding="eps is a fixed number",
                fits="1e-5 written into the formula.",
                look="`self.eps`, which the caller may set.",
            ),
            Pattern(
                code="RMS-EPS-FIXED",
                value=F.rms_norm(x, (4,), eps=1e-6),
                finding="eps is a fixed number",
                fits="1e-6 written into the formula.",
                look="`self.eps`, which the caller may set.",
            ),
        ],
        rtol=1e-5,
        atol=1e-6,
        tried=tried,
        finding="eps acts otherwise",
        look="`self.eps`.",
    )


def no_epsilon(subject: Subject, draw: Draw) -> None:
    """eps = 0 is a number too."""
    x = torch.tensor([[0.003, -0.003, 0.003, -0.003]])
    out = expect.tensor(subject.module(4, 0.0).forward(x), shape=x.shape, dtype=x.dtype)
    if not torch.allclose(out, x / 0.003, rtol=1e-4):
        raise Wrong(
            "RMS-EPS-ZERO",
            "an eps of 0 is taken for none",
            tried="RMSNorm(4, 0.0); a vector of RMS 0.003",
            expected="[1, -1, 1, -1]",
            got=vector(out[0]),
            look="`or`, or an `if` on eps: 0 counts as False there.",
        )


def any_shape(subject: Subject, draw: Draw) -> None:
    """Any number of leading dimensions, in memory in any order; each vector by itself."""
    module = subject.module(6)
    for shape in ((6,), (4, 6), (0, 6), (2, 0, 6), (2, 3, 1, 4, 6)):
        x, tried = draw.randn(*shape), f"x of shape {shape}"
        out = expect.tensor(module.forward(x), shape=shape, dtype=x.dtype, tried=tried)
        right = F.rms_norm(x, (6,), eps=1e-5)
        expect.values(out, right, rtol=1e-4, atol=1e-5, tried=tried, look="the `dim` of `mean`.")
    x, close = draw.randn(2, 3, 4, 6), dict(tried="x of shape (2, 3, 4, 6)", rtol=1e-4, atol=1e-5)
    expect_any_layout(module.forward, x, **close)
    expect_expanded(module.probe, x, **close)
    x, tried = draw.randn(3, 1), "D = 1; x of shape (3, 1)"
    out = expect.tensor(subject.module(1).forward(x), shape=x.shape, dtype=x.dtype, tried=tried)
    expect.values(out, F.rms_norm(x, (1,), eps=1e-5), rtol=1e-4, atol=1e-5, tried=tried)
    x = draw.randn(2, 6, 4).transpose(1, 2)
    tried = "x of shape (2, 4, 6), the numbers of a vector apart in memory"
    out = expect.tensor(module.forward(x), shape=x.shape, dtype=x.dtype, tried=tried)
    right = F.rms_norm(x.contiguous(), (6,), eps=1e-5)
    if not torch.allclose(out, right, rtol=1e-4, atol=1e-5):
        raise Wrong(
            "STRIDED",
            "a tensor that is not contiguous gives other numbers",
            tried=tried,
            expected=vector(right[0, 0], 4),
            got=vector(out[0, 0], 4),
            fits="the memory read in its own order, not in that of the indices.",
            look="`as_strided`, `data_ptr`, `storage`, or a transpose that is not undone.",
        )


def default_epsilon(subject: Subject, draw: Draw) -> None:
    """Without eps= it is 1e-5."""
    x = torch.tensor([[0.003, -0.003, 0.003, -0.003]])  # mean square 9e-6, beside 1e-5
    out = expect.tensor(subject.module(4).forward(x), shape=x.shape, dtype=x.dtype)
    right = F.rms_norm(x, (4,), eps=1e-5)
    if not torch.allclose(out, right, rtol=1e-3):
        raise Wrong(
            "RMS-EPS-DEFAULT",
            "eps has another default",
            tried="RMSNorm(4), no eps given; a vector of RMS 0.003",
            expected=f"{vector(right[0])}: eps = 1e-5",
            got=vector(out[0]),
            look="the signature of `__init__`: it came with the exercise.",
        )


def gradient(subject: Subject, draw: Draw) -> None:
    """The gradient flows through the RMS too."""
    x, upstream = draw.randn(3, 6), draw.randn(3, 6)
    (grad,), of_params = subject.module(6).vjp(x, upstream=upstream)
    leaf = x.clone().requires_grad_()
    normed = F.rms_norm(leaf, (6,), eps=1e-5)
    (normed * upstream).sum().backward()
    if grad is None or "weight" not in of_params:
        raise Wrong(
            "RMS-NO-GRAD",
            "no gradient reaches the input or the gain",
            expected="gradients for x and for weight",
            got="none",
            look="`.detach()`, `.data`, `.item()` or `no_grad` in forward.",
        )
    inverse_rms = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
    expect.values(
        grad,
        leaf.grad,
        [
            Pattern(
                code="RMS-DETACHED",
                value=upstream * inverse_rms,
                finding="the gradient treats the RMS as a constant",
                fits="a detached RMS.",
                look="`.detach()`, `.data`, `.item()` or `no_grad`.",
            )
        ],
        rtol=1e-4,
        atol=1e-5,
        tried="a random upstream gradient",
        finding="the gradient differs",
        look="steps that leave the graph.",
    )
    expect.values(
        of_params["weight"],
        (upstream * normed.detach()).sum(0),
        rtol=1e-4,
        atol=1e-5,
        tried="a random upstream gradient",
        finding="the gradient of the gain differs",
        look="what the gain multiplies.",
    )
    expect_weight_gradients(subject.module(6), (x,), upstream, tried="a random upstream gradient")


def _rms(x: Tensor) -> Tensor:
    return x.pow(2).mean(-1).sqrt()


SUITES = (
    Suite(
        "rmsnorm",
        (
            runs,
            unit_rms,
            not_centered,
            gain,
            each_call_alone,
            calls_in_turn,
            epsilon,
            default_epsilon,
            no_epsilon,
            low_precision,
            gain_in_low_precision,
            sixteen_bits_alone,
            large_numbers,
            any_shape,
            gradient,
            gradient_of_zeros,
            gradient_in_low_precision,
        ),
        tested="equal to torch's rms_norm, eps included, in float32, "
        "float16 and bfloat16, with its gradient.",
        remember="float16 squares overflow beyond 255.9; the mean square needs float32.",
        next_step='"Plus 2" in the figure above: LayerNorm stays and RMSNorm moves.',
    ),
)
