"""Mistakes of lesson 02: what known wrong answers give for the same input, and how to name them.

`HALVES` are wrong versions of rotate_half, `TURNS` of apply_rotary_pos_emb. The first entry that
gives an answer's very numbers names its mistake.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.checks.rope_tables_mistakes import exact_tables


class Mistake(NamedTuple):
    """One wrong answer that learners write, as a function of the exercise's arguments."""

    code: str
    gives: Callable
    finding: str
    fits: str
    look: str
    preset: str = ""


# rotate-half


def split(x: Tensor, dim: int = -1) -> tuple[Tensor, Tensor]:
    """The two halves along `dim`, the first one larger by one when the size is odd."""
    first, second = x.chunk(2, dim=dim)
    return first, second


def half_split(x: Tensor, dim: int = -1) -> Tensor:
    """The right answer along another dimension."""
    first, second = split(x, dim)
    return torch.cat((-second, first), dim)


def interleave(x: Tensor) -> Tensor:
    """The other layout: pairs are neighbors, (x[2i], x[2i + 1])."""
    return torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)


def _join_halves(a: float, b: float, *, swap: bool) -> Callable[[Tensor], Tensor]:
    """x to (a * one half, b * the other half)."""

    def join(x: Tensor) -> Tensor:
        first, second = split(x)
        return torch.cat((a * second, b * first) if swap else (a * first, b * second), dim=-1)

    return join


SIGNS = "which of the two halves carries the minus."
HALVES = (
    Mistake(
        "ROPE-INTERLEAVED",
        interleave,
        "neighbors are paired, not halves",
        "the interleaved layout: pairs (0, 1), (2, 3), ...\nHere a pair is (i, i + K/2).",
        "how x is cut: `x[..., ::2]` takes every other number.",
        "rope:mixed",
    ),
    Mistake(
        "ROPE-INTERLEAVED",
        lambda x: torch.stack((-split(x)[1], split(x)[0]), -1).flatten(-2),
        "the halves are shuffled into each other",
        "`stack` and `flatten` at the end: the interleaved layout.",
        "how the two halves are put together.",
    ),
    Mistake(
        "ROPE-NO-SIGN",
        _join_halves(1, 1, swap=True),
        "the halves are swapped, no sign is changed",
        "a swap without the minus: a mirror image, not a turn.",
        SIGNS,
    ),
    Mistake(
        "ROPE-SIGN",
        _join_halves(1, -1, swap=True),
        "the minus is on the other half",
        "(second, -first): a quarter turn backwards.",
        SIGNS,
    ),
    Mistake(
        "ROPE-SIGN",
        _join_halves(-1, -1, swap=True),
        "both halves are negated",
        "two minus signs: a mirror image, not a turn.",
        SIGNS,
    ),
    Mistake(
        "ROPE-NO-SWAP",
        _join_halves(-1, 1, swap=False),
        "the halves stay where they were",
        "a changed sign without the swap.",
        "the order inside `cat`.",
    ),
    Mistake(
        "ROPE-NO-SWAP",
        _join_halves(1, -1, swap=False),
        "the halves stay where they were",
        "a changed sign without the swap.",
        "the order inside `cat`.",
    ),
    Mistake(
        "ROPE-NO-SWAP",
        lambda x: x,
        "the input comes back unchanged",
        "a result that is computed and then not used.",
        "what stands after `return`.",
    ),
    Mistake(
        "ROPE-NO-SWAP",
        lambda x: -x,
        "every number is negated, none has moved",
        "a half turn; rotate_half is a quarter turn.",
        "the order inside `cat`.",
    ),
    Mistake(
        "ROPE-OVERWRITTEN",
        lambda x: torch.cat((-split(x)[1], -split(x)[1]), -1),
        "one half is lost",
        "a first half overwritten before it is read.",
        "the order of two assignments to slices.",
    ),
    Mistake(
        "ROPE-OVERWRITTEN",
        lambda x: torch.cat((-split(x)[0], split(x)[0]), -1),
        "one half is lost",
        "a second half overwritten before it is read.",
        "the order of two assignments to slices.",
    ),
    Mistake(
        "ROPE-REVERSED",
        lambda x: x.flip(-1),
        "the numbers are in reverse order",
        "`flip`, which also reverses each half.",
        "how the halves trade places.",
    ),
    Mistake(
        "ROPE-REVERSED",
        lambda x: _join_halves(-1, 1, swap=False)(x.flip(-1)),
        "each half is in reverse order",
        "`flip`, which also reverses each half.",
        "how the halves trade places.",
    ),
)


# apply-rope


def turn(x: Tensor, cos: Tensor, sin: Tensor, half: Callable = half_split) -> Tensor:
    """x turned by the tables, with another `half` in place of rotate_half."""
    return x * cos + half(x) * sin


def _turn_both(turn: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable:
    """The same formula for q and for k."""
    return lambda q, k, cos, sin: (turn(q, cos, sin), turn(k, cos, sin))


def _repeat_pairs(table: Tensor) -> Tensor:
    return table[:, : table.shape[-1] // 2].repeat_interleave(2, dim=-1)


def _default_tables(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    own = exact_tables(*cos.shape)
    return turn(q, *own), turn(k, *own)


K_LINE = "the tensors named in the line that makes k's result."
MIXED = "the interleaved layout in rotate_half or in the tables, the half-split one in the other."
TURNS = (
    Mistake(
        "ROPE-IDENTITY",
        lambda q, k, c, s: (q, k),
        "q and k come back unturned",
        "a result that is computed and then not used.",
        "what stands after `return`.",
    ),
    Mistake(
        "ROPE-Q-ONLY",
        lambda q, k, c, s: (turn(q, c, s), k),
        "q is turned, k is not",
        "a missing line for k.",
        K_LINE,
        "rope:q-only",
    ),
    Mistake(
        "ROPE-K-ONLY",
        lambda q, k, c, s: (q, turn(k, c, s)),
        "k is turned, q is not",
        "a missing line for q.",
        "the line that makes q's result.",
    ),
    Mistake(
        "ROPE-ORDER",
        lambda q, k, c, s: (turn(k, c, s), turn(q, c, s)),
        "k comes back in front of q",
        "the two results trade places.",
        "the order after `return`.",
    ),
    *(
        Mistake("ROPE-K-FROM-Q", gives, "k's result contains numbers of q", fits, K_LINE)
        for gives, fits in (
            (lambda q, k, c, s: (turn(q, c, s), turn(q, c, s)), "q's result returned twice."),
            (
                lambda q, k, c, s: (turn(q, c, s), turn(turn(q, c, s), c, s)),
                "q turned a second time.",
            ),
            (
                lambda q, k, c, s: (turn(q, c, s), k * c + half_split(q) * s),
                "`rotate_half(q)` in k's line.",
            ),
            (
                lambda q, k, c, s: (turn(q, c, s), k * c + half_split(turn(q, c, s)) * s),
                "q overwritten with its result, then used in k's line.",
            ),
            (
                lambda q, k, c, s: (turn(q, c, s), q * c + half_split(k) * s),
                "`q * cos` in k's line.",
            ),
        )
    ),
    Mistake(
        "ROPE-BACKWARDS",
        _turn_both(lambda x, c, s: x * c - half_split(x) * s),
        "the turn goes backwards",
        "a minus where the plus belongs, or the minus on the wrong half in\nrotate_half.",
        "the sign in front of the sin term. Scores still depend on the gap\nalone, so nothing "
        "else shows it.",
    ),
    Mistake(
        "ROPE-TABLES-SWAPPED",
        _turn_both(lambda x, c, s: x * s + half_split(x) * c),
        "cos and sin trade places",
        "x times sin plus rotate_half(x) times cos.",
        "which table multiplies x.",
    ),
    Mistake(
        "ROPE-NO-HALF",
        _turn_both(lambda x, c, s: x * c + x * s),
        "rotate_half is not used",
        "x times cos plus x times sin.",
        "the second term.",
    ),
    Mistake(
        "ROPE-NO-COS",
        _turn_both(lambda x, c, s: x + half_split(x) * s),
        "x is not multiplied by cos",
        "x plus rotate_half(x) times sin.",
        "the first term.",
    ),
    Mistake(
        "ROPE-NO-SIN",
        _turn_both(lambda x, c, s: x * c + half_split(x)),
        "sin is not used",
        "x times cos plus rotate_half(x).",
        "the second term.",
    ),
    Mistake(
        "ROPE-NO-SIN",
        _turn_both(lambda x, c, s: x * c),
        "sin is not used",
        "x times cos alone.",
        "the second term.",
    ),
    Mistake(
        "ROPE-SUMMED-FIRST",
        _turn_both(lambda x, c, s: (x + half_split(x)) * c * s),
        "both terms are multiplied by both tables",
        "(x + rotate_half(x)) * cos * sin.",
        "which table belongs to which term.",
    ),
    Mistake(
        "ROPE-HEADS",
        _turn_both(lambda x, c, s: turn(x, c[:, None], s[:, None])),
        "the position is read from the head",
        "tables of shape (T, 1, K): T meets H.",
        "`unsqueeze` on cos and sin. (T, K) broadcasts over B and H as it is.",
    ),
    Mistake(
        "ROPE-HEADS",
        _turn_both(lambda x, c, s: turn(x, c[:, None, None], s[:, None, None])),
        "the position is read from the batch",
        "tables of shape (T, 1, 1, K): T meets B.",
        "`unsqueeze` on cos and sin. (T, K) broadcasts over B and H as it is.",
    ),
    *(
        Mistake(
            "ROPE-ONE-POSITION",
            _turn_both(lambda x, c, s, i=i: turn(x, c[i], s[i])),
            "all tokens are turned by one angle",
            f"row {i} of the tables for every token.",
            "an index on cos or sin.",
        )
        for i in (0, -1)
    ),
    Mistake(
        "ROPE-INTERLEAVED",
        _turn_both(lambda x, c, s: turn(x, c, s, interleave)),
        "two layouts are mixed",
        MIXED,
        "rotate_half on [1, 2, 3, 4].",
        "rope:mixed",
    ),
    Mistake(
        "ROPE-INTERLEAVED",
        _turn_both(lambda x, c, s: turn(x, _repeat_pairs(c), _repeat_pairs(s))),
        "two layouts are mixed",
        MIXED,
        "what is done to cos and sin.",
        "rope:mixed",
    ),
    Mistake(
        "ROPE-INTERLEAVED",
        _turn_both(lambda x, c, s: turn(x, _repeat_pairs(c), _repeat_pairs(s), interleave)),
        "pairs are (0, 1), (2, 3), ...",
        "the interleaved layout throughout: a valid RoPE, but "
        "weights of\nthe half-split layout do not fit it.",
        "rotate_half on [1, 2, 3, 4].",
    ),
    Mistake(
        "ROPE-HALF",
        _turn_both(lambda x, c, s: turn(x, c, s, _join_halves(1, 1, swap=True))),
        "the second term has no minus sign",
        "a rotate_half that swaps without a sign.",
        "rotate_half on [1, 2, 3, 4].",
    ),
    Mistake(
        "ROPE-OWN-TABLES",
        _default_tables,
        "the given cos and sin are not used",
        "tables made inside with theta = 10,000.",
        "where cos and sin come from.",
    ),
)
