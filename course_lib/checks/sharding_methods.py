"""Checks of lesson 23: what each method of ShardedModule does by itself, in groups of the ranks.

Oracle: the same few numbers padded, cut and averaged here. Three of four ranks make a group, so that
its size, its ranks and a third are told from those of the world.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.report import Wrong, vector
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw
from course_lib.probes.mini_fsdp import PASSES, loud

PROBE = "course_lib.probes.mini_fsdp:call_methods"
GROUPS = [[0, 2, 3], [1]]
SHAPE = (2, 5)  # 10 weights: shards of 4 on three ranks, the last one with 2 zeros
LOW = torch.bfloat16


def groups_and_dtypes(subject: Subject, draw: Draw) -> None:
    """Three of four ranks, a padded unit, a float input: every method in bfloat16; `scatter` in float32."""
    weights, x = draw.randn(*SHAPE), draw.randn(3, SHAPE[1])
    steps = draw.randint(1, 9, (4, 12)) * (2 * draw.randint(0, 2, (4, 12)) - 1)
    grads = (steps / 4).to(LOW)  # quarters: every sum of them is exact in float32
    given = [
        (GROUPS, weights, grads[rank] if rank != 1 else grads[rank, :10], x) for rank in range(4)
    ]
    found = subject.run_ranks(given, probe=PROBE)
    for case, own in enumerate((torch.float32, LOW)):
        kind = str(own).removeprefix("torch.")
        for ranks in GROUPS:
            tried = (
                f"10 weights in {kind}, gathered in bfloat16; a group of {len(ranks)} of 4 ranks"
            )
            total = sum(given[rank][2].float() for rank in ranks)
            for place, rank in enumerate(ranks):
                _methods(found[rank].value[case], weights.to(own), total, place, len(ranks), tried)
                _output(found[rank].value[case], weights, x, tried)
                _frozen(found[rank].value[case], tried)
                for kept, later in zip(
                    (False, True), found[rank].value[case]["later"], strict=True
                ):
                    at = f"{tried};\nreshard_after_forward {not kept}"
                    _passes(later, weights.to(own), x, len(ranks), at)


def _frozen(one: dict, tried: str) -> None:
    if not one["frozen"]:
        raise Wrong(
            "FSDP-FROZEN",
            "weights that are not trained are freed, though they were to stay",
            tried=f"{tried};\nreshard_after_forward False, shard.requires_grad False, a float x that\n"
            "needs a gradient",
            expected="`self.full` stays: gradients are on, and the backward pass of x needs it",
            got="`self.full` None after the forward pass",
            hides="a frozen base under an adapter is gathered twice for every step.",
            look="`torch.is_grad_enabled()`, not what one tensor needs.",
        )


def _methods(one: dict, weights: Tensor, total: Tensor, place: int, ranks: int, tried: str) -> None:
    flat = F.pad(weights.flatten(), (0, -weights.numel() % ranks))
    for name in ("gather", "whole"):
        at = f"{tried}; {name}()"
        expect.tensor(one[name], shape=flat.shape, dtype=LOW, tried=at)
        expect.values(
            one[name], flat.to(LOW), rtol=0, atol=0, tried=at, finding=f"{name} gives other numbers"
        )
    if one["graph"]:
        raise Wrong(
            "FSDP-GRAPH",
            "what is gathered belongs to a graph",
            tried=f"{tried}; gather()",
            expected="a tensor that needs no gradient",
            got="requires_grad True",
            look="`gather`: outside any graph.",
        )
    if ranks > 1:  # one rank may keep to itself
        _collectives(one["sent"], flat.numel(), tried)
    if not one["freed"]:
        raise Wrong(
            "FSDP-AFTER-BACKWARD",
            "gathered weights stay after `scatter`",
            tried=f"{tried}; whole(), then scatter(grad)",
            expected="`self.full` None",
            got="a tensor",
            look="what `scatter` does beside its result.",
        )
    wide = tried.replace("in bfloat16;", "in float32;")
    for case, at in (("", f"{tried}; scatter(grad)"), ("_wide", f"{wide}; scatter(grad)")):
        if one[f"changed{case}"]:
            raise Wrong(
                "INPLACE",
                "the gradient that came in was changed",
                tried=at,
                expected="grad as it was: it belongs to the backward pass",
                got="other numbers",
                fits="`float` and `to`, which copy nothing where the dtype is the same already."
                if case
                else "",
                look="methods that end in an underscore.",
            )
        _mean(one[f"scatter{case}"], weights.dtype, total, place, ranks, at)


def _collectives(sent: list, numbers: int, tried: str) -> None:
    """One all-gather for each of the first two methods, of 2 bytes; a reduce-scatter of 4."""
    due = [("allgather", 2), ("whole", 0), ("allgather", 2), ("scatter", 0), ("reduce_scatter", 4)]
    found = [(name, num_bytes / numbers) for name, num_bytes in sent]
    if found == due:
        return
    words = ["; ".join(f"{n} {b:g}" for n, b in side if b) for side in (due, found)]
    facts = dict(tried=f"{tried}; gather(), whole() twice, scatter(grad)")
    facts |= dict(expected=f"by bytes a weight: {words[0]}", got=words[1][:80] or "none")
    gathers = [b for n, b in found if n == "allgather"]
    if gathers and max(gathers) > 2:
        raise Wrong(
            "FSDP-GATHER-WIDE",
            "more travels than the weights in bfloat16",
            look="when `gather` casts: before it sends, or after.",
            **facts,
        )
    if len(gathers) > 2:
        raise Wrong(
            "FSDP-GATHER-EACH",
            "weights that are gathered are gathered again",
            look="what `whole` leaves behind.",
            **facts,
        )
    if [b for n, b in found if n == "reduce_scatter"] == [2]:
        raise Wrong(
            "FSDP-REDUCE-LOW",
            "gradients are added up in bfloat16",
            look="the dtype of what `reduce_scatter` is given.",
            **facts,
        )
    raise Wrong("FSDP-COLLECTIVES", "other collectives are issued", look="the docstrings.", **facts)


def _mean(
    shard: Tensor, dtype: torch.dtype, total: Tensor, place: int, ranks: int, tried: str
) -> None:
    size = total.numel() // ranks
    mine = total[place * size : (place + 1) * size]
    expect.tensor(shard, shape=(size,), dtype=dtype, tried=tried)
    # a division in float32 is exact to 6e-8, one in bfloat16 to 4e-3; quarters by 3 need all digits
    close = dict(rtol=1e-6 if dtype == torch.float32 else 2**-7, atol=1e-7)
    expect.values(
        shard.float(),
        mine / ranks,
        [
            expect.Pattern(
                code="FSDP-GROUP",
                value=mine / 4,
                finding="the mean is over the world, not over the group",
                fits="the sum over the group, divided by 4.",
                look="every call that takes a `group`.",
            ),
            expect.Pattern(
                code="FSDP-NO-DIVIDE",
                value=mine,
                finding="the sum is not divided",
                fits="a sum over the ranks.",
                look="`scatter`.",
            ),
            expect.Pattern(
                code="FSDP-MEAN-LOW",
                value=(mine / ranks).to(LOW).float(),
                finding="the mean is rounded to 16 bits",
                fits="the right mean, cast to bfloat16 and back.",
                look="which dtype the result is cast to, and where it is divided.",
                hides="the shard is float32, and its moments would add up rounded gradients.",
            ),
        ]
        if dtype == torch.float32
        else (),
        **close,
        tried=tried,
        finding="the mean of the gradients differs",
        look="`scatter`.",
    )


def _passes(later: list, weights: Tensor, x: Tensor, ranks: int, tried: str) -> None:
    """Forward passes without a backward pass, the weights changed after each: always the new ones."""
    modes = {"": "with gradients", "no_grad": "in no_grad", "eval": "in eval()"}
    x, before = loud(x).to(LOW), weights
    for i, (out, sent) in enumerate(later):
        now, last = weights.to(LOW), before.to(LOW)
        before, weights = weights, weights + 1
        if i < len(PASSES):
            right, old = F.linear(x, now), F.linear(x, last)
            what = f"forward pass {i + 1}, {modes[PASSES[i]]}"
        else:  # what pads the shards grows too
            right, old, out = now.flatten(), last.flatten(), out[: now.numel()]
            what = "gather() after them"
        at = f"{tried}; {i} forward passes without backward,\nweights + 1 after each; {what}"
        out = expect.tensor(out, shape=right.shape, dtype=LOW, tried=at)
        gathers = sent.count("allgather")
        facts = dict(tried=at, look="`gather`: what it takes the numbers from.")
        close = dict(rtol=2**-5, atol=2**-4)
        if not torch.allclose(out.float(), right.float(), **close):
            raise Wrong(
                "FSDP-STALE",
                "a forward pass computes with weights of an earlier one"
                if torch.allclose(out.float(), old.float(), **close)
                else "a later forward pass differs",
                expected=vector(right.float().flatten()[:3]) + " ...",
                got=vector(out.float().flatten()[:3]) + " ...",
                fits="what was gathered before the weights changed.",
                hides="a loss that is only looked at, and no error: the weights are a step behind.",
                **facts,
            )
        if ranks > 1 and gathers != 1:
            raise Wrong(
                "FSDP-STALE",
                "gathered weights are served a second time",
                expected="one all-gather in each call of `gather`, so in each forward pass",
                got=f"{gathers} all-gathers",
                **facts,
            )


def _output(one: dict, weights: Tensor, x: Tensor, tried: str) -> None:
    at = f"{tried}; a float32 input"
    out = expect.tensor(one["out"], shape=(len(x), len(weights)), dtype=LOW, tried=at)
    right = F.linear(x.to(LOW), weights.to(LOW))
    expect.values(out.float(), right.float(), rtol=2**-6, atol=2**-6, tried=at,
                  finding="the output differs", look="`self.cast`, and `using`.")  # fmt: skip
