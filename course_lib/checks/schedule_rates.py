"""The schedule of lesson 10 as its checks ask about it: settings, an oracle, an answer's rates.

What it leaves out: the checks (schedule.py and schedule_edges.py).
"""

import math
from collections.abc import Sequence

import numpy as np
import torch

from course_lib.checks import expect
from course_lib.checks.report import Wrong, as_float, number
from course_lib.checks.subject import Module, Subject
from course_lib.checks.suite import Draw
from course_lib.training.train_config import TrainConfig

VOCAB = 11
TOLERANCE = 1e-6
"""Of the highest rate: float32 on the way is right too, and no pattern comes nearer than 1e-4."""


def make_config(draw: Draw, **changes) -> TrainConfig:
    """Settings with `changes`: 10 updates of warmup and 100 of cosine for seed 0; the
    cosine can always be quartered."""
    which = draw.size(0, 1, 2)
    lr, min_lr = ((1e-3, 1e-4), (6e-4, 9e-5), (2e-3, 3e-4))[which]
    warmup, cosine = ((10, 100), (8, 80), (15, 120))[which]
    shape = dict(model_size="tiny", seq_len=4, batch_size=1, precision="fp32", device="cpu")
    times = dict(lr=lr, min_lr=min_lr, warmup_steps=warmup, max_steps=warmup + cosine)
    return TrainConfig(**(shape | times | changes))


def build_trainer(subject: Subject, config: TrainConfig) -> Module:
    """A trainer of the answer's class with these settings."""
    return subject.module(config, np.arange(VOCAB, dtype=np.uint16), vocab_size=VOCAB)


def rate(
    step: float,
    c: TrainConfig,
    *,
    low: float | None = None,
    turn: float = math.pi / 2,
    begin: int | None = None,
    length: float | None = None,
    clamp: bool = True,
) -> float:
    """The rate of update `step`; the options bend one thing each, as wrong answers do."""
    low = c.min_lr if low is None else low
    if step < c.warmup_steps:
        return c.lr * (step + 1) / c.warmup_steps
    if clamp and step >= c.max_steps:
        return low
    begin = c.warmup_steps if begin is None else begin
    done = (step - begin) / (length or c.max_steps - c.warmup_steps)
    return low + (c.lr - low) * math.cos(turn * done) ** 2


def ask_rates(trainer: Module, steps: Sequence[int], c: TrainConfig) -> torch.Tensor:
    """What get_lr says for each step, as float64; `Wrong` for what is no number."""
    found = []
    for step in steps:
        out, tried = trainer.method("get_lr", step), f"get_lr({step}), {describe_config(c)}"
        if out is None:
            raise Wrong(
                "NONE",
                "the answer returned None",
                tried=tried,
                expected="a float",
                got="None",
                look="is there a `return` on every way through?",
            )
        if isinstance(out, bool) or not isinstance(out, (int, float)):
            raise Wrong(
                "TYPE",
                f"the answer returned a {type(out).__name__}",
                tried=tried,
                expected="a float",
                got=f"{type(out).__name__}: {out}"[:60],
                look="what stands after `return`; `.item()` makes a tensor a float.",
            )
        expect.not_finite(torch.tensor(as_float(out)), tried=tried)
        found.append(float(out))
    return torch.tensor(found, dtype=torch.float64)


def describe_config(c: TrainConfig) -> str:
    """The four settings that count, in words."""
    return (
        f"lr {number(c.lr)}, min_lr {number(c.min_lr)}, {c.warmup_steps} warmup, {c.max_steps} max"
    )
