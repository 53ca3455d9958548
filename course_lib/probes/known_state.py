"""A small sharded trainer in a state whose every number follows from a seed.

What it is: what a check needs to tell a checkpoint's numbers from all others, without training, on
any number of ranks, and to make them again by itself. What it leaves out: saving and loading
(fsdp_checkpoint.py).
"""

import hashlib
import random
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from course_lib.checkpoints.saved_state import copy_parts, flatten
from course_lib.gpt import GPTConfig
from course_lib.ranks.world import World
from course_lib.training.fsdp_config import FSDPConfig
from course_lib.training.fsdp_trainer import FSDPTrainer

V = 37  # rows: 2, 3 and 4 ranks get unequal parts of them; 3 ranks of the 16 and 44 below too
TOKENS = ((np.arange(600) ** 2 // 7 + 3 * np.arange(600)) % V).astype(np.uint16)
SHAPE = dict(num_layers=1, num_heads=2, d_model=16, d_hidden=44, max_seq_len=8)


@dataclass(frozen=True, kw_only=True)
class SmallConfig(FSDPConfig):
    """Settings of a model of one small block, whatever its preset is called."""

    def model_config(self, vocab_size: int) -> GPTConfig:
        return GPTConfig(vocab_size=vocab_size, **SHAPE)


def known_tensor(path: str, shape: torch.Size, seed: int) -> Tensor:
    """The numbers of the tensor of that path, "model/norm.weight" say, in the state of a seed."""
    if path.endswith("/step"):
        return torch.tensor(float(plain_state(seed)["step"]))
    draw = torch.Generator().manual_seed(1000 * seed + zlib.crc32(path.encode()))
    values = 0.1 * torch.randn(shape, generator=draw)
    return values.abs() if path.endswith("exp_avg_sq") else values


def plain_state(seed: int) -> dict[str, int]:
    """The counters of the state of a seed: others for the next few seeds."""
    n = seed % 97
    return {
        "step": 5 + n,
        "tokens_seen": 1234 + 40 * n,
        "next_window": 22 + n % 50,
        "scale": 1024 * 2 ** (n % 5),
        "tracker": 7 + n,
    }


def known_settings(seed: int, number: int) -> list[float]:
    """Rate, decay and betas of that group of the optimizer in the state of a seed."""
    n = seed % 97
    return [1e-3 * (n + 1 + number), 0.01 * (n + 1), 0.5 + n / 256, 0.75 + n / 512]


def random_numbers(seed: int, rank: int) -> list[int]:
    """What stands for a rank's random states: checksums of Python's, of numpy's and of torch's, and
    the seed of the last. Each has drawn once since it was seeded."""
    python, numpy = random.Random(seed + rank), np.random.RandomState(seed + rank)
    draws = torch.Generator().manual_seed(seed + rank)
    python.random(), numpy.rand(), torch.rand(3, generator=draws)
    return _numbers(python.getstate(), numpy.get_state(), draws.get_state())


def numbers_of(states: dict[str, Any]) -> list[int]:
    """The same of random states as `random_states` writes them."""
    return _numbers(states["python"], states["numpy"], states["torch"])


def _numbers(python: Any, numpy: Any, draws: Tensor) -> list[int]:
    """Checksums of three states, whatever sequences hold their numbers; torch's seed last."""
    words = [[int(n) for n in state[1]] for state in (python, numpy)]
    checks = [zlib.crc32(repr(own).encode()) for own in words]
    content = bytes(draws.tolist())
    return [*checks, zlib.crc32(content), int.from_bytes(content[:8], "little")]


def settings_of(groups: Any) -> list[list[float]]:
    """Of each group of an optimizer: rate, decay and betas."""
    return [[float(g["lr"]), float(g["weight_decay"]), *map(float, g["betas"])] for g in groups]


def digest(x: Tensor) -> str:
    """The beginning of the sha256 of a tensor's bytes and dtype."""
    data = x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return hashlib.sha256(data.tobytes() + str(x.dtype).encode()).hexdigest()[:16]


def trainer_at(kind: type, out: Path, tokens=TOKENS, **changes) -> FSDPTrainer:
    """A trainer of that class on this rank; its loss scale is on, its weights are drawn."""
    settings = (
        dict(
            model_size="tiny",
            seq_len=8,
            batch_size=1,
            max_steps=50,
            precision="fp16",
            device="cpu",
            out=str(out),
        )
        | changes
    )
    trainer = kind(SmallConfig(**settings), tokens, vocab_size=V, world=World.of_group("cpu"))
    # nothing is saved behind the training here, and another group would cost time and threads
    trainer.checkpoints.ranks = trainer.world
    return trainer


def tensors_of(trainer: FSDPTrainer) -> dict[str, Tensor]:
    """The tensors that a checkpoint is about, by path, as they live on this rank."""
    names = {p: n for n, p in trainer.plain_model.named_parameters()}
    moments = {names[p]: state for p, state in trainer.optimizer.state.items()}
    return flatten({"model": {n: p.detach() for p, n in names.items()}, "optimizer": moments})


def put_state(trainer: FSDPTrainer, seed: int, *, moments: bool = True) -> None:
    """Bring the trainer into the state of `seed`, without a training step; its optimizer as new
    where `moments` is False."""
    for number, group in enumerate(trainer.optimizer.param_groups):
        group["lr"], group["weight_decay"], *betas = known_settings(seed, number)
        group["betas"] = tuple(betas)
    for group in trainer.optimizer.param_groups if moments else ():
        for p in group["params"]:  # as AdamW begins, without the cost of its first step
            zeros = {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
            trainer.optimizer.state[p] = {"step": torch.zeros(())} | zeros
    for path, tensor in tensors_of(trainer).items():
        copy_parts({path: known_tensor(path, tensor.shape, seed)}, {path: tensor})
    plain, rank = plain_state(seed), trainer.world.rank
    trainer.step, trainer.tokens_seen = plain["step"], plain["tokens_seen"]
    trainer.loader.load_state_dict(
        trainer.loader.state_dict() | {"next_window": plain["next_window"]}
    )
    scaler = {"scale": float(plain["scale"]), "_growth_tracker": plain["tracker"]}
    trainer.scaler.load_state_dict(trainer.scaler.state_dict() | scaler)
    random.seed(seed + rank)
    np.random.seed(seed + rank)
    torch.manual_seed(seed + rank)
    random.random(), np.random.rand(), torch.rand(3)


def local_part(x: Tensor) -> Tensor:
    """This rank's part of a sharded tensor; another tensor as it is."""
    return x.to_local() if isinstance(x, DTensor) else x
