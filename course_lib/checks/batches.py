"""Checks of lesson 08, second part: get_batch.

Oracle: plain loops over a few tokens. Most rows of tokens count upwards, so that a wrong window
can be read off its numbers.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_lib.checks import arrays, expect
from course_lib.checks.calls import expect_own_results, expect_separate_calls
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
    """Neither tensor shares memory with the other, with the tokens or with the starts, be there one
    window or several, of one token or more."""
    for starts, T in (([3, 4, 20], 6), ([17], 6), ([3, 20], 1), ([5], 1)):
        shared = subject.shared_memory(np.arange(50, dtype=np.uint16), np.array(starts), T)
        if shared:
            raise Wrong(
                "BATCH-SHARED",
                "two of the arrays and tensors share memory",
                tried=f"50 tokens, starts {starts}, seq_len {T}",
                expected="a write to one changes no other",
                got=shared,
                fits="slices of one tensor, or of a view of the tokens."
                if len(starts) > 1
                else "`contiguous`, which copies no slice that is in one piece already.",
                look="what copies: `astype` and `clone` do, a slice does not.",
            )


def separate_calls(subject: Subject, draw: Draw) -> None:
    """A batch stays as it is when the next one is cut, from the same row or from another."""
    N, B, T = 60, draw.size(4, 3), 5
    rows = [draw.randint(0, 2**16, (N,)).numpy().astype(np.uint16) for _ in range(2)]
    starts = [draw.randint(0, N - T, (B,)).numpy() for _ in range(2)]
    for i in (0, 1):  # another row of tokens, then other starts alone
        tried = f"{B} windows, then {B} others, of {('another row', 'the same row')[i]}"
        idx, targets = expect_separate_calls(
            subject.probe, (rows[i], starts[0], T), (rows[1], starts[1], T),
            tried=tried, rtol=0, atol=0,
        )  # fmt: skip
        right = torch.tensor([rows[1][s : s + T + 1].tolist() for s in starts[1]])
        if not (torch.equal(idx, right[:, :-1]) and torch.equal(targets, right[:, 1:])):
            raise Wrong(
                "REMEMBERS",
                "the second batch holds other tokens",
                tried=tried,
                expected=str(right[0, :-1].tolist()),
                got=str(idx[0].tolist()),
                fits="something kept from the first call.",
                look="a global, a default argument, `cache`.",
            )


def many_calls(subject: Subject, draw: Draw) -> None:
    """Of many batches that are kept, each has memory of its own: of one shape, of several in turn,
    and of one window as of many."""
    N, B, T = 60, draw.size(4, 3), 5
    row = draw.randint(0, 2**16, (N,)).numpy().astype(np.uint16)
    shapes = [(B, T)] * 9 + [(B, T), (B + 1, T), (1, T), (B, 1)] * 3
    calls = [(row, draw.randint(0, N - t, (b,)).numpy(), t) for b, t in shapes]
    expect_own_results(
        subject.probe,
        calls,
        names=("idx", "targets"),
        tried=f"{len(calls)} calls whose results are all kept, {B} windows of {T} and others",
    )


def windows_alone(subject: Subject, draw: Draw) -> None:
    """A call holds its windows, not the row: that may be a file of many gigabytes, opened for
    reading alone."""
    N, B, T = 400_000, 3, 8
    tokens, starts = np.arange(N).astype(np.uint16), np.array([7, 200_000, N - T - 1])
    for name, words in (("bytes_of_everything", ""), ("bytes_of_read_only", ", read-only")):
        most = subject.probe(f"course_lib.probes.held:{name}", (tokens, starts, T), {})
        if most <= N:  # half of what a copy of the row takes
            continue
        raise Wrong(
            "BATCH-WHOLE-ROW",
            "a batch copies the whole row of tokens",
            tried=f"{N:,} tokens of 2 bytes{words}, {B} starts, seq_len {T}",
            expected=f"memory for {B} windows of {T + 1} tokens, a few kB at most",
            got=f"{most / 1e3:,.0f} kB held in one call",
            fits="`astype`, `tolist` or a tensor of all tokens, from which windows are then cut.",
            hides="a training set of 10 billion tokens would be copied for every batch.",
            look="the order: first cut out the windows, then cast them.",
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


def gigabytes(subject: Subject, draw: Draw) -> None:
    """A row of more than 2**31 tokens, all of them the same 2 bytes: places have 64 bits."""
    T, starts = 4, [2**31 + draw.size(5, 77), 2**31 - 2, 17]
    found = subject.probe("course_lib.probes.long_row:places_asked_for", starts, T)
    wrapped = [place for place in found if place < -(2**30)]  # -1 is the last token
    if wrapped:
        raise Wrong(
            "BATCH-FAR",
            "windows far into the row hold other tokens",
            tried=f"{2**31 + 1000:,} tokens, starts {starts}, seq_len {T}",
            expected=f"places {starts[0]:,}, {starts[0] + 1:,} and so on",
            got=f"place {wrapped[0]:,}",
            fits="places in 32 bits, which begin again below 0 at 2**31.",
            hides="a mapped file of 4 GB and more is read from its other end, without an error.",
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
        (
            two_tensors,
            one_later,
            large_ids,
            any_row,
            far_windows,
            last_window,
            own_memory,
            windows_alone,
            gigabytes,
            separate_calls,
            many_calls,
        ),
        tested="equal to a plain loop, targets one later, up to the last token of the row.",
        remember="T predictions take T + 1 tokens.",
        next_step='"idx rolled by one" in the figure above, where the extra token is missing.',
        ranks=1,
    ),
)
