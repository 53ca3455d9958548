"""Checks of lesson 02: rope_tables.

Oracle: the angles in float64. A wrong answer is named by comparing it with the catalogue of
rope_tables_mistakes: what known mistakes give for the very same arguments.
"""

from typing import Any

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.calls import (
    expect_any_default,
    expect_own_results,
    expect_separate_calls,
)
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.rope_tables_mistakes import (
    COLUMNS,
    MISTAKES,
    RETURN,
    Tables,
    exact_tables,
)
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite

FEW, K = 5, 8
"""T and K of the first checks, with theta 10,000."""


def _words(T: int, K: int, theta: float | None) -> str:
    return f"seq_len = {T}, head_dim = {K}" + (f", theta = {theta:,.0f}" if theta else "")


def _ask(
    subject: Subject, T: int, K: int, theta: float | None = None, *, by_name: bool = False
) -> Tables:
    """The answer's two tables, after the generic expectations; theta None leaves it to its default."""
    given = {"seq_len": T, "head_dim": K} | ({} if theta is None else {"theta": theta})
    out = subject.call(**given) if by_name else subject.call(*given.values())
    facts = dict(
        tried=_words(T, K, theta), expected=f"a tuple of two tensors, both of shape ({T}, {K})"
    )
    if isinstance(out, Tensor):
        raise Wrong(
            "ROPE-ONE-TENSOR",
            "one tensor came back",
            got=f"one tensor of shape {tuple(out.shape)}",
            look=RETURN,
            **facts,
        )
    expect.not_none(out, facts["expected"], tried=facts["tried"])
    if not isinstance(out, tuple | list):
        raise Wrong(
            "TYPE",
            f"the answer returned a {type(out).__name__}",
            got=type(out).__name__,
            look=RETURN,
            **facts,
        )
    if len(out) != 2:
        raise Wrong(
            "ROPE-COUNT",
            f"{len(out)} values came back, not two",
            got=f"a {type(out).__name__} of {len(out)}",
            look=RETURN,
            **facts,
        )
    for name, table in zip(("cos", "sin"), out, strict=True):
        _expect_shape(table, T, K, f"{facts['tried']}; {name}")
        expect.tensor(table, shape=(T, K), dtype=torch.float32, tried=f"{facts['tried']}; {name}")
    return tuple(out)


def _expect_shape(table: Any, T: int, K: int, tried: str) -> None:
    """Names the shapes of known mistakes; dtype and other shapes are left to `expect`."""
    shape = tuple(table.shape) if isinstance(table, Tensor) else None
    facts = dict(tried=tried, expected=f"shape ({T}, {K})", got=f"shape {shape}")
    if shape == (T, K // 2):
        raise Wrong(
            "ROPE-HALF-WIDTH",
            "there is one column per pair",
            fits="angles that are written once; rotate_half's layout needs each of them twice.",
            look="the columns from K/2 on.",
            **facts,
        )
    if shape == (K, T):
        raise Wrong(
            "ROPE-TRANSPOSED",
            "positions are columns, not rows",
            fits="the two arguments of an outer product in each other's place, or a transpose.",
            look="which of the two comes first: positions.",
            **facts,
        )
    if shape == (T, K) and table.dtype != torch.float32:
        is_wide = table.dtype == torch.float64
        raise Wrong(
            "DTYPE",
            f"the dtype is {str(table.dtype)[6:]}",
            tried=tried,
            expected="float32",
            got=str(table.dtype)[6:],
            fits="angles computed in float64, which is welcome, and no cast at the end."
            if is_wide
            else "",
            hides="float64 tables make float64 of every q and k that they multiply."
            if is_wide
            else "",
            look="the last step before `return`: `.float()`, `.to(...)`.",
        )


def _close(T: int) -> float:
    # float32 keeps an angle to a few times 6e-8 of itself, and no angle here is above T
    return 2e-6 + 1e-6 * T


def _are_close(one: Tables, other: Tables, within: float) -> bool:
    return all(
        a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=within, equal_nan=True)
        for a, b in zip(one, other, strict=True)
    )


def _explain(out: Tables, T: int, K: int, theta: float, finding: str, **facts: str) -> None:
    """Raise `Wrong`: the mistake that gives these very numbers, else OTHER with `finding`."""
    right = exact_tables(T, K, theta)
    for mistake in MISTAKES:
        gives = mistake.gives(T, K, theta)
        if not _are_close(gives, right, _close(T)) and _are_close(out, gives, 10 * _close(T)):
            facts["look"] = mistake.look
            raise Wrong(mistake.code, mistake.finding, fits=mistake.fits, **facts)
    raise Wrong("OTHER", finding, **facts)


def _compare(
    subject: Subject, T: int, K: int, theta: float | None = None, *, by_name: bool = False
) -> None:
    """Every number of both tables."""
    out, base = _ask(subject, T, K, theta, by_name=by_name), theta or 10_000.0
    for name, table, wanted in zip(("cos", "sin"), out, exact_tables(T, K, base), strict=True):
        bad = ~torch.isclose(table, wanted, rtol=0, atol=_close(T))
        if bad.any():
            row, column = (int(i) for i in bad.nonzero()[0])
            shown = slice(None) if K <= 6 else slice(column, column + 1)
            place = f"{name}, row {row}" + ("" if K <= 6 else f", column {column}")
            _explain(
                out,
                T,
                K,
                base,
                f"the numbers of {name} differ",
                tried=_words(T, K, theta),
                expected=f"{place}: {vector(wanted[row, shown])}",
                got=f"{vector(table[row, shown])}; {int(bad.sum())} of {T * K} differ",
                look="the speed of each pair, then the angle of each position.",
            )


def a_pair(subject: Subject, draw: Draw) -> None:
    """Two finite float32 tensors of shape (T, K)."""
    _ask(subject, FEW, K)


def first_row(subject: Subject, draw: Draw) -> None:
    """Position 0 turns nothing: its cosines are 1 and its sines 0."""
    cos, sin = out = _ask(subject, FEW, K)
    if not torch.allclose(cos[0], torch.ones(K)) or not torch.allclose(
        sin[0], torch.zeros(K), atol=1e-6
    ):
        _explain(
            out,
            FEW,
            K,
            10_000.0,
            "position 0 is turned",
            tried=f"{_words(FEW, K, None)}; row 0",
            expected="cos = [1, 1, 1, 1, ...], sin = [0, 0, 0, 0, ...]",
            got=f"cos = {vector(cos[0], 4)}, sin = {vector(sin[0], 4)}",
            look="the first angle of every column.",
        )


def unit_length(subject: Subject, draw: Draw) -> None:
    """cos^2 + sin^2 = 1 at every place, or a turn would change lengths."""
    cos, sin = out = _ask(subject, FEW, K)
    squares = cos.square() + sin.square()
    bad = ~torch.isclose(squares, torch.ones(FEW, K), rtol=0, atol=1e-5)
    if bad.any():
        row, column = (int(i) for i in bad.nonzero()[0])
        _explain(
            out,
            FEW,
            K,
            10_000.0,
            "cos and sin are not of one angle",
            tried=f"{_words(FEW, K, None)}; row {row}, column {column}",
            expected="cos^2 + sin^2 = 1",
            got=number(squares[row, column].item()),
            look="what cosine and sine are taken of.",
        )


def halves_agree(subject: Subject, draw: Draw) -> None:
    """Columns i and i + K/2 are equal: both numbers of a pair have one angle."""
    out = _ask(subject, FEW, K)
    for name, table in zip(("cos", "sin"), out, strict=True):
        first, second = table.chunk(2, -1)
        if not torch.allclose(first, second, rtol=0, atol=_close(FEW)):
            row = int((first - second).abs().amax(-1).argmax())
            _explain(
                out,
                FEW,
                K,
                10_000.0,
                f"{name}: columns i and i + K/2 differ",
                tried=f"{_words(FEW, K, None)}; row {row}",
                expected="columns 0 to 3 again in columns 4 to 7",
                got=f"{vector(first[row])}, then {vector(second[row])}",
                look=COLUMNS,
            )


def every_speed(subject: Subject, draw: Draw) -> None:
    """theta is 10,000 where none is given, and pair i turns by theta^(-2i/K) per position."""
    _compare(subject, FEW, K)


def by_hand(subject: Subject, draw: Draw) -> None:
    """theta = 100 and K = 4 give the speeds 1 and 0.1."""
    _compare(subject, 3, 4, 100.0)


def other_sizes(subject: Subject, draw: Draw) -> None:
    """One position, one pair, wide heads, any theta; arguments by name."""
    _compare(subject, 1, draw.size(6, 10))
    _compare(subject, draw.size(9, 12), 2)
    _compare(subject, draw.size(33, 40), draw.size(128, 96), 500_000.0)
    _compare(subject, draw.size(7, 11), draw.size(12, 20), 50, by_name=True)  # an int is a number
    for K in (98, 196, 206, 214, 392):  # multiples of 2 / K that round up to 1, or across it
        _compare(subject, 3, K)


def not_of_before(subject: Subject, draw: Draw) -> None:
    """The same T and K with another theta, and a longer text after a shorter one."""
    seen: list[Tables] = []
    for T, theta in ((4, 100.0), (4, 1e6), (3, 1e6), (11, 1e6), (4, 100.0)):
        right, out = exact_tables(T, 6, theta), _ask(subject, T, 6, theta)
        for before in seen:
            stale = tuple(table[:T] for table in before)
            if not _are_close(stale, right, _close(T)) and _are_close(out, stale, _close(T)):
                raise Wrong(
                    "ROPE-STALE-TABLES",
                    "the tables of an earlier call come back",
                    tried=f"{_words(T, 6, theta)}, after calls with another theta",
                    expected=f"cos, row 1: {vector(right[0][1])}",
                    got=vector(out[0][1]),
                    fits="tables that are kept by their shape.",
                    look="what outlives a call: a cache, a global name, an attribute.",
                )
        seen.append(right)
        _compare(subject, T, 6, theta)


def each_call_alone(subject: Subject, draw: Draw) -> None:
    """Tables stay when others are made or written to, whatever torch's default dtype is."""
    close = dict(rtol=0, atol=_close(4))
    tried = f"{_words(4, 6, 100.0)}, then theta = 50"
    expect_separate_calls(subject.probe, (4, 6, 100.0), (4, 6, 50.0), tried=tried, **close)
    sizes = [(4, 6), (4, 6), (3, 6), (9, 6), (2, 6)]
    said = ", ".join(map(str, sizes))
    expect_own_results(
        subject.probe, sizes, names=("cos", "sin"), tried=f"(seq_len, head_dim) {said}"
    )
    few, many = (9, 6, 100.0), (300, 2, 100.0)  # bfloat16 has no 257
    expect_any_default(subject.probe, few, tried=_words(*few), **close)
    expect_any_default(subject.probe, many, tried=_words(*many), rtol=0, atol=_close(300))


def late_positions(subject: Subject, draw: Draw) -> None:
    """Positions beyond 2,048, where 16 bits no longer have every whole number."""
    _compare(subject, draw.size(2500, 3000), 4)


def under_autocast(subject: Subject, draw: Draw) -> None:
    """Where autocast takes products of matrices in bfloat16, angles keep the digits of float32."""
    T = draw.size(300, 280, 400)  # bfloat16 has every whole number up to 256
    out = subject.probe("course_lib.probes.calls:call_under_autocast", T, 6, 100.0)
    tried = f'{_words(T, 6, 100.0)}, under torch.autocast("cpu", torch.bfloat16)'
    tables = out if isinstance(out, tuple | list) and len(out) == 2 else [None, None]
    for name, table, wanted in zip(("cos", "sin"), tables, exact_tables(T, 6, 100.0), strict=True):
        _expect_shape(table, T, 6, f"{tried}; {name}")
        expect.tensor(table, shape=(T, 6), dtype=torch.float32, tried=f"{tried}; {name}")
        bad = ~torch.isclose(table, wanted, rtol=0, atol=_close(T))
        if bad.any():
            row = int(bad.nonzero()[0, 0])
            raise Wrong(
                "ROPE-LOW-PRECISION",
                "autocast takes digits from the angles",
                tried=tried,
                expected=f"{name}, row {row}: {vector(wanted[row])}",
                got=vector(table[row]),
                fits="`@` or `matmul`, which autocast computes in 16 bits.",
                hides="without autocast the tables are right, so only training is worse.",
                look="`torch.outer` or `*`, which it leaves alone.",
            )


def _shapes(out: Any) -> list[tuple[int, ...]]:
    tables = out if isinstance(out, tuple | list) else [out]
    return [tuple(table.shape) for table in tables if isinstance(table, Tensor)]


def odd_width(subject: Subject, draw: Draw) -> None:
    """An odd K has no pairs: ValueError, also where there is no position to turn."""
    for T, width in ((FEW, 7), (FEW, 1), (0, 3), (1, 3), (2, 1), (0, 1)):
        facts = dict(
            tried=_words(T, width, None),
            expected="ValueError, since an odd number of columns has no pairs",
            look="the docstring: Raises.",
        )
        try:
            out = subject.call(T, width)
        except AnswerError as failure:
            if isinstance(failure.error, ValueError):
                continue
            if isinstance(failure.error, NotImplementedError):
                raise
            said = f"{type(failure.error).__name__}: {failure.error}".splitlines()[0][:60]
            raise Wrong(
                "ROPE-ODD-ERROR", "an odd head_dim is refused with another error", got=said, **facts
            ) from None
        shapes = _shapes(out)
        raise Wrong(
            "ROPE-ODD",
            "an odd head_dim is not refused",
            got=f"a tensor of shape {shapes[0]}" if shapes else f"a {type(out).__name__}",
            hides="the tables then fit no q, or the last number of a head has no partner.",
            **facts,
        )


SUITES = (
    Suite(
        "rope-tables",
        (
            a_pair,
            first_row,
            unit_length,
            halves_agree,
            every_speed,
            by_hand,
            other_sizes,
            not_of_before,
            each_call_alone,
            late_positions,
            under_autocast,
            odd_width,
        ),
        tested="each number is the cosine or sine of its angle, for one position and for "
        "thousands, one pair and many, any theta; an odd width is refused.",
        remember="pair i turns by theta^(-2i/K) radians per position; columns i, i + K/2.",
        next_step="rope_tables(300, 2)[0][-1], which angles in bfloat16 would miss.",
        ranks=1,
    ),
)
