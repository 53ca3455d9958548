"""Checks of lesson 08, third part: rows_of_rank.

Oracle: slices of a few starts.
"""

import numpy as np

from course_lib.checks import arrays
from course_lib.checks.calls import expect_kept_arrays
from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite


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
    starts[:share], starts[share:][:share] = (  # one part falls and one rises, so sorting shows
        np.sort(starts[:share])[::-1],
        np.sort(starts[share:][:share]),
    )
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


def any_sizes(subject: Subject, draw: Draw) -> None:
    """One window a rank, as many as ranks, many of both; one rank gets everything."""
    sizes = ((1, 5), (5, 1), (3, 3), (2, 6), (6, 2), (1, 1), (8, 16))
    floats = ((10, 9), (11, 5), (6, 3))  # r / world * B, in floating point, is below r * share
    for world, share in (*sizes, *floats):
        starts = draw.randint(0, 40, (world * share,)).numpy()  # drawn with replacement: some twice
        for rank in range(world) if (world, share) in floats else {0, world // 2, world - 1}:
            tried = f"{len(starts)} starts, rank {rank} of {world}"
            out = arrays.array(
                subject.call(starts, rank=rank, world_size=world), shape=(share,), tried=tried
            )
            right = starts[rank * share :][:share].tolist()
            if out.tolist() != right:
                raise Wrong(
                    "RANK-SIZES",
                    "with these sizes a rank has other windows",
                    tried=tried,
                    expected=arrays.row(right),
                    got=arrays.row(out),
                    fits="places by a division that is not exact."
                    if (world, share) in floats
                    else "",
                    look="how long a block is, and where block number `rank` begins: `//`.",
                )


def empty_batch(subject: Subject, draw: Draw) -> None:
    """No windows at all are shared out evenly: every rank gets none, in the dtype of `starts`."""
    for rank, world, dtype in (
        (0, 1, "int64"), (2, 3, "int64"), (0, 3, "int32"), (1, 3, "uint16"), (7, 8, "uint64"),
        (0, 2, "int8"),
    ):  # fmt: skip
        tried = f"0 starts in {dtype}, rank {rank} of {world}"
        facts = dict(
            tried=tried, expected="an empty row of starts", look="the tests before the slice."
        )
        try:
            out = subject.call(np.arange(0, dtype=dtype), rank=rank, world_size=world)
        except AnswerError as failure:
            raise Wrong(
                "RANK-NONE", "an empty batch raises", got=arrays.error_line(failure), **facts
            ) from None
        if arrays.array(out, shape=(0,), tried=tried).dtype != dtype:
            raise Wrong(
                "DTYPE",
                f"without starts the dtype is {out.dtype}",
                tried=tried,
                expected=dtype,
                got=str(out.dtype),
                fits="an array made from an empty list." if out.dtype == np.float64 else "",
                look="what is returned when there are no starts: an empty slice keeps its dtype.",
            )


def any_numbers(subject: Subject, draw: Draw) -> None:
    """Starts keep their dtype and every digit, and one that is there twice stays there twice."""
    for starts, words in (
        (np.array([7, 7, 3, 7, 3, 3], dtype=np.int32), "int32, some of them twice"),
        (np.array([60_000, 1, 2, 65_535, 0, 5], dtype=np.uint16), "uint16"),
        (2**62 + np.array([1, 2, 3, 5, 7, 11]), "int64, beyond 2^62"),
        (2**63 + np.array([1, 2, 3, 5, 7, 11], dtype=np.uint64), "uint64, beyond 2^63"),
        (2**31 + np.array([1, 2, 3, 5, 7, 11], dtype=np.uint32), "uint32, beyond 2^31"),
        (np.array([3, 127, 0, 127, 1, 126], dtype=np.int8), "int8"),
        (np.array([255, 254, 0, 200, 255, 1], dtype=np.uint8), "uint8"),
    ):
        out = subject.call(starts, rank=1, world_size=2)
        right, tried = starts[3:], f"6 starts in {words}, rank 1 of 2"
        if arrays.array(out, shape=(3,), tried=tried).dtype != starts.dtype:
            raise Wrong(
                "DTYPE",
                f"the dtype is {out.dtype}",
                tried=tried,
                expected=str(starts.dtype),
                got=str(out.dtype),
                look="the part has the dtype of `starts`.",
            )
        if out.tolist() != right.tolist():
            raise Wrong(
                "RANK-NUMBERS",
                "the starts are other numbers",
                tried=tried,
                expected=arrays.row(right),
                got=arrays.row(out),
                fits="a dtype in between that holds less.",
                look="`float`, `astype`, `unique`.",
            )


def each_call_alone(subject: Subject, draw: Draw) -> None:
    """A part is that of this call's starts, whatever batch of the same length came before."""
    for dtype in ("int64", "int32", "uint16", "uint8"):
        for rank, world in ((0, 1), (0, 2), (1, 2), (2, 3)):
            first, second = (np.arange(at, at + 6, dtype=dtype) for at in (10, 90))
            for starts in (first, second, first):
                right = starts[rank * (6 // world) :][: 6 // world]
                tried = f"6 starts in {dtype}, other 6, the first again; rank {rank} of {world}"
                out = arrays.array(
                    subject.call(starts.copy(), rank=rank, world_size=world),
                    shape=right.shape,
                    tried=tried,
                )
                if out.tolist() != right.tolist():
                    raise Wrong(
                        "REMEMBERS",
                        "a call gives starts of another call",
                        tried=tried,
                        expected=arrays.row(right),
                        got=arrays.row(out),
                        fits="something kept from an earlier call.",
                        hides="every step would train on the windows of the first one.",
                        look="what is stored outside the call, by `cache`, or in a default argument.",
                    )


def kept_parts(subject: Subject, draw: Draw) -> None:
    """Parts of many batches that are kept: none changes while the next ones are made."""
    for dtype in ("int64", "uint16"):
        calls = [
            ((np.arange(at, at + size, dtype=dtype),), dict(rank=rank, world_size=world))
            for at in range(0, 90, 10)
            for size, rank, world in ((6, 1, 2), (6, 0, 1), (8, 3, 4))
        ]
        expect_kept_arrays(
            subject.probe, calls, tried=f"{len(calls)} calls in {dtype}, whose parts are all kept"
        )


def refuses_uneven(subject: Subject, draw: Draw) -> None:
    """Seven windows for two ranks are a ValueError, on every rank; so are fewer windows than ranks."""
    for size, rank, world in (
        (7, 0, 2),
        (7, 1, 2),
        (10, 3, 4),
        (9, 0, 6),
        (3, 1, 4),
        (1, 0, 2),
        (8, 2, 3),
    ):
        arrays.expect_refusal(
            lambda size=size, rank=rank, world=world: subject.call(
                np.arange(size), rank=rank, world_size=world
            ),
            "RANK-UNEVEN",
            "a batch that cannot be shared out is accepted",
            tried=f"{size} start{'s' * (size > 1)}, rank {rank} of {world}",
            fits="a division that rounds down: a window nobody trains on, or ranks that wait.",
            look="the end of the docstring.",
        )


def refuses_ranks(subject: Subject, draw: Draw) -> None:
    """Rank 2 of 2 does not exist, nor do rank -1 or rank 1 of 1, nor any rank of no world; without
    starts as well."""
    ranks = (
        (2, 2), (-1, 2), (1, 1), (-1, 1), (7, 4), (-2, 2), (4, 4), (8, 8),
        (0, 0), (1, 0), (-1, 0), (0, -1), (0, -2), (-1, -2), (1, -8), (-2, -2),
    )  # fmt: skip
    for size, rank, world in ((size, *pair) for size in (8, 0) for pair in ranks):
        arrays.expect_refusal(
            lambda size=size, rank=rank, world=world: subject.call(
                np.arange(size), rank=rank, world_size=world
            ),
            "RANK-NOBODY",
            "a rank that does not exist gets an answer",
            tried=f"{size} starts, rank {rank} of {world}",
            fits="an empty batch that is returned before the rank is looked at."
            if not size
            else "a slice beyond the end is empty; a negative index counts from the end."
            if world > 0
            else "a world of fewer than one rank, about which nobody asked.",
            look="the end of the docstring.",
        )


SUITES = (
    Suite(
        "shard-batch",
        (
            own_part,
            shared_out,
            any_sizes,
            empty_batch,
            any_numbers,
            each_call_alone,
            kept_parts,
            refuses_uneven,
            refuses_ranks,
        ),
        tested="the ranks' parts, joined by rank, are the batch that one rank would draw.",
        remember="all ranks draw the same starts and keep their own part: no message is sent.",
        ranks=1,
        next_step="BatchLoader with world_size 2, both ranks in one process, side by side.",
    ),
)
