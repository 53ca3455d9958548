"""Checks of lesson 20: Replica.no_sync, with the library's DataParallel around it.

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
    if not found["called"]:
        raise Wrong(
            "NOSYNC-EARLY",
            "the call alone switches it off",
            tried="context = copy.no_sync(), before `with context:`",
            expected="copy.syncing True until the context is entered",
            got="False",
            look="what runs at the call, and what at `with`.",
        )
    states = found["deeper"], found["between"], found["after both"]
    if states != (False, False, True):
        raise Wrong(
            "NOSYNC-NESTED",
            "one context inside another is not what it was alone",
            tried="one no_sync inside another",
            expected="syncing False in both, False between the two ends, True behind them",
            got="{} in both, {} between the two ends, {} behind them".format(*states),
            look="what it was before, and who remembers that: each context by itself.",
        )
    if found["was off"]:
        raise Wrong(
            "NOSYNC-BEFORE",
            "what was off before is on behind it",
            tried="copy.syncing = False, then a context",
            expected="False behind it, as before",
            got="True behind it",
            look="what it was before, and who remembers that.",
        )
    if not found["other"]:
        raise Wrong(
            "NOSYNC-OTHER",
            "the context of one copy touches another",
            tried="two copies, the context of the second inside that of the first",
            expected="syncing of the second True again behind its own context",
            got="False",
            look="what is kept in a global, or in the class.",
        )
    for begins, states in found["late"].items():
        if states != [False, begins == "True"]:
            raise Wrong(
                "NOSYNC-READ-EARLY",
                "what was before is read at the call, not where the context begins",
                tried=f"context = copy.no_sync(), syncing set to {begins}, then `with context:`",
                expected=f"syncing False inside, {begins} behind it",
                got="{} inside, {} behind it".format(*states),
                look="what runs at the call, and what at `with`.",
            )
    for kind, came_out in found["outside"].items():
        if not came_out:
            raise Wrong(
                "NOSYNC-SWALLOWS",
                "an error inside disappears",
                tried=f"a {kind} inside",
                expected=f"{kind} outside too",
                got="none",
                look="`return` in a `finally`, or an `except`.",
            )
        states = found["after error"][kind], found["between errors"][kind]
        if states != (True, False):
            raise Wrong(
                "NOSYNC-ERROR",
                "an error inside leaves syncing as it was not before",
                tried=f"a {kind} inside, caught outside; the same in a context inside another",
                expected="syncing True after it; False in the outer context",
                got=f"{states[0]}; {states[1]}",
                hides="from then on every update sends after backward, or too much.",
                look="`try`, `finally`: which errors go by an `except`?",
            )
    if found["seen"]:
        raise Wrong(
            "NOSYNC-SENDS",
            "the context itself sends something",
            tried="contexts on one rank, with no backward pass in them",
            expected="no collective",
            got=", ".join(f"{name} {size}" for name, size in found["seen"])[:70],
            look="everything in no_sync but `self.syncing`.",
        )
    if not found["grads"]:
        raise Wrong(
            "NOSYNC-LOSES",
            "gradients are touched",
            tried="contexts on one rank, with no backward pass in them",
            expected="each p.grad as it was, None where it was None",
            got="others",
            look="everything in no_sync but `self.syncing`.",
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
        tested="k micro-batches cost the bytes of one, leave with the last backward pass, "
        "and lose nothing, after an error too.",
        remember="an update of k micro-batches that sends after each sends k times as much.",
        next_step="in torch's DDP, take no_sync away: the gradients stay, the bytes do "
        "not. Yours raises an error then.",
        ranks=3,
        limit_s=12.0,
    ),
)
