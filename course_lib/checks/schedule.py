"""Checks of lesson 10: DistributedTrainer.get_lr.

Oracle: `rate`, the schedule written once more with a squared cosine, which bends where told to.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch

from course_lib.checks.expect import Pattern
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.schedule_edges import edges, new_settings, nothing_else, own_settings, sizes
from course_lib.checks.schedule_rates import (
    TOLERANCE,
    ask_rates,
    build_trainer,
    describe_config,
    make_config,
    rate,
)
from course_lib.checks.subject import Module, Subject
from course_lib.checks.suite import DYNAMO, Draw, Suite
from course_lib.training.train_config import TrainConfig


def _compare(
    trainer: Module,
    steps: Sequence[int],
    c: TrainConfig,
    patterns: Sequence[tuple],
    *,
    finding: str,
    look: str,
) -> None:
    """All rates within the tolerance; else the first pattern that fits them all, or OTHER."""
    out = ask_rates(trainer, steps, c)

    def fits(wanted: Callable[[int], float]) -> bool:
        other = torch.tensor([wanted(s) for s in steps], dtype=torch.float64)
        return torch.allclose(out, other, rtol=0, atol=TOLERANCE * c.lr)

    if fits(right := partial(rate, c=c)):
        return
    facts = dict(
        tried=f"updates {', '.join(map(str, steps))}; {describe_config(c)}",
        expected=vector([*map(right, steps)]),
        got=vector(out),
    )
    for wanted, pattern in patterns:
        if fits(wanted):
            raise Wrong(
                pattern.code,
                pattern.finding,
                fits=pattern.fits,
                look=pattern.look,
                hides=pattern.hides,
                preset=pattern.preset,
                **facts,
            )
    raise Wrong("OTHER", finding, look=look, **facts)


def _rate_pattern(
    code: str, finding: str, fits: str, look: str, *, hides: str = "", preset: str = ""
):
    return Pattern(
        code=code, value=0.0, finding=finding, fits=fits, look=look, hides=hides, preset=preset
    )


def first_update(subject: Subject, draw: Draw) -> None:
    """It runs, and update 0 has a rate above zero."""
    c = make_config(draw)
    (found,) = ask_rates(build_trainer(subject, c), [0], c).tolist()
    if found == 0:
        raise Wrong(
            "LR-FIRST-ZERO",
            "the first update has a rate of zero",
            tried=f"get_lr(0), {describe_config(c)}",
            expected=number(rate(0, c)),
            got="0",
            fits="lr * step / warmup_steps.",
            preset="schedule:zero-first",
            hides="a whole batch is read, and no weight moves.",
            look="the numerator of the warmup: steps are counted from 0.",
        )
    if found < 0:
        raise Wrong(
            "OTHER",
            "the first update has a negative rate",
            tried=f"get_lr(0), {describe_config(c)}",
            expected=number(rate(0, c)),
            got=number(found),
            look="the warmup.",
        )


def step_alone(subject: Subject, draw: Draw) -> None:
    """A trainer that begins in the middle, as after a resume, takes the rate of that step."""
    c = make_config(draw)
    middle = c.warmup_steps + (c.max_steps - c.warmup_steps) // 4
    steps = [0, 1, c.warmup_steps, middle]
    whole = ask_rates(build_trainer(subject, c), steps, c)
    resumed = build_trainer(subject, c)
    first, again, start = ask_rates(resumed, [middle, middle, 0], c)
    if abs(first - whole[3]) <= TOLERANCE * c.lr:
        if abs(again - first) <= TOLERANCE * c.lr and abs(start - whole[0]) <= TOLERANCE * c.lr:
            return
    facts = dict(
        tried=f"a run from update 0, and one resumed at update {middle}",
        hides="a run that was interrupted would not be the run that was not.",
    )
    if abs(first - whole[0]) <= TOLERANCE * c.lr:
        raise Wrong(
            "LR-RESUME",
            "a resumed run begins the schedule again",
            **facts,
            expected=f"update {middle}: {number(whole[3])} in both",
            got=f"{number(whole[3])} in one, {number(first)} after the resume",
            fits="steps counted from the first call.",
            preset="schedule:restart",
            look="what get_lr keeps on `self`.",
        )
    raise Wrong(
        "LR-STATE",
        "the same step has two rates",
        **facts,
        expected=f"update {middle}: one rate, whatever was asked before",
        got=vector([float(x) for x in (whole[3], first, again)]),
        fits="a count of calls in place of `step`.",
        look="what get_lr keeps on `self`.",
    )


def warmup(subject: Subject, draw: Draw) -> None:
    """Updates 0 to W - 1 take 1/W, 2/W, ... of lr; the last of them takes lr."""
    c = make_config(draw)
    W, N = c.warmup_steps, c.max_steps
    late = "the warmup is one update late"
    from_min = _rate_pattern(
        "LR-WARMUP-FROM-MIN",
        "the warmup does not begin near zero",
        "a climb that begins at min_lr.",
        "min_lr belongs to the end of the run.",
    )
    none = _rate_pattern(
        "LR-NO-WARMUP",
        "there is no warmup",
        "lr, or the cosine, from update 0 on.",
        "the condition on warmup_steps.",
    )
    _compare(
        build_trainer(subject, c),
        [0, 1, W // 2, W - 2, W - 1],
        c,
        [
            (
                lambda s: rate(0, c),
                _rate_pattern(
                    "LR-SELF-STEP",
                    "all updates have one rate",
                    "the rate of update 0, for every step.",
                    "`step` against `self.step`: the argument is asked about.",
                ),
            ),
            (lambda s: c.lr, none),
            (lambda s: c.min_lr + (c.lr - c.min_lr) * math.cos(math.pi / 2 * s / N) ** 2, none),
            (lambda s: c.lr * math.cos(math.pi / 2 * s / N) ** 2, none),
            (
                lambda s: c.lr * max(s, 1) / W,
                _rate_pattern(
                    "LR-WARMUP-LATE",
                    late,
                    "lr * step / warmup_steps, with 1 for update 0.",
                    "steps are counted from 0.",
                ),
            ),
            (
                lambda s: c.lr * (s + 1) / (W + 1),
                _rate_pattern(
                    "LR-WARMUP-LATE",
                    late,
                    "lr * (step + 1) / (warmup_steps + 1).",
                    "update warmup_steps - 1 takes lr itself.",
                ),
            ),
            (lambda s: c.min_lr + (c.lr - c.min_lr) * (s + 1) / W, from_min),
            (lambda s: c.min_lr + (c.lr - c.min_lr) * s / W, from_min),
            (
                lambda s: (s + 1) / W,
                _rate_pattern(
                    "LR-FACTOR",
                    "the rate is a factor, not a rate",
                    "(step + 1) / warmup_steps alone.",
                    "torch's LambdaLR wants a factor of lr; here the rate itself is wanted.",
                ),
            ),
            (
                lambda s: rate(4 * s, c),
                _rate_pattern(
                    "LR-MICRO-STEPS",
                    "the warmup is too short",
                    "four steps counted as one.",
                    "what `step` counts: updates.",
                ),
            ),
        ],
        finding="the warmup differs",
        look="the first `warmup_steps` updates, one by one.",
    )


def cosine(subject: Subject, draw: Draw) -> None:
    """From lr at update W, over the quarters of half a cosine, toward min_lr."""
    c = make_config(draw)
    W, N, span = c.warmup_steps, c.max_steps, c.max_steps - c.warmup_steps
    at = lambda f: lambda s: f((s - W) / span)  # noqa: E731  a function of the part that is done
    cos2 = lambda x: math.cos(math.pi / 2 * x) ** 2  # noqa: E731
    length = "the cosine has another length"
    off = "the cosine is off by one update"
    swing = c.lr - c.min_lr
    _compare(
        build_trainer(subject, c),
        [W, W + span // 4, W + span // 2, W + span * 3 // 4, N - 1],
        c,
        [
            (
                partial(rate, c=c, low=0),
                _rate_pattern(
                    "LR-ENDS-AT-ZERO",
                    "the cosine ends at 0 instead of min_lr",
                    "a cosine from lr to 0.",
                    "where min_lr stands in the formula.",
                    preset="schedule:to-zero",
                ),
            ),
            (
                lambda s: max(c.min_lr, rate(s, c, low=0)),
                _rate_pattern(
                    "LR-FLOOR",
                    "the cosine is cut off at min_lr",
                    "a cosine to 0, and the larger of it and min_lr.",
                    "the swing of the cosine: from lr down to min_lr.",
                ),
            ),
            (
                at(lambda x: c.min_lr + c.lr * cos2(x)),
                _rate_pattern(
                    "LR-SWING",
                    "the cosine begins above lr",
                    "min_lr plus a cosine as high as lr.",
                    "the height of the swing: lr - min_lr.",
                ),
            ),
            (
                partial(rate, c=c, begin=0, length=N),
                _rate_pattern(
                    "LR-COSINE-START",
                    "the cosine begins before the warmup ends",
                    "step / max_steps.",
                    "the part that is done is 0 at update warmup_steps.",
                ),
            ),
            (
                partial(rate, c=c, begin=0),
                _rate_pattern(
                    "LR-COSINE-START",
                    "the cosine begins before the warmup ends",
                    "step / (max_steps - warmup_steps).",
                    "the numerator, at update warmup_steps.",
                ),
            ),
            (
                partial(rate, c=c, length=N),
                _rate_pattern(
                    "LR-COSINE-LENGTH",
                    length,
                    "(step - warmup_steps) / max_steps.",
                    "the part that is done is 1 at max_steps.",
                ),
            ),
            (
                partial(rate, c=c, turn=math.pi),
                _rate_pattern(
                    "LR-WHOLE-COSINE",
                    "the cosine goes down and up again",
                    "a whole turn, 2 pi.",
                    "the angle at max_steps.",
                ),
            ),
            (
                partial(rate, c=c, turn=0.5),
                _rate_pattern(
                    "LR-ANGLE",
                    "the cosine hardly falls",
                    "an angle that ends at 1, not at pi.",
                    "`math.cos` takes radians.",
                ),
            ),
            (
                partial(rate, c=c, turn=90),
                _rate_pattern(
                    "LR-ANGLE",
                    "the cosine jumps about",
                    "an angle in degrees.",
                    "`math.cos` takes radians.",
                ),
            ),
            (
                at(lambda x: c.min_lr + 2 * swing * cos2(x)),
                _rate_pattern(
                    "LR-NO-HALF",
                    "the cosine is twice as high",
                    "1 + cos without the half.",
                    "1 + cos runs from 2 to 0.",
                ),
            ),
            (
                at(lambda x: c.min_lr + swing * math.cos(math.pi * x)),
                _rate_pattern(
                    "LR-NO-ONE",
                    "the cosine falls below min_lr",
                    "cos alone, which runs from 1 to -1.",
                    "what is added to the cosine.",
                ),
            ),
            (
                at(lambda x: c.min_lr + swing * (1 - cos2(x))),
                _rate_pattern(
                    "LR-UP",
                    "the rate climbs where it should fall",
                    "1 - cos.",
                    "the sign of the cosine.",
                ),
            ),
            (
                at(lambda x: c.min_lr + swing * (1 - x)),
                _rate_pattern(
                    "LR-LINEAR",
                    "the rate falls in a straight line",
                    "a linear decay.",
                    "`math.cos`.",
                ),
            ),
            (
                lambda s: c.lr,
                _rate_pattern(
                    "LR-CONSTANT", "the rate stays at lr", "no decay.", "what follows the warmup."
                ),
            ),
            (
                lambda s: rate(s + 1, c),
                _rate_pattern(
                    "LR-OFF-BY-ONE",
                    off,
                    "one update early.",
                    "the part that is done is 0 at update warmup_steps.",
                ),
            ),
            (
                partial(rate, c=c, length=span - 1),
                _rate_pattern(
                    "LR-OFF-BY-ONE", off, "min_lr at max_steps - 1.", "the length of the cosine."
                ),
            ),
            (
                partial(rate, c=c, begin=W - 1, length=span + 1),
                _rate_pattern(
                    "LR-OFF-BY-ONE",
                    off,
                    "a cosine that begins at warmup_steps - 1.",
                    "the part that is done is 0 at update warmup_steps.",
                ),
            ),
        ],
        finding="the cosine differs",
        look="the part that is done: 0 at warmup_steps, 1 at max_steps.",
    )


def after_the_end(subject: Subject, draw: Draw) -> None:
    """At max_steps and after it the rate is min_lr."""
    c = make_config(draw)
    N, span = c.max_steps, c.max_steps - c.warmup_steps
    _compare(
        build_trainer(subject, c),
        [N, N + 1, N + span // 2, N + span, 10 * N],
        c,
        [
            (
                partial(rate, c=c, clamp=False),
                _rate_pattern(
                    "LR-CLIMBS-BACK",
                    "after max_steps the rate climbs again",
                    "a cosine that goes on: back at lr after as long again.",
                    "where the part that is done is kept at 1 or below.",
                    preset="schedule:climbs",
                    hides="a run that is made longer, or resumed at its end, is shaken up.",
                ),
            ),
            (
                lambda s: 0.0,
                _rate_pattern(
                    "LR-AFTER-ZERO",
                    "after max_steps the rate is 0",
                    "0 after the end.",
                    "what the docstring says of max_steps and after.",
                ),
            ),
            (
                lambda s: c.min_lr if s > N else c.lr,
                _rate_pattern(
                    "LR-AFTER-LR",
                    "at max_steps the rate is lr",
                    "a part that is done of 0.",
                    "`%` or a guard that begins again.",
                ),
            ),
        ],
        finding="the rate after max_steps is not min_lr",
        look="steps of max_steps and more.",
    )


def updates_count(subject: Subject, draw: Draw) -> None:
    """Accumulation changes how many micro-batches an update takes, not the number of updates."""
    c = make_config(draw, grad_accumulation=4)
    W, N, span = c.warmup_steps, c.max_steps, c.max_steps - c.warmup_steps
    named = partial(
        _rate_pattern,
        "LR-MICRO-STEPS",
        look="what `step` counts: updates.",
        preset="schedule:micro-steps",
    )
    fast = named("the schedule runs four times too fast", "steps multiplied by grad_accumulation.")
    slow = named("the schedule runs four times too slowly", "steps divided by grad_accumulation.")
    _compare(
        build_trainer(subject, c),
        [1, W - 1, W + span // 2, N - 1, N],
        c,
        [
            (lambda s: rate(4 * s, c), fast),
            (lambda s: rate(4 * s + 3, c), fast),
            (lambda s: rate(s // 4, c), slow),
            (lambda s: rate(s / 4, c), slow),
            (partial(rate, c=replace(c, max_steps=4 * N)), slow),
            (partial(rate, c=replace(c, max_steps=N // 4)), fast),
        ],
        finding="with grad_accumulation = 4 the schedule is another one",
        look="`grad_accumulation`: does the number of updates depend on it?",
    )


SUITES = (
    Suite(
        "get-lr",
        (
            first_update,
            step_alone,
            warmup,
            cosine,
            after_the_end,
            updates_count,
            own_settings,
            edges,
            sizes,
            nothing_else,
            new_settings,
        ),
        tested="the rate climbs to lr, falls along half a cosine to min_lr and stays there; "
        "the same step has the same rate, whatever was asked before.",
        remember="the first update has a rate, and steps are updates, not micro-batches.",
        next_step="plot the rates of 3 * max_steps updates: the last two thirds should be flat.",
        loads=(DYNAMO,),
    ),
)
