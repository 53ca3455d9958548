"""Checks of lesson 08, second part: get_batch and rows_of_rank.

Oracles: plain loops over a few tokens. Most rows of tokens count upwards, so that a wrong window
can be read off its numbers.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_lib.checks import arrays, expect
from course_lib.checks.expect import Pattern
from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite


def two_tensors(subject: Subject, draw: Draw) -> None:
    """(idx, targets), each (B, T), int64."""
    tokens, starts, T = np.arange(50, dtype=np.uint16), np.array([3, 20, 31]), 4
    tried = "50 tokens 0..49, starts [3, 20, 31], seq_len 4"
    out = subject.call(tokens, starts, T)
    expect.not_none(out, "idx, targets", tried=tried)
    if not isinstance(out, tuple) or len(out) != 2:
        raise Wrong(
            "BATCH-PAIR",
            "not two tensors",
            tried=tried,
            expected="idx, targets",
            got=arrays.value_line(out),
            look="what stands after `return`.",
        )
    for name, tensor in zip(("idx", "targets"), out, strict=True):
        _expect_shape(tensor, name, len(starts), T, tried)


def one_later(subject: Subject, draw: Draw) -> None:
    """In a row that counts upwards each window counts from its start, its targets one later."""
    T = draw.size(5, 6)
    tokens, starts = np.arange(90, dtype=np.uint16), np.array([40, 7, 7, 61])
    idx, targets = _pair(subject, tokens, starts, T)
    right, one = torch.as_tensor(starts)[:, None] + torch.arange(T), torch.ones(T).long()
    blocks = torch.arange(4 * T).view(4, T)
    tried = f"tokens 0, 1, 2, ... 89; starts {starts.tolist()}, seq_len {T}"
    expect.values(
        idx,
        right,
        [
            _pattern(
                "BATCH-LATE",
                right + one,
                "the windows begin one token late",
                "windows from start + 1.",
                "the first index of a window.",
            ),
            _pattern(
                "BATCH-IN-ORDER",
                blocks,
                "the starts have no effect",
                "blocks of T tokens, one after the other.",
                "where `starts` is used.",
            ),
            _pattern(
                "BATCH-SORTED",
                right.sort(0).values,
                "the windows changed their order",
                "starts that were sorted.",
                "the order of `starts`.",
            ),
            _pattern(
                "BATCH-SAME-ROW",
                right[:1].expand(4, T),
                "all rows hold the first window",
                "one start used for all rows.",
                "the index of `starts`.",
            ),
        ],
        rtol=0,
        atol=0,
        tried=tried,
        finding="idx holds other tokens",
        look="the first row.",
    )
    rolled = right.roll(-1, 1)
    expect.values(
        targets,
        right + one,
        [
            _pattern(
                "BATCH-NO-SHIFT",
                right,
                "the targets are the inputs",
                "targets from the same positions as idx.",
                "the + 1 of the targets.",
                preset="batches:no-shift",
            ),
            _pattern(
                "BATCH-SHIFT-BACK",
                right - one,
                "the targets are one token early",
                "targets from start - 1.",
                "the sign of the shift.",
            ),
            _pattern(
                "BATCH-SHIFT-TWO",
                right + 2 * one,
                "the targets are two tokens later",
                "a shift that is made twice.",
                "both places that add 1.",
            ),
            _pattern(
                "BATCH-ROLLED",
                rolled,
                "the last target of each row is the row's first token",
                "`roll`, which brings the beginning back at the end.",
                "the last column: it needs one more token than idx.",
                preset="batches:rolled",
            ),
            _pattern(
                "BATCH-PADDED",
                torch.cat((right[:, 1:], 0 * right[:, :1]), 1),
                "the last target of each row is 0",
                "T tokens, shifted and padded.",
                "the last column: it needs one more token than idx.",
                preset="batches:rolled",
            ),
        ],
        rtol=0,
        atol=0,
        tried=tried,
        finding="the targets are other tokens",
        look="targets[b, t] is the token after idx[b, t].",
    )


def large_ids(subject: Subject, draw: Draw) -> None:
    """Ids from 32,768 on stay positive."""
    tokens = np.array([1, 50_256, 40_000, 32_768, 65_535, 2, 7], dtype=np.uint16)
    idx, targets = _pair(subject, tokens, np.array([0]), 5)
    want = torch.tensor(tokens.astype(np.int64))
    for name, out, row in (("idx", idx, want[None, :5]), ("targets", targets, want[None, 1:6])):
        signed = row.to(torch.int16).long()
        expect.values(
            out,
            row,
            [
                _pattern(
                    "BATCH-INT16",
                    signed,
                    f"{name} holds negative ids",
                    "the same 16 bits read as int16.",
                    "every dtype between the tokens and the tensor.",
                ),
            ],
            rtol=0,
            atol=0,
            tried=f"tokens {tokens.tolist()}",
        )


def any_row(subject: Subject, draw: Draw) -> None:
    """Random tokens and starts against a plain loop."""
    B, T, N = draw.size(5, 8), draw.size(9, 12), 400
    tokens = draw.randint(0, 2**16, (N,)).numpy().astype(np.uint16)
    starts = draw.randint(0, N - T - 1, (B,)).numpy()  # the last window has a check of its own
    idx, targets = _pair(subject, tokens, starts, T)
    rows = torch.tensor([tokens[s : s + T + 1].tolist() for s in starts])
    tried = f"{N} random tokens, {B} random starts, seq_len {T}"
    expect.values(idx, rows[:, :-1], rtol=0, atol=0, tried=tried)
    expect.values(targets, rows[:, 1:], rtol=0, atol=0, tried=tried)


def own_memory(subject: Subject, draw: Draw) -> None:
    """Neither tensor shares memory with the other, with the tokens or with the starts."""
    args = np.arange(50, dtype=np.uint16), np.array([3, 4, 20]), 6
    shared = subject.shared_memory(*args)
    if shared:
        raise Wrong(
            "BATCH-SHARED",
            "two of the arrays and tensors share memory",
            tried="50 tokens, starts [3, 4, 20], seq_len 6",
            expected="a write to one changes no other",
            got=shared,
            fits="slices of one tensor, or of a view of the tokens.",
            look="what copies: `astype` does, a slice does not.",
        )


def far_windows(subject: Subject, draw: Draw) -> None:
    """A row longer than 65,536 tokens: starts are int64, ids are not."""
    N, T = 70_000, 4
    tokens = (np.arange(N) % 251).astype(np.uint16)
    starts = np.array([65_535, 65_536, 69_000, 32_768])
    idx, targets = _pair(subject, tokens, starts, T)
    rows = torch.tensor([tokens[s : s + T + 1].tolist() for s in starts])
    if not (torch.equal(idx, rows[:, :-1]) and torch.equal(targets, rows[:, 1:])):
        raise Wrong(
            "BATCH-FAR",
            "windows far into the row hold other tokens",
            tried=f"{N:,} tokens, starts {starts.tolist()}, seq_len {T}",
            expected=str(rows[2, :-1].tolist()),
            got=f"{idx[2].tolist()} for the third window",
            fits="places in 16 bits, which begin again at 65,536.",
            look="the dtype of starts, and of what is added to them.",
        )


def last_window(subject: Subject, draw: Draw) -> None:
    """The last possible start uses the last token, and a row of T + 1 tokens has one window."""
    for N, T, starts in ((20, 5, [14, 0]), (6, 5, [0]), (2, 1, [0])):
        tokens, tried = np.arange(N, dtype=np.uint16), f"{N} tokens, seq_len {T}, starts {starts}"
        facts = dict(
            tried=tried,
            expected=f"targets that end with token {N - 1}",
            look="how many windows of T + 1 tokens there are.",
        )
        try:
            out = subject.call(tokens, np.array(starts), T)
        except AnswerError as failure:
            raise Wrong(
                "BATCH-LAST-WINDOW",
                "the last window is out of reach",
                got=arrays.error_line(failure),
                fits="one window fewer than there are.",
                **facts,
            ) from None
        _, targets = (
            _expect_shape(t, n, len(starts), T, tried)
            for n, t in zip(("idx", "targets"), out, strict=True)
        )
        if targets[0, -1] != N - 1:
            raise Wrong(
                "BATCH-LAST-WINDOW",
                "the last window holds other tokens",
                got=f"targets {targets[0].tolist()}",
                **facts,
            )


def own_part(subject: Subject, draw: Draw) -> None:
    """An array of the right length and the dtype that came in."""
    starts = np.arange(100, 112)
    out = subject.call(starts, rank=1, world_size=3)
    arrays.array(out, shape=(4,), tried="12 starts, rank 1 of 3")
    if out.dtype != starts.dtype:
        raise Wrong(
            "DTYPE",
            f"the dtype is {out.dtype}",
            expected=str(starts.dtype),
            got=str(out.dtype),
            look="starts are indices and stay whole numbers.",
        )


def shared_out(subject: Subject, draw: Draw) -> None:
    """All ranks together have each window once; then the order."""
    world, share = draw.size(3, 4), draw.size(2, 5)
    starts = 10 * (1 + draw.randint(0, 90, (world * share,)).numpy())
    starts += np.arange(len(starts)) % 10  # drawn at random, and no two alike
    parts = [
        arrays.array(subject.call(starts, rank=r, world_size=world), shape=None)
        for r in range(world)
    ]
    whole = [x for part in parts for x in part.tolist()]
    facts = dict(
        tried=f"starts {starts.tolist()}, ranks 0..{world - 1}",
        got="; ".join(str(part.tolist()) for part in parts),
        expected=f"rank 0: {starts[:share].tolist()}, and so on",
    )
    strided = [starts[r::world] for r in range(world)]
    for code, known, finding, fits, look in (
        (
            "RANK-ALL",
            [starts] * world,
            "every rank has the whole batch",
            "all starts, whatever the rank.",
            "where `rank` is used.",
        ),
        (
            "RANK-SAME",
            [starts[:share]] * world,
            "every rank has the same part",
            "the first block for each.",
            "where `rank` is used.",
        ),
        (
            "RANK-STRIDED",
            strided,
            "the parts are dealt out like cards",
            "every world_size-th start.",
            "the docstring: rank r gets the r-th block.",
        ),
        (
            "RANK-REVERSED",
            [starts[(world - 1 - r) * share :][:share] for r in range(world)],
            "the last rank has the first block",
            "blocks counted from the end.",
            "the block's place.",
        ),
        (
            "RANK-FROM-ONE",
            [starts[max(r - 1, 0) * share :][: share * (r > 0)] for r in range(world)],
            "rank 0 has nothing",
            "ranks counted from 1.",
            "ranks begin at 0.",
        ),
        (
            "RANK-FROM-ONE",
            [starts[(r + 1) * share :][:share] for r in range(world)],
            "the last rank has nothing",
            "ranks counted from 1.",
            "ranks begin at 0.",
        ),
        (
            "RANK-OVERLAP",
            [starts[r:][:share] for r in range(world)],
            "ranks share windows",
            "a block that begins at `rank`.",
            "how long the blocks before it are.",
        ),
        (
            "RANK-WORLD-BLOCK",
            [starts[r * world :][:world] for r in range(world)],
            "blocks of world_size windows",
            "world_size as the length of a block.",
            "how many windows each rank gets.",
        ),
    ):
        if [k.tolist() for k in known] == [p.tolist() for p in parts]:
            raise Wrong(code, finding, fits=fits, look=look, **facts)
    if sorted(whole) != sorted(starts.tolist()):
        raise Wrong(
            "RANK-LOST",
            "a window is missing, or is there twice",
            look="the parts of all ranks, joined.",
            **facts,
        )
    if whole != starts.tolist():
        raise Wrong(
            "RANK-ORDER",
            "the parts are disjoint, in another order",
            look="the docstring: joined by rank, the parts are `starts`.",
            **facts,
        )


def one_rank(subject: Subject, draw: Draw) -> None:
    """One rank gets everything."""
    out = subject.call(np.arange(5), rank=0, world_size=1)
    arrays.array(out, shape=(5,), tried="5 starts, rank 0 of 1")


def refuses_uneven(subject: Subject, draw: Draw) -> None:
    """Seven windows for two ranks are a ValueError, on every rank."""
    for rank in (0, 1):
        arrays.expect_refusal(
            lambda rank=rank: subject.call(np.arange(7), rank=rank, world_size=2),
            "RANK-UNEVEN",
            "a batch that cannot be shared out is accepted",
            tried=f"7 starts, rank {rank} of 2",
            fits="a division that rounds down: a window nobody trains on, or ranks that wait.",
            look="the end of the docstring.",
        )


def refuses_ranks(subject: Subject, draw: Draw) -> None:
    """Rank 2 of 2 does not exist, nor do rank -1 or rank 1 of 1."""
    for rank, world in ((2, 2), (-1, 2), (1, 1), (-1, 1), (7, 4)):
        arrays.expect_refusal(
            lambda rank=rank, world=world: subject.call(np.arange(8), rank=rank, world_size=world),
            "RANK-NOBODY",
            "a rank that does not exist gets an answer",
            tried=f"8 starts, rank {rank} of {world}",
            fits="a slice beyond the end is empty; a negative index counts from the end.",
            look="the end of the docstring.",
        )


def _expect_shape(out: Any, name: str, B: int, T: int, tried: str) -> Tensor:
    """`out`, if it is (B, T) int64; lengths that come of known mistakes are named."""
    shape = tuple(out.shape) if isinstance(out, Tensor) else None
    facts = dict(tried=tried, expected=f"{name} of shape {(B, T)}", got=f"shape {shape}")
    if shape == (B, T + 1):
        raise Wrong(
            "BATCH-WHOLE-WINDOW",
            f"{name} holds T + 1 tokens",
            **facts,
            fits="the whole window, not yet divided into idx and targets.",
            look="what is cut off at the end for idx, at the front for targets.",
        )
    if shape == (B, T - 1):
        raise Wrong(
            "BATCH-NO-EXTRA",
            f"{name} holds T - 1 tokens",
            **facts,
            fits="windows of T tokens, of which the shift takes one.",
            look="the length of a window: T inputs and the last one's target.",
            preset="batches:rolled",
        )
    if shape == (T, B) != (B, T):
        raise Wrong(
            "BATCH-TRANSPOSED",
            f"{name} has a window in each column",
            **facts,
            fits="dimensions that changed places.",
            look="which index counts windows.",
        )
    if isinstance(out, Tensor) and shape == (B, T) and out.dtype != torch.int64:
        raise Wrong(
            "DTYPE",
            f"{name} is {str(out.dtype)[6:]}",
            tried=tried,
            expected="int64",
            got=str(out.dtype)[6:],
            look="the cast before the tensor is made.",
            hides="`nn.Embedding` takes int32 and int64, a loss int64 alone.",
        )
    return expect.tensor(out, shape=(B, T), dtype=torch.int64, tried=tried)


def _pair(subject: Subject, tokens: np.ndarray, starts: np.ndarray, T: int) -> list[Tensor]:
    out = subject.call(tokens, starts, T)
    if not isinstance(out, tuple) or len(out) != 2:
        raise Wrong(
            "BATCH-PAIR",
            "not two tensors",
            expected="idx, targets",
            got=arrays.value_line(out),
            look="what stands after `return`.",
        )
    tried = f"{len(tokens)} tokens, {len(starts)} starts, seq_len {T}"
    return [
        _expect_shape(t, n, len(starts), T, tried)
        for n, t in zip(("idx", "targets"), out, strict=True)
    ]


def _pattern(
    code: str, value: Tensor, finding: str, fits: str, look: str, preset: str = ""
) -> Pattern:
    return Pattern(code=code, value=value, finding=finding, fits=fits, look=look, preset=preset)


SUITES = (
    Suite(
        "get-batch",
        (two_tensors, one_later, large_ids, any_row, far_windows, last_window, own_memory),
        proved="equal to a plain loop, targets one later, up to the last token of the row.",
        remember="T predictions take T + 1 tokens.",
        next_step='"Rolled" in the figure above, where the extra token is missing.',
    ),
    Suite(
        "shard-batch",
        (own_part, shared_out, one_rank, refuses_uneven, refuses_ranks),
        proved="the ranks' parts, joined by rank, are the batch that one rank would draw.",
        remember="all ranks draw the same starts and keep their own part: no message is sent.",
        next_step="BatchLoader with world_size 2, both ranks in one process, side by side.",
    ),
)
