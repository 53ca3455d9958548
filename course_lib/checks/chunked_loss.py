"""Checks of lesson 17: ChunkedHead.loss_and_gradients.

Oracle: torch's cross-entropy over the whole matrix of logits, in float64, and its gradients.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.checks.chunked_loss_edges import (
    any_dtype,
    any_layout,
    any_size,
    each_call_alone,
    gradient_products,
    sixteen_bit_gradients,
)
from course_lib.checks.expect import Pattern
from course_lib.checks.loss_case import IGNORED, LossCase
from course_lib.checks.report import Wrong, number
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite

SUM_16 = 0.006


def one_chunk(subject: Subject, draw: Draw) -> None:
    """All tokens in one chunk: the usual loss."""
    c = LossCase(subject, draw, 64)
    others = c.targets != 0
    without = c.mean(others) * int(others.sum())
    c.expect_loss(
        [
            *(
                Pattern(
                    code="CHUNK-TOKEN-0",
                    value=without / count,
                    finding="targets that are token 0 are left out",
                    fits="the other targets alone.",
                    look="which targets count: all but IGNORED.",
                )
                for count in (12, int(others.sum()))
            ),
            Pattern(
                code="CHUNK-SUM",
                value=12 * c.loss,
                finding="the loss is a sum",
                fits="12 times the mean.",
                look="the number of targets that count.",
            ),
            Pattern(
                code="CHUNK-SIGN",
                value=-c.loss,
                finding="the loss has the wrong sign",
                fits="minus the loss.",
                look="a log-probability is negative.",
            ),
            Pattern(
                code="CHUNK-BY-CHUNK",
                value=12 * c.loss / 64,
                finding="the loss is divided by the chunk",
                fits="the sum over 64, not over the 12 targets.",
                look="what the sum is divided by.",
            ),
        ]
    )


def any_chunk(subject: Subject, draw: Draw) -> None:
    """A chunk that does not divide the tokens: the same loss."""
    for chunk in (5, 1):
        c = LossCase(subject, draw, chunk)
        parts = [c.mean(slice(at, at + chunk)) for at in range(0, 12, chunk)]
        c.expect_loss(
            [
                Pattern(
                    code="CHUNK-MEANS",
                    value=sum(parts) / len(parts),
                    finding="it is a mean of chunk means",
                    fits="the mean of each chunk, averaged: the short last chunk weighs as much.",
                    look="what each chunk's sum is divided by.",
                ),
                Pattern(
                    code="CHUNK-MEANS",
                    value=sum(parts),
                    finding="each chunk is divided by its own count",
                    fits="the sum of the chunks' means.",
                    look="what each chunk's sum is divided by.",
                ),
                Pattern(
                    code="CHUNK-REST",
                    value=c.mean(slice(0, 12 // chunk * chunk)),
                    finding="the last, shorter chunk is left out",
                    fits="10 of 12 tokens.",
                    look="how many chunks there are.",
                ),
                Pattern(
                    code="CHUNK-REST",
                    value=c.mean(slice(0, 10)) * 10 / 12,
                    finding="the last, shorter chunk is left out",
                    fits="the sum of 10 of 12 tokens.",
                    look="how many chunks there are.",
                ),
                Pattern(
                    code="CHUNK-LAST",
                    value=parts[-1],
                    finding="only the last chunk is left in the loss",
                    fits="its mean.",
                    look="`=` and `+=` in the loop.",
                ),
                Pattern(
                    code="CHUNK-LAST",
                    value=parts[-1] * (12 % chunk or chunk) / 12,
                    finding="only the last chunk is left in the loss",
                    fits="its share of the sum.",
                    look="`=` and `+=` in the loop.",
                ),
            ]
        )


def gradients(subject: Subject, draw: Draw) -> None:
    """softmax - one-hot, over the count, through both products."""
    c = LossCase(subject, draw, 5)
    soft, hot, share = c.sums()
    last = torch.zeros(12, 1)
    last[10:] = 1
    sizes = torch.tensor([5] * 10 + [2] * 2).double().unsqueeze(-1)

    def patterns(through):
        return [
            Pattern(
                code=f"CHUNK-{code}",
                value=through(d),
                finding=f"the gradient {finding}",
                fits=f"{fits}.",
                look=look,
            )
            for code, d, finding, fits, look in (
                (
                    "NO-ONE-HOT",
                    soft * share,
                    "lacks the one-hot",
                    "softmax alone",
                    "the derivative by the target's own logit: what is subtracted there?",
                ),
                (
                    "GRAD-SIGN",
                    (hot - soft) * share,
                    "points the other way",
                    "one-hot - softmax",
                    "the sign of the target's entry.",
                ),
                (
                    "GRAD-SUM",
                    soft - hot,
                    "is that of the sum",
                    "12 times the mean's",
                    "the loss is divided by a count; its gradient too.",
                ),
                (
                    "GRAD-MEANS",
                    (soft - hot) / sizes,
                    "is divided by each chunk's own count",
                    "the sum of the chunks' means",
                    "what each chunk is divided by.",
                ),
                (
                    "GRAD-MEANS",
                    (soft - hot) / sizes / 3,
                    "is divided by each chunk's own count",
                    "the mean of the chunks' means",
                    "what each chunk is divided by.",
                ),
                (
                    "LAST",
                    (soft - hot) * share * last,
                    "holds the last chunk alone",
                    "tokens 10 and 11",
                    "`=` and `+=` in the loop.",
                ),
            )
        ]

    c.expect_gradients(patterns)


def ignored_targets(subject: Subject, draw: Draw) -> None:
    """Targets of -100, some in each chunk; then a whole chunk of them; then all but one."""
    for rows in ([1, 4, 7, 10, 11], [5, 6, 7, 8, 9], [*range(11)]):
        c = LossCase(subject, draw, 5, ignored=[rows])
        soft, hot, share = c.sums()
        logp = torch.log_softmax(c.x.double() @ c.weight.double().T, -1)
        zero = -(logp * hot).sum(-1)  # ignored targets taken as token 0
        end = (
            -(logp[:, -1] * ~c.counts).sum() / c.counts.sum() + c.loss
        )  # -100 as an index: from the end
        per = [c.mean(slice(a, a + 5)) for a in (0, 5, 10) if c.counts[a : a + 5].any()]
        n = int(c.counts.sum())
        c.expect_loss(
            [
                Pattern(
                    code=f"CHUNK-{code}",
                    value=float(value),
                    finding=finding,
                    fits=f"{fits}.",
                    look=look,
                )
                for code, value, finding, fits, look in (
                    (
                        "IGNORED",
                        zero.mean(),
                        "ignored targets count",
                        "-100 read as token 0, all 12 counted",
                        "targets of IGNORED: in the sum, and in the count.",
                    ),
                    (
                        "IGNORED",
                        zero.sum() / n,
                        "ignored targets are in the sum",
                        "-100 read as token 0",
                        "targets of IGNORED in the sum.",
                    ),
                    (
                        "IGNORED",
                        end,
                        "ignored targets are in the sum",
                        "-100 read from the end",
                        "targets of IGNORED in the sum.",
                    ),
                    (
                        "COUNT-ALL",
                        c.loss * n / 12,
                        "ignored targets are in the count",
                        "the sum over 12",
                        "what the sum is divided by.",
                    ),
                    (
                        "MEANS",
                        sum(per) / 3,
                        "it is a mean of chunk means",
                        "three means, averaged",
                        "what each chunk's sum is divided by.",
                    ),
                    (
                        "MEANS",
                        sum(per),
                        "each chunk is divided by its own count",
                        "the sum of the means",
                        "what each chunk's sum is divided by.",
                    ),
                )
            ]
        )

        def patterns(through, soft=soft, hot=hot, share=share, c=c, n=n):
            none = (~c.counts).double().unsqueeze(-1)
            return [
                Pattern(
                    code=f"CHUNK-{code}",
                    value=through(d),
                    finding=finding,
                    fits=f"{fits}.",
                    look="rows of the logits' gradient whose target is IGNORED.",
                )
                for code, d, finding, fits in (
                    (
                        "GRAD-IGNORED",
                        (soft - hot) / n,
                        "ignored targets pull at the weights",
                        "-100 read as token 0",
                    ),
                    (
                        "GRAD-IGNORED",
                        (soft - hot) * share + none * soft / n,
                        "ignored targets pull at the weights",
                        "softmax alone where nothing counts",
                    ),
                    (
                        "COUNT-ALL",
                        (soft - hot) * share * n / 12,
                        "ignored targets are in the count",
                        "the gradient divided by 12",
                    ),
                )
            ]

        c.expect_gradients(patterns)


def nothing_counts(subject: Subject, draw: Draw) -> None:
    """A batch of ignored targets: no mean, and no gradient."""
    x, weight = draw.randn(6, 4), draw.randn(9, 4)
    out = subject.module(4).method(
        "loss_and_gradients", x, weight, torch.full((6,), IGNORED, dtype=torch.int64)
    )
    loss, *found = out
    facts = dict(
        tried="6 tokens, all of them ignored, chunk 4", look="what is divided by the count."
    )
    if not loss.isnan():
        raise Wrong(
            "CHUNK-NO-NAN",
            "the mean of no loss is a number",
            expected="loss: nan",
            got=f"loss: {number(loss.item())}",
            hides="a batch without targets looks like a perfect one.",
            **facts,
        )
    for name, gradient in zip(("dx", "dweight"), found, strict=True):
        if bool((gradient != 0).any()):  # nan too
            raise Wrong(
                "CHUNK-NAN-GRADIENT",
                f"{name} is not 0 where no target counts",
                expected=f"{name}: zeros",
                got=f"{name}: {number(gradient[gradient != 0][0].item())} and the like",
                hides="one such batch, and every weight is nan." if gradient.isnan().any() else "",
                **facts,
            )


def large_logits(subject: Subject, draw: Draw) -> None:
    """Logits of some hundreds, whose exp no float32 holds."""
    c = LossCase(subject, draw, 5, scale=100.0)
    c.expect_loss([])
    c.tried += ", weights times 100"
    c.expect_close_gradients(1e-3)  # logits rounded to 2e-5: exp of them to 2e-5


def sixteen_bits(subject: Subject, draw: Draw) -> None:
    """16 bits in: products in 16 bits, float32 inside the softmax."""
    head, V = subject.module(4), draw.size(9, 11)

    def compare(x: Tensor, weight: Tensor, mistake: Callable[[Tensor], float], wrong: dict) -> None:
        target = draw.randint(0, V, (1,))
        right = F.cross_entropy((x @ weight.T).float(), target).item()
        found = head.method("loss_and_gradients", x, weight, target)[0].item()
        # float32: 1e-6; a 16-bit log-softmax keeps 8 bits, up to 2e-3 off
        if abs(found - right) > 1e-4 * right + 1e-5:
            if abs(found - mistake(target)) >= 1e-5 * (1 + right):
                wrong["fits"] = ""
            raise Wrong(**wrong, expected=f"{right:.6f}", got=f"{found:.6f}")

    for dtype in 8 * [torch.bfloat16] + 8 * [torch.float16]:  # one token each: nothing is averaged
        # whole numbers times quarters: the logits are exact in 16 bits, in any order of summation
        x = draw.randint(-2, 3, (1, 5)).to(dtype)
        weight = (draw.randint(-8, 9, (V, 5)) / 4).to(dtype)
        compare(
            x,
            weight,
            lambda t, x=x, w=weight: -torch.log_softmax(x @ w.T, -1)[0, t.item()].item(),
            dict(
                code="CHUNK-16",
                finding="the loss is not taken in float32",
                fits="a log-softmax in 16 bits.",
                tried=f"{str(dtype)[6:]}, 1 token; logits that are exact in 16 bits",
                look="where the logits become float32.",
            ),
        )
    for _ in range(4):
        # 8 bits times 7 bits, one product: the logit is rounded once, in any kernel
        x = ((2 * draw.randint(64, 128, (1, 1)) + 1) / 16).bfloat16()
        weight = (draw.randint(-127, 128, (V, 1)) / 64).bfloat16()
        compare(
            x,
            weight,
            lambda t, x=x, w=weight: F.cross_entropy(x.float() @ w.float().T, t).item(),
            dict(
                code="CHUNK-PRODUCTS",
                finding="the logits are not those of a product in 16 bits",
                fits="x and weight made float32 before the product.",
                tried=f"bfloat16, 1 token, D 1, V {V}",
                hides="a float32 copy of the whole weight, and slower products.",
                look="where the logits become float32.",
            ),
        )


def sum_over_chunks(subject: Subject, draw: Draw) -> None:
    """bf16 in: dweight is added up in float32."""
    c = LossCase(subject, draw, 1, N=768, dtype=torch.bfloat16)
    error = ((c.found[2].double() - c.gradients[1]).norm() / c.gradients[1].norm()).item()
    # gradients of logits rounded to 8 bits: 0.002 measured; a sum rounded 768 times: 0.015 and more
    if error > SUM_16:
        raise Wrong(
            "CHUNK-SUM-16",
            "dweight is far from exact",
            tried=f"bfloat16, {c.tried}",
            expected=f"within {SUM_16} of its length",
            got=f"{number(error)} of its length",
            fits="a sum over chunks whose every step is rounded to 8 bits." if error < 0.3 else "",
            look="the dtype of the tensor that dweight is added up in.",
        )


def one_chunk_of_logits(subject: Subject, draw: Draw) -> None:
    """No tensor has more logits than a chunk, and few chunks are held at one time."""
    N, V, D = 512, draw.size(400, 500), 2
    x, weight, targets = draw.randn(N, D), draw.randn(V, D), draw.randint(0, V, (N,))
    for chunk in (16, 3):
        head = subject.module(chunk)
        peak, largest = head.probe("course_lib.probes.held:head_memory", x, weight, targets)
        whole = 4 * N * V
        facts = dict(tried=f"{N} tokens, chunk {chunk}, V {V}", preset="activations:logits")
        if chunk * V < largest < N * V:  # gradients and inputs are smaller: N D, V D
            rows, rest = divmod(largest, V)
            raise Wrong(
                "CHUNK-TOO-LARGE",
                "the chunks are larger than `self.chunk` tokens",
                expected=f"no tensor of more than {chunk} x {V} = {chunk * V:,} elements",
                got=f"one of {largest:,}",
                fits="" if rest else f"chunks of {rows} tokens.",
                look="how many tokens are taken at a time; `chunk` counts tokens, not chunks.",
                **facts,
            )
        # one chunk is 1/32 of all logits: six copies of it, gradients and int64 one-hots stay below a half;
        # or it is 1/171 of them, and two chunks with as many copies stay below 40 of its size
        limit = min(whole // 2, 40 * 4 * chunk * V)
        if peak > limit:
            raise Wrong(
                "CHUNK-ALL-LOGITS",
                "logits of more than one chunk are held",
                expected=f"well below {limit:,} bytes: one chunk's logits are {4 * chunk * V:,}",
                got=f"{peak:,} bytes at the most",
                fits="all logits are there at one time." if peak < 8 * whole else "",
                look="what is made before the loop, and what a list keeps.",
                **facts,
            )


SUITES = (
    Suite(
        "chunked-loss",
        (
            one_chunk,
            any_chunk,
            gradients,
            ignored_targets,
            nothing_counts,
            large_logits,
            sixteen_bits,
            sum_over_chunks,
            any_size,
            any_layout,
            any_dtype,
            sixteen_bit_gradients,
            gradient_products,
            each_call_alone,
            one_chunk_of_logits,
        ),
        tested="equal to torch's loss and gradients, with no more than a chunk of logits in a tensor.",
        remember="the gradient of a logit is softmax - one-hot: known as soon as the loss is.",
        next_step="run it with chunk 1 and chunk N: what does each cost in time?",
    ),
)
