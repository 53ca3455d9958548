"""What known mistakes give in place of the tables of lesson 02, and what a right answer gives.

Each entry of `MISTAKES` is a function of the arguments of `rope_tables`. An answer that gives the
same numbers is named by it.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Tables = tuple[Tensor, Tensor]


def angles(T: int, K: int, theta: float, *, first: int = 0, step: float = 1.0) -> Tensor:
    """(T, K/2), float64: positions first, first + step, ... times theta^(-2i/K)."""
    positions = first + step * torch.arange(T, dtype=torch.float64)
    return torch.outer(positions, speeds(K, theta))


def speeds(K: int, theta: float, dtype: torch.dtype = torch.float64) -> Tensor:
    """(K/2,): radians per position."""
    return theta ** (-torch.arange(0, K, 2, dtype=dtype) / K)


def write_twice(angle: Tensor) -> Tables:
    """The tables of (T, K/2) angles, in float32."""
    both = torch.cat((angle, angle), dim=-1)
    return both.cos().float(), both.sin().float()


def exact_tables(T: int, K: int, theta: float = 10_000.0) -> Tables:
    """What a right answer gives."""
    return write_twice(angles(T, K, theta))


class Mistake(NamedTuple):
    """One wrong answer that learners write: its tables for (T, K, theta)."""

    code: str
    gives: Callable[[int, int, float], Tables]
    finding: str
    fits: str
    look: str


def _exponent(power: Callable[[int], Tensor]) -> Callable[[int, int, float], Tables]:
    """The tables whose speeds are theta^power(K)."""
    return lambda T, K, theta: write_twice(
        torch.outer(torch.arange(T, dtype=torch.float64), float(theta) ** power(K).double())
    )


def _each(change: Callable[[Tensor], Tensor]) -> Callable[[int, int, float], Tables]:
    """The right tables, with the same change to both."""
    return lambda *given: tuple(change(table) for table in exact_tables(*given))


def _interleave(table: Tensor) -> Tensor:
    return table[:, : table.shape[-1] // 2].repeat_interleave(2, dim=-1)


def _change_second(table: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    first, second = table.chunk(2, -1)
    return torch.cat((first, change(second)), -1)


def _fill_second(*fills: float) -> Callable[[int, int, float], Tables]:
    """The right tables, but one number in all columns from K/2 on, of the cosines and of the sines."""

    def gives(T: int, K: int, theta: float) -> Tables:
        cos, sin = exact_tables(T, K, theta)
        for table, fill in zip((cos, sin), fills, strict=True):
            table[:, K // 2 :] = fill
        return cos, sin

    return gives


def _keep_theta(fixed: float) -> Callable[[int, int, float], Tables]:
    """The right tables of one theta, whatever is given."""
    return lambda T, K, theta: exact_tables(T, K, fixed)


def _round_at(dtype: torch.dtype, stage: str) -> Callable[[int, int, float], Tables]:
    """Tables that keep `dtype` at one stage, or from there on to the end with "all"."""

    def gives(T: int, K: int, theta: float) -> Tables:
        positions, speed = torch.arange(T, dtype=torch.float32), speeds(K, theta, torch.float32)
        if stage == "all":
            speed = speeds(K, theta, dtype)
            return tuple(t.float() for t in write_twice(torch.outer(positions.to(dtype), speed)))
        if stage == "positions":
            positions = positions.to(dtype).float()
        if stage == "speeds":
            speed = speed.to(dtype).float()
        angle = torch.outer(positions, speed)
        if stage == "angles":
            angle = angle.to(dtype).float()
        cos, sin = write_twice(angle)
        return (cos.to(dtype).float(), sin.to(dtype).float()) if stage == "tables" else (cos, sin)

    return gives


def _every_column(T: int, K: int, theta: float) -> Tables:
    """By a mistake: K speeds, none of them shared."""
    angle = torch.outer(torch.arange(T).double(), theta ** (-torch.arange(K).double() * 2 / K))
    return angle.cos().float(), angle.sin().float()


EXPONENT = "the exponent of theta, for i = 0 and for the last pair."
POSITIONS = "where the positions begin, and their step."
COLUMNS = "which columns belong to pair i: i and i + K/2."
RETURN = "what stands after `return`."
MISTAKES = (
    Mistake(
        "ROPE-TABLES-SWAPPED",
        lambda *given: exact_tables(*given)[::-1],
        "sines come first",
        "sin and cos in each other's place.",
        RETURN,
    ),
    *(
        Mistake(
            "ROPE-ONE-TABLE",
            lambda *given, i=i: (exact_tables(*given)[i],) * 2,
            f"both tables hold {name}",
            "one table returned twice.",
            RETURN,
        )
        for i, name in enumerate(("cosines", "sines"))
    ),
    Mistake(
        "ROPE-ONE-TABLE",
        lambda *given: (exact_tables(*given)[0].sin(),) * 2,
        "both tables hold the sine of a cosine",
        "`cos_` and `sin_`, which overwrite the angles.",
        "methods that end in an underscore.",
    ),
    Mistake(
        "ROPE-ANGLES",
        lambda T, K, theta: (angles(T, K, theta).float().repeat(1, 2),) * 2,
        "the tables hold angles",
        "angles, without cosine and sine.",
        RETURN,
    ),
    Mistake(
        "ROPE-FROM-ONE",
        lambda *given: write_twice(angles(*given, first=1)),
        "the first position is 1",
        "positions 1, 2, 3, ...; here they are 0, 1, 2, ...",
        POSITIONS,
    ),
    Mistake(
        "ROPE-POSITIONS",
        _each(lambda table: table.flip(0)),
        "the last position comes first",
        "positions from T - 1 down to 0.",
        POSITIONS,
    ),
    Mistake(
        "ROPE-POSITIONS",
        lambda T, K, theta: write_twice(angles(T, K, theta, step=T / max(T - 1, 1))),
        "the positions are not whole numbers",
        "T positions from 0 to T, both included.",
        POSITIONS,
    ),
    Mistake(
        "ROPE-POSITIONS",
        lambda T, K, theta: write_twice(angles(T, K, theta, step=1 / T)),
        "positions are shares of T",
        "positions divided by T.",
        POSITIONS,
    ),
    Mistake(
        "ROPE-DEGREES",
        lambda *given: write_twice(angles(*given) * torch.pi / 180),
        "the angles are taken for degrees",
        "a conversion to radians; these angles are radians.",
        "factors such as pi / 180.",
    ),
    Mistake(
        "ROPE-DEGREES",
        lambda *given: write_twice(angles(*given) * 2 * torch.pi),
        "each angle is 2 pi times as large",
        "turns converted to radians; these angles are radians.",
        "factors such as 2 * pi.",
    ),
    Mistake(
        "ROPE-BACKWARDS",
        lambda *given: write_twice(-angles(*given)),
        "the sines have the other sign",
        "negative angles: every turn goes backwards.",
        "the sign of the angle.",
    ),
    Mistake(
        "ROPE-SIGN",
        lambda *given: (
            exact_tables(*given)[0],
            -_change_second(exact_tables(*given)[1], torch.neg),
        ),
        "the sines of the first half have a minus",
        "the minus of rotate_half, already in the table: it would be there twice.",
        "the sign of the sines.",
    ),
    Mistake(
        "ROPE-INTERLEAVED",
        _each(_interleave),
        "neighboring columns share an angle",
        "the interleaved layout: columns 2i and 2i + 1.",
        COLUMNS,
    ),
    Mistake(
        "ROPE-COLUMNS",
        _each(lambda table: _change_second(table, lambda half: half.flip(-1))),
        "the second half of the columns is in reverse order",
        "`flip`.",
        COLUMNS,
    ),
    *(
        Mistake(
            "ROPE-COLUMNS",
            _fill_second(*fill),
            "the second half of the columns turns nothing",
            fits,
            COLUMNS,
        )
        for fill, fits in (((0, 0), "zeros there."), ((1, 0), "angles of 0 there."))
    ),
    Mistake(
        "ROPE-COLUMNS",
        lambda T, K, theta: (
            (torch.cat([part[:, : K // 2] for part in exact_tables(T, K, theta)], -1),) * 2
        ),
        "cosines and sines are in one table",
        "the cosines and the sines of the pairs side by side, as in complex numbers.",
        "what is joined by `cat`.",
    ),
    *(
        Mistake(
            "ROPE-THETA",
            _keep_theta(fixed),
            "the speeds are those of another theta",
            f"theta = {fixed:,.0f}.",
            "where theta comes from: the argument, and its default.",
        )
        for fixed in (10_000.0, 1000.0, 500_000.0)
    ),
    *(
        Mistake(
            "ROPE-EXPONENT",
            _exponent(power),
            "other pairs than the first have another speed",
            fits,
            EXPONENT,
        )
        for power, fits in (
            (lambda K: -torch.arange(K // 2) / K, "theta^(-i/K), without the 2."),
            (lambda K: -torch.arange(0, K, 2) / (K // 2), "theta^(-4i/K): 2i divided by K/2."),
            (lambda K: -torch.arange(1, K // 2 + 1) * 2 / K, "i counted from 1."),
            (lambda K: -torch.arange(1, K, 2) / K, "theta^(-(2i + 1)/K)."),
            (lambda K: torch.arange(0, K, 2) / K, "theta^(+2i/K): each pair faster than the last."),
            (lambda K: -torch.linspace(0, 1, K // 2), "exponents from 0 to -1, both included."),
            (lambda K: -torch.arange(0, K, 2), "theta^(-2i), not divided by K."),
            (lambda K: -torch.arange(0, K, 2).flip(0) / K, "the slowest pair first."),
            (lambda K: 0.0 * torch.arange(0, K, 2), "one speed for all pairs."),
        )
    ),
    Mistake(
        "ROPE-EXPONENT",
        _every_column,
        "each column has a speed of its own",
        "i up to K - 1, one angle per column; a pair has one angle.",
        COLUMNS,
    ),
    Mistake(
        "ROPE-EXPONENT",
        lambda T, K, theta: write_twice(
            torch.arange(T)[:, None].double() * theta**-1.0 * torch.arange(0, K, 2) / K
        ),
        "the speeds are no power",
        "theta^-1 times 2i/K: what `-` and `**` bind first.",
        "brackets around the exponent.",
    ),
    *(
        Mistake(
            "ROPE-LOW-PRECISION",
            _round_at(dtype, stage),
            "the numbers are rounded to few digits",
            f"{str(dtype)[6:]} for {what}.",
            "the dtype of every step, from the positions to the tables.",
        )
        for dtype in (torch.bfloat16, torch.float16)
        for stage, what in (
            ("positions", "the positions"),
            ("speeds", "the speeds"),
            ("angles", "the angles"),
            ("tables", "the finished tables"),
            ("all", "everything up to the tables"),
        )
    ),
)
