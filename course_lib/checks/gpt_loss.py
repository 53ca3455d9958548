"""Checks of lesson 06, the loss of GPT.forward: which targets count, in which precision.

Oracle: torch's `cross_entropy` of the logits of `gpt_oracle`.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.expect import Pattern
from course_lib.checks.gpt_oracle import (
    cross_entropy,
    draw_model,
    expect_pair,
    logits_of,
    small_config,
)
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw


def right_loss(subject: Subject, draw: Draw) -> None:
    """Mean cross-entropy in nats; the caller has shifted the targets already."""
    config = small_config()
    module = subject.module(config)
    state, shape = draw_model(module, draw), (draw.size(2, 3), draw.size(6, 5))
    idx, targets = (draw.randint(0, config.vocab_size, shape) for _ in range(2))
    tried = f"random tokens and targets, each {shape}"
    logits, loss = expect_pair(module.forward(idx, targets), tried)
    if loss is None:
        raise Wrong(
            "GPT-NO-LOSS",
            "no loss although there are targets",
            tried=tried,
            expected="(logits, loss)",
            got="(logits, None)",
            look="the condition on `targets`.",
        )
    if isinstance(loss, Tensor) and loss.dim() == 3:
        raise Wrong(
            "GPT-SWAPPED",
            "the two results are in the other order",
            tried=tried,
            expected="(logits, loss)",
            got="(loss, logits)",
            look="the `return`.",
        )
    expect.tensor(logits, shape=(*shape, config.vocab_size), dtype=torch.float32, tried=tried)
    expect.tensor(loss, shape=(), dtype=torch.float32, tried=tried)
    reference = logits_of(state, config, idx)
    nats = cross_entropy(reference, targets)
    expect.values(
        loss,
        nats,
        [
            Pattern(
                code="GPT-SHIFT-TWICE",
                value=cross_entropy(reference[:, :-1], targets[:, 1:]),
                finding="the loss is shifted once more",
                preset="loss-shift:twice",
                fits="logits[:, :-1] against targets[:, 1:].",
                hides="the model would learn the token after the next one, without any error.",
                look="who shifts: `targets[b, t]` follows `idx[b, t]` already.",
            ),
            Pattern(
                code="GPT-SHIFT-IDX",
                value=cross_entropy(reference[:, :-1], idx[:, 1:]),
                finding="the loss does not use the targets",
                fits="logits[:, :-1] against idx[:, 1:].",
                look="the second argument of `cross_entropy`.",
            ),
            Pattern(
                code="GPT-COPY",
                value=cross_entropy(reference, idx),
                preset="loss-shift:copy",
                finding="the loss does not use the targets",
                fits="the input as its own target: a loss for copying.",
                look="the second argument of `cross_entropy`.",
            ),
            Pattern(
                code="GPT-LOSS-SUM",
                value=nats * targets.numel(),
                finding="the loss is a sum",
                fits='`reduction="sum"`: it grows with the batch.',
                look="the reduction.",
            ),
            Pattern(
                code="GPT-LOSS-SUM",
                value=nats * shape[1],
                finding="the loss is a sum over positions",
                fits="a sum over T, a mean over B.",
                look="the reduction.",
            ),
            Pattern(
                code="GPT-LOSS-SUM",
                value=nats * shape[0],
                finding="the loss is a sum over sequences",
                fits="a mean over T, a sum over B.",
                look="the reduction.",
            ),
            Pattern(
                code="GPT-BITS",
                value=nats / math.log(2),
                finding="the loss is in bits",
                fits="a logarithm of base 2.",
                look="the docstring says nats.",
            ),
            Pattern(
                code="GPT-SOFTMAX-FIRST",
                value=cross_entropy(reference.softmax(-1), targets),
                finding="softmax is applied twice",
                fits="cross_entropy of probabilities.",
                hides="the loss cannot fall below ln V - 1 or so.",
                look="`cross_entropy` takes logits.",
            ),
            Pattern(
                code="GPT-SIGN",
                value=-nats,
                finding="the loss has the wrong sign",
                fits="a mean log-probability.",
                look="the sign.",
            ),
        ],
        rtol=1e-4,
        atol=1e-4,
        tried=tried,
        finding="the loss differs",
        look="`F.cross_entropy` on (B * T, V) logits and (B * T,) targets.",
    )


def ignored_targets(subject: Subject, draw: Draw) -> None:
    """Targets of -100 do not count, neither in the sum nor in the number."""
    config = small_config()
    module = subject.module(config)
    state = draw_model(module, draw)
    idx, targets = (draw.randint(0, config.vocab_size, (2, 6)) for _ in range(2))
    targets[0, 2:] = -100
    tried = "12 targets, 4 of them -100"
    reference = logits_of(state, config, idx)
    mean = cross_entropy(reference, targets)
    try:
        _, loss = expect_pair(module.forward(idx, targets), tried)
    except AnswerError as failure:
        if isinstance(failure.error, IndexError):
            raise Wrong(
                "GPT-IGNORE",
                "a target of -100 is an error",
                tried=tried,
                expected=f"loss {number(mean.item())}, over the 8 others",
                got=f"{type(failure.error).__name__}: {failure.error}"[:76],
                look="`ignore_index`, whose default is -100.",
            ) from None
        raise
    every = F.cross_entropy(reference.flatten(0, 1), targets.clamp(min=0).flatten())
    expect.values(
        expect.tensor(loss, shape=(), dtype=torch.float32, tried=tried),
        mean,
        [
            Pattern(
                code="GPT-IGNORE-MEAN",
                value=mean * 8 / 12,
                fits="a sum over 8, divided by 12.",
                finding="uncounted positions are in the divisor",
                look="where the mean is taken.",
            ),
            Pattern(
                code="GPT-IGNORE",
                value=every,
                finding="a target of -100 counts as token 0",
                fits="targets cut off at 0.",
                look="`ignore_index`, whose default is -100.",
            ),
        ],
        rtol=1e-4,
        atol=1e-4,
        tried=tried,
        finding="the loss with uncounted positions differs",
        look="`ignore_index`, whose default is -100.",
    )


def many_targets(subject: Subject, draw: Draw) -> None:
    """Of thousands of targets all that count weigh the same, in whatever pieces the loss is taken."""
    config = small_config()
    module = subject.module(config)
    state, B, T = draw_model(module, draw), 1030, 8
    idx = draw.randint(0, config.vocab_size, (B, T))
    reference = logits_of(state, config, idx)
    # the first rows ask for the likeliest tokens and count here and there, the last ones, which ask
    # for the least likely, count all: pieces of any size then have other means and other numbers
    early, where = torch.arange(B)[:, None] < B - 5, torch.arange(B * T).view(B, T)
    asked = torch.where(early, reference.argmax(-1), reference.argmin(-1))
    none = torch.full_like(asked, -100)
    for tried, targets in (
        (f"{B * T:,} targets", asked),
        (f"{B * T:,} targets, most of the first ones -100", torch.where(early & (where % 50 > 0), none, asked)),
        (f"{B * T:,} targets, all of the first ones -100", torch.where(early, none, asked)),
        (f"{B * T:,} targets, half of the sequences whole, of the others one counts",
         torch.where((torch.arange(B)[:, None] % 2 > 0) & (torch.arange(T) > 0), none, asked)),
    ):  # fmt: skip
        loss = expect_pair(module.forward(idx, targets), tried)[1]
        expect.tensor(loss, shape=(), dtype=torch.float32, tried=tried, finite=False)
        wanted = cross_entropy(reference, targets)
        if torch.isclose(loss, wanted, rtol=1e-3, atol=1e-3):
            continue
        raise Wrong(
            "GPT-LOSS-PIECES",
            "of many targets some weigh more than others",
            tried=tried,
            expected=f"loss {number(wanted.item())}, over {int((targets != -100).sum()):,} of them",
            got=f"loss {number(loss.item())}",
            fits="a mean of means of pieces, or pieces weighted by length, -100 among them.",
            look="the divisor: how many targets count in all.",
        )


def low_precision(subject: Subject, draw: Draw) -> None:
    """In a model of bfloat16 or float64 the loss is still taken in float32."""
    config = small_config()
    module = subject.module(config)
    draw_model(module, draw)
    module.to(torch.bfloat16)
    idx, targets = (draw.randint(0, config.vocab_size, (2, 8)) for _ in range(2))
    logits, loss = expect_pair(module.forward(idx, targets), "a model in bfloat16")
    facts = dict(tried="a model in bfloat16", look="`.float()` on the logits, before the loss.")
    expected = cross_entropy(logits.float(), targets)
    if loss.dtype != torch.float32:
        raise Wrong(
            "GPT-LOSS-BF16",
            "the loss is taken in 16 bits",
            **facts,
            expected=f"float32: {expected.item():.5f}",
            got=f"{expect._name(loss.dtype)}: {loss.item():.5f}",
            hides="between 8 and 16, bfloat16 steps by 0.0625.",
        )
    if abs(loss - expected) > 1e-4:
        raise Wrong(
            "GPT-LOSS-BF16",
            "the loss is rounded to 16 bits on the way",
            **facts,
            expected=f"{expected.item():.5f}",
            got=f"{loss.item():.5f}",
        )
    module.to(torch.float64)
    logits, loss = expect_pair(module.forward(idx, targets), "a model in float64")
    if logits.dtype != torch.float64 or loss.dtype != torch.float32:
        raise Wrong(
            "GPT-LOSS-DTYPE",
            "in a model of float64 a result has another dtype",
            tried="a model in float64",
            expected="logits in float64, the loss in float32",
            got=f"logits in {expect._name(logits.dtype)}, the loss in {expect._name(loss.dtype)}",
            hides="a log of losses whose dtype is that of the model.",
            look="`.float()` on the logits that go into the loss, whatever dtype they have.",
        )


def targets_of_zero(subject: Subject, draw: Draw) -> None:
    """Token 0 is a token: targets that are all 0 have a loss, and so has one single position."""
    config = small_config()
    module = subject.module(config)
    state = draw_model(module, draw)
    for shape in ((2, 5), (1, 1)):
        idx, targets = draw.randint(0, 23, shape), torch.zeros(shape, dtype=torch.int64)
        tried = f"targets of shape {shape}, all of them token 0"
        logits, loss = expect_pair(module.forward(idx, targets), tried)
        expect.tensor(logits, shape=(*shape, 23), dtype=torch.float32, tried=tried)
        if loss is None:
            raise Wrong(
                "GPT-NO-LOSS",
                "no loss although there are targets",
                tried=tried,
                expected="(logits, loss)",
                got="(logits, None)",
                look="the condition on `targets`: `is None`, not whether any is true.",
            )
        expect.values(
            expect.tensor(loss, shape=(), dtype=torch.float32, tried=tried),
            cross_entropy(logits_of(state, config, idx), targets),
            rtol=1e-4, atol=1e-4, tried=tried, finding="the loss differs",
        )  # fmt: skip


def large_logits(subject: Subject, draw: Draw) -> None:
    """Logits and a stream of thousands: neither is cut off, and the loss and its gradient are finite."""
    config = small_config()
    module = subject.module(config)
    state = draw_model(module, draw)
    idx, targets = draw.randint(0, 23, (2, 5)), draw.randint(0, 23, (2, 5))
    for name, size in (("head.weight", 3000.0), ("embedding.weight", 1e4)):
        large = state | {name: size * state[name]}
        module.load(large)
        tried = f"random weights, {name} times {size:,.0f}"
        logits, loss = expect_pair(module.forward(idx, targets), tried)
        right = logits_of(large, config, idx)
        most = float(right.abs().max())
        if not torch.allclose(logits, right, rtol=1e-3, atol=1e-3 * most):
            bad = (~torch.isclose(logits, right, rtol=1e-3, atol=1e-3 * most)).nonzero()[0, :2]
            row = tuple(int(i) for i in bad)
            raise Wrong(
                "GPT-LIMITED",
                "large values are cut off",
                tried=tried,
                expected=vector(right[row]),
                got=vector(logits[row]),
                look="`clamp`, `tanh`, or anything else that limits a value.",
            )
        wanted = cross_entropy(right, targets)
        _, grads = module.vjp(idx, targets, upstream=torch.ones(()), item=1)
        finite = all(bool(grad.isfinite().all()) for grad in grads.values())
        if torch.isclose(loss, wanted, rtol=1e-2, atol=1e-2) and finite:
            continue
        raise Wrong(
            "GPT-LOSS-OVERFLOW",
            f"large logits give another {'loss' if finite else 'gradient'}",
            tried=f"{tried}: logits up to {most:,.0f}",
            expected=f"loss {number(wanted.item())}, and finite gradients",
            got=f"loss {number(loss.item())}, {'finite' if finite else 'NaN or infinite'} gradients",
            fits="exp of a large logit is infinite, the logarithm of a chance of 0 too.",
            look="`F.cross_entropy`, `log_softmax` or `logsumexp` in place of both by hand.",
        )
