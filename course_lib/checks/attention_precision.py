"""Checks of lesson 04, the numerical half: large scores, 16 bits, gradients.

Oracle: `masks.attention`, the formula in float64.
"""

import math

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.masks import K, attention
from course_lib.checks.report import Wrong, vector
from course_lib.checks.second_call import expect_second_16_bits
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw


def large_scores(subject: Subject, draw: Draw) -> None:
    """Scores near 200 and near -200: exp must not overflow, and the future stays closed."""
    T = draw.size(5, 6, 7)
    past = torch.arange(T) < T - 1
    for near, words in (
        (torch.full((T,), 200.0), "scaled scores near 200; e^200 is beyond float32"),
        (torch.full((T,), -200.0), "scaled scores near -200; e^-200 is below float32"),
        (torch.where(past, -3e4, 0.0), "scaled scores near -30,000, for the last token near 0"),
        (torch.where(past, -200.0, 200.0), "scaled scores near -200, for the last token near 200"),
    ):
        q, k, v, other_v = (draw.randn(1, 2, T, K) for _ in range(4))
        q[..., 0], k[..., 0] = K**0.5, near  # adds `near` to the scaled scores
        out = subject.call(q, k, v)
        facts = dict(
            tried=words, expected=f"output 0 = v of token 0: {vector(v[0, 0, 0], limit=3)}"
        )
        if isinstance(out, Tensor) and not torch.isfinite(out).all():
            raise Wrong(
                "ATT-OVERFLOW",
                "large scores give NaN or infinity",
                got=vector(out[0, 0, 0], limit=3),
                fits="inf / inf or 0 / 0: exp without the maximum of the allowed scores.",
                look="what happens between scores and weights; softmax subtracts\n"
                "the maximum of a row, and after the mask it is the right one.",
                **facts,
            )
        out = expect.tensor(out, shape=q.shape, dtype=q.dtype, tried=words)
        other = subject.call(q, k, torch.where(past.view(T, 1), v, other_v))
        if not torch.allclose(out[:, :, 0], other[:, :, 0], atol=1e-5):
            raise Wrong(
                "MASK-FINITE-FILL",
                "at low scores the future is read",
                preset="attention:finite-fill",
                got=f"output 0 is {vector(out[0, 0, 0], limit=3)}, and moves with the last v",
                fits="a fill that is low, but not below every score.",
                look="the number that masked scores are set to: exp of it must be 0.",
                **facts,
            )
        if near.min() < -1000:
            continue  # here float32 knows the scores to 0.002 alone
        # scores of 200 carry an fp32 rounding of 2e-5, a few of them, and exp passes it on
        expect.values(
            out,
            attention(q, k, v),
            rtol=2e-3,
            atol=2e-3,
            tried=words,
            finding="large scores give other outputs",
            look="mask and softmax.",
        )


def expect_whole_sum(subject: Subject, H: int, G: int) -> None:
    """In bfloat16 the softmax of H query heads and G heads of keys and values keeps its sum."""
    T = 257  # bf16 rounds 257 to 256, 1/257 hardly: a sum taken in bf16 shows, a cast does not
    v = torch.linspace(1, 2, 33)[:32].bfloat16().expand(1, G, T, 32).contiguous()
    q = torch.zeros(1, H, T, 32, dtype=v.dtype)
    tried = f"{T} bfloat16 tokens with equal scores and equal v, {H} and {G} heads"
    out = subject.call(q, torch.zeros_like(v), v)
    out = expect.tensor(out, shape=q.shape, dtype=v.dtype, tried=tried)
    ratio = (out[0, -1, -1].float() / v[0, -1, -1].float()).mean().item()
    # right answers are within 1e-4; one extra rounding to bf16 inside moves it by 4e-3
    if abs(ratio - 1) > 2e-3:
        raise _lost_digits(
            tried=tried,
            expected=f"the mean of {T} equal vectors is that vector: ratio 1.0000",
            got=f"ratio {ratio:.4f} for the last token",
            fits="exp, sum or division rounded to bfloat16 on the way.",
        )


def expect_wide_softmax(subject: Subject, H: int, G: int) -> None:
    """In bfloat16 the softmax of H query heads and G of keys and values is that of a wider dtype."""
    expect_whole_sum(subject, H, G)
    # Both scores are exact in bfloat16, also times 4, and so are weights and exponentials within 1e-4.
    # Their difference is not: 7.8917 becomes 7.9063, and an exponential 1.5% less.
    many, high, low = 238, 253 / 32, 15 / 1024
    q, k, v = (torch.zeros(1, heads, many + 1, 16, dtype=torch.bfloat16) for heads in (H, G, G))
    q[..., 0], k[..., 0, 0], k[..., 1:, 0] = 4.0, high, low
    v[..., 1:, :] = torch.linspace(1, 2, 17)[:16]
    tried = (
        f"bfloat16, {H} and {G} heads: a token of scaled score {high} and v = 0,\n"
        f"then {many} of score {low:.6f} and equal v"
    )
    out = expect.tensor(subject.call(q, k, v), shape=q.shape, dtype=q.dtype, tried=tried)
    found = (out[0, -1, -1].float() / v[0, -1, -1].float()).mean().item()
    right = 1 / (1 + math.exp(high - low) / many)
    # right answers are within 0.1%
    if abs(found / right - 1) > 5e-3:
        raise _lost_digits(
            tried=tried,
            expected=f"these {many} weigh {right:.4f} together for the last token",
            got=f"{found:.4f}",
            fits="score minus maximum in bfloat16, even if what follows is in float32.",
        )


def _lost_digits(**facts: str) -> Wrong:
    look = "the dtype of the scores when softmax begins."
    return Wrong("ATT-SOFTMAX-16", "the softmax lost digits in bfloat16", look=look, **facts)


def low_precision(subject: Subject, draw: Draw) -> None:
    """bfloat16 in, bfloat16 out, and the softmax is taken in a wider dtype."""
    expect_wide_softmax(subject, 1, 1)
    q, k, v = (draw.randn(1, 2, 16, K, dtype=torch.bfloat16) for _ in range(3))
    out = expect.tensor(subject.call(q, k, v), shape=q.shape, dtype=q.dtype)
    # scores and weights may each be rounded to bf16 once (2^-9 of numbers up to 4), and the output
    expect.values(
        out.float(),
        attention(q, k, v).float(),
        rtol=0.05,
        atol=0.05,
        tried="random bfloat16 tokens",
        finding="bfloat16 gives other outputs",
        look="casts before the last product.",
    )


def float16(subject: Subject, draw: Draw) -> None:
    """float16 in, float16 out: its largest number is 65,504; in 16 bits call by call."""
    q, k, v = (draw.randn(1, 2, 16, K, dtype=torch.float16) for _ in range(3))
    facts = dict(
        tried="random float16 tokens",
        expected="the same averages, in float16",
        look="the number that masked scores are set to: -inf fits every float dtype.",
    )
    try:
        out = subject.call(q, k, v)
    except AnswerError as failure:
        got = f"{type(failure.error).__name__}: {failure.error}"
        if "overflow" not in got:
            raise
        raise Wrong(
            "ATT-FLOAT16",
            "a number does not fit into float16",
            got=got[:76],
            fits="a fill such as -1e9, beyond the range of float16.",
            **facts,
        ) from None
    out = expect.tensor(out, shape=q.shape, dtype=q.dtype, tried=facts["tried"])
    # three roundings of 2^-11 of numbers below 4, and those of the scores before exp
    expect.values(
        out.float(), attention(q.double(), k.double(), v.double()).float(), rtol=0.02, atol=0.02,
        tried=facts["tried"], finding="float16 gives other outputs", look="casts on the way.",
    )  # fmt: skip
    expect_own_calls_16(subject, draw, 2, 2)


def expect_own_calls_16(subject: Subject, draw: Draw, H: int, G: int) -> None:
    """In 16 bits too, a call of H query heads and G of keys and values depends on its own inputs."""
    first, second = (tuple(draw.randn(1, heads, 5, 4) for heads in (H, G, G)) for _ in range(2))

    def gives(q, k, v):
        return (attention(q, *(x.repeat_interleave(H // G, dim=1) for x in (k, v))),)

    # scores, weights and the output rounded, as in `low_precision`
    expect_second_16_bits(
        subject.probe, first, second, gives, names=("the output",), within=0.05,
        tried=f"H = {H}, G = {G}, T = 5, then other numbers, then the first ones again",
    )  # fmt: skip


def float64(subject: Subject, draw: Draw) -> None:
    """float64 in, float64 out, with the digits of float32 at least."""
    q, k, v = (draw.randn(1, 2, 16, K).double() for _ in range(3))
    tried = "random float64 tokens"
    out = expect.tensor(subject.call(q, k, v), shape=q.shape, dtype=q.dtype, tried=tried)
    # the softmax may be in float32: each weight is rounded at 6e-8, a few times
    expect.values(
        out,
        attention(q, k, v),
        rtol=1e-4,
        atol=1e-5,
        tried=tried,
        finding="float64 gives other outputs",
        look="casts on the way: float32 is the least.",
    )


def long_rows(subject: Subject, draw: Draw) -> None:
    """520 tokens: the same rule for every row, whatever the length."""
    T = 520
    q, k, v = (draw.randn(1, 1, T, K) for _ in range(3))
    tried = f"{T} tokens"
    out = expect.tensor(subject.call(q, k, v), shape=q.shape, dtype=q.dtype, tried=tried)
    right = attention(q, k, v)
    bad = (out - right).abs().amax(-1)[0, 0] > 1e-3
    if bad.any():
        first = int(bad.nonzero()[0])
        raise Wrong(
            "ATT-LENGTH",
            "in a long sequence later tokens differ",
            tried=tried,
            expected=f"output {first} = {vector(right[0, 0, first], limit=3)}",
            got=f"{vector(out[0, 0, first], limit=3)}; outputs before it are right",
            fits="a mask or a window of a fixed size.",
            look="any length written as a number.",
        )


def gradient(subject: Subject, draw: Draw) -> None:
    """q, k and v all receive their gradient, through the softmax."""
    q, k, v, upstream = (draw.randn(1, 2, 6, K) for _ in range(4))
    grads = subject.vjp(q, k, v, upstream=upstream)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    (attention(*leaves) * upstream).sum().backward()
    missing = [name for name, grad in zip("qkv", grads, strict=True) if grad is None]
    if missing:
        raise Wrong(
            "ATT-DETACHED",
            f"no gradient reaches {', '.join(missing)}",
            tried="a random upstream gradient",
            expected="gradients for q, k and v",
            got=f"none for {', '.join(missing)}",
            look="`.detach()`, `.data`, `torch.tensor(...)` or `no_grad`.",
        )
    for name, grad, leaf in zip("qkv", grads, leaves, strict=True):
        tried = f"a random upstream gradient; the gradient of {name}"
        expect.not_finite(grad, tried=tried)
        expect.values(
            grad,
            leaf.grad,
            rtol=1e-3,
            atol=1e-4,
            tried=tried,
            finding=f"the gradient of {name} differs",
            look="steps that leave the graph.",
        )


def gradient_of_large_scores(subject: Subject, draw: Draw) -> None:
    """Where a later token has a far larger score, the gradients of the others are finite and right."""
    T = draw.size(5, 6, 7)
    q, k, v, upstream = (draw.randn(1, 2, T, K) for _ in range(4))
    q[..., 0], k[..., 0] = K**0.5, torch.where(torch.arange(T) < T - 1, 0.0, 200.0)
    grads = subject.vjp(q, k, v, upstream=upstream)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    (attention(*leaves) * upstream).sum().backward()
    for name, grad, leaf in zip("qkv", grads, leaves, strict=True):
        tried = f"scaled scores near 200 for the last token, near 0 for others; gradient of {name}"
        if not torch.isfinite(grad).all():
            raise Wrong(
                "ATT-NAN-GRAD",
                f"the gradient of {name} is NaN",
                tried=tried,
                expected=vector(leaf.grad[0, 0, 0], limit=3),
                got=vector(grad[0, 0, 0], limit=3),
                fits="exp of a masked score, infinite and thrown away: its gradient is inf * 0.",
                look="the order of mask and exp: the mask comes first.",
            )
        # scores of 200 carry an fp32 rounding of 2e-5, times keys of 200
        expect.values(grad, leaf.grad, rtol=1e-2, atol=1e-2, tried=tried)


def large_values(subject: Subject, draw: Draw) -> None:
    """Values of a million are averaged as others are."""
    q, k, v = (draw.randn(1, 2, 5, K) for _ in range(3))
    v = 1e6 * v
    tried = "values of about 1,000,000, in float32"
    out = expect.tensor(subject.call(q, k, v), shape=q.shape, dtype=q.dtype, tried=tried)
    right = attention(q, k, v)
    if not torch.allclose(out, right, rtol=1e-3, atol=100):
        index = tuple(
            int(i) for i in (~torch.isclose(out, right, rtol=1e-3, atol=100)).nonzero()[0]
        )
        raise Wrong(
            "ATT-LIMITED",
            "large values are cut off",
            tried=tried,
            expected=vector(right[index[:-1]], limit=3),
            got=vector(out[index[:-1]], limit=3),
            look="`clamp`, or a cast to 16 bits on the way.",
        )
