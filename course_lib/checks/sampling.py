"""Checks of lesson 07: next_token_probs.

Oracle: `chances`, the same in float64 with sorted tokens, whose options bend one thing each.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

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
    out = expect.tensor(
        subject.call(logits, **settings), shape=logits.shape, dtype=torch.float32, tried=tried
    )
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


def _say(logits: Tensor, settings: dict) -> str:
    said = ", ".join(f"{name}={value}" for name, value in settings.items()) or "no settings"
    shown = f"; row 0: {vector(logits[0].float())}" if logits.shape[1] <= 6 else ""
    return f"logits {tuple(logits.shape)}, {said}{shown}"


def compare(subject: Subject, logits: Tensor, **settings) -> None:
    """The answer gives what `chances` does."""
    wanted = chances(logits, **settings)
    expect.values(
        ask(subject, logits, **settings), wanted, patterns(logits, settings, wanted), **CLOSE,
        tried=_say(logits, settings), finding="the probabilities differ",
        look="the docstring: the order of the three steps.",
    )  # fmt: skip


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
    tried = _say(logits, dict(temperature=0))
    for zero in (0, 0.0):
        out = subject.call(logits, temperature=zero)
        out = expect.tensor(out, shape=logits.shape, dtype=torch.float32, tried=tried)
        wanted = torch.zeros_like(logits).scatter(-1, logits.argmax(-1, keepdim=True), 1.0)
        expect.values(
            out, wanted, **CLOSE, tried=tried, finding="the likeliest token is not certain",
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
    """Each row has its own tokens, whatever the others are; strides, sizes and bfloat16."""
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
    half = (3 * draw_logits(draw, 2, 12)).bfloat16()
    out = expect.tensor(subject.call(half), shape=half.shape, dtype=torch.float32)
    # float32 after the cast: a softmax in bfloat16 is off by 2^-9 of each probability
    expect.values(
        out, chances(half), rtol=5e-4, atol=1e-6, tried="logits in bfloat16",
        finding="the probabilities are those of 16 bits", look="`.float()`, before the softmax.",
    )  # fmt: skip


SUITES = (
    Suite(
        "sample",
        (runs, temperature, top_k, top_p, together, rows_alone),
        proved="temperature, top-k and top-p do what they say, in this order, row by row.",
        remember="the token that brings the sum to p is kept, so one always stays open.",
        next_step="temperature=2 with top_p=0.9: how many tokens stay open, and how many at 0.5?",
    ),
)
