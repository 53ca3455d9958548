"""Checks of lesson 18: Replica.no_sync, with the library's DataParallel around it.

Oracle: the update of one process that sees every micro-batch of all ranks (ddp_twin.train_alone).
"""

from collections.abc import Sequence

from course_lib.checks.ddp_buckets import all_reduces, gradients_differ, ready_at
from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite
from course_lib.probes import ddp_twin

PROBE = "course_lib.probes.ddp:"
CAP = 300  # bytes: two matrices in a bucket, three buckets


def context(subject: Subject, draw: Draw) -> None:
    """`syncing` inside, behind, one in another, and after an error."""
    (rank,) = subject.run_ranks([()], probe=PROBE + "flags")
    found = rank.value
    tried = "with copy.no_sync(): on one rank"
    facts = dict(
        tried=tried,
        expected="copy.syncing False inside, True behind it",
        got=f"{found['inside']} inside, {found['after']} behind it",
    )
    if found["inside"]:
        raise Wrong(
            "NOSYNC-NOTHING",
            "the context changes nothing",
            **facts,
            hides="the first backward pass starts the buckets, the next one is refused.",
            look="`self.syncing`, and when it is set.",
        )
    if not found["after"]:
        raise Wrong(
            "NOSYNC-STAYS",
            "gradients stay at home for ever",
            **facts,
            hides="`finish()` still sends what is left, so the values are right: after\n"
            "backward, with nothing beside it.",
            preset="timeline:late",
            look="what stands behind the `yield`.",
        )
    if found["between"]:
        raise Wrong(
            "NOSYNC-NESTED",
            "an inner context ends the outer one",
            tried="one no_sync inside another",
            expected="False between the two ends",
            got="True between the two ends",
            fits="`self.syncing = True` at the end.",
            look="what it was before, and who remembers that.",
        )
    if found["error"] != "KeyError":
        raise Wrong(
            "NOSYNC-SWALLOWS",
            "an error inside disappears",
            tried="a KeyError inside",
            expected="KeyError outside too",
            got=found["error"],
            look="`return` in a `finally`, or an `except`.",
        )
    if not found["after error"]:
        raise Wrong(
            "NOSYNC-ERROR",
            "an error inside leaves it switched off",
            tried="a KeyError inside, caught outside",
            expected="syncing True after it",
            got="syncing False after it",
            hides="from then on every update sends after backward.",
            look="`try`, `finally`.",
        )


def two_ranks(subject: Subject, draw: Draw) -> None:
    """Three micro-batches an update, two updates: values, bytes, and where they are sent."""
    _updates(subject, draw, [[["left right"] * 3, ["left right"] * 3]] * 2)


def other_layers(subject: Subject, draw: Draw) -> None:
    """Three ranks; what a micro-batch used, the last one need not."""
    plan = [
        ["left right", "left", "left right"],
        ["right", "left right", "left right"],
        ["left", "right", "left right"],
    ]
    _updates(subject, draw, [[p] for p in plan])


def _updates(subject: Subject, draw: Draw, plans: Sequence[ddp_twin.Plan]) -> None:
    k, seed = len(plans[0][0]), draw.seed + 3
    tried = f"{len(plans)} ranks, {k} micro-batches, all but the last in no_sync()"
    try:
        ranks = subject.run_ranks([(seed, CAP, plan) for plan in plans], probe=PROBE + "no_sync")
    except AnswerError as failure:
        if "finish" not in str(failure.error):
            raise
        raise Wrong(
            "NOSYNC-SENDS",
            "buckets leave before the last micro-batch",
            tried=tried,
            expected="no bucket starts inside, nor at its end",
            got=str(failure.error)[:76],
            look="everything in no_sync but `self.syncing`.",
        ) from None
    expected, _ = ddp_twin.train_alone(seed, plans)
    due = all_reduces(ranks[0].value["updates"][-1]["seen"])
    whole = sum(p.nbytes for p in ddp_twin.make_toy(seed).parameters() if p.requires_grad)
    for number, grads in enumerate(expected):
        for rank in ranks:
            update = rank.value["updates"][number]
            sent = sum(all_reduces(update["seen"]))
            facts = dict(
                tried=tried,
                expected=f"{whole} bytes, in the last backward pass",
                got=f"{sent} bytes in {len(all_reduces(update['seen']))} all-reduces",
            )
            if sent > whole:
                raise Wrong(
                    "NOSYNC-SENDS",
                    f"{sent / whole:.3g} times the bytes are sent",
                    fits="a finish() for every micro-batch.",
                    hides="the gradients are right: only the count tells.",
                    look="everything in no_sync but `self.syncing`.",
                    **facts,
                )
            if found := gradients_differ(update["grads"], grads):
                raise Wrong(
                    "NOSYNC-LOSES",
                    "a part of the sum is gone",
                    tried=tried,
                    expected=found[0],
                    got=found[1],
                    fits="gradients cleared, or never computed, inside no_sync.",
                    look="everything in no_sync but `self.syncing`.",
                )
            if due and ready_at(update["seen"])[0] >= 6 * k:
                raise Wrong(
                    "NOSYNC-STAYS",
                    "the last micro-batch sends after backward",
                    **facts,
                    preset="timeline:late",
                    look="`self.syncing` behind the context.",
                )


SUITES = (
    Suite(
        "ddp-no-sync",
        (context, two_ranks, other_layers),
        proved="k micro-batches cost the bytes of one, leave with the last backward pass,\n"
        "and lose nothing, after an error too.",
        remember="without no_sync an update of k micro-batches sends k times as much.",
        next_step="in the lesson's own run, take no_sync away: the gradients stay, the\n"
        "bytes do not.",
        ranks=3,
        limit_s=12.0,
    ),
)
