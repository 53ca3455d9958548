"""What a sharded run can be told beside what every run is told.

What it is: the settings of `fsdp_trainer.py`, in one frozen dataclass on top of `TrainConfig`, and
sizes that a CPU can finish where none are given. What it leaves out: what the settings do.
"""

import dataclasses
import os
from dataclasses import dataclass
from typing import ClassVar

from course_lib.gpt import PRESETS
from course_lib.runs.ranges import COUNT, ZERO_OR_MORE, Allowed
from course_lib.training.train_config import RANGES, TrainConfig

STRATEGIES = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD")
KINDS = ("sharded", "full")

FSDP_RANGES = RANGES | {
    "optimizer": ("adamw",),
    "sharding": STRATEGIES,
    "shard_size": COUNT,
    "prefetch_units": ZERO_OR_MORE,
    "checkpoint": KINDS,
}
GPU_SIZES = {"batch_size": 8, "seq_len": None}
CPU_SIZES = {"batch_size": 2, "seq_len": 128}  # 50 steps of "medium" on two cores in minutes


@dataclass(frozen=True, kw_only=True)
class FSDPConfig(TrainConfig):
    """Train a GPT whose weights, gradients and optimizer state are sharded over the ranks.

    Sizes: a step is one update of the weights. It reads batch_size x grad_accumulation sequences of
    seq_len tokens on each rank. ValueError as for TrainConfig, for the optimizer muon, for a shard_size
    without HYBRID_SHARD, and for async_save of a full checkpoint.
    """

    ranges: ClassVar[Allowed] = FSDP_RANGES

    batch_size: int | None = None
    """Sequences in a micro-batch, per rank; none takes 8 on a GPU, 2 on a CPU."""
    seq_len: int | None = None
    """Tokens in a sequence; none takes the longest that the preset allows, on a CPU at most 128."""
    optimizer: str = "adamw"
    """adamw; muon needs whole matrices, so ddp_trainer has it and this trainer does not."""
    out: str = "runs/fsdp/{model_size}"
    """Folder of this run, as in TrainConfig."""
    sharding: str = "FULL_SHARD"
    """FULL_SHARD, SHARD_GRAD_OP (weights stay gathered from forward to backward), HYBRID_SHARD
    (sharded over shard_size ranks, replicated over the rest) or NO_SHARD (replicated)."""
    shard_size: int | None = None
    """Ranks that share one copy of the model under HYBRID_SHARD; none takes those of a machine."""
    prefetch_units: int = 0
    """Blocks whose weights are asked for ahead of the one that computes, each held whole until it is
    used; 0 leaves it to torch: none in the forward pass, one in the backward pass."""
    cpu_offload: bool = False
    """Keep shards, gradients and optimizer state in host memory, and update them there."""
    checkpoint: str = "sharded"
    """sharded: each rank writes its part; full: rank 0 gathers and writes one file."""
    async_save: bool = False
    """Go on training while a sharded checkpoint is written, from a copy in host memory."""

    def __post_init__(self):
        if self.optimizer == "muon":
            raise ValueError(
                "optimizer muon works on whole matrices, and this trainer cuts them into shards: train "
                "with course_lib.training.ddp_trainer, or pass --optimizer adamw"
            )
        super().__post_init__()
        if self.shard_size is not None and self.sharding != "HYBRID_SHARD":
            raise ValueError(
                f"shard_size belongs to HYBRID_SHARD, sharding is {self.sharding}: pass one "
                f"of them only"
            )
        if self.async_save and self.checkpoint == "full":
            raise ValueError("async_save writes shards: pass --checkpoint sharded with it")

    def with_sizes(self, device: str) -> "FSDPConfig":
        """This config with sizes that fit a device of that type, "cpu" or "cuda", where none are
        given."""
        sizes = CPU_SIZES if device == "cpu" else GPU_SIZES
        longest = PRESETS[self.model_size]["max_seq_len"]
        return dataclasses.replace(
            self,
            batch_size=self.batch_size or sizes["batch_size"],
            seq_len=self.seq_len or min(sizes["seq_len"] or longest, longest),
        )

    def ranks_per_copy(self, world_size: int) -> int:
        """Ranks among which one copy of the model is sharded, of `world_size` in all.

        ValueError when HYBRID_SHARD's copies do not come out even.
        """
        if self.sharding == "NO_SHARD":
            return 1
        if self.sharding != "HYBRID_SHARD":
            return world_size
        size = self.shard_size or int(os.environ.get("LOCAL_WORLD_SIZE", world_size))
        if size < 1 or world_size % size:
            raise ValueError(
                f"shard_size must divide the number of ranks, got shard_size {size} and "
                f"{world_size} ranks"
            )
        return size
