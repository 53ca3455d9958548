"""The text of the checks of lesson 07's cache, the oracle, and what the usual mistakes make of it.

The oracle is `reply`, causal attention over the whole text at once, in float64, whose options bend one
thing each, as wrong answers do.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.checks.expect import Pattern
from course_lib.checks.suite import Draw

K = 8
"""Head size of all checks."""
ROOM = 24


class WholeText(NamedTuple):
    """What the layer is given for N tokens, not turned yet, and a row of cos and sin per position."""

    q: Tensor
    k: Tensor
    v: Tensor
    cos: Tensor
    sin: Tensor

    def piece(self, start: int, end: int) -> tuple[Tensor, ...]:
        """The arguments of `attend` for the tokens from `start` to before `end`."""
        return *(x[:, :, start:end] for x in self[:3]), self.cos, self.sin


def angles(rows: int) -> Tensor:
    """(rows, K/2), float64: how far each pair is turned at each position."""
    return torch.outer(torch.arange(rows).double(), 100.0 ** -torch.linspace(0, 1, K // 2).double())


def write_text(draw: Draw, B: int, H: int, G: int, N: int, *, dtype=torch.float32) -> WholeText:
    """Random q, k and v, so small that no weight is near 0."""
    twice = angles(ROOM).repeat(1, 2).float()
    q, k, v = ((0.7 * draw.randn(B, n, N, K)).to(dtype) for n in (H, G, G))
    return WholeText(q, k, v, twice.cos(), twice.sin())


def turn(x: Tensor, at: Tensor) -> Tensor:
    """(..., N, K) with token n turned to position at[n], in float64."""
    first, second = x.double().chunk(2, -1)
    cis = torch.polar(torch.ones(len(at), K // 2).double(), angles(ROOM)[at])
    z = torch.complex(first.contiguous(), second.contiguous()) * cis
    return torch.cat((z.real, z.imag), -1)


def reply(
    text: WholeText,
    pieces: Sequence[int],
    *,
    at: str = "absolute",
    sees: str = "the past",
    turned: str = "qk",
    tiled: bool = False,
) -> Tensor:
    """(B, H, N, K) of a text that is read in `pieces`. By default the pieces make no difference."""
    N, H, G = sum(pieces), text.q.shape[1], text.k.shape[1]
    begin = torch.tensor([sum(pieces[:i]) for i, n in enumerate(pieces) for _ in range(n)])
    end = torch.tensor([sum(pieces[: i + 1]) for i, n in enumerate(pieces) for _ in range(n)])
    here = torch.arange(N)
    position = {"absolute": here, "from 0": here - begin, "late": here + 1}[at]
    row, column = here[:, None], here[None]
    seen = {
        "the past": column <= row,
        "as many of the first": column <= row - begin[:, None],
        "its piece": (column <= row) & (column >= begin[:, None]),
        "the end of its piece": column < end[:, None],
        "the kept": (column < begin[:, None]) | (column == row),
        "one more": (column <= row + 1) & (column < end[:, None]),
        "the end of a later piece": (column <= row)
        | ((column < end[:, None]) & (begin[:, None] > 0)),
        "before itself": (column < row) | ((column == row) & (begin[:, None] == 0)),
    }[sees]
    q = turn(text.q[:, :, :N], position) if "q" in turned else text.q[:, :, :N].double()
    k = turn(text.k[:, :, :N], position) if "k" in turned else text.k[:, :, :N].double()
    v = turn(text.v[:, :, :N], position) if "v" in turned else text.v[:, :, :N].double()
    readers = torch.arange(H)
    owner = readers % G if tiled else readers // (H // G)
    scores = q @ k[:, owner].mT / math.sqrt(K)
    weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
    return (weights @ v[:, owner]).to(text.q.dtype)


def patterns(text: WholeText, pieces: Sequence[int]) -> Iterator[Pattern]:
    """What the usual mistakes give for this text in these pieces."""
    yield from [
        Pattern(
            code="CACHE-POSITION",
            value=reply(text, pieces, at="from 0"),
            finding="every piece is turned as if the text began with it",
            fits="the first T rows of the tables, whatever is kept.",
            look="which rows of cos and sin belong to the new tokens.",
            hides="the first piece is right, so a short test of it passes.",
        ),
        Pattern(
            code="CACHE-UNTURNED",
            value=reply(text, pieces, turned=""),
            finding="nothing is turned",
            fits="q and k as they came in.",
            look="`apply_rotary_pos_emb`, and its order: q, k, cos, sin.",
        ),
        *(
            Pattern(
                code="CACHE-UNTURNED",
                value=reply(text, pieces, turned=only),
                finding=f"only {only} is turned",
                fits=f"{only} turned, the other one as it came in.",
                look="both results of `apply_rotary_pos_emb`.",
            )
            for only in "qk"
        ),
        Pattern(
            code="CACHE-VALUES",
            value=reply(text, pieces, turned="qkv"),
            finding="the values are turned too",
            fits="v turned like k.",
            look="what is kept as values: what came in.",
        ),
        Pattern(
            code="CACHE-TOP-LEFT",
            value=reply(text, pieces, sees="as many of the first"),
            finding="the first new token reads the first kept one, and no other",
            fits="a mask that starts in the corner of the first key, as `is_causal=True` does.",
            look="in which column of the mask the first new token stands.",
        ),
        Pattern(
            code="CACHE-FORGETS",
            value=reply(text, pieces, sees="its piece"),
            finding="new tokens read one another and nothing that was kept",
            fits="attention over the k and v that came in.",
            look="which keys and values the new queries meet.",
        ),
        Pattern(
            code="CACHE-FUTURE",
            value=reply(text, pieces, sees="the end of its piece"),
            finding="a new token reads new tokens after it",
            fits="no mask: right for single tokens, wrong for several at once.",
            look="the mask, when T is more than 1.",
        ),
        Pattern(
            code="CACHE-FUTURE",
            value=reply(text, pieces, sees="the end of a later piece"),
            finding="a new token reads new tokens after it",
            fits="a mask for an empty cache alone, and none for what comes later.",
            look="the mask, when T is more than 1 and something is kept.",
        ),
        Pattern(
            code="CACHE-FUTURE",
            value=reply(text, pieces, sees="one more"),
            finding="a new token reads the one after it",
            fits="a diagonal of the mask that lies one column too far to the right.",
            look="the `diagonal=` of the mask.",
        ),
        Pattern(
            code="CACHE-SELF",
            value=reply(text, pieces, sees="the kept"),
            finding="new tokens read themselves and what is kept, not the new ones before them",
            fits="a mask that opens kept columns and the diagonal alone.",
            look="the mask among the new tokens.",
        ),
        Pattern(
            code="CACHE-SELF",
            value=reply(text, pieces, sees="before itself"),
            finding="a token does not read itself",
            fits="a diagonal of the mask that lies one column too far to the left.",
            look="the `diagonal=` of the mask.",
        ),
        Pattern(
            code="GQA-ORDER",
            value=reply(text, pieces, tiled=True),
            finding="every other query head reads the same keys and values, not its neighbor",
            fits="the heads repeated as a block: 0 1 0 1.",
            look="lesson 04: neighbors share a head.",
        ),
    ]
