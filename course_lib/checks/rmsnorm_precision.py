"""Checks of lesson 01, the numerical half: 16 bits, large numbers, gradients at the edges.

Oracle: `torch.nn.functional.rms_norm` in float64.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.report import Wrong, vector
from course_lib.checks.second_call import expect_second_16_bits
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw


def low_precision(subject: Subject, draw: Draw) -> None:
    """fp16 in, fp16 out, and the squares do not overflow on the way."""
    x = torch.tensor([[300.0, -300.0, 300.0, 300.0]], dtype=torch.float16)
    out = subject.module(4).forward(x)
    tried = "x = [300, -300, 300, 300] in float16; 300^2 = 90,000 > 65,504, its largest number"
    if isinstance(out, Tensor) and (not torch.isfinite(out).all() or (out == 0).all()):
        raise Wrong(
            "RMS-FP16",
            "the squares overflowed float16",
            tried=tried,
            expected="[1, -1, 1, 1]",
            got=vector(out[0]),
            fits="squares taken in float16: the mean is infinite, its inverse root 0.",
            look="`x.float()` before the squares, the cast back at the end.",
        )
    out = expect.tensor(out, shape=x.shape, dtype=x.dtype, tried=tried)
    expect.values(out.float(), x.float() / 300, rtol=1e-3, atol=1e-3, tried=tried)
    x = draw.randn(4, 256).clamp(-3, 3).bfloat16()  # so that no output reaches 4
    out = expect.tensor(subject.module(256).forward(x), shape=x.shape, dtype=x.dtype)
    reference = F.rms_norm(x.float(), (256,), eps=1e-5)
    error = (out.float() - reference).abs().max().item()
    # numbers in [2, 4) are 2^-6 apart in bf16, so one rounding costs at most 2^-7 = 0.0078
    if error > 0.0079:
        raise Wrong(
            "RMS-BF16",
            "bfloat16 lost digits on the way",
            tried="256 random bfloat16 numbers",
            expected="an error of one rounding, at most 0.0078",
            got=f"{error:.4f}",
            fits="products taken in bfloat16, each with its own rounding.",
            look="`x.float()` at the start, one cast back at the end.",
        )


def gain_in_low_precision(subject: Subject, draw: Draw) -> None:
    """With gains other than 1, a 16-bit result is rounded once, whatever dtype the gains have."""
    dim = draw.size(64, 96)
    numbers, weight = draw.randn(8, dim).clamp(-3, 3), 1 + 0.2 * draw.randn(dim)
    module = subject.module(dim)
    module.load({"weight": weight})
    for gains in (torch.float32, torch.bfloat16):
        module.to(gains)
        weight = weight.to(gains)
        for dtype, digits in ((torch.bfloat16, 7), (torch.float16, 10)):
            x = numbers.to(dtype)
            exact = F.rms_norm(x.double(), (dim,), weight.double(), eps=1e-5)
            tried = f"{8 * dim} {str(dtype)[6:]} numbers, random gains in {str(gains)[6:]}"
            out = expect.tensor(module.forward(x), shape=x.shape, dtype=x.dtype, tried=tried)
            # bf16 numbers are 2^-7 of their power of two apart, those of fp16 2^-10: half of that
            # for one rounding, and the float32 in between may move a tie
            power = torch.exp2(torch.floor(torch.log2(exact.abs().clamp(min=2**-14))))
            share = ((out.double() - exact).abs() / power).max().item() / 2**-digits
            if share > 0.55:
                raise Wrong(
                    "RMS-BF16",
                    f"{str(dtype)[6:]} lost digits on the way",
                    tried=tried,
                    expected="one rounding at the end: at most 0.5 of the last place",
                    got=f"an error of {share:.2f} of the last place",
                    fits="a rounding to 16 bits before the end: of the gain, or before it.",
                    look="the casts: one to float32 each, one back after the gain.",
                )
    tried = "float32 numbers, random gains in bfloat16"
    out = expect.tensor(module.forward(numbers), shape=(8, dim), dtype=torch.float32, tried=tried)
    expect.values(
        out,
        F.rms_norm(numbers, (dim,), weight.float(), eps=1e-5),
        rtol=1e-4,
        atol=1e-5,
        tried=tried,
        finding="float32 numbers lose digits to gains of 16 bits",
        look="the dtype of every step: float32 until the end.",
    )
    tried = "float64 numbers"
    x = draw.randn(2, 8, dtype=torch.float64)
    out = expect.tensor(subject.module(8).forward(x), shape=x.shape, dtype=x.dtype, tried=tried)


def sixteen_bits_alone(subject: Subject, draw: Draw) -> None:
    """In 16 bits too, a result depends on the x and the gain of its own call."""
    module, x, other = subject.module(5), draw.randn(2, 3, 5), draw.randn(2, 3, 5)

    def gives(x: Tensor) -> tuple[Tensor]:
        return (F.rms_norm(x.float(), (5,), weight, eps=1e-5),)

    for weight in (torch.ones(5), draw.randn(5)):
        module.load({"weight": weight})
        expect_second_16_bits(
            module.probe, (x,), (other,), gives, names=("the result",), within=0.02,
            tried=f"gains {vector(weight)}; two inputs of shape (2, 3, 5), then the first one again",
        )  # fmt: skip


def large_numbers(subject: Subject, draw: Draw) -> None:
    """float32 numbers beyond the range of float16, and gains of thousands, are not cut off."""
    x = torch.tensor([[1e6, -1e6, 1e6, 1e6], [1e6, 1.0, 2e5, 4e5]])
    module, weight = subject.module(4), torch.tensor([5000.0, 5000.0, -5000.0, 3.0])
    module.load({"weight": weight})
    tried = "numbers up to 1e6, gains up to 5,000, in float32"
    out = expect.tensor(module.forward(x), shape=x.shape, dtype=x.dtype, tried=tried)
    right = F.rms_norm(x, (4,), weight, eps=1e-5)
    if not torch.allclose(out, right, rtol=1e-4, atol=1e-4):
        row = int((~torch.isclose(out, right, rtol=1e-4, atol=1e-4)).nonzero()[0, 0])
        raise Wrong(
            "RMS-LIMITED",
            "large values are cut off",
            tried=tried,
            expected=vector(right[row]),
            got=vector(out[row]),
            look="`clamp`, `nan_to_num`, or a cast to 16 bits on the way.",
        )


def gradient_of_zeros(subject: Subject, draw: Draw) -> None:
    """A vector of zeros has a gradient: that of x / sqrt(eps)."""
    x, upstream = torch.zeros(2, 4), draw.randn(2, 4)
    (grad,), _ = subject.module(4, eps=1e-4).vjp(x, upstream=upstream)
    tried = "x = [0, 0, 0, 0], eps = 1e-4, a random upstream gradient; the gradient of x"
    if not torch.isfinite(grad).all():
        raise Wrong(
            "RMS-NAN-GRAD",
            "the gradient of a vector of zeros is NaN",
            tried=tried,
            expected=f"{vector(100 * upstream[0])}: upstream / sqrt(eps)",
            got=vector(grad[0]),
            fits="a root of 0, whose slope is infinite.",
            look="a `sqrt` or `norm` taken before eps is added.",
        )
    expect.values(grad, 100 * upstream, rtol=1e-4, atol=1e-4, tried=tried)


def gradient_in_low_precision(subject: Subject, draw: Draw) -> None:
    """In bfloat16 the gradient flows too, through gains of float32."""
    x, upstream = draw.randn(3, 6).bfloat16(), draw.randn(3, 6).bfloat16()
    module, weight = subject.module(6), 1 + 0.2 * draw.randn(6)
    module.load({"weight": weight})
    (grad,), of_params = module.vjp(x, upstream=upstream)
    leaf = x.double().requires_grad_()
    normed = F.rms_norm(leaf, (6,), eps=1e-5)
    (normed * weight * upstream).sum().backward()
    tried = "x in bfloat16, gains in float32, a random upstream gradient"
    if grad is None or "weight" not in of_params:
        raise Wrong(
            "RMS-NO-GRAD",
            "no gradient reaches the input or the gain",
            tried=tried,
            expected="gradients for x and for weight",
            got="none",
            look="`.detach()`, `.data`, `.item()` or `no_grad` in forward.",
        )
    # roundings of 2^-9, of numbers up to 4
    close = dict(rtol=0.03, atol=0.03, tried=tried)
    expect.values(
        grad.double(), leaf.grad, **close, finding="the gradient differs in bfloat16",
        look="steps that leave the graph.",
    )  # fmt: skip
    right = (upstream.double() * normed.detach()).sum(0)
    expect.values(
        of_params["weight"].double(), right, **close, look="what the gain multiplies.",
        finding="the gradient of the gain differs in bfloat16",
    )  # fmt: skip
