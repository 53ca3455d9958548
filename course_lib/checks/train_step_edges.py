"""Checks of train_step beside its numbers: what is left in `p.grad`, and whose state it goes by.

Oracle: the contract; `TwinRun` for the weights.
"""

from torch import Tensor

from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import Subject
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
    now = [run.trainer.method("__getattribute__", name) for name in ("step", "tokens_seen")]
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
