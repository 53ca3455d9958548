"""Checks of train_step beside its numbers: what is left in `p.grad`, and whose state it goes by.

Oracle: the contract; `TwinRun` for the weights.
"""

import math

import torch
from torch import Tensor

from course_lib.checks import train_step_mistakes as mistakes
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw
from course_lib.checks.train_step_mistakes import LR
from course_lib.checks.train_step_twin import B, T, TwinRun, make_batches

PROBE = "course_lib.probes.modules:"


def nothing_left(subject: Subject, draw: Draw) -> None:
    """After an update no gradient is left, whatever the order in memory of its tokens."""
    run = TwinRun(subject, draw, 2)
    batches = make_batches(draw, [B * T, draw.size(5, 6, 7)])
    batches = [(_turn(idx), _turn(targets)) for idx, targets in batches]
    tried = "one update of 2 micro-batches whose tokens lie column by column"
    run.step(batches, tried)
    run.plain.update(batches, LR)
    run.expect_alike(tried)
    left = run.trainer.probe(PROBE + "largest_gradient")
    if left:
        raise Wrong(
            "TRAIN-GRAD-LEFT",
            "a gradient is left after the update",
            tried=tried,
            expected="none: p.grad is None or 0 for every parameter",
            got=f"numbers up to {number(left)}",
            hides="4 bytes a parameter, through the validation and into whatever comes next.",
            look="the docstring: afterwards. At which end of train_step is it cleared?",
        )


def _turn(x: Tensor) -> Tensor:
    return x.T.contiguous().T


def resumed_counters(subject: Subject, draw: Draw) -> None:
    """The rate goes by `step` and the counters grow from where they are, as after a resume."""
    step, seen, warmup = draw.size(3, 2, 4), 1000, 8
    run = TwinRun(subject, draw, 1, warmup_steps=warmup)
    batches = make_batches(draw, [9])
    for name, value in (("step", step), ("tokens_seen", seen)):
        run.trainer.method("__setattr__", name, value)
    tried = f"step set to {step}, tokens_seen to {seen}, {warmup} steps of warmup; one update"
    found = run.step(batches, tried)
    now = run.counters()
    right = LR * (step + 1) / warmup
    if any(isinstance(count, Tensor) for count in now):
        raise Wrong(
            "TRAIN-TOKENS",
            "a counter has become a tensor",
            tried=tried,
            expected="step and tokens_seen as plain numbers",
            got=", ".join(type(count).__name__ for count in now),
            hides="it goes into the log and the checkpoint; on a GPU each look at it waits.",
            look="what is added to `self.tokens_seen`: `int(...)` reads a tensor.",
        )
    facts = dict(
        tried=tried,
        expected=f"lr {number(right)}, then step {step + 1}, tokens_seen {seen + 9}",
        got=f"lr {number(found['lr'])}, then {now[0]} and {now[1]}",
    )
    if now[0] != step + 1:
        raise Wrong(
            "TRAIN-STEPS", "step is another number", look="where `self.step` grows.", **facts
        )
    if abs(found["lr"] / right - 1) > 1e-6 or now != [step + 1, seen + 9]:
        raise Wrong(
            "TRAIN-OWN-COUNT",
            "the update does not go by the trainer's counters",
            fits="counters of its own.",
            hides="a run that is resumed would begin its warmup again.",
            look="`self.step`, `self.tokens_seen`.",
            **facts,
        )


def not_finite(subject: Subject, draw: Draw) -> None:
    """A loss or norm that is not finite comes back; in float16 such an update moves no weight."""
    batches = make_batches(draw, [B * T, draw.size(5, 6, 7)])
    count = sum(mistakes.count_targets(batches))
    run = TwinRun(subject, draw, 2)
    run.trainer.probe(PROBE + "spoil_first_gain")
    tried = "one update, NaN in the gain of a norm"
    _expect_told(_step_as_it_is(run, batches, tried), ("loss", "grad_norm"), tried)
    _expect_both_counted(run, count, tried)
    scale = 2.0**40
    run = TwinRun(subject, draw, 2, precision="fp16")
    run.trainer.probe(PROBE + "set_loss_scale", scale)
    tried = "one update in float16, the loss scaled by 2 ** 40: the gradients overflow"
    found = _step_as_it_is(run, batches, tried)
    if 0.9 < found["grad_norm"] / run.plain.gradient(batches)[1] < 1.1:  # float16 rounds
        raise mistakes.unscaled_loss(tried)
    _expect_told(found, ("grad_norm",), tried)
    now, next_scale = run.weights(), run.trainer.probe(PROBE + "loss_scale")
    if any(not torch.equal(now[n], w) for n, w in run.start.items()) or next_scale != scale / 2:
        raise Wrong(
            "TRAIN-OVERFLOW",
            "an overflow in float16 is not left to the scaler",
            tried=tried,
            expected="no weight moves, and the next scale is half of it",
            got="weights that moved" if next_scale == scale / 2 else f"scale {number(next_scale)}",
            look="`self.scaler`: unscale_, step and update, in every update.",
        )
    _expect_both_counted(run, count, tried)


def _step_as_it_is(run: TwinRun, batches: mistakes.Batches, tried: str) -> dict[str, float]:
    try:
        found = run.call_step(batches)
    except AnswerError as failure:
        raise Wrong(
            "TRAIN-RAISES",
            "a number that is not finite ends in an error",
            tried=tried,
            expected="the numbers, as they are: `fit` decides what becomes of the run",
            got=f"{type(failure.error).__name__}: {failure.error}"[:76],
            hides="in float16 the first update overflows as a rule, and the run would end there.",
            look="what looks at the loss or the norm; `error_if_nonfinite`.",
        ) from None
    return mistakes.read_three(found, tried)


def _expect_told(found: dict[str, float], keys: tuple[str, ...], tried: str) -> None:
    for key in keys:
        if math.isfinite(found[key]):
            raise Wrong(
                "TRAIN-HIDDEN",
                f"the {key} that is told looks like any other",
                tried=tried,
                expected=f"{key} nan or inf, as it is",
                got=f"{key} {number(found[key])}",
                hides="a run that has diverged trains on: `fit` ends it by these two numbers.",
                look="`nan_to_num`, comparisons with NaN (always False), a gradient thrown away.",
            )


def _expect_both_counted(run: TwinRun, count: int, tried: str) -> None:
    now = run.counters()
    if now != [1, count]:
        raise Wrong(
            "TRAIN-SKIPPED",
            "an update that is not finite is not counted",
            tried=tried,
            expected=f"step 1, tokens_seen {count}",
            got=f"step {now[0]}, tokens_seen {now[1]}",
            fits="a `return` before the counters.",
            hides="the loader has moved on: a run that is resumed reads other tokens.",
            look="where `self.step` and `self.tokens_seen` grow.",
        )


def three_groups(subject: Subject, draw: Draw) -> None:
    """The rate goes into every group: Muon has three of them."""
    run = TwinRun(subject, draw, 1, optimizer="muon", warmup_steps=5)
    tried = "one update with Muon, whose optimizer has three groups"
    told = run.step(make_batches(draw, [B * T]), tried)["lr"]
    held = [group["lr"] for group in run.trainer.method("optimizer_groups")]
    if any(abs(lr / told - 1) > 1e-6 for lr in held):
        raise Wrong(
            "TRAIN-LR-GROUP",
            "one group keeps another rate",
            tried=tried,
            expected=f"the returned lr, {number(told)}, in every group",
            got=f"the groups hold {vector(held)}",
            fits="groups that are named by number.",
            look="a loop over `param_groups`.",
        )
