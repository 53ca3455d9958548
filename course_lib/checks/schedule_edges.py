"""Checks of lesson 10, the rare cases: runs of other lengths and rates, trainers in another state.

Part of the suite of schedule.py.
"""

from dataclasses import replace

import numpy as np
import torch

from course_lib.checks.report import Wrong, vector
from course_lib.checks.schedule_rates import (
    TOLERANCE,
    ask_rates,
    build_trainer,
    describe_config,
    make_config,
    rate,
)
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw
from course_lib.training.train_config import TrainConfig

PROBES = "course_lib.probes.trainer"


def own_settings(subject: Subject, draw: Draw) -> None:
    """Two trainers side by side: each follows its own config."""
    one = make_config(draw)
    two = replace(one, lr=2 * one.lr, min_lr=3 * one.min_lr)
    trainers = [(build_trainer(subject, c), c) for c in (one, two)]
    middle = one.warmup_steps + (one.max_steps - one.warmup_steps) // 4
    for step in (1, middle, one.max_steps + 3):
        found = [ask_rates(trainer, [step], c).item() for trainer, c in trainers]
        right = [c.min_lr if step >= c.max_steps else rate(step, c) for _, c in trainers]
        if not np.allclose(found, right, rtol=0, atol=TOLERANCE * two.lr):
            raise Wrong(
                "LR-SHARED",
                "a second trainer has the rates of the first"
                if abs(found[1] - right[0]) <= TOLERANCE * two.lr
                else "two trainers side by side have other rates",
                tried=f"update {step}; {describe_config(one)},\nthen {describe_config(two)}",
                expected=vector(right),
                got=vector(found),
                look="what outlives a call: a cache, a name of the class or of the module.",
            )


def edges(subject: Subject, draw: Draw) -> None:
    """No warmup, and a warmup as long as the run or longer."""
    plain = make_config(draw, warmup_steps=0, max_steps=8)
    _edge(
        subject,
        plain,
        [0, 4, 8],
        "LR-ZERO-WARMUP",
        "a run without warmup",
        "warmup_steps = 0: update 0 takes lr, and nothing is divided by 0.",
    )
    _edge(
        subject,
        make_config(draw, min_lr=0.0, warmup_steps=2, max_steps=8),
        [1, 5, 8, 9],
        "LR-ZERO-MIN",
        "a run down to 0",
        "min_lr = 0 is a number like any other.",
    )
    for W in (8, 11):
        _edge(
            subject,
            make_config(draw, warmup_steps=W, max_steps=8),
            [0, 7, 8, 20],
            "LR-ALL-WARMUP",
            f"{'the end of ' * (W == 8)}a run that is all warmup",
            "which comes first at step max_steps: the warmup or the end?",
        )


def sizes(subject: Subject, draw: Draw) -> None:
    """Large rates and tiny ones, one update of warmup or of cosine, and rates that are all one."""
    for changes, what in (
        (dict(lr=8.0, min_lr=2.0, warmup_steps=2, max_steps=8), "a run with large rates"),
        (dict(lr=3e-8, min_lr=1e-9, warmup_steps=2, max_steps=8), "a run with tiny rates"),
        (dict(warmup_steps=1, max_steps=8), "a run with one update of warmup"),
        (dict(warmup_steps=7, max_steps=8), "a run with one update of cosine"),
        (dict(warmup_steps=0, max_steps=1), "a run of one update"),
        (dict(lr=1e-3, min_lr=1e-3, warmup_steps=2, max_steps=8), "a run that stays at lr"),
    ):
        c = make_config(draw, **changes)
        steps = sorted({0, 1, 5, c.max_steps - 1, c.max_steps, c.max_steps + 1})
        look = "a number in the formula that is no setting, and what holds for one update alone."
        _edge(subject, c, steps, "LR-SIZES", what, look)


def nothing_else(subject: Subject, draw: Draw) -> None:
    """What the trainer has done so far has no say: its own step, its tokens, the optimizer's rate."""
    c = make_config(draw)
    W, span = c.warmup_steps, c.max_steps - c.warmup_steps
    steps = [1, W - 1, W + span // 4, W + span * 3 // 4, c.max_steps + 2]
    wanted = torch.tensor([rate(step, c) for step in steps], dtype=torch.float64)
    for own in (W + span // 2, c.max_steps):
        found = build_trainer(subject, c).probe(f"{PROBES}:ask_rates_later", own, steps)
        out = torch.tensor(found, dtype=torch.float64)
        if torch.allclose(out, wanted, rtol=0, atol=TOLERANCE * c.lr):
            continue
        raise Wrong(
            "LR-OTHER-STATE",
            "the rate depends on more than `step` and the settings",
            tried=f"updates {', '.join(map(str, steps))} of a trainer whose own step is {own};\n"
            f"{describe_config(c)}",
            expected=vector(wanted),
            got=vector(out),
            fits="`self.step`, or the rate that the optimizer has now.",
            look="each `self.`: only `self.config` counts.",
        )


def new_settings(subject: Subject, draw: Draw) -> None:
    """A trainer whose config is replaced follows the new one, and the old one where it is back."""
    one = make_config(draw)
    configs = [
        one,
        replace(one, lr=2 * one.lr, min_lr=3 * one.min_lr),
        replace(one, warmup_steps=one.warmup_steps + 3, max_steps=one.max_steps + 20),
        one,
    ]
    middle = one.warmup_steps + (one.max_steps - one.warmup_steps) // 4
    steps = [1, middle, one.max_steps - 1, one.max_steps + 30]
    rates = build_trainer(subject, one).probe(f"{PROBES}:ask_rates_of", configs, steps)
    for i, (c, found) in enumerate(zip(configs, rates, strict=True)):
        wanted = [rate(step, c) for step in steps]
        if not np.allclose(found, wanted, rtol=0, atol=TOLERANCE * c.lr):
            raise Wrong(
                "LR-OTHER-STATE",
                "the rates are not those of the config that the trainer has now",
                tried=f"updates {', '.join(map(str, steps))} after `trainer.config` became\n"
                f"{describe_config(c)};\nbefore: {describe_config(configs[max(i - 1, 0)])}",
                expected=vector(wanted),
                got=vector(found),
                fits="rates or settings kept from an earlier call.",
                look="what is stored on `self`: `self.config` is asked anew each time.",
            )


def _edge(subject: Subject, c: TrainConfig, steps, code: str, what: str, look: str) -> None:
    expected = [c.min_lr if s >= c.max_steps else rate(s, c) for s in steps]
    facts = dict(
        tried=f"updates {', '.join(map(str, steps))}; {describe_config(c)}",
        expected=vector(expected),
        look=look,
    )
    try:
        out = ask_rates(build_trainer(subject, c), steps, c)
    except AnswerError as failure:
        if not isinstance(failure.error, ZeroDivisionError):
            raise
        raise Wrong(
            code, f"{what} fails", got=f"ZeroDivisionError: {failure.error}", **facts
        ) from None
    if not np.allclose(out, expected, rtol=0, atol=TOLERANCE * c.lr):
        raise Wrong(code, f"{what} has other rates", got=vector(out), **facts)
