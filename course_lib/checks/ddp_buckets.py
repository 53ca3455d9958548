"""Checks of lesson 20: DataParallel, its buckets and what leaves when.

Oracle: the update of one process that sees the rows of all ranks (ddp_twin.train_alone). Each rank tells
what it sent, how many gradients were there by then, where it waited, and what is alive afterwards.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.checks.ddp_layout import layout, without_group
from course_lib.checks.report import Wrong, vector
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite
from course_lib.probes import ddp_twin

PROBE = "course_lib.probes.ddp:"
CAP = 300  # bytes: two matrices of the model in a bucket, three buckets
ALL = "left right"


def two_ranks(subject: Subject, draw: Draw) -> None:
    """Two updates: the start, what is sent and when, the gradients, what is left."""
    plans = [[[ALL], [ALL]]] * 2
    tried = f"2 ranks, 6 parameters of 744 bytes, bucket_bytes={CAP}"
    facts, expected = _rehearse(subject, draw, plans, CAP, tried)
    _started_equal(facts, tried)
    _expect_made(facts[0]["made"], tried)
    for rank in facts:
        first, second = rank["updates"]
        _traffic(first["seen"], tried)
        _gradients(first, expected[0], tried, 2)
        if gradients_differ(second["grads"], expected[1]):
            raise _stale_bucket(tried, "the second update's gradients are others")
        _overlap(first["seen"], tried)
        if rank["kept"] > 64:
            raise Wrong(
                "BUCKETS-KEEPS",
                "buckets stay in memory",
                tried=tried,
                expected="after finish() the gradients alone",
                got=f"{rank['kept']} bytes more than those",
                look="who still has the flat tensors: `start_over`.",
            )


def layer_of_nobody(subject: Subject, draw: Draw) -> None:
    """Three ranks; a layer that none of them uses, then all."""
    plans = [[["right"], [ALL]]] * 3
    tried = "3 ranks; the layer `left` is used by none of them"
    facts, expected = _rehearse(subject, draw, plans, CAP, tried)
    for rank in facts:
        for update, grads in zip(rank["updates"], expected, strict=True):
            _expect_unused_averaged(update, grads, tried)


def one_of_two(subject: Subject, draw: Draw) -> None:
    """Each of two ranks uses another layer; every bucket has one size, so nothing hangs."""
    plans = [[["left"], [ALL]], [["right"], [ALL]]]
    tried = "2 ranks; `left` is used on rank 0 alone, `right` on rank 1 alone"
    facts, expected = _rehearse(subject, draw, plans, 150, tried)
    for rank in facts:
        for update, grads in zip(rank["updates"], expected, strict=True):
            if found := gradients_differ(update["grads"], grads):
                raise Wrong(
                    "BUCKETS-ORDER",
                    "a bucket leaves too early",
                    tried=tried,
                    expected=found[0],
                    got=found[1],
                    fits="a bucket that starts before its turn, or before it is complete.",
                    hides="buckets of two layers are added; with other sizes the ranks hang, or abort.",
                    look="which bucket is the next one, and whose gradients it needs.",
                )
        # buckets of one: top, tied, right, left, ...; `left` is full first, and leaves behind `right`
        ready = ready_at(rank["updates"][1]["seen"])[:4]
        if ready != [1, 2, 4, 4]:
            raise Wrong(
                "BUCKETS-DELAYED",
                "a full bucket is kept back",
                tried=f"{tried}; then both on both",
                expected="the first four buckets start after gradient [1, 2, 4, 4]",
                got=f"after gradient {ready}",
                fits="one bucket at most for each gradient.",
                look="`gradient_ready`: what of the buckets behind the one that starts?",
            )


def accumulation(subject: Subject, draw: Draw) -> None:
    """Four ranks, three micro-batches: nothing leaves inside no_sync."""
    tried = "4 ranks, 3 micro-batches, two of them in no_sync()"
    whole = _gradient_bytes()
    try:
        facts, expected = _rehearse(subject, draw, [[[ALL] * 3]] * 4, CAP, tried)
    except Wrong as wrong:
        if wrong.code != "BUCKETS-STALE":
            raise
        raise _not_synced(tried, "a bucket starts in the first of them") from None
    for rank in facts:
        (update,) = rank["updates"]
        sent = sum(all_reduces(update["seen"]))
        if sent > whole or ready_at(update["seen"])[0] < 12:
            raise _not_synced(tried, f"{sent} bytes of gradients, not {whole}")
        _gradients(update, expected[0], tried, 4)
        _overlap(update["seen"], tried, before=12)


def groups(subject: Subject, draw: Draw) -> None:
    """Four ranks in two groups, each with the weights and the rows of its own."""
    tried = "4 ranks in two groups, 0 with 2 and 1 with 3"
    plans = [[[ALL]]] * 4
    facts, _ = _rehearse(subject, draw, plans, CAP, tried, probe="buckets_in_pairs")
    for rank, found in enumerate(facts):
        seed, first = draw.seed + 3, rank % 2
        (expected,), _ = ddp_twin.train_alone(seed, plans[:2], first)
        start = ddp_twin.make_toy(seed, first).state_dict()
        differs = gradients_differ(found["start"], start) or gradients_differ(
            found["updates"][0]["grads"], expected
        )
        if differs:
            raise Wrong(
                "BUCKETS-GROUP",
                "the group is not the one that was given",
                tried=f"{tried}, on rank {rank}",
                expected=differs[0],
                got=differs[1],
                fits="a collective without `group`, or ranks of another group.",
                look="`self.group`: the broadcast and the all-reduce both need it.",
            )


def one_rank(subject: Subject, draw: Draw) -> None:
    """A process without a group has the gradients of the module; what is refused."""
    tried = "one process without a group"
    facts, expected = _rehearse(subject, draw, [[[ALL]]], CAP, tried, probe="one_rank")
    _gradients(facts[0]["updates"][0], expected[0], tried, 1)
    found = facts[0]["errors"]
    for given, key in ((0, "no_room"), (-1, "less_than_none")):
        if found[key] != "ValueError":
            raise Wrong(
                "BUCKETS-LIMIT",
                "a limit that makes no sense is taken",
                tried=f"bucket_bytes={given}",
                expected="ValueError",
                got=found[key],
                look="the docstring of fill_buckets.",
            )
    if found["run_twice"] != "ValueError":
        raise Wrong(
            "BUCKETS-TWICE",
            "a second backward pass goes unnoticed",
            tried="two backward passes, no finish() between them",
            expected="ValueError",
            got=found["run_twice"],
            hides="what the second adds to p.grad is overwritten by finish().",
            look="the docstring of gradient_ready.",
        )
    inside, counts = found["run_inside"], facts[0]["started"]
    if inside != "nothing" or counts[0] != counts[1]:
        raise Wrong(
            "BUCKETS-SYNCING",
            "gradient_ready does something while syncing is False",
            tried="a backward pass, then one in no_sync(), no finish() between them",
            expected=f"no error; buckets started: {counts[0]}, as before",
            got=inside if inside != "nothing" else f"buckets started: {counts[1]}",
            look="what gradient_ready asks first.",
        )


def _rehearse(
    subject: Subject,
    draw: Draw,
    plans: Sequence[ddp_twin.Plan],
    cap: int,
    tried: str,
    probe: str = "buckets",
) -> tuple[list[dict], list[dict[str, Tensor]]]:
    """Facts by rank, and by update the gradients that every rank should have."""
    seed = draw.seed + 3
    try:
        ranks = subject.run_ranks([(seed, cap, plan) for plan in plans], probe=PROBE + probe)
    except AnswerError as failure:
        if "finish" in str(failure.error):
            raise _stale_bucket(tried, str(failure.error)[:76]) from None
        if probe == "one_rank" and "process group" in str(failure.error):
            raise without_group(str(failure.error)) from None
        raise
    expected, model = ddp_twin.train_alone(seed, plans)
    zeros = {n: torch.zeros_like(p) for n, p in model.named_parameters() if p.requires_grad}
    return [rank.value for rank in ranks], [zeros | grads for grads in expected]


def _started_equal(facts: list[dict], tried: str) -> None:
    for name, value in facts[0]["start"].items():
        other = facts[1]["start"][name]
        if not torch.equal(value, other):
            raise Wrong(
                "BUCKETS-NO-BROADCAST",
                "the copies do not begin equal",
                tried=tried,
                expected=f"{name} of rank 0 everywhere: {vector(value.view(-1), 3)}",
                got=f"on rank 1 {vector(other.view(-1), 3)}",
                hides="equal gradients never make different weights equal.",
                look="`attach`, and what `broadcast_state` does.",
            )


def _traffic(seen: list[tuple[str, int]], tried: str) -> None:
    """Three all-reduces of the right bytes, each waited for."""
    sent, due = all_reduces(seen), [288, 288, 168]  # 6 parameters, no more than CAP together
    others = {name for name, _ in seen} - {"allreduce", "ready", "waits", "backward ended"}
    facts = dict(tried=tried, expected=f"all-reduces of {due} bytes", got=f"{sent} bytes")
    if others:
        raise Wrong(
            "BUCKETS-OTHER",
            "another collective than all-reduce",
            fits=", ".join(others),
            look="`start_bucket` sends all that there is to send.",
            **facts,
        )
    if len(sent) >= 6:
        raise Wrong(
            "BUCKETS-EACH",
            "an all-reduce for every parameter",
            preset="timeline:single",
            look="who calls all_reduce: `start_bucket` alone.",
            **facts,
        )
    if sent != due:
        raise Wrong(
            "BUCKETS-BYTES",
            "the buckets do not travel once each",
            **facts,
            look="where `start_bucket` is called.",
        )
    if sum(name == "waits" for name, _ in seen) < len(sent):
        raise Wrong(
            "BUCKETS-NO-WAIT",
            "the sums are not waited for",
            tried=tried,
            expected="3 sums waited for before they are used",
            got=f"{_waits(seen)} waited for",
            hides="whoever reads too early reads this rank's own numbers; on a quiet\n"
            "machine that may go well for days.",
            look="what stands in `self.started`.",
        )


def _waits(seen: list[tuple[str, int]]) -> int:
    return sum(name == "waits" for name, _ in seen)


def _gradients(update: dict, expected: dict[str, Tensor], tried: str, world_size: int) -> None:
    found = gradients_differ(update["grads"], expected)
    if not found:
        return
    facts = dict(tried=tried, expected=found[0], got=found[1])
    if not gradients_differ(update["grads"], {n: g * world_size for n, g in expected.items()}):
        raise Wrong(
            "BUCKETS-SUM",
            f"the gradients are {world_size} times too long",
            fits="the sum over ranks, not divided.",
            look="what becomes of a bucket that has arrived.",
            **facts,
        )
    raise Wrong(
        "OTHER",
        "the gradients are not the mean over the ranks",
        **facts,
        look="the way back: which part of a bucket belongs to which parameter.",
    )


def _expect_unused_averaged(update: dict, expected: dict[str, Tensor], tried: str) -> None:
    found = gradients_differ(update["grads"], expected)
    if not found:
        return
    missing = next((n for n in expected if n not in update["grads"]), None)
    raise Wrong(
        "BUCKETS-UNUSED",
        f"{missing} has no gradient"
        if missing
        else "gradients behind an unused layer are not averaged",
        tried=tried,
        expected=f"{missing}: zeros" if missing else found[0],
        got="None" if missing else found[1],
        fits="" if missing else "buckets that never started, left as they were.",
        look="`finish()`, and what is still to do there.",
    )


def _expect_made(seen: list[tuple[str, int]], tried: str) -> None:
    """Broadcasts of the parameters and buffers; a tied one may have gone twice."""
    toy = ddp_twin.make_toy(0)
    due = sum(x.nbytes for x in [*toy.parameters(), *toy.buffers()])
    if {name for name, _ in seen} != {"broadcast"} or sum(b for _, b in seen) >= 2 * due:
        raise Wrong(
            "BUCKETS-MADE",
            "other collectives than one broadcast of all that a copy has",
            tried=f"{tried}: its making",
            expected=f"broadcasts of {due} bytes together",
            got=", ".join(f"{name} {b}" for name, b in seen)[:70] or "no collective",
            look="`attach`, and what `broadcast_state` does.",
        )


def _overlap(seen: list[tuple[str, int]], tried: str, before: int = 0) -> None:
    """Every bucket starts as soon as it can, and nothing waits in backward. `before`: gradients of
    earlier micro-batches."""
    last = before + 6
    ready, due = ready_at(seen), [before + 2, before + 4, last]
    facts = dict(
        tried=tried,
        expected=f"a bucket starts after gradient {due} of {last}",
        got=f"after gradient {ready}",
    )
    if ready[0] == last:
        raise Wrong(
            "BUCKETS-LATE",
            "the first all-reduce comes after the last gradient",
            **facts,
            hides="the values are right: only the order tells.",
            preset="timeline:late",
            look="`gradient_ready`: when does a bucket start?",
        )
    if ready != due:
        raise Wrong(
            "BUCKETS-DELAYED",
            "buckets do not start when they are full",
            **facts,
            look="`gradient_ready`: what is asked, before or after p is taken off?",
        )
    ends = [name for name, _ in seen].index("backward ended")
    if _waits(seen[:ends]):
        raise Wrong(
            "BUCKETS-WAITS",
            "backward stops for a sum",
            tried=tried,
            expected="waiting in finish() alone",
            got=f"{_waits(seen[:ends])} waits before backward has ended",
            hides="the order is right, and nothing is hidden behind anything.",
            look="`work.wait()`, `async_op`.",
        )


def _stale_bucket(tried: str, got: str) -> Wrong:
    return Wrong(
        "BUCKETS-STALE",
        "an update leaves something over for the next",
        tried=tried,
        expected="after finish() no gradient counts as ready",
        got=got,
        look="the end of `finish()`.",
    )


def _not_synced(tried: str, got: str) -> Wrong:
    return Wrong(
        "BUCKETS-NO-SYNC",
        "gradients travel inside no_sync",
        tried=tried,
        expected="one round of buckets, in the last backward pass",
        got=got,
        look="`self.syncing`.",
    )


def _gradient_bytes() -> int:
    return sum(p.nbytes for p in ddp_twin.make_toy(0).parameters() if p.requires_grad)


def all_reduces(seen: list[tuple[str, int]]) -> list[int]:
    """Bytes of the all-reduces, in order."""
    return [num_bytes for name, num_bytes in seen if name == "allreduce"]


def ready_at(seen: list[tuple[str, int]]) -> list[int]:
    """For each all-reduce, how many gradients had been there before it."""
    names = [name for name, _ in seen]
    return [names[:i].count("ready") for i, name in enumerate(names) if name == "allreduce"]


def gradients_differ(found: dict, expected: dict[str, Tensor]) -> tuple[str, str] | None:
    """The first that differs, in words: (expected, got). None when all agree."""
    # float32 sums in another order: dozens of roundings of 6e-8 of the largest entry
    atol = 3e-6 * max(g.abs().max().item() for g in expected.values())
    for name in [*expected, *(n for n in found if n not in expected)]:
        a, b = found.get(name), expected.get(name)
        if a is None or b is None or not torch.allclose(a, b, rtol=1e-5, atol=atol):
            said = ["None" if v is None else vector(v.reshape(-1), 3) for v in (b, a)]
            return f"{name}: {said[0]}", f"{name}: {said[1]}"
    return None


SUITES = (
    Suite(
        "ddp-buckets",
        (layout, two_ranks, layer_of_nobody, one_of_two, accumulation, groups, one_rank),
        tested="1 to 4 ranks, and groups, have the gradients of one process with their rows; "
        "the first bucket leaves while most of backward is still to come.",
        remember="last layer first: the order of buckets is that of backward.",
        next_step="the figure timeline: which bucket size ends the step soonest?",
        ranks=4,
        sends_much=True,
        limit_s=12.0,
    ),
)
