"""The answer's trainer beside plain torch, for the checks of train_step.py and train_step_edges.py."""

import functools
import math

import numpy as np
import torch
from torch import Tensor

from course_lib.checks import train_step_mistakes as mistakes
from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError, Module, Subject
from course_lib.checks.suite import Draw
from course_lib.checks.train_step_mistakes import LR, MOVED_ALIKE, Batches, Plain
from course_lib.training.train_config import TrainConfig

V, B, T = 37, 2, 8


class TwinRun:
    """The answer's trainer beside plain torch with the same weights; no limit is ever reached and
    the rate is always LR, unless `changes` say otherwise."""

    def __init__(self, subject: Subject, draw: Draw, parts: int, **changes):
        base = dict(
            model_size="tiny",
            seq_len=T,
            batch_size=B,
            precision="fp32",
            device="cpu",
            lr=LR,
            min_lr=LR,
            warmup_steps=0,
            max_steps=50,
            grad_clip=1e6,
            grad_accumulation=parts,
            seed=draw.seed + 1,
        )
        self.config = TrainConfig(**(base | changes))
        text = np.arange(64, dtype=np.uint16) % V  # for its loader, which no check uses
        self.trainer: Module = subject.module(self.config, text, vocab_size=V)
        self.start = self.weights()

    @functools.cached_property
    def plain(self) -> Plain:
        """Plain torch, to be led along the same updates."""
        return self.fresh_twin()

    def fresh_twin(self) -> Plain:
        """Plain torch with the weights before the first update."""
        return Plain(self.config, self.start, V)

    def weights(self) -> dict[str, Tensor]:
        """The answer's weights by name."""
        return self.trainer.method("weights")

    def call_step(self, batches: Batches) -> object:
        """What train_step returns for copies of these micro-batches."""
        return self.trainer.method("train_step", [(i.clone(), t.clone()) for i, t in batches])

    def counters(self) -> list:
        """The trainer's `step` and `tokens_seen`."""
        names = ("step", "tokens_seen")
        return [self.trainer.method("__getattribute__", name) for name in names]

    def step(self, batches: Batches, tried: str) -> dict[str, float]:
        """What train_step returns, as three finite floats by name, else `Wrong`."""
        try:
            found = self.call_step(batches)
        except AnswerError as failure:
            raise mistakes.put_together(failure, tried) or failure from None
        found = mistakes.read_three(found, tried)
        if not all(map(math.isfinite, found.values())):
            raise _not_finite(found, batches, tried)
        return found

    def replay(self, steps: list[Batches], rates: list[float] | None = None, **how) -> Plain:
        """Plain torch after those updates, made in that way."""
        plain = self.fresh_twin()
        for batches, lr in zip(steps, rates or [LR] * len(steps), strict=False):
            plain.update(batches, lr, **how)
        return plain

    def has_moved(self) -> bool:
        """Whether the gains moved, which only a gradient moves: no decay touches them."""
        now = self.weights()
        return any(not torch.equal(now[n], w) for n, w in self.start.items() if w.dim() < 2)

    def expect_alike(self, tried: str, others=()) -> None:
        """The weights went where plain torch's did. `others`: (fields of Wrong, other Plain)."""
        now = self.weights()
        off = mistakes.distance(now, self.plain.weights(), self.start)
        if off <= MOVED_ALIKE:
            return
        facts = dict(
            tried=tried,
            expected="weights as after the same update by plain torch",
            got=f"they are elsewhere: off by {off:.0%} of the way from the start",
        )
        for fields, other in others:
            if mistakes.distance(now, other().weights(), self.start) <= MOVED_ALIKE:
                raise Wrong(**(facts | fields))
        raise Wrong(
            "OTHER",
            "the weights went elsewhere",
            **facts,
            look="the order: rates, gradient, clipping, step, clearing.",
        )


def make_batches(draw: Draw, counts: list[int], lengths: tuple[int, ...] = ()) -> Batches:
    """Micro-batches of (B, length) random tokens, of whose targets that many count."""
    made = []
    for count, length in zip(counts, lengths or [T] * len(counts), strict=True):
        idx, targets = (draw.randint(0, V, (B, length)) for _ in range(2))
        targets.view(-1)[count:] = -100
        made.append((idx, targets))
    return made


def _not_finite(found: dict, batches: Batches, tried: str) -> Wrong:
    key = next(key for key in mistakes.KEYS if not math.isfinite(found[key]))
    facts = dict(tried=tried, expected="three finite numbers", got=f"{key} {found[key]}")
    if 0 in mistakes.count_targets(batches):
        return Wrong(
            "TRAIN-EMPTY",
            "a micro-batch without counted targets spoils the update",
            fits="the mean of nothing is nan, and nan times a share of 0 is nan.",
            look="what computes the loss: `self.mean_loss` gives 0 there.",
            preset="accumulation:empty",
            **facts,
        )
    return Wrong(
        "NAN",
        "a result is NaN or infinite",
        **facts,
        look="divisions, and the limit of the clipping.",
    )
