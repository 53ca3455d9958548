"""Small sharded runs on ranks of this machine, for the tests of the FSDP trainer."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch._dynamo  # fully_shard asks for it: here once, and not in every rank that is forked
import torch.profiler

from course_lib.checkpoints.saved_state import flatten
from course_lib.ranks import local_ranks
from course_lib.ranks.world import World
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.fsdp_config import FSDPConfig
from course_lib.training.fsdp_trainer import FSDPTrainer, full_tensor

V = 97
TOKENS = np.random.default_rng(0).integers(0, V, 4000).astype(np.uint16)
TOKENS[1::2] = (TOKENS[0::2] * 3 + 1) % V  # every second token follows from the one before
GLOBAL_BATCH = 12  # for 1, 2, 3 and 4 ranks

# Between two runs of the same sums in another order. A float32 sum is off by some units of 6e-8; each
# update adds to that, and AdamW's first ones move every weight by about lr whatever its gradient, so
# that a gradient near 0 can turn a step around. Six updates were seen to differ by up to 2e-6.
REL = 2e-5


def settings(out="unused", **changes) -> FSDPConfig:
    return FSDPConfig(
        **(
            dict(
                model_size="tiny",
                seq_len=16,
                batch_size=1,
                max_steps=30,
                precision="fp32",
                global_batch=GLOBAL_BATCH,
                warmup_steps=3,
                out=str(out),
                device="cpu",
                sample_tokens=0,
            )
            | changes
        )
    )


def make(config: FSDPConfig, kind=FSDPTrainer, **changes) -> DistributedTrainer:
    """A trainer on this rank, with micro-batches as large as the ranks allow."""
    world = World.of_group()
    rows = GLOBAL_BATCH // world.world_size // changes.pop("accumulation", 1)
    return kind(
        dataclasses.replace(config, batch_size=rows, **changes),
        TOKENS,
        vocab_size=V,
        valid_tokens=TOKENS,
        world=world,
    )


def steps(trainer: DistributedTrainer, count: int) -> list[dict[str, float]]:
    """What the next `count` updates report, as numbers."""
    return [read(trainer.train_step(trainer.next_batches())) for _ in range(count)]


def read(row: dict) -> dict[str, float]:
    """The numbers that an update returns, waited for."""
    return {name: float(value) for name, value in row.items()}


def single(batch_size: int = GLOBAL_BATCH, **changes) -> DistributedTrainer:
    """The plain trainer of this process, without a group and without shards."""
    config = settings(batch_size=batch_size, **changes)
    return DistributedTrainer(config, TOKENS, vocab_size=V, valid_tokens=TOKENS)


def on_ranks(count: int, function: Callable, *args, seconds: float = 60) -> list[local_ranks.Rank]:
    """`function(*args)` on each of `count` ranks."""
    return local_ranks.run(function, [args] * count, seconds=seconds)


def values(ranks: Sequence[local_ranks.Rank]) -> list:
    return [rank.value for rank in ranks]


def state_of(trainer: DistributedTrainer) -> dict[str, torch.Tensor]:
    """Weights and optimizer state, whole, by name. All ranks must call it."""
    names = [name for group in trainer.optimizer_groups() for name in group["names"]]
    kept = trainer.optimizer.state_dict()["state"]  # empty before the first update
    state = {names[number]: moments for number, moments in kept.items()}
    parts = dict(trainer.plain_model.named_parameters()) | flatten(state)
    return {name: full_tensor(t).cpu().clone() for name, t in parts.items()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    """Equal to the bit, names included."""
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)
