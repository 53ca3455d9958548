"""Checks of lesson 13, third part: mfu.

Oracle: FLOPs of one token added up matrix by matrix, and the shares they are of a peak.
"""

import dataclasses
import math
from collections.abc import Sequence

from course_lib.checks import expect
from course_lib.checks.calls import expect_arguments_alone
from course_lib.checks.report import Wrong, as_float, number
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite
from course_lib.gpt import GPTConfig

PEAK = 1e9


def _config(draw: Draw, *, tied: bool) -> GPTConfig:
    L, D, F, V = draw.size((5, 16, 40, 50), (7, 8, 24, 30), (8, 24, 56, 90))
    return GPTConfig(
        vocab_size=V,
        max_seq_len=64,
        num_layers=L,
        num_heads=2,
        d_model=D,
        d_hidden=F,
        tie_embeddings=tied,
    )


def _params(c: GPTConfig) -> dict[str, int]:
    """How many parameters there are of each kind."""
    D = c.d_model
    matrices = [(D, D)] * 4 + [(D, c.d_hidden)] * 3  # q, k, v, o; gate, up, down
    return {
        "blocks": c.num_layers * sum(rows * columns for rows, columns in matrices),
        "head": D * c.vocab_size,
        "embedding": 0 if c.tie_embeddings else D * c.vocab_size,
        "norms": c.num_layers * 2 * D + D,
    }


def _token(c: GPTConfig, T: int, convention: str, *, each: int = 6, scores: int = 12) -> int:
    """FLOPs of a token; `each` per parameter, `scores` per layer, dimension and position."""
    n = _params(c)
    counted = n["blocks"] + n["head"]
    if convention == "all":
        counted += n["embedding"] + n["norms"]
    return each * counted + scores * c.num_layers * c.d_model * T


def _ask_mfu(subject: Subject, rate: float, c: GPTConfig, T: int, **more) -> tuple[float, str]:
    tied = "tied" if c.tie_embeddings else "untied"
    given = "".join(f", {k}={v!r}" for k, v in more.items())
    tried = (
        f"{rate:g} tokens/s, L {c.num_layers}, D {c.d_model}, F {c.d_hidden}, V {c.vocab_size}, "
        f"{tied},\nT {T}, {PEAK:g} FLOP/s{given}"
    )
    found = subject.call(rate, c, T, PEAK, **more)
    expect.not_none(found, "a number", tried=tried)
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise Wrong(
            "TYPE",
            "the answer is no number",
            tried=tried,
            expected="a float",
            got=f"type {type(found).__name__}",
            look="what stands after `return`.",
        )
    return as_float(found), tried


def _compare(found: float, right: float, tried: str, ways: Sequence[tuple], look: str) -> None:
    """`found` is `right`; else the first of `ways` (number, code, finding, fits), or OTHER."""
    if math.isclose(found, right, rel_tol=1e-9):
        return
    facts = dict(tried=tried, expected=number(right), got=number(found), look=look)
    for value, code, finding, fits in ways:
        if math.isclose(found, value, rel_tol=1e-9):
            raise Wrong(code, finding, fits=fits, **facts)
    raise Wrong("OTHER", "the share is another number", **facts)


def a_share(subject: Subject, draw: Draw) -> None:
    """A number between 0 and 1: the unit and the direction, before any formula is looked at."""
    c, T, rate = _config(draw, tied=False), 8, 1000.0
    found, tried = _ask_mfu(subject, rate, c, T)
    right = rate * _token(c, T, "matmul") / PEAK
    other = rate * _token(c, T, "all") / PEAK  # which parameters count comes later
    _compare(
        found,
        right,
        tried,
        (
            (100 * right, "MFU-PERCENT", "percent in place of a share", "the share times 100."),
            (100 * other, "MFU-PERCENT", "percent in place of a share", "the share times 100."),
            (1 / right, "MFU-INVERTED", "the share is upside down", "the peak over what is used."),
            (right * PEAK, "MFU-FLOPS", "FLOP/s in place of a share", "not divided by the peak."),
            (
                right * T,
                "MFU-SEQUENCES",
                "tokens are taken for sequences",
                "multiplied with seq_len.",
            ),
            (
                right / rate,
                "MFU-NO-RATE",
                "one token per second is assumed",
                "FLOPs of a token over the peak.",
            ),
            *_formulas(c, T, rate),
        ),
        "FLOPs of a token, tokens per second, FLOPs per second at best.",
    )


def _formulas(c: GPTConfig, T: int, rate: float) -> list[tuple]:
    """What a token may be thought to cost."""

    def share(**bent) -> float:
        return rate * _token(c, T, "matmul", **bent) / PEAK

    n, per = _params(c), rate / PEAK
    forward = "the forward pass alone is counted"
    scores = "attention is counted"
    right = _token(c, T, "matmul")
    return [
        (share(each=2, scores=4), "MFU-FORWARD", forward, "2 FLOPs per parameter."),
        (share(each=2, scores=0), "MFU-FORWARD", forward, "2 N, and no attention."),
        (share(each=2), "MFU-FORWARD", forward, "2 FLOPs per parameter; attention with 12."),
        (
            share(each=4, scores=8),
            "MFU-BACKWARD",
            "the backward pass alone is counted",
            "4 per parameter.",
        ),
        (share(each=3, scores=6), "MFU-MULTIPLY-ADD", "a multiply-add is counted once", "3 N."),
        (share(scores=0), "MFU-NO-ATTENTION", "the attention term is left out", "6 N alone."),
        (
            share(scores=6),
            "MFU-CAUSAL",
            f"half of {scores}",
            "a causal mask, or one of the two products.",
        ),
        (share(scores=4), "MFU-SCORES-FORWARD", f"{scores} in the forward pass alone", "4 L D T."),
        (
            per * (right - 12 * (c.num_layers - 1) * c.d_model * T),
            "MFU-ONE-LAYER",
            f"{scores} in one layer alone",
            "12 D T.",
        ),
        (per * (right - 6 * n["head"]), "MFU-NO-HEAD", "the head is left out", "the blocks alone."),
        (
            rate * _token(c, T, "all") / PEAK,
            "MFU-ALL",
            "parameters that multiply nothing are counted",
            'the convention "all".',
        ),
        (
            per * (right + 6 * n["embedding"]),
            "MFU-EMBEDDING",
            "the embedding is counted",
            "rows that are copied, taken for a product.",
        ),
    ]


def matrices(subject: Subject, draw: Draw) -> None:
    """By default the matrices count, the head among them, tied or not; longer sequences cost more."""
    for tied, T in ((False, 32), (True, 32)):
        c, rate = _config(draw, tied=tied), 500.0
        found, tried = _ask_mfu(subject, rate, c, T)
        right = rate * _token(c, T, "matmul") / PEAK
        _compare(found, right, tried, _formulas(c, T, rate), "what one token is multiplied with.")


def all_parameters(subject: Subject, draw: Draw) -> None:
    """In the other convention every parameter counts, a shared one once."""
    T, rate = 16, 500.0
    for tied in (False, True):
        c = _config(draw, tied=tied)
        found, tried = _ask_mfu(subject, rate, c, T, convention="all")
        n, flops = _params(c), _token(c, T, "all")
        _compare(
            found,
            rate * flops / PEAK,
            tried,
            (
                (
                    rate * _token(c, T, "matmul") / PEAK,
                    "MFU-CONVENTION",
                    "the convention changes nothing",
                    'that of "matmul".',
                ),
                (
                    rate * (flops - 6 * n["norms"]) / PEAK,
                    "MFU-NO-NORMS",
                    "the gains of norms are left out",
                    "matrices and tables alone.",
                ),
                (
                    rate * (flops + 6 * n["head"] * tied) / PEAK,
                    "MFU-TIED-TWICE",
                    "a shared matrix is counted twice",
                    "embedding and head, although they are one.",
                ),
            ),
            "`num_params`: every parameter once.",
        )


def devices(subject: Subject, draw: Draw) -> None:
    """The rate is that of all devices together, the peak that of one."""
    R, c, T, rate = draw.size(4, 8, 3), _config(draw, tied=False), 16, 500.0
    found, tried = _ask_mfu(subject, rate, c, T, world_size=R)
    one = rate * _token(c, T, "matmul") / PEAK
    _compare(
        found,
        one / R,
        tried,
        (
            (one, "MFU-WORLD", "the other devices are left out", "the peak of one device for all."),
            (
                one * R,
                "MFU-WORLD",
                "the devices count the wrong way",
                "multiplied in place of divided.",
            ),
        ),
        "whose tokens these are, and whose peak.",
    )


def beyond_peak(subject: Subject, draw: Draw) -> None:
    """More than the peak is no share, and it is told: the peak or the rate is wrong then."""
    c, T = _config(draw, tied=False), 16
    rate = 2.5 * PEAK / _token(c, T, "matmul")
    found, tried = _ask_mfu(subject, rate, c, T)
    _compare(
        found,
        2.5,
        tried,
        ((1.0, "MFU-CUT", "what is above 1 is cut off", "`min(1, ...)`."),),
        "what is done with the quotient.",
    )


def any_length(subject: Subject, draw: Draw) -> None:
    """A length is a number: 0, 1, and more than the model's own max_seq_len."""
    c, rate = _config(draw, tied=False), 500.0
    for T in (0, 1, c.max_seq_len, 4 * c.max_seq_len, 100_000):
        found, tried = _ask_mfu(subject, rate, c, T)
        right = rate * _token(c, T, "matmul") / PEAK
        if not math.isclose(found, right, rel_tol=1e-9):
            raise Wrong(
                "MFU-LENGTH",
                f"a length of {T:,} counts as another",
                tried=tried,
                expected=number(right),
                got=number(found),
                fits="a 0 taken for no length."
                if T == 0
                else f"a length that is cut; max_seq_len is {c.max_seq_len}, and is not asked about.",
                look="12 * num_layers * d_model * seq_len, whatever seq_len is.",
            )
    found, tried = _ask_mfu(subject, 0.0, c, 16)
    if found != 0:
        raise Wrong(
            "MFU-NO-TOKENS",
            "no tokens per second use something",
            tried=tried,
            expected="0",
            got=number(found),
            fits="a 0 taken for none given.",
            look="`or`, and `max`.",
        )


def how_it_runs(subject: Subject, draw: Draw) -> None:
    """How a model is run has no say: what is computed twice, in which kernel, with how many heads."""
    T, rate = 16, 500.0
    for convention in ("matmul", "all"):
        for change in (
            dict(activation_checkpointing=True),
            dict(fast_attention=False),
            dict(num_heads=1),
            dict(max_seq_len=4096),
            dict(activation_checkpointing=True, fast_attention=False),
        ):
            c = dataclasses.replace(_config(draw, tied=False), **change)
            found, tried = _ask_mfu(subject, rate, c, T, convention=convention)
            right = _token(c, T, convention)
            if math.isclose(found, rate * right / PEAK, rel_tol=1e-9):
                continue
            again = found * PEAK / rate / right if c.activation_checkpointing else 0
            given = ", ".join(f"{name}={value}" for name, value in change.items())
            facts = dict(tried=f"{tried};\nconfig: {given}", got=number(found))
            facts |= dict(expected=f"{number(rate * right / PEAK)}, as without it")
            if math.isclose(again, 4 / 3, rel_tol=0.05):
                raise Wrong(
                    "MFU-RECOMPUTED",
                    "what is computed a second time counts as work",
                    fits="8 FLOPs per parameter: a second forward pass.",
                    hides="a step that wastes a third more looks as good as one that does not.",
                    look="`config.activation_checkpointing`: the model needs no second pass.",
                    **facts,
                )
            raise Wrong(
                "MFU-CONFIG",
                "the share hangs on how the model is run",
                look="which fields of `config` are asked: layers, widths and the vocabulary.",
                **facts,
            )


def arguments_alone(subject: Subject, draw: Draw) -> None:
    """What a launcher has left in the environment has no say, nor has a group of processes."""
    c, T, rate = _config(draw, tied=False), 16, 500.0
    for R in (1, 2, 7):
        expect_arguments_alone(
            subject.probe,
            [rate, c, T, PEAK],
            dict(world_size=R),
            tried=f"world_size={R}",
            code="MFU-ENVIRONMENT",
        )
    expect_arguments_alone(
        subject.probe, [rate, c, T, PEAK], tried="no world_size", code="MFU-ENVIRONMENT"
    )


def refusals(subject: Subject, draw: Draw) -> None:
    """A convention that is neither word is refused, whatever the other arguments."""
    c = _config(draw, tied=False)
    words = ("flops", "", "ALL", " matmul", "mat", "al", "matmul_all")
    cases = [(word, 1.0, 8, 1) for word in words]
    cases += [("flops", *other) for other in ((0.0, 8, 1), (1.0, 0, 1), (1.0, 8, 2))]
    for word, rate, T, R in cases:
        options = dict(convention=word) | (dict(world_size=R) if R > 1 else {})
        try:
            got = f"{subject.call(rate, c, T, PEAK, **options)}"[:40]
        except AnswerError as failure:
            if isinstance(failure.error, ValueError):
                continue
            got = str(failure)[:60]
        raise Wrong(
            "MFU-WORD",
            "a convention that is none is not refused",
            tried=f"convention={word!r}; {rate:g} tokens per second, seq_len {T}, world_size {R}",
            expected="ValueError",
            got=got,
            fits="a return before the word is looked at." if rate * T == 0 else "",
            look="the last sentence of the docstring.",
        )


SUITES = (
    Suite(
        "mfu",
        (
            a_share,
            matrices,
            all_parameters,
            devices,
            beyond_peak,
            any_length,
            how_it_runs,
            arguments_alone,
            refusals,
        ),
        tested="tokens per second become a share of the peak, in both conventions, on any "
        "number of devices.",
        remember="6 FLOPs per matrix parameter and token, plus 12 L D T; say which parameters.",
        ranks=1,
        next_step="ask for both conventions at vocabulary 50,304 and d_model 768: how far apart?",
    ),
)
