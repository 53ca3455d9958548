"""Checks of lesson 19, second part: ring_all_gather.

Oracle: the shards in order, in one process. The tens of a number say whose shard it is.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.checks import expect, ring
from course_lib.checks.report import Wrong, vector
from course_lib.checks.ring import Done
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite

ROWS = 2


def _shards(R: int, first: int) -> list[Tensor]:
    """[11, 12] of rank 0, [21, 22] of rank 1, ..., when `first` is 1."""
    return [torch.tensor([10.0, 10.0]) * (r + first) + torch.tensor([1.0, 2.0]) for r in range(R)]


def order(subject: Subject, draw: Draw) -> None:
    """Three ranks: all shards in the order of the ranks, the same on every rank."""
    R, shards = 3, _shards(3, draw.size(1, 4, 6))
    tried = "3 ranks with " + ", ".join(map(vector, shards))
    (done,) = ring.on_ranks(subject, [[x] for x in shards])
    for d in done:
        _refuse_other_shapes(d.value, R, tried)
        _one_tensor(d.value, (R * ROWS,), torch.float32, tried)
    for rank, d in enumerate(done):
        if not torch.equal(d.value, torch.cat(shards)):
            raise _describe_mistake(d, rank, shards, tried)
    ring.refuse_changed(done, tried)


def _refuse_other_shapes(value: object, R: int, tried: str) -> None:
    facts = dict(tried=tried, expected=f"one tensor of shape ({R * ROWS},)")
    if isinstance(value, (list, tuple)):
        raise Wrong(
            "TYPE",
            f"the answer returned a {type(value).__name__}",
            **facts,
            got=f"a {type(value).__name__} of {len(value)}",
            look="what puts the shards one behind the other.",
        )
    if isinstance(value, Tensor) and tuple(value.shape) == (R, ROWS):
        raise Wrong(
            "GATHER-STACKED",
            "the shards stand in a dimension of their own",
            **facts,
            got=f"shape {tuple(value.shape)}",
            fits="`stack` in place of `cat`.",
            look="the shape that the docstring promises.",
        )


def _one_tensor(value: object, shape: tuple[int, ...], dtype: torch.dtype, tried: str) -> None:
    # memory that nothing was written into may hold NaN, which says nothing of the mistake
    if not isinstance(value, Tensor) or value.shape != shape or value.dtype != dtype:
        expect.tensor(value, shape=shape, dtype=dtype, tried=tried)


def _describe_mistake(done: Done, rank: int, shards: Sequence[Tensor], tried: str) -> Wrong:
    R, places = len(shards), done.value.view(len(shards), ROWS)
    whose = [next((r for r, s in enumerate(shards) if torch.equal(p, s)), None) for p in places]
    facts = dict(
        tried=tried,
        expected=f"rank {rank}: {vector(torch.cat(shards))}",
        got=f"rank {rank}: {vector(done.value)}",
    )
    names = [name for name, _ in done.seen]
    if not names:
        return Wrong("RING-ALONE", "nothing is exchanged", look="`pass_on`.", **facts)
    if set(names) <= {"send", "recv"} and len(done.sends) < R - 1:
        return Wrong(
            "RING-STEPS",
            f"a place stays empty on rank {rank}",
            **facts,
            fits=f"steps made by rank {rank}: {len(done.sends)}.",
            look="how many shards arrive at a rank.",
            preset="ring:steps",
        )
    if whose == [(rank - i) % R for i in range(R)]:
        return Wrong(
            "GATHER-ARRIVAL",
            "the shards stand in the order in which they arrive",
            **facts,
            fits=f"rank {rank}'s own first, then that of the rank before it.",
            hides="the order differs by rank: each holds another tensor.",
            look="whose shard it is that arrives in step s.",
            preset="ring:arrival",
        )
    if sorted(w for w in whose if w is not None) == list(range(R)):
        return Wrong(
            "GATHER-ORDER",
            "the shards stand in another order",
            **facts,
            fits=f"places with the shards of ranks {', '.join(map(str, whose))}.",
            look="the place of the shard that arrives in step s.",
        )
    if (rank - 1) % R in [w for i, w in enumerate(whose) if w != i]:
        return Wrong(
            "GATHER-REPEATS",
            "a shard stands in more than one place",
            **facts,
            fits="the own shard sent in every step, not what arrived last.",
            look="what is passed on from the second step on.",
        )
    return Wrong(
        "OTHER",
        "some places hold other numbers",
        **facts,
        look="one place at a time: who writes it, in which step.",
    )


def cost(subject: Subject, draw: Draw) -> None:
    """Four ranks: three messages of a shard each; only the result is kept."""
    R, n = 4, draw.size(50, 60, 45)
    shards = [draw.randn(n) for _ in range(R)]
    tried = f"4 ranks, shards of {n} float32, {4 * n} bytes"
    (done,) = ring.on_ranks(subject, [[x] for x in shards])
    ring.messages(done, 4 * n, tried)
    _all_equal(done, shards, tried)
    ring.keeps_the_result_alone(done, R * 4 * n, tried)


def numbers(subject: Subject, draw: Draw) -> None:
    """Two ranks: rows of several numbers, a single row; int64, bfloat16, float64; to the bit."""
    n = draw.size(3, 4, 5)
    cases = [
        [draw.randn(n, 2, 3) for _ in range(2)],
        [draw.randint(0, 2**60, (n,)) for _ in range(2)],
        [draw.randn(n, dtype=torch.bfloat16) for _ in range(2)],
        [draw.randn(n).double() / 3 for _ in range(2)],
        [draw.randn(1) for _ in range(2)],
    ]
    found = ring.on_ranks(subject, list(zip(*cases, strict=True)))
    for shards, done in zip(cases, found, strict=True):
        x = shards[0]
        tried = f"2 ranks, shards of {tuple(x.shape)}, {str(x.dtype).removeprefix('torch.')}"
        _all_equal(done, shards, tried)
        ring.messages(done, x.nbytes, tried)


def _all_equal(done: Sequence[Done], shards: Sequence[Tensor], tried: str) -> None:
    whole = torch.cat(list(shards))
    for rank, d in enumerate(done):
        expect.tensor(d.value, shape=whole.shape, dtype=whole.dtype, tried=tried)
        if not torch.equal(d.value, whole):
            raise Wrong(
                "OTHER",
                f"rank {rank} has other numbers",
                tried=tried,
                expected=vector(whole.flatten(), 3),
                got=vector(d.value.flatten(), 3),
                look="the place of each shard, and the dtype on the way.",
            )


def layouts(subject: Subject, draw: Draw) -> None:
    """Shards that are not contiguous; a result stays what it was when the next call is made."""
    ring.any_layout(subject, draw, draw.size(4, 5), lambda shards: [torch.cat(list(shards))] * 2)


def groups(subject: Subject, draw: Draw) -> None:
    """Four ranks in two groups: the shards of a group, in its order."""
    shards = _shards(4, 1)
    tried = "4 ranks in two groups, 0 with 2 and 1 with 3; shards [11, 12], [21, 22], ..."
    for rank, d in enumerate(ring.in_pairs(subject, shards)):
        right = torch.cat([shards[rank % 2], shards[rank % 2 + 2]])
        ring.refuse_other_group(d, right, rank, tried)


def one_rank(subject: Subject, draw: Draw) -> None:
    """One rank: a copy of its shard, and no message; rows without numbers too."""
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
    (done,) = ring.on_ranks(subject, [[draw.randn(2, 0)]])
    tried = "one rank, a shard of shape (2, 0)"
    expect.tensor(done[0].value, shape=(2, 0), dtype=torch.float32, tried=tried)


def refusal(subject: Subject, draw: Draw) -> None:
    """A single number has no dim 0 to stand behind another."""

    def not_refused(got: str) -> Wrong:
        return Wrong(
            "GATHER-NUMBER",
            "a single number is not refused with ValueError",
            got=got,
            tried="one rank, a shard of shape ()",
            expected="ValueError",
            look="the last sentence of the docstring.",
        )

    ring.refuses(subject, [torch.tensor(1.0)], not_refused)


SUITES = (
    Suite(
        "ring-all-gather",
        (order, cost, numbers, layouts, groups, one_rank, refusal),
        tested="1, 2, 3 and 4 ranks hold all shards in the order of the ranks, to the bit, "
        "from R - 1 messages of one shard to the next rank.",
        remember="what arrives in step s = 1, 2, ... on rank r is the shard of rank r - s.",
        next_step="call it on what ring_reduce_scatter returns: that is an all-reduce.",
        ranks=4,
        limit_s=12.0,
    ),
)
