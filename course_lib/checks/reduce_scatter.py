"""Checks of lesson 19, first part: ring_reduce_scatter.

Oracle: the sum in one process. In the first check each decimal digit of a sum is one rank's part, so
that a wrong sum says who is missing.
"""

import itertools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from course_lib.checks import expect, ring
from course_lib.checks.report import Wrong, vector
from course_lib.checks.ring import Done
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite

ROWS = 2
CHUNKS = (1, 3, 4)
"""What a rank has in its chunks, times 10 ** rank: twice one of them is none of the others."""


def _digits(draw: Draw, R: int) -> tuple[list[Tensor], list[int]]:
    """`x` by rank, and what stands for each chunk."""
    orders = list(itertools.permutations(CHUNKS))[:3]
    marks = [*orders[draw.size(0, 1, 2)], 2][:R]
    row = torch.tensor(marks).repeat_interleave(ROWS).float()
    return [row * 10**r for r in range(R)], marks


def sums(subject: Subject, draw: Draw) -> None:
    """Three ranks: rank r gets chunk r of the sum; nothing else of it, nothing less."""
    R, (inputs, marks) = 3, _digits(draw, 3)
    tried = f"3 ranks; rank r has {vector(inputs[0])} * 10**r, 3 chunks of 2"
    (done,) = ring.on_ranks(subject, [[x] for x in inputs])
    for rank, d in enumerate(done):
        if isinstance(d.value, Tensor) and tuple(d.value.shape) == (R * ROWS,):
            _refuse_whole(d, sum(inputs), rank, tried)
        expect.tensor(d.value, shape=(ROWS,), dtype=torch.float32, tried=tried)
    if not all(_is_right(d, marks[r] * 111) for r, d in enumerate(done)):
        raise _describe_mistake(done, marks, tried)
    ring.refuse_changed(done, tried)


def _is_right(done: Done, value: int) -> bool:
    return bool((done.value == value).all())


def _refuse_whole(done: Done, whole: Tensor, rank: int, tried: str) -> None:
    finding = "every rank returns the whole tensor"
    what = "the whole sum" if torch.equal(done.value, whole) else "a tensor as long as `x`"
    raise Wrong(
        "RING-WHOLE",
        finding,
        tried=tried,
        expected=f"rank {rank}: {ROWS} numbers, its chunk",
        got=f"rank {rank}: {what}, {vector(done.value)}",
        hides="a chunk on each rank is the point: lesson 22 keeps no more than that.",
        look="the shape that the docstring promises.",
    )


def _read(value: Tensor, marks: list[int]) -> tuple[int, tuple[int, ...]] | None:
    """The chunk, and how often each rank's part of it is in the sum; None for other numbers."""
    for chunk, mark in enumerate(marks):
        for counts in itertools.product((0, 1, 2), repeat=len(marks)):
            if (value == mark * sum(n * 10**r for r, n in enumerate(counts))).all():
                return chunk, counts
    return None


def _ways(done: Sequence[Done], marks: list[int]) -> Iterator[tuple]:
    """(code, finding, fits, look, preset) of what the numbers of the first wrong rank say."""
    R, read = len(marks), [_read(d.value, marks) for d in done]
    rank = next(r for r, d in enumerate(done) if not _is_right(d, marks[r] * 111))
    if all(_is_right(d, marks[r] * 37) for r, d in enumerate(done)):  # 3 is also three times 1
        yield (
            "RING-MEAN",
            "a mean in place of a sum",
            f"the sum divided by {R}.",
            "what the docstring promises: the sum.",
            "",
        )
    if read[rank] is None:
        return
    chunk, counts = read[rank]
    missing = [r for r, n in enumerate(counts) if n == 0]
    here = f"the sum on rank {rank} "
    if not any(d.seen for d in done):
        yield ("RING-ALONE", "nothing is exchanged", "a rank's own part.", "`pass_on`.", "")
    if len(missing) == R - 1:
        yield (
            "RING-OVERWRITES",
            here + "has one part in it",
            "a part that replaces the sum.",
            "what is done with what arrives: added, or put in place of the rest.",
            "ring:overwrites",
        )
    if missing:
        yield (
            "RING-STEPS",
            here + f"lacks {len(missing)} of {R} parts",
            f"steps made by rank {rank}: {len(done[rank].sends)}.",
            "how many steps a sum needs to come by every rank.",
            "ring:steps",
        )
    if 2 in counts:
        yield (
            "RING-TWICE",
            here + "has a part in it twice",
            "a step too many, or a part that is added where the sum starts, and again.",
            "the first and the last turn of the loop.",
            "",
        )
    if counts == (1,) * R:
        yield (
            "RING-CHUNK",
            f"rank {rank} ends with chunk {chunk}, not with its own",
            "a start with another chunk: a sum ends one rank before the one on which it starts.",
            "which chunk a rank passes on first.",
            "ring:chunk",
        )


def _describe_mistake(done: Sequence[Done], marks: list[int], tried: str) -> Wrong:
    rank = next(r for r, d in enumerate(done) if not _is_right(d, marks[r] * 111))
    facts = dict(
        tried=tried,
        expected=f"rank {rank}: {vector([marks[rank] * 111.0] * ROWS)}",
        got=f"rank {rank}: {vector(done[rank].value)}",
    )
    for code, finding, fits, look, preset in _ways(done, marks):
        return Wrong(code, finding, fits=fits, look=look, preset=preset, **facts)
    return Wrong(
        "OTHER",
        f"the sum on rank {rank} is another one",
        **facts,
        look="one chunk at a time: where its sum starts, where it ends.",
    )


def cost(subject: Subject, draw: Draw) -> None:
    """Four ranks: three messages of a chunk each, three chunks held at most."""
    R, n = 4, draw.size(50, 60, 45)
    inputs = [draw.randn(R * n) for _ in range(R)]
    tried = f"4 ranks, x of {4 * n} float32, {16 * n} bytes"
    (done,) = ring.on_ranks(subject, [[x] for x in inputs])
    ring.messages(done, 4 * n, tried)
    _all_close(done, inputs, tried)
    ring.keeps_the_result_alone(done, 4 * n, tried)
    if (most := max(d.peak for d in done)) > 3 * 4 * n:
        raise Wrong(
            "RING-HOLDS",
            "too much memory beside the input",
            tried=tried,
            expected=f"at most 3 chunks of {4 * n} bytes at a time",
            got=f"{most} bytes",
            fits="a copy of the whole tensor.",
            hides="what is summed here is as large as the model.",
            look="`clone`, and lists that grow.",
        )


def numbers(subject: Subject, draw: Draw) -> None:
    """Two ranks: rows of several numbers, int64, bfloat16, float64."""
    n = draw.size(3, 4, 5)
    cases = [
        [draw.randn(2 * n, 3) for _ in range(2)],
        [draw.randint(0, 2**60, (2 * n,)) for _ in range(2)],
        [draw.randn(2 * n, dtype=torch.bfloat16) for _ in range(2)],
        [draw.randn(2 * n).double() / 3 for _ in range(2)],
    ]
    found = ring.on_ranks(subject, list(zip(*cases, strict=True)))
    for inputs, done in zip(cases, found, strict=True):
        x = inputs[0]
        tried = f"2 ranks, x of shape {tuple(x.shape)}, {str(x.dtype).removeprefix('torch.')}"
        for d in done:
            shape = (n, *x.shape[1:])
            expect.tensor(d.value, shape=shape, dtype=x.dtype, tried=tried)
        _all_close(done, inputs, tried)
        ring.messages(done, x.nbytes // 2, tried)


def _all_close(done: Sequence[Done], inputs: Sequence[Tensor], tried: str) -> None:
    for rank, d in enumerate(done):
        parts = [x.chunk(len(done))[rank] for x in inputs]
        expect.tensor(d.value, shape=parts[0].shape, dtype=parts[0].dtype, tried=tried)
        if not ring.close(d.value, parts):
            raise Wrong(
                "OTHER",
                f"rank {rank} has other sums",
                tried=tried,
                expected=vector(sum(parts).flatten(), 3),
                got=vector(d.value.flatten(), 3),
                look="the dtype of the sums, and the rows of a chunk.",
            )


def layouts(subject: Subject, draw: Draw) -> None:
    """Inputs that are not contiguous; a result stays what it was when the next call is made."""
    ring.any_layout(subject, draw, draw.size(4, 6), lambda inputs: sum(inputs).chunk(2))


def transposed_cost(subject: Subject, draw: Draw) -> None:
    """Four ranks, `x` transposed in memory: five chunks held at most, which is no copy of it all."""
    R, n = 4, draw.size(50, 60, 45)
    (done,) = ring.on_ranks(subject, [[draw.randn(3, R * n).mT] for _ in range(R)])
    if (most := max(d.peak for d in done)) > 5 * 12 * n:
        raise Wrong(
            "RING-HOLDS",
            "too much memory beside an input that is transposed",
            tried=f"4 ranks, x of {4 * n} x 3 float32, transposed in memory, {48 * n} bytes",
            expected=f"at most 5 chunks of {12 * n} bytes at a time",
            got=f"{most} bytes",
            fits="a copy of the whole tensor, in one piece.",
            hides="what is summed here is as large as the model.",
            look="`contiguous` and `clone`: of a chunk, not of `x`.",
        )


def groups(subject: Subject, draw: Draw) -> None:
    """Four ranks in two groups: each sum is that of a group."""
    x = [torch.tensor([1.0, 3.0, 4.0, 2.0]) * 10**r for r in range(4)]
    tried = "4 ranks in two groups, 0 with 2 and 1 with 3; rank r has [1, 3, 4, 2] * 10**r"
    for rank, d in enumerate(ring.in_pairs(subject, x)):
        right = (x[rank] + x[(rank + 2) % 4]).chunk(2)[rank // 2]
        ring.refuse_other_group(d, right, rank, tried)


def one_rank(subject: Subject, draw: Draw) -> None:
    """One rank: the input, in a tensor of its own, and no message."""
    x = draw.randn(4)
    (done,) = ring.on_ranks(subject, [[x]])
    expect.tensor(done[0].value, shape=(4,), dtype=torch.float32, tried="one rank, 4 numbers")
    expect.values(
        done[0].value,
        x,
        rtol=0,
        atol=0,
        tried="one rank, 4 numbers",
        look="what the loop does when there is nobody to send to.",
    )
    ring.refuse_changed(done, "one rank, 4 numbers")


def refusal(subject: Subject, draw: Draw) -> None:
    """Rows that the ranks do not divide are refused on every rank, before anything is sent."""

    def not_refused(got: str) -> Wrong:
        return Wrong(
            "RING-DIVIDES",
            "rows that do not divide are not refused",
            got=got,
            tried="2 ranks, x of 3 rows",
            expected="ValueError on both",
            hides="chunks of different length, of which rows get lost.",
            look="`in_chunks`, which refuses for you.",
        )

    ring.refuses(subject, [torch.ones(3)] * 2, not_refused)


SUITES = (
    Suite(
        "ring-reduce-scatter",
        (sums, cost, numbers, layouts, transposed_cost, groups, one_rank, refusal),
        tested="1, 2, 3 and 4 ranks get their chunks of the sum, from R - 1 messages of one "
        "chunk to the next rank, with two or three chunks of memory.",
        remember="a sum that is to end on rank r starts on rank r + 1.",
        next_step="print the chunk that each rank passes on, step by step, on 3 ranks.",
        ranks=4,
        limit_s=12.0,
    ),
)
