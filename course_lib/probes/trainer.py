"""A trainer of one small model on every rank: what its updates do, told in plain values.

What it is: probes for `local_ranks.run`, with which checks look at a learner's `DistributedTrainer`.
What it leaves out: what is right, which course_lib.checks says, and sharded trainers
(fsdp_checkpoint.py).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_lib.gpt import GPTConfig
from course_lib.ranks.traffic import Traffic
from course_lib.ranks.world import World
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.train_config import TrainConfig

V, T = 37, 8
"""Vocabulary of the runs, tokens in a sequence of theirs."""
TEXT = (np.arange(600) ** 2 % V).astype(np.uint16)
Batches = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True, kw_only=True)
class SmallConfig(TrainConfig):
    """Settings of a model of one small block, whatever its preset is called."""

    def model_config(self, vocab_size: int) -> GPTConfig:
        return GPTConfig(
            vocab_size=vocab_size, num_layers=1, num_heads=2, d_model=16, d_hidden=44, max_seq_len=T
        )


def small_config(**changes) -> SmallConfig:
    """Settings in float32 on the CPU, with `changes`."""
    settings = dict(model_size="tiny", seq_len=T, batch_size=2, precision="fp32", device="cpu")
    return SmallConfig(**(settings | changes))


def make(kind: type[DistributedTrainer], **changes) -> DistributedTrainer:
    """A trainer of that class on this rank, with `small_config(**changes)`."""
    return kind(small_config(**changes), TEXT, vocab_size=V, world=World.of_group("cpu"))


def updates(
    kind: type[DistributedTrainer], plan: list[Batches], refused: list[int], changes: dict
) -> dict[str, Any]:
    """`train_step` on this rank's micro-batches of each update; those in `refused` may raise.

    "start", the weights before; "graph", bytes that a forward pass of the very first micro-batch
    keeps for its backward pass; "updates", what `_update` says of each.
    """
    trainer = make(kind, **changes)
    start = trainer.weights()
    with _saved_bytes() as one:
        trainer.plain_model(*plan[0][0])
    found = [_update(trainer, batches, i in refused) for i, batches in enumerate(plan)]
    return {"start": start, "graph": one["peak"], "updates": found}


def _update(trainer: DistributedTrainer, batches: Batches, refused: bool) -> dict[str, Any]:
    """One update: "found", what came back; "error", [kind, whether it is a ValueError, text] or
    None; "seen", its collectives; "graphs", most bytes that waited for a backward pass at once;
    "kept", whether the batches are as before; then "rates", "step", "tokens", "weights"."""
    given = [(idx.clone(), targets.clone()) for idx, targets in batches]
    found, error = None, None
    with Traffic() as traffic, _saved_bytes() as graphs:
        try:
            found = trainer.train_step(given)
        except Exception as raised:
            if not refused or isinstance(raised, NotImplementedError):
                raise
            error = [type(raised).__name__, isinstance(raised, ValueError), str(raised)[:200]]
    kept = len(given) == len(batches) and all(
        torch.equal(old, new)
        for pair in zip(batches, given, strict=True)
        for old, new in zip(*pair, strict=True)
    )
    return {
        "found": found,
        "error": error,
        "seen": traffic.seen,
        "graphs": graphs["peak"],
        "kept": kept,
        "rates": [group["lr"] for group in trainer.optimizer.param_groups],
        "step": trainer.step,
        "tokens": trainer.tokens_seen,
        "weights": trainer.weights(),
    }


class _Kept:
    """A tensor that autograd keeps, counted for as long as it does."""

    def __init__(self, tensor: Tensor, counts: dict[str, int]):
        self.tensor, self.counts = tensor, counts
        counts["now"] += tensor.nbytes
        counts["peak"] = max(counts["peak"], counts["now"])

    def __del__(self):
        self.counts["now"] -= self.tensor.nbytes


@contextmanager
def _saved_bytes() -> Iterator[dict[str, int]]:
    """Bytes that wait for a backward pass: "now", and at the "peak"."""
    counts = {"now": 0, "peak": 0}
    pack = lambda tensor: _Kept(tensor, counts)  # noqa: E731
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept.tensor):
        yield counts
