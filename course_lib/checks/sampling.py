"""Checks of lesson 07: next_token_probs.

Oracle: `chances`, the same in float64 with sorted tokens, whose options bend one thing each.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.expect import Pattern
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite

CLOSE = dict(rtol=1e-4, atol=1e-6)  # a softmax in float32


def chances(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    times: bool = False,
    crossing: bool = True,
    renormalize: bool = True,
    nucleus_first: bool = False,
    late: bool = False,
) -> Tensor:
    """(B, V) probabilities; the options after `top_p` are mistakes."""
    rows = []
    for row in logits.double():
        scaled = row if late else row * temperature if times else row / temperature
        order = scaled.argsort(descending=True)
        p = scaled.softmax(-1)
        keep = torch.ones(len(row), dtype=torch.bool)
        for setting in ("p", "k") if nucleus_first else ("k", "p"):
            if setting == "k" and top_k is not None:
                keep[order[top_k:]] = False
            elif setting == "p" and top_p is not None:
                share = torch.where(keep, p, 0.0)
                share = share / share.sum()
                total = share[order].cumsum(-1)
                count = int((total < top_p).sum()) + int(crossing)
                keep[order[max(count, 1) :]] = False
        p = (row / temperature).softmax(-1) if late else p
        p = torch.where(keep, p, 0.0)
        rows.append(p / p.sum() if renormalize else p)
    return torch.stack(rows).float()


def draw_logits(draw: Draw, B: int, V: int) -> Tensor:
    """Rows whose likeliest tokens stand anywhere, no two of them near each other; each row is
    sharper than the one before it, and lower."""
    fall = torch.linspace(2.2, -2.5, V)
    rows = [(1 + i / 3) * (fall + 0.02 * draw.randn(V)) - 2 * i for i in range(B)]
    shuffled = [row[torch.argsort(draw.randn(V))] for row in rows]
    return torch.stack(shuffled)


def ask(subject: Subject, logits: Tensor, **settings) -> Tensor:
    """The answer's probabilities, of the right shape and dtype, not negative, no NaN."""
    tried = _say(logits, settings)
    out = _of_shape(subject.call(logits, **settings), logits, settings)
    sums = out.double().sum(-1)
    if (out < 0).any() or not torch.allclose(sums, torch.ones_like(sums), atol=1e-4):
        row = int((sums - 1).abs().argmax())
        raise Wrong(
            "SAMPLE-SUM",
            "a row is not a probability distribution",
            tried=tried,
            expected="numbers of 0 or more that sum to 1",
            got=f"row {row} sums to {number(sums[row].item())}, smallest {number(out.min().item())}",
            fits="closed tokens set to 0 after the softmax, and nothing divided afterwards."
            if sums[row] < 1
            else "",
            look="what happens to the share of the tokens that are closed.",
        )
    return out


def _of_shape(out: Any, logits: Tensor, settings: dict) -> Tensor:
    """`out`, if it is a finite float32 tensor of the shape of `logits`."""
    tried = _say(logits, settings)
    if isinstance(out, Tensor) and out.shape == logits.shape and out.dtype != torch.float32:
        raise Wrong(
            "DTYPE",
            f"the probabilities are {str(out.dtype)[6:]}",
            tried=f"{tried}, in {str(logits.dtype)[6:]}",
            expected="float32, whatever dtype the logits have",
            got=str(out.dtype)[6:],
            look="the dtype on every way to a `return`.",
        )
    return expect.tensor(out, shape=logits.shape, dtype=torch.float32, tried=tried)


def _say(logits: Tensor, settings: dict) -> str:
    said = ", ".join(f"{name}={value}" for name, value in settings.items()) or "no settings"
    shown = f"; row 0: {vector(logits[0].float())}" if logits.shape[1] <= 6 else ""
    return f"logits {tuple(logits.shape)}, {said}{shown}"


def compare(subject: Subject, logits: Tensor, **settings) -> None:
    """The answer gives what `chances` does."""
    wanted, out = chances(logits, **settings), ask(subject, logits, **settings)
    expect.values(
        out, wanted, patterns(logits, settings, wanted), **CLOSE,
        tried=_say(logits, settings), finding="the probabilities differ",
        look="the docstring: the order of the three steps.",
    )  # fmt: skip
    before = chances(logits, temperature=settings.get("temperature", 1.0))
    kept = out[(wanted == 0) & (before > 1e-30)]
    if (kept != 0).any():
        raise Wrong(
            "SAMPLE-LEAK",
            "a closed token can still be drawn",
            tried=_say(logits, settings),
            expected="the probability 0 for each token that is closed",
            got=f"{number(kept.max().item())} for one of them",
            fits="a small number in place of 0.",
            look="`clamp`, and numbers such as 1e-10.",
        )


BENT = (
    Pattern(
        code="SAMPLE-TIMES",
        value=0.0,
        finding="the temperature works the other way round",
        fits="logits times the temperature.",
        look="what a temperature above 1 should do to the differences between logits.",
    ),
    Pattern(
        code="SAMPLE-CROSSING",
        value=0.0,
        finding="top_p keeps too little",
        fits="the token that brings the sum to `top_p` left out.",
        look="whether a token's own share is in the sum that decides about it.",
    ),
    Pattern(
        code="SAMPLE-ORDER",
        value=0.0,
        finding="top_p is applied before top_k",
        fits="the nucleus of all tokens, then the top k of it.",
        look="the order in the docstring.",
    ),
    Pattern(
        code="SAMPLE-LATE",
        value=0.0,
        finding="the temperature comes after top_p",
        fits="a nucleus chosen at temperature 1.",
        look="the order in the docstring.",
    ),
)
MISTAKES = (dict(times=True), dict(crossing=False), dict(nucleus_first=True), dict(late=True))


def patterns(logits: Tensor, settings: dict, wanted: Tensor) -> Iterator[Pattern]:
    """What the usual mistakes give for these logits, where they give something else."""
    for pattern, options in zip(BENT, MISTAKES, strict=True):
        value = chances(logits, **settings, **options)
        if not torch.allclose(value, wanted, **CLOSE):
            yield replace(pattern, value=value)
    ignored = [name for name in settings if name != "temperature"]
    if ignored:
        rest = {name: value for name, value in settings.items() if name == "temperature"}
        yield Pattern(
            code="SAMPLE-IGNORED",
            value=chances(logits, **rest),
            finding=f"{' and '.join(ignored)} changes nothing",
            fits="the softmax over all tokens.",
            look="whether the closed tokens are closed in what is returned.",
        )


def runs(subject: Subject, draw: Draw) -> None:
    """Logits in, rows that sum to 1 out."""
    ask(subject, draw_logits(draw, 2, 6))


def temperature(subject: Subject, draw: Draw) -> None:
    """Logits over the temperature, then softmax; at 0 all for the likeliest."""
    logits = draw_logits(draw, 3, draw.size(6, 5))
    for degrees in (1.0, 0.5, 3.0):
        compare(subject, logits, temperature=degrees)
    for zero in (0, 0.0):
        expect_certain(subject, logits, temperature=zero)


def at_zero(subject: Subject, draw: Draw) -> None:
    """Temperature 0 is no low temperature, and a low one is not 0; whatever the logits are."""
    near = torch.tensor([[-1.0, 0.0, 2e-6, -3.0], [4e30, -1e30, 5.0, -torch.inf]])
    out = ask(subject, near, temperature=0)
    if out[0, 2] != 1 or out[1, 0] != 1:
        raise Wrong(
            "SAMPLE-NEAR",
            "at temperature 0 another token than the likeliest has a chance",
            tried=_say(near, dict(temperature=0)),
            expected="all for the third token of row 0, the likeliest by little, and the first of row 1",
            got=vector(out[0]) if out[0, 2] != 1 else f"{vector(out[1])} for row 1",
            fits="a division by a very small number.",
            look="what stands in place of the division by 0.",
        )
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        logits = draw_logits(draw, 2, 5).to(dtype)
        expect_certain(subject, logits, temperature=0)
        expect_certain(subject, logits, temperature=0, top_k=3, top_p=0.9)
    cold, logits = 2.0**-10, draw_logits(draw, 2, 5)  # powers of two: nothing is rounded
    settings = dict(temperature=cold)
    certain = Pattern(
        code="SAMPLE-COLD",
        value=logits.softmax(-1).eq(logits.softmax(-1).amax(-1, keepdim=True)).float(),
        finding="a low temperature is taken for 0",
        fits="all for the likeliest, below some temperature.",
        look="the comparison of `temperature` with 0.",
    )
    expect.values(
        ask(subject, logits * cold, **settings), chances(logits), [certain], **CLOSE,
        tried=_say(logits, settings), finding="the probabilities differ",
        look="the division by `temperature`.",
    )  # fmt: skip


def expect_certain(subject: Subject, logits: Tensor, **settings) -> None:
    """The likeliest token of each row has the probability 1."""
    wanted = torch.zeros(logits.shape).scatter(-1, logits.argmax(-1, keepdim=True), 1.0)
    expect.values(
        ask(subject, logits, **settings), wanted, **CLOSE, tried=_say(logits, settings),
        finding="the likeliest token is not certain",
        look="a division by 0, and what stands in its place.",
    )  # fmt: skip


def top_k(subject: Subject, draw: Draw) -> None:
    """The k likeliest of each row stay; more than there are: all."""
    logits = draw_logits(draw, 3, 9)
    for k in (draw.size(3, 2, 4), 1, 9, 50):
        compare(subject, logits, top_k=k)


def top_p(subject: Subject, draw: Draw) -> None:
    """The fewest that reach p, the crossing one among them; at least one."""
    logits = draw_logits(draw, 4, 9)
    for p in (0.6, 0.9, 0.05, 1.0):
        share = chances(logits).sort(-1, descending=True).values.cumsum(-1)
        edge = (share - p).abs().min().item()
        if p == 1.0 or edge > 1e-4:  # a sum that is p but for rounding has two right answers
            compare(subject, logits, top_p=p)


def together(subject: Subject, draw: Draw) -> None:
    """All three, in the order of the docstring: with these logits another order shows."""
    logits = torch.tensor([0.4, 0.25, 0.2, 0.1, 0.05]).log()[None].repeat(2, 1)
    logits[1] = logits[1].flip(0)
    shift = float(draw.randn(1))  # a constant on all logits changes no probability
    compare(subject, logits + shift, top_k=3, top_p=0.7)
    compare(subject, logits + shift, temperature=10.0, top_p=0.64)
    compare(subject, logits + shift, temperature=0.25, top_p=0.8)
    compare(subject, logits + shift, temperature=2.0, top_k=4, top_p=0.5)


def rows_alone(subject: Subject, draw: Draw) -> None:
    """Each row has its own tokens, whatever the others are; strides and sizes."""
    V = draw.size(40, 33, 50)
    logits = draw_logits(draw, 5, V)
    logits[1] *= 4  # sharp: few tokens reach p
    logits[2] *= 0.1  # flat: many
    settings = dict(temperature=0.8, top_k=30, top_p=0.8)
    compare(subject, logits, **settings)
    compare(subject, logits[1:2], **settings)
    compare(subject, logits.T.contiguous().T, **settings)
    large = draw_logits(draw, 1, 12) + 300.0  # exp overflows beyond 88
    compare(subject, large, top_p=0.7)
    closed = logits.clone()
    closed[:, ::2] = -math.inf
    compare(subject, closed, temperature=2.0, top_p=0.9)
    compare(subject, draw.randn(2, 1), temperature=0.5, top_k=1, top_p=0.5)  # a single token


def any_dtype(subject: Subject, draw: Draw) -> None:
    """Logits in 16 and in 64 bits: all that is computed has 32 bits or more."""
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        logits = (3 * draw_logits(draw, 2, 12)).to(dtype)
        for settings in ({}, dict(temperature=0.7)):
            # a softmax in bfloat16 is off by 2^-9 of each probability
            expect.values(
                _of_shape(subject.call(logits, **settings), logits, settings), chances(logits, **settings),
                rtol=5e-4, atol=1e-6, tried=f"{_say(logits, settings)}, in {str(dtype)[6:]}",
                finding="the probabilities are those of 16 bits",
                look="`.float()`, before anything is computed.",
            )  # fmt: skip
        ask(subject, logits, top_k=4, top_p=0.8)


def no_floor(subject: Subject, draw: Draw) -> None:
    """A closed token stays closed, however low the open ones are."""
    low = torch.tensor([[-2.0, 0.0, -1.0, -3.0]])
    for logits, settings in (
        (low - 50_000, dict(top_k=2)),
        (low - 50_000, dict(top_p=0.8)),
        (1e4 * low, dict(temperature=1e4, top_k=2)),
        (1e9 * (low - 2), dict(top_k=2)),
        (1e9 * (low - 2), dict(top_p=0.8)),
    ):
        wanted = chances(logits, **settings)
        out = ask(subject, logits, **settings)
        if not torch.allclose(out, wanted, **CLOSE):
            raise Wrong(
                "SAMPLE-FLOOR",
                "low logits change what is closed",
                tried=_say(logits, settings),
                expected=vector(wanted[0]),
                got=vector(out[0]),
                fits="a number such as -1e4 or -1e9 in place of minus infinity.",
                look="what a closed logit becomes.",
            )


def as_many_as_k(subject: Subject, draw: Draw) -> None:
    """`top_k` tokens stay open also where rounding makes all chances equal; whichever they are."""
    k, V, flat = 3, 6, 2.0**30  # a power of two: no two scores are equal, divided or not
    logits = torch.stack([torch.argsort(draw.randn(V)) for _ in range(2)]) / 4
    for near, settings in (
        (logits, dict(temperature=flat, top_k=k)),
        (logits / flat, dict(top_k=k)),
    ):
        counts = (ask(subject, near, **settings) > 0).sum(-1)
        if (counts != k).any():
            row = int((counts != k).nonzero()[0])
            raise Wrong(
                "SAMPLE-COUNT",
                "another number of tokens than `top_k` stays open",
                tried=_say(near, settings),
                expected=f"{k} of {V} tokens with a chance: no two scores are equal",
                got=f"{int(counts[row])} tokens in row {row}",
                fits="all that are not below the k-th largest chance: rounded, all are the same."
                if counts[row] == V
                else "",
                hides="scores near each other, or a high temperature, open more than was asked for.",
                look="what is compared with the k-th largest, and what happens where they are equal.",
            )


def large_vocabulary(subject: Subject, draw: Draw) -> None:
    """5,000 tokens, nearly equally likely: as many stay open as the settings say, the likeliest."""
    V = 5000  # a comparison of all with all is allowed, and has 25 million numbers
    logits = torch.linspace(0, 1, V)[torch.argsort(draw.randn(V))][None]
    for settings in (
        {},
        dict(top_p=0.9),
        dict(top_p=0.02),
        dict(top_k=4500),
        dict(top_k=3000, top_p=0.9),
    ):
        wanted, out = chances(logits, **settings), ask(subject, logits, **settings)
        count, right = int((out > 0).sum()), int((wanted > 0).sum())
        # sums of 5,000 float32 chances may cross `top_p` a few tokens earlier or later
        near = 5 if "top_p" in settings else 0
        facts = dict(
            tried=_say(logits, settings) + "; all chances near 1/5,000",
            look="any number of tokens written as a number.",
        )
        if abs(count - right) > near:
            raise Wrong(
                "SAMPLE-VOCABULARY",
                "in a large vocabulary another number of tokens stays open",
                expected=f"{'about ' if near else ''}{right:,} tokens with a chance",
                got=f"{count:,}",
                fits="a search among the likeliest few, for a sorted part of V."
                if count < right
                else "",
                **facts,
            )
        order = logits[0].argsort(descending=True)
        sure = order[: min(count, right)]
        if not torch.allclose(out[0, sure], wanted[0, sure], rtol=5e-3, atol=0):
            place = int((out[0, sure] / wanted[0, sure] - 1).abs().argmax())
            raise Wrong(
                "SAMPLE-VOCABULARY",
                "in a large vocabulary the chances differ",
                expected=f"{number(wanted[0, sure[place]].item())} for rank {place + 1:,}",
                got=number(out[0, sure[place]].item()),
                fits="parts of the vocabulary taken for the whole.",
                **facts,
            )


def each_call_alone(subject: Subject, draw: Draw) -> None:
    """What is given hangs on this call's logits alone, in every dtype and with each setting."""
    falling = torch.tensor([[0.4, 0.25, 0.2, 0.1, 0.05], [0.05, 0.4, 0.1, 0.2, 0.25]]).log()
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        first, second = (x.to(dtype) for x in (falling, falling.roll(2, dims=-1)))
        for settings in (
            {}, dict(temperature=0.7), dict(top_k=3), dict(top_p=0.7),
            dict(top_k=3, top_p=0.7), dict(temperature=0),
        ):  # fmt: skip
            for said, logits in (("first", first), ("second", second), ("first again", first)):
                wanted = (
                    (logits == logits.amax(-1, keepdim=True)).float()
                    if settings.get("temperature") == 0
                    else chances(logits, **settings)
                )
                tried = f"two sets of logits in {str(dtype)[6:]} in turn, now the {said}; "
                tried += _say(logits, settings)
                out = _of_shape(subject.call(logits, **settings), logits, settings)
                # as in `any_dtype`
                if not torch.allclose(out, wanted, rtol=5e-4, atol=1e-6):
                    raise Wrong(
                        "REMEMBERS",
                        "logits that come after others of their shape give other chances",
                        tried=tried,
                        expected=f"{vector(wanted[0])} for row 0, {vector(wanted[1])} for row 1",
                        got=f"{vector(out[0])} for row 0, {vector(out[1])} for row 1",
                        fits="something kept from an earlier call.",
                        look="what is stored in a global, in a default argument or by `cache`.",
                    )


SUITES = (
    Suite(
        "sample",
        (
            runs,
            temperature,
            at_zero,
            top_k,
            top_p,
            together,
            rows_alone,
            any_dtype,
            no_floor,
            as_many_as_k,
            large_vocabulary,
            each_call_alone,
        ),
        tested="temperature, top-k and top-p do what they say, in this order, row by row.",
        remember="the token that brings the sum to p is kept, so one always stays open.",
        next_step="top_p=0.9: how many tokens stay open at temperature=2, and how many at 0.5?",
    ),
)
