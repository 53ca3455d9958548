"""Checks of lesson 11: DistributedTrainer.train_step.

Oracle: `Plain`, the same update by plain torch: one big batch, torch's AdamW, clip_grad_norm_.
It stands in train_step_mistakes.py, with the numbers that wrong answers give.
"""

import math

import torch

from course_lib.checks import train_step_mistakes as mistakes
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import DYNAMO, Draw, Suite
from course_lib.checks.train_step_edges import (
    not_finite,
    nothing_left,
    resumed_counters,
    three_groups,
)
from course_lib.checks.train_step_mistakes import LR, MOVED_ALIKE, Batches
from course_lib.checks.train_step_ranks import rank_of_nothing, shared_update
from course_lib.checks.train_step_twin import B, T, TwinRun, make_batches


def runs(subject: Subject, draw: Draw) -> None:
    """One micro-batch: three numbers come back, and the weights move."""
    run, batches = TwinRun(subject, draw, 1), make_batches(draw, [B * T])
    tried = f"one micro-batch of {B} x {T} tokens"
    if run.step(batches, tried)["grad_norm"] == 0:
        raise Wrong(
            "TRAIN-CLEARED",
            "there is no gradient left to use",
            tried=tried,
            expected="grad_norm above 0",
            got="grad_norm 0",
            look="where the gradient is cleared: between which two lines?",
        )
    if not run.has_moved():
        raise Wrong(
            "TRAIN-NO-STEP",
            "the gradient is not used",
            tried=tried,
            expected="every weight moves",
            got="the gains of the norms have not moved",
            look="the optimizer's step; and what is cleared before it.",
        )


def equal_parts(subject: Subject, draw: Draw) -> None:
    """Equal micro-batches give the gradient, the loss and the weights of the big batch."""
    k = draw.size(4, 2, 3)
    _as_whole(subject, draw, [B * T] * k, f"{k} micro-batches of {B} x {T} tokens, all counted")


def ragged_parts(subject: Subject, draw: Draw) -> None:
    """So do unequal ones, in targets that count or in length: every token weighs the same."""
    counts, short = [B * T, draw.size(3, 2, 5), draw.size(9, 7, 10)], draw.size(5, 6, 7)
    tried = f"3 micro-batches of {B} x {T}, {T} and {short} tokens; {counts} of them count"
    _as_whole(subject, draw, counts, tried, (T, T, short))


def empty_part(subject: Subject, draw: Draw) -> None:
    """A micro-batch in which no target counts adds nothing."""
    counts = ([10, 0, 4], [0, 6, 7], [5, 9, 0])[draw.size(0, 1, 2)]
    _as_whole(subject, draw, counts, f"3 micro-batches of {B} x {T} tokens; {counts} of them count")


def _as_whole(subject: Subject, draw: Draw, counts: list[int], tried: str, lengths=()) -> None:
    run, batches = TwinRun(subject, draw, len(counts)), make_batches(draw, counts, lengths)
    found = run.step(batches, tried)
    loss, norm = run.plain.gradient(batches)
    if not mistakes.is_near(found["grad_norm"], norm):
        _refuse_updates_of_parts(run, batches, tried)
    mistakes.compare(found, loss, norm, run.fresh_twin, batches, tried)


def _refuse_updates_of_parts(run: TwinRun, batches: Batches, tried: str) -> None:
    parts = [[batch] for batch in batches]
    if 0 in mistakes.count_targets(batches):
        return
    each = run.replay(parts).weights()
    if mistakes.distance(run.weights(), each, run.start) <= MOVED_ALIKE:
        raise Wrong(
            "TRAIN-STEP-EACH",
            "every micro-batch makes an update of its own",
            tried=tried,
            expected="one update",
            got=f"{len(parts)} updates, with a part of the batch each",
            fits="the optimizer's step inside the loop.",
            look="the indentation of the step.",
        )


def next_update(subject: Subject, draw: Draw) -> None:
    """Update s takes get_lr(s) in every group, its own gradient alone, and moves both counters."""
    warmup, count = draw.size(4, 5), 6
    run = TwinRun(subject, draw, 2, warmup_steps=warmup)
    tried = f"2 updates of 2 micro-batches, {warmup} steps of warmup to {LR}"
    due = [LR * min(1.0, (s + 1) / warmup) for s in range(6)]
    steps, found = [make_batches(draw, [B * T, count]) for _ in range(2)], []
    for batches in steps:
        found.append(run.step(batches, tried))
        _in_every_group(run.trainer.method("optimizer_groups"), found[-1]["lr"], tried)
    mistakes.compare_rates([f["lr"] for f in found], due, LR, tried)
    run.plain.update(steps[0], due[0])
    loss, norm = run.plain.update(steps[1], due[1])
    late = dict(
        code="TRAIN-LR-LATE",
        finding="each rate comes one update late",
        fits="rates written into the groups after the step.",
        look="the order of the two.",
    )
    kept = dict(
        code="TRAIN-NO-ZERO",
        finding="the first gradient is still in the second",
        expected=f"second grad_norm {number(norm)}, of its own tokens",
        got=f"second grad_norm {number(found[1]['grad_norm'])}",
        fits="gradients that are never cleared: backward adds to `p.grad`.",
        hides="no error, and the loss may fall for a while.",
        look="what happens to `p.grad` between two updates.",
    )
    run.expect_alike(
        tried,
        [
            (late, lambda: run.replay(steps, [LR, *due])),
            (kept, lambda: run.replay(steps, due, clear=False)),
        ],
    )
    before = lambda: run.replay(steps[:1], due)  # noqa: E731  made when it is needed
    mistakes.compare(found[1], loss, norm, before, steps[1], tried)
    _expect_counted(run, 2 * (B * T + count), 2 * 2 * B * T, tried)


def _in_every_group(groups: list[dict], told: float, tried: str) -> None:
    held = [group["lr"] for group in groups]
    right = [math.isclose(rate, told, rel_tol=1e-6) for rate in held]
    if all(right):
        return
    facts = dict(
        tried=tried,
        expected=f"the returned lr, {number(told)}, in both groups",
        got=f"the groups hold {vector(held)}",
    )
    if any(right):
        raise Wrong(
            "TRAIN-LR-GROUP",
            "one group keeps another rate",
            **facts,
            look="`param_groups`: the gains have a group of their own.",
        )
    raise Wrong(
        "TRAIN-LR-UNSET",
        "the optimizer does not take the rate",
        **facts,
        hides="the log shows a schedule that the training does not follow.",
        look='the entry "lr" of every group, and when it is written.',
    )


def _expect_counted(run: TwinRun, tokens: int, positions: int, tried: str) -> None:
    seen = run.trainer.method("__getattribute__", "tokens_seen")
    if seen == tokens:
        return
    fits = {0: "a counter that stays 0.", positions: "positions, those of -100 too."}.get(seen, "")
    raise Wrong(
        "TRAIN-TOKENS",
        "tokens_seen is another number",
        tried=tried,
        fits=fits,
        expected=f"{tokens}, the targets that count",
        got=f"{seen}"[:40],
        look="where `self.tokens_seen` grows.",
    )


def clips(subject: Subject, draw: Draw) -> None:
    """A gradient over the limit is scaled down to it, once and as a whole; grad_norm is the full one."""
    limit = 0.05  # two targets give a gradient of length 25 or so, 32 targets one of 5
    run = TwinRun(subject, draw, 2, grad_clip=limit)
    steps = [make_batches(draw, [1, 1]), make_batches(draw, [B * T] * 2)]
    tried = f"2 updates, both gradients longer than grad_clip {limit}"
    found = run.step(steps[0], tried)
    loss, norm = run.plain.update(steps[0], LR)
    _full_norm(run, found["grad_norm"], norm, steps[0], tried)
    mistakes.compare(found, loss, norm, run.fresh_twin, steps[0], tried)
    run.step(steps[1], tried)
    run.plain.update(steps[1], LR)
    ways = (
        (
            "TRAIN-NO-CLIP",
            "the gradient is not clipped",
            "no clipping, or clipping after the step.",
            mistakes.clip_nothing,
        ),
        (
            "TRAIN-CLIP-EACH",
            "every tensor is clipped by itself",
            "a limit for each parameter, which changes the direction.",
            mistakes.clip_each,
        ),
        (
            "TRAIN-CLIP-GROUPS",
            "each group is clipped by itself",
            "a limit for each group of the optimizer, which changes the direction.",
            mistakes.clip_groups,
        ),
        (
            "TRAIN-CLIP-VALUE",
            "the numbers are clipped, not the gradient",
            "clip_grad_value_, which changes the direction.",
            torch.nn.utils.clip_grad_value_,
        ),
    )
    run.expect_alike(
        tried,
        [
            (
                dict(
                    code=code,
                    finding=finding,
                    fits=fits,
                    look="the clipping: of what, when, to what.",
                ),
                lambda way=way: run.replay(steps, clip=way),
            )
            for code, finding, fits, way in ways
        ],
    )


def _full_norm(run: TwinRun, told: float, norm: float, batches: Batches, tried: str) -> None:
    if mistakes.is_near(told, norm):
        return
    facts = dict(
        tried=tried,
        expected=f"grad_norm {number(norm)}, before clipping",
        got=f"grad_norm {number(told)}",
    )
    if mistakes.is_near(told, run.config.grad_clip):
        raise Wrong(
            "TRAIN-NORM-AFTER",
            "the norm is the one after clipping",
            **facts,
            hides="a log in which no gradient is ever too long.",
            look="what `clip_grad_norm_` returns.",
        )
    if mistakes.is_near(told, mistakes.clip_inside(run.fresh_twin(), batches)):
        raise Wrong(
            "TRAIN-CLIP-INSIDE",
            "parts of the gradient are clipped",
            **facts,
            fits="clipping inside the loop.",
            look="the indentation of the clipping.",
        )


def no_limit(subject: Subject, draw: Draw) -> None:
    """grad_clip 0 switches clipping off; it does not clip to nothing."""
    run, batches = TwinRun(subject, draw, 1, grad_clip=0.0), make_batches(draw, [B * T])
    tried = "one update, grad_clip 0"
    told = run.step(batches, tried)["grad_norm"]
    if not run.has_moved():
        raise Wrong(
            "TRAIN-CLIP-ZERO",
            "the gradient is clipped to nothing",
            tried=tried,
            expected="no limit: the weights move as without clipping",
            got="the gains of the norms have not moved",
            look="the limit when `config.grad_clip` is 0.",
        )
    norm = run.plain.gradient(batches)[1]
    if not mistakes.is_near(told, norm):
        raise Wrong(
            "TRAIN-NORM-NO-LIMIT",
            "without a limit the norm is another number",
            tried=tried,
            expected=f"grad_norm {number(norm)}, as with a limit",
            got=f"grad_norm {number(told)}",
            hides="a log that says nothing of gradients, where nothing else looks at them.",
            look="what is told when nothing is clipped.",
        )


def scaled_loss(subject: Subject, draw: Draw) -> None:
    """In float16, whose loss is scaled up, the gradient that is clipped and told is the plain one."""
    run, batches = TwinRun(subject, draw, 2, precision="fp16"), make_batches(draw, [B * T] * 2)
    tried = "2 updates in float16, the loss scaled by 65,536"
    norm = run.plain.gradient(batches)[1]
    try:
        found = run.step(batches, tried)["grad_norm"]
        run.step(batches, tried)
    except Wrong as wrong:
        if wrong.code == "NAN":  # an overflow, at which the scaler skips the update
            return
        raise
    except AnswerError as failure:
        if "_scale is None" in str(failure.error):
            raise mistakes.unscaled_loss(tried) from None
        if "unscale_" not in str(failure.error):
            raise
        raise Wrong(
            "TRAIN-SCALER",
            "the scaler does not hear of the step",
            tried=tried,
            expected="unscale_, step and update, once each per update",
            got=f"RuntimeError: {failure.error}"[:76],
            look="`self.scaler`: its step and its update.",
        ) from None
    ratio = found / norm
    if 0.9 < ratio < 1.1:  # float16 rounds: measured 1e-4
        return
    facts = dict(
        tried=tried,
        expected=f"grad_norm near {number(norm)}",
        got=f"grad_norm {number(found)}, {number(ratio)} times that",
    )
    if ratio > 1e4:
        raise Wrong(
            "TRAIN-UNSCALED",
            "the scaled gradient is measured and clipped",
            **facts,
            hides="off a GPU nothing; in float16 every update would be clipped.",
            look="`self.scaler.unscale_`, and where it stands.",
        )
    raise Wrong(
        "OTHER",
        "the gradient in float16 is another one",
        **facts,
        look="`self.mean_loss`, `self.backward`, `self.scaler`.",
    )


SUITES = (
    Suite(
        "train-step",
        (
            runs,
            equal_parts,
            ragged_parts,
            empty_part,
            next_update,
            clips,
            no_limit,
            nothing_left,
            resumed_counters,
            scaled_loss,
            shared_update,
            rank_of_nothing,
            not_finite,
            three_groups,
        ),
        tested="micro-batches of any sizes make the update of the big batch, with its "
        "gradient, loss and clipping, on one rank or two, and leave nothing over.",
        remember="the share of a micro-batch is its counted targets divided by all of them.",
        next_step="the figure accumulation: make the first micro-batch small, then empty.",
        ranks=2,
        sends_much=True,
        limit_s=15.0,
        loads=(DYNAMO,),
    ),
)
