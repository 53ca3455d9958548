"""Checks of lesson 04: grouped_attention.

Oracle: `masks.attention`, the formula in float64, with the heads of keys and values written out. Who
reads which head is seen directly: every value of head g is g + 1, and so is their weighted mean.
"""

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.attention_precision import (
    expect_own_calls_16,
    expect_wide_softmax,
    gradient_of_large_scores,
    large_values,
)
from course_lib.checks.calls import expect_separate_calls
from course_lib.checks.calls_in_turn import CALLS, expect_calls_in_turn
from course_lib.checks.expect import Pattern
from course_lib.checks.layouts import expect_expanded
from course_lib.checks.long_text import expect_long_text
from course_lib.checks.masks import K, attention
from course_lib.checks.report import Wrong, vector
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite


def share(x_BGTK: Tensor, H: int, *, tiled: bool = False) -> Tensor:
    """(B, G, T, K) to (B, H, T, K): neighbors share a head, or every G-th head if `tiled`."""
    G = x_BGTK.shape[1]
    readers = torch.arange(H)
    return x_BGTK[:, readers % G if tiled else readers // (H // G)]


def mix_tokens(x_BGTK: Tensor, H: int) -> Tensor:
    """(B, G, T, K) to (B, H, T, K) by a mistake: each token copied, and the copies called heads."""
    B, G, T, _ = x_BGTK.shape
    return x_BGTK.repeat_interleave(H // G, dim=2).reshape(B, H, T, K)


def draw_heads(draw: Draw, B: int, H: int, G: int, T: int) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v of H and G heads."""
    return draw.randn(B, H, T, K), draw.randn(B, G, T, K), draw.randn(B, G, T, K)


def runs(subject: Subject, draw: Draw) -> None:
    """6 query heads and 2 of keys and values in, a finite tensor of the shape of q out."""
    q, k, v = draw_heads(draw, 2, 6, 2, 5)
    tried = f"q of shape {tuple(q.shape)}, k and v of shape {tuple(k.shape)}"
    expect.tensor(subject.call(q, k, v), shape=q.shape, dtype=q.dtype, tried=tried)


def readers(subject: Subject, draw: Draw) -> None:
    """Neighboring query heads read one head of values: head h reads head h // (H / G)."""
    H, G = 6, draw.size(2, 3)
    q, k, _ = draw_heads(draw, 1, H, G, 5)
    v = torch.arange(1.0, G + 1).view(1, G, 1, 1).expand(1, G, 5, K).contiguous()
    tried = f"H = {H}, G = {G}; every value of head 0 is 1, of head 1 is 2, and so on"
    out = expect.tensor(subject.call(q, k, v), shape=q.shape, dtype=q.dtype, tried=tried)
    if not torch.allclose(out, out[:, :, :1, :1].expand_as(out), atol=1e-3):
        raise Wrong(
            "GQA-WEIGHTS",
            "the mean of equal values is another value",
            tried=tried,
            expected="in each head one number, since weights sum to 1",
            got=f"head 0: {vector(out[0, 0, :, 0])} for its 5 tokens",
            fits="weights that do not sum to 1.",
            look="the softmax: over which dimension, and is it masked before?",
        )
    rows = {name: share(v, H, tiled=name == "tiled") for name in ("shared", "tiled")}
    patterns = [
        Pattern(
            code="GQA-ORDER",
            value=rows["tiled"][0, :, 0, 0],
            finding="every other query head reads the same keys and values, not its neighbor",
            fits="the heads repeated as a block (`repeat`, `cat`, `expand` in front): 0 1 0 1.",
            look="the order in which copies of a head stand: 0 0 1 1.",
            hides="a model trained this way works; one trained elsewhere then reads wrong heads.",
        ),
        Pattern(
            code="GQA-REVERSED",
            value=rows["shared"][0, :, 0, 0].flip(0),
            finding="the first query heads read the last head of values",
            fits="an order turned round.",
            look="the index of the shared head.",
        ),
        Pattern(
            code="GQA-AVERAGED",
            value=v.mean() * torch.ones(H),
            finding="all query heads read the average of the heads",
            fits="a mean over the heads of keys and values.",
            look="`mean` or `sum` over dimension 1.",
        ),
        *(
            Pattern(
                code="GQA-ONE-HEAD",
                value=(g + 1) * torch.ones(H),
                finding=f"all query heads read head {g}",
                fits=f"head {g} alone handed on.",
                look="an index or slice of dimension 1.",
            )
            for g in (0, G - 1)
        ),
    ]
    # 1e-3: weights in float32 or less; heads differ by 1
    expect.values(
        out[0, :, 0, 0], rows["shared"][0, :, 0, 0], patterns, rtol=1e-3, atol=1e-3,
        tried=f"{tried}; output head by head", finding="query heads read other heads",
        look="which head of values belongs to query head h.",
    )  # fmt: skip


def values(subject: Subject, draw: Draw) -> None:
    """Keys and values both shared, for several G; one head for all; as many heads as queries."""
    # h / H * G, in floating point, is below a whole number where H is 22 or 23
    for H, G in ((draw.size(6, 8), 2), (4, 1), (3, 3), (12, 4), (22, 22), (23, 23), (44, 22)):
        q, k, v = draw_heads(draw, 2, H, G, draw.size(7, 5, 9))
        tried = f"H = {H}, G = {G}, random numbers"
        out = expect.tensor(subject.call(q, k, v), shape=q.shape, dtype=q.dtype, tried=tried)
        shared_k, shared_v = share(k, H), share(v, H)
        scores = q.double() @ shared_k.double().mT
        unscaled = attention(K**0.5 * q, shared_k, shared_v)
        every = (scores / K**0.5).softmax(-1) @ shared_v.double()
        cut = torch.tensor([int(h / H * G) for h in range(H)])
        patterns = [
            Pattern(
                code="GQA-ROUNDED",
                value=attention(q, k[:, cut], v[:, cut]),
                finding="some query heads read the head before theirs",
                fits="h / H * G, which is below a whole number for some heads, cut off by int.",
                look="the head's number: `//` is exact.",
            ),
            Pattern(
                code="GQA-KEYS",
                value=attention(q, share(k, H, tiled=True), shared_v),
                finding="values are shared by neighbors, keys are not",
                fits="two rules: head h // (H / G) for values, head h % G for keys.",
                look="what happens to k and to v: it must be the same.",
            ),
            Pattern(
                code="GQA-MIXED",
                value=attention(q, mix_tokens(k, H), mix_tokens(v, H)),
                finding="the tokens of a head are spread over several heads",
                fits="copies along the tokens, and a reshape that joins them into heads.",
                look="the dimension of the copies, and what reshape and view join.",
            ),
            Pattern(
                code="GQA-FUTURE",
                value=every.to(q.dtype),
                finding="tokens read the future",
                fits="attention without a causal mask.",
                look="the call that attends.",
            ),
            Pattern(
                code="GQA-NO-SCALE",
                value=unscaled,
                finding="the scores are not scaled",
                fits="softmax of q . k as it is.",
                look="1/sqrt(K), or `causal_attention`, which has it.",
            ),
        ]
        # fp32: sums of a few products, each rounded at 6e-8
        expect.values(
            out, attention(q, shared_k, shared_v), patterns, rtol=1e-4, atol=1e-5, tried=tried,
            look="the heads that k and v have when attention gets them.",
        )  # fmt: skip


def as_the_model_calls(subject: Subject, draw: Draw) -> None:
    """Strides as after `view(B, T, heads, K).transpose(1, 2)`, or `expand`; bfloat16; one token."""
    B, T, H, G = 2, draw.size(9, 7, 11), 4, 2
    inputs = [draw.randn(B, T, heads, K).transpose(1, 2) for heads in (H, G, G)]
    for words, within, (q, k, v) in (
        ("strides as after a transpose", 1e-5, inputs),
        ("one token", 1e-5, [x[:, :, :1] for x in inputs]),
        # a rounding of scores, weights and result to 2^-9 of numbers up to 4
        ("bfloat16", 0.05, [x.bfloat16() for x in inputs]),
    ):
        tried = f"{words}, (B, H, T, K) = {tuple(q.shape)}, G = {G}"
        out = expect.tensor(subject.call(q, k, v), shape=q.shape, dtype=q.dtype, tried=tried)
        expect.values(
            out.float(), attention(q, share(k, H), share(v, H)).float(), rtol=1e-4 + within,
            atol=within, tried=tried, look="`view` and casts on the way.",
        )  # fmt: skip
    tried = f"H = {H}, G = {G}, T = {T}"
    expect_expanded(subject.probe, *inputs, tried=tried, rtol=1e-4, atol=1e-5)


def low_scores(subject: Subject, draw: Draw) -> None:
    """However low the scores of the past, shared heads do not read the future."""
    T = draw.size(5, 6, 7)
    q, k, v = draw_heads(draw, 1, 4, 2, T)
    q[..., 0], k[..., 0] = K**0.5, torch.where(torch.arange(T) < T - 1, -3e4, 0.0)
    tried = "H = 4, G = 2; scaled scores near -30,000, for the last token near 0"
    out = expect.tensor(subject.call(q, k, v), shape=q.shape, dtype=q.dtype, tried=tried)
    first = share(v, 4)[:, :, 0]
    if not torch.allclose(out[:, :, 0], first, rtol=1e-3, atol=1e-3):
        raise Wrong(
            "MASK-FINITE-FILL",
            "at low scores the future is read",
            tried=tried,
            expected=f"output 0 = v of token 0: {vector(first[0, 0], limit=3)}",
            got=vector(out[0, 0, 0], limit=3),
            fits="a fill that is low, but not below every score.",
            look="the number that masked scores are set to: exp of it must be 0.",
            preset="attention:finite-fill",
        )


def long_rows(subject: Subject, draw: Draw) -> None:
    """300 tokens: the same rule for every row, whatever the length."""
    q, k, v = draw_heads(draw, 1, 2, 1, 300)
    out = expect.tensor(subject.call(q, k, v), shape=q.shape, dtype=q.dtype, tried="300 tokens")
    right = attention(q, share(k, 2), share(v, 2))
    bad = ((out - right).abs().amax(-1) > 1e-3)[0].any(0)
    if bad.any():
        first = int(bad.nonzero()[0])
        raise Wrong(
            "GQA-LENGTH",
            "in a long sequence later tokens differ",
            tried="300 tokens, H = 2, G = 1",
            expected=f"output {first} = {vector(right[0, 0, first], limit=3)}",
            got=f"{vector(out[0, 0, first], limit=3)}; outputs before it are right",
            fits="a mask or a window of a fixed size.",
            look="any length written as a number.",
        )


def long_text(subject: Subject, draw: Draw) -> None:
    """Thousands of tokens in float32 and 16 bits: each still reads itself and all before it."""
    expect_long_text(subject.call, 2, 1, "GQA-LENGTH")


def gradient(subject: Subject, draw: Draw) -> None:
    """A shared head receives the sum of what its readers send back."""
    q, k, v = draw_heads(draw, 1, 6, 2, 5)
    upstream = draw.randn(*q.shape)
    grads = subject.vjp(q, k, v, upstream=upstream)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    (attention(leaves[0], share(leaves[1], 6), share(leaves[2], 6)) * upstream).sum().backward()
    for name, grad, leaf in zip("qkv", grads, leaves, strict=True):
        tried = f"a random upstream gradient; the gradient of {name}"
        if grad is None:
            raise Wrong(
                "GQA-DETACHED",
                f"no gradient reaches {name}",
                tried=tried,
                expected="gradients for q, k and v",
                got=f"none for {name}",
                look="`.detach()`, `.data`, `torch.tensor(...)` or `no_grad`.",
            )
        patterns = []
        if name != "q":
            fits = "copies of a head whose gradients are averaged, or taken from one reader."
            patterns.append(
                Pattern(
                    code="GQA-GRADIENT",
                    value=leaf.grad / 3,
                    finding=f"the gradient of {name} is a third of the sum",
                    fits=fits,
                    look="how a head is copied: the copies' gradients add up.",
                )
            )
        expect.values(
            grad, leaf.grad, patterns, rtol=1e-3, atol=1e-4, tried=tried,
            finding=f"the gradient of {name} differs", look="steps that leave the graph.",
        )  # fmt: skip


def each_call_alone(subject: Subject, draw: Draw) -> None:
    """A result stays when another call of its shape follows, and depends on its own inputs alone."""
    first, second = (draw_heads(draw, 1, 4, 2, 5) for _ in range(2))
    tried, close = "H = 4, G = 2, T = 5, then other numbers", dict(rtol=1e-4, atol=1e-5)
    out = expect_separate_calls(subject.probe, first, second, tried=tried, **close)
    q, k, v = second
    expect.values(
        out, attention(q, share(k, 4), share(v, 4)), **close, tried=tried,
        finding="the second of two calls is wrong", look="what outlives a call.",
    )  # fmt: skip


def calls_in_turn(subject: Subject, draw: Draw) -> None:
    """Results of many calls, of one token and of several, keep their own numbers side by side."""
    sizes = ((1, 2, 1, 1), (1, 4, 2, 1), (2, 6, 3, 1), (2, 2, 2, 1), (1, 4, 2, 2), (1, 4, 1, 5))
    groups: list[list[tuple]] = [[draw_heads(draw, *size) for _ in range(CALLS)] for size in sizes]
    groups.append([tuple(x.bfloat16() for x in draw_heads(draw, 1, 4, 2, 1)) for _ in range(CALLS)])
    expect_calls_in_turn(
        subject.probe, groups,
        lambda q, k, v: (attention(q, share(k, q.shape[1]), share(v, q.shape[1])),),
        names=("the output",), tried="q, k and v of several shapes",
        rtol=1e-4, atol=1e-5, within_16=0.05,
    )  # fmt: skip


def softmax_in_sixteen_bits(subject: Subject, draw: Draw) -> None:
    """bfloat16 in, and the softmax is taken in a wider dtype, with all heads and with fewer keys;
    call by call."""
    for H, G in ((2, 2), (4, 2)):
        expect_wide_softmax(subject, H, G)
    expect_own_calls_16(subject, draw, 4, 2)


SUITES = (
    Suite(
        "gqa",
        (
            runs,
            readers,
            values,
            each_call_alone,
            calls_in_turn,
            as_the_model_calls,
            low_scores,
            long_rows,
            long_text,
            large_values,
            softmax_in_sixteen_bits,
            gradient,
            gradient_of_large_scores,
        ),
        tested="query head h reads head h // (H / G) of keys and of values, causally, from one shared "
        "head to one per query head, with gradients, in float32 and bfloat16.",
        remember="keys and values of a token take 2 G K numbers per layer, however many queries there are.",
        next_step="num_params_counted(GPTConfig(num_kv_heads=1)): how many fewer than for GPTConfig()?",
        ranks=1,
    ),
)
