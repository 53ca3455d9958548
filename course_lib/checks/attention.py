"""Checks of lesson 04: causal_attention.

Oracle: the formula in float64. The answer returns outputs only, so its weights are read by handing
it v = identity: then output row i holds the weights of query i, key by key.
"""

import math

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.attention_precision import (
    float16,
    float64,
    gradient,
    gradient_of_large_scores,
    large_scores,
    large_values,
    long_rows,
    low_precision,
)
from course_lib.checks.calls_in_turn import CALLS, expect_calls_in_turn
from course_lib.checks.expect import Pattern
from course_lib.checks.layouts import expect_expanded
from course_lib.checks.long_text import LENGTHS, expect_long_text
from course_lib.checks.masks import (
    K,
    are_close,
    attention,
    draw_small,
    grid,
    leak,
    name_nan_rows,
    outputs,
    scores_of,
    slope,
    weights_of,
)
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.second_call import expect_second_call
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite


def runs(subject: Subject, draw: Draw) -> None:
    """(2, 3, 5, 8) in, a finite tensor of the same shape and dtype out, and it depends on v."""
    q, k, v, other_v = (draw.randn(2, 3, 5, K) for _ in range(4))
    tried = "q, k, v of shape (B, H, T, K) = (2, 3, 5, 8), float32"
    out = subject.call(q, k, v)
    if isinstance(out, Tensor) and tuple(out.shape) == (2, 3, 5, 5):
        raise Wrong(
            "ATT-V-MISSING",
            "the weights come back, not the weighted sum of v",
            tried=tried,
            expected="shape (2, 3, 5, 8)",
            got="shape (2, 3, 5, 5): (B, H, T, T)",
            look="the last product: weights @ v.",
        )
    if isinstance(out, Tensor) and out.shape == q.shape and out.is_floating_point():
        name_nan_rows(out, q, k, v, tried)
    expect.tensor(out, shape=q.shape, dtype=q.dtype, tried=tried)
    again = subject.call(q, k, v)
    if not (isinstance(again, Tensor) and torch.allclose(out, again, atol=1e-5)):
        raise Wrong(
            "ATT-RANDOM",
            "two calls with one input differ",
            tried=tried,
            expected="the same output twice",
            got="two different ones",
            look="dropout, or memory that was never filled (`torch.empty`).",
        )
    if torch.equal(out, subject.call(q, k, other_v)):
        fits = {"k": k, "q": q}
        used = [
            name for name, x in fits.items() if torch.allclose(out, attention(q, k, x), atol=1e-4)
        ]
        raise Wrong(
            "ATT-V-UNUSED",
            "another v gives the same output",
            tried="v alone was changed",
            expected="other outputs: they are weighted sums of v",
            got="the same, bit for bit",
            fits=f"a sum over {used[0]} in place of v." if used else "",
            look="the last product: weights @ v.",
        )


def causality(subject: Subject, draw: Draw) -> None:
    """Output i changes when token j does, for j <= i, and only then."""
    T = draw.size(5, 6, 7)
    q, k, fresh_k = (draw_small(draw, 1, 2, T) for _ in range(3))
    v, fresh_v = draw.randn(1, 2, T, K), draw.randn(1, 2, T, K)
    before = outputs(subject, q, k, v)
    change = torch.zeros(T, T)
    for j in range(T):
        token = torch.arange(T).view(T, 1) == j
        after = outputs(subject, q, torch.where(token, fresh_k, k), torch.where(token, fresh_v, v))
        change[:, j] = (after - before).abs().amax(dim=(0, 1, 3))
    # an untouched output is the same to the bit; 2e-6 leaves room for fp32 sums in another order
    reads, may = change > 2e-6, torch.ones(T, T, dtype=torch.bool).tril()
    if torch.equal(reads, may):
        return
    leaks = (reads & ~may).nonzero()
    if len(leaks):
        j = int(leaks[:, 1].max())
        i = int(leaks[leaks[:, 1] == j][:, 0].max())
        raise leak(weights_of(subject, q, k), q, k, i, j, change)
    i, j = (int(n) for n in (may & ~reads).nonzero()[-1])
    raise Wrong(
        "MASK-BLIND",
        f"token {i} cannot read token {j}",
        tried=f"{T} tokens; then key and value of token {j} alone were changed",
        expected=f"output {i} changes: a token reads itself and all of the past",
        got=f"output {i} stays the same\n{grid(change, i)}",
        fits="a mask that hides more than the future.",
        look="where the mask is built.",
    )


def averages(subject: Subject, draw: Draw) -> None:
    """The weights of one query are not negative and sum to 1."""
    T = draw.size(5, 6, 7)
    q, k = draw.randn(1, 2, T, K), draw.randn(1, 2, T, K)
    weights, scores = weights_of(subject, q, k), scores_of(q, k)
    sums = weights.sum(-1)
    # 1e-2: digits are the matter of a later check
    if (weights >= -1e-6).all() and torch.allclose(sums, torch.ones_like(sums), atol=1e-2):
        return
    facts = dict(
        tried=f"{T} tokens, v = identity: output row i shows the weights of query i",
        expected="weights >= 0, and each row sums to 1",
        got=f"weights of query 2: {vector(weights[0, 0, 2])}\n"
        f"row sums: {vector(sums[0, 0], limit=T)}",
    )
    lower = torch.ones(T, T, dtype=torch.bool).tril()
    masked = scores.masked_fill(~lower, -math.inf)
    ratio = sums.mean().item()
    if are_close(sums, torch.full_like(sums, ratio)):
        raise Wrong(
            "ATT-SCALE-LATE",
            f"the weights of a row sum to {number(ratio)}, not 1",
            fits="a scale that acts after the softmax; 1/sqrt(8) = 0.3536."
            if abs(ratio - K**-0.5) < 1e-3
            else "a factor behind the softmax.",
            look="the order of scale and softmax.",
            **facts,
        )
    columns = weights.sum(-2)
    if are_close(columns, torch.ones_like(columns)) or any(
        are_close(weights, (c * scores).softmax(-2).tril()) for c in (1.0, K**-0.5)
    ):
        raise Wrong(
            "MASK-AXIS",
            "the columns sum to 1, not the rows",
            fits="a softmax over the queries: `dim=-2` where the keys are dim -1.",
            look="the `dim` of softmax.",
            **facts,
        )
    if any(are_close(weights, (c * scores).softmax(1).tril()) for c in (1.0, K**-0.5)):
        raise Wrong(
            "MASK-AXIS",
            "the weights are shared out between heads, not keys",
            fits="a softmax over dim 1, the heads.",
            look="the `dim` of softmax.",
            **facts,
        )
    if slope(weights.log(), masked, lower) is not None:
        raise Wrong(
            "ATT-NOT-NORMALIZED",
            "the weights of a row do not sum to 1",
            fits="exp of the scores, not divided by its sum.",
            look="softmax.",
            **facts,
        )
    if slope(weights, scores, lower) is not None:
        raise Wrong(
            "ATT-NO-SOFTMAX",
            "the weights are the scores themselves",
            fits="scores @ v, with the future set to 0.",
            look="where softmax belongs.",
            **facts,
        )
    raise Wrong(
        "OTHER", "the weights are not an average", look="softmax and what follows it.", **facts
    )


def scale(subject: Subject, draw: Draw) -> None:
    """Scores are divided by sqrt(K): the logarithms of the weights show by how much."""
    B, H, T, wide = 2, 3, draw.size(5, 6, 7), 16
    # small enough that even scores multiplied by K leave no weight at zero
    q, k = (0.3 * draw.randn(B, H, T, wide) for _ in range(2))
    # one head: whether heads keep to themselves is the next check
    weights, scores = weights_of(subject, q, k)[:1, :1], scores_of(q, k)[:1, :1]
    right = wide**-0.5
    lower = torch.ones(T, T, dtype=torch.bool).tril()
    logs = weights.log() - weights.log()[..., :1]
    found = slope(logs, scores - scores[..., :1], lower)
    facts = dict(
        tried=f"q, k of shape ({B}, {H}, {T}, {wide}), v = identity: outputs are weights",
        expected=f"scores times 1/sqrt(K) = 1/sqrt({wide}) = {right:g}",
    )
    if found is None:
        swapped = scores.transpose(-2, -1)
        if slope(logs, swapped - swapped[..., :1], lower) is not None:
            raise Wrong(
                "ATT-QK-SWAPPED",
                "queries and keys have changed places",
                fits="scores k @ q^T: row i then holds what key i gives to each query.",
                got="log-weights that follow k_i . q_j, not q_i . k_j",
                look="the first product.",
                **facts,
            )
        if torch.allclose(
            weights, (right * scores).masked_fill(~lower, -math.inf).softmax(-1), atol=4e-3
        ):
            raise Wrong(
                "ATT-SOFTMAX-16",
                "float32 inputs come back with the digits of 16 bits",
                got=f"weights of query 2: {vector(weights[0, 0, 2])}; near, not equal",
                fits="a cast to 16 bits on the way.",
                look="`.half()`, `.bfloat16()` and `.to(...)`.",
                **facts,
            )
        raise Wrong(
            "OTHER",
            "the weights do not follow from q . k",
            look="the scores.",
            **facts,
            got=f"weights of query 2: {vector(weights[0, 0, 2])}",
        )
    if abs(found - right) < 1e-3 * right:
        return
    facts["got"] = f"log-weights that follow {number(found)} times the scores"
    if abs(found - 1) < 1e-3:
        raise Wrong(
            "ATT-NO-SCALE",
            "the scores are not scaled",
            preset="attention:no-scale",
            fits="softmax of q . k as it is.",
            look="what happens to the scores before softmax.",
            hides="nothing else shows it: shapes, row sums and causality are all right.",
            **facts,
        )
    for value, words in (
        (1 / wide, "1/K: the root is missing."),
        (wide**0.5, "multiplication by sqrt(K) where division belongs."),
        (wide, "multiplication by K where division by its root belongs."),
        (
            (H * wide) ** -0.5,
            f"1/sqrt(H K) = 1/sqrt({H * wide}), the model width in place of the head size.",
        ),
        (
            T**-0.5,
            f"1/sqrt(T) = 1/sqrt({T}): the length of the sequence in place of the head size.",
        ),
        (H**-0.5, f"1/sqrt(H) = 1/sqrt({H}): the number of heads in place of the head size."),
        (B**-0.5, f"1/sqrt(B) = 1/sqrt({B}): the batch in place of the head size."),
        (wide**-0.25, "a root of the root, or a scale on one of q and k alone."),
    ):
        if abs(found - value) < 1e-3 * value:
            raise Wrong(
                "ATT-SCALE-WRONG",
                f"the scores are multiplied by {number(found)}",
                fits=words,
                look="the number under the root, and `/` against `*`.",
                **facts,
            )
    raise Wrong(
        "ATT-SCALE-WRONG",
        f"the scores are multiplied by {number(found)}",
        look="the number under the root, and `/` against `*`.",
        **facts,
    )


def values(subject: Subject, draw: Draw) -> None:
    """Every head of every sequence for itself; one token; q, k, v as the model hands them over, or
    expanded."""
    B, T, H, size = 2, draw.size(9, 7, 11), 3, 4
    q, k, v = (draw.randn(B, T, H, size).transpose(1, 2) for _ in range(3))
    out = expect.tensor(subject.call(q, k, v), shape=q.shape, dtype=q.dtype)
    first = attention(q[:, :1], k[:, :1], v[:, :1]).expand_as(q)
    expect.values(
        out,
        attention(q, k, v),
        [
            Pattern(
                code="ATT-HEADS",
                value=first,
                finding="all heads give what head 0 gives",
                fits="head 0 used for every head.",
                look="indexing of dimension 1.",
            )
        ],
        # fp32: sums of a few products, each rounded at 6e-8
        rtol=1e-4,
        atol=1e-5,
        tried=f"(B, H, T, K) = ({B}, {H}, {T}, {size}), strides as after transpose",
        finding="the outputs differ",
        look="q @ k^T, scale, mask, softmax, @ v, in this order.",
    )
    tried = f"q, k and v of shape {tuple(q.shape)}"
    expect_expanded(subject.probe, q, k, v, tried=tried, rtol=1e-4, atol=1e-5)
    q, k, v = (draw.randn(1, 2, 1, size) for _ in range(3))
    tried = "one token, T = 1: it can only read itself"
    out = expect.tensor(subject.call(q, k, v), shape=q.shape, dtype=q.dtype, tried=tried)
    expect.values(
        out,
        v,
        rtol=1e-4,
        atol=1e-5,
        tried=tried,
        finding="a single token is not its own v",
        look="`squeeze`, or a mask of fixed size.",
    )


def each_call_alone(subject: Subject, draw: Draw) -> None:
    """A result stays when another call of its shape follows, and the arguments stay as they are."""
    first, second = (tuple(draw.randn(1, 2, 5, 4) for _ in range(3)) for _ in range(2))
    tried = "q, k and v of shape (1, 2, 5, 4), then others, then the first ones again"
    expect_second_call(
        subject.probe, first, second, (attention(*second),),
        names=("the output",), tried=tried, rtol=1e-4, atol=1e-5,
    )  # fmt: skip


def long_text(subject: Subject, draw: Draw) -> None:
    """Thousands of tokens in float32 and 16 bits: each still reads itself and all before it."""
    lengths = ((torch.float32, 4100), *LENGTHS[1:])
    expect_long_text(subject.call, 1, 1, "ATT-LENGTH", lengths=lengths)


def calls_in_turn(subject: Subject, draw: Draw) -> None:
    """Results of many calls, of one token and of several, keep their own numbers side by side."""
    sizes = [((1, 1, 1, 2), torch.float32), ((1, 2, 1, 4), torch.float32)]
    sizes += [((2, 3, 1, 8), torch.float32), ((1, 2, 2, 4), torch.float32)]
    sizes += [((1, 2, 5, 4), torch.float32), ((1, 2, 1, 4), torch.bfloat16)]
    groups = [
        [tuple(draw.randn(*shape, dtype=dtype) for _ in range(3)) for _ in range(CALLS)]
        for shape, dtype in sizes
    ]
    expect_calls_in_turn(
        subject.probe, groups, lambda *given: (attention(*given),), names=("the output",),
        tried="q, k and v of several shapes", rtol=1e-4, atol=1e-5, within_16=0.05,
    )  # fmt: skip


SUITES = (
    Suite(
        "attention",
        (
            runs,
            causality,
            averages,
            scale,
            values,
            each_call_alone,
            calls_in_turn,
            large_scores,
            low_precision,
            float16,
            float64,
            long_rows,
            long_text,
            large_values,
            gradient,
            gradient_of_large_scores,
        ),
        tested="later tokens moved no output; equal to masked softmax(q k^T / sqrt(K)) v, with "
        "its gradients, for one token and many, scores of +-200, float32 and bfloat16.",
        remember="without 1/sqrt(K) the scores of random q and k have variance K.",
        next_step='"zero after" in the figure above: the future stays in the denominator.',
        ranks=1,
    ),
)
