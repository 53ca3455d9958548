"""A trainer of one small model on every rank: what it updates, saves and loads, in plain values.

What it is: probes for `local_ranks.run`, with which checks look at a learner's `DistributedTrainer`.
What it leaves out: what is right, which course_lib.checks says, and sharded trainers
(fsdp_checkpoint.py).
"""

import dataclasses
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_lib.checkpoints import single_file
from course_lib.checkpoints.saved_state import plain_names
from course_lib.gpt import GPTConfig
from course_lib.probes.known_state import numbers_of
from course_lib.probes.seats import leave_seat, take_seat
from course_lib.ranks.traffic import Traffic
from course_lib.ranks.world import World
from course_lib.runs.random_states import random_states, restore_random_states
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.train_config import TrainConfig

V, T = 37, 8
"""Vocabulary of the runs, tokens in a sequence of theirs."""
TEXT = (np.arange(600) ** 2 % V).astype(np.uint16)
OTHER = 500
"""What is added to a seed for the random states before a load."""
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


def ask_rates_later(trainer: DistributedTrainer, own_step: int, steps: list[int]) -> list[float]:
    """`get_lr` of each step, of a trainer that says it has made `own_step` updates, at other rates."""
    trainer.step, trainer.tokens_seen = own_step, 1000 * own_step
    for group in trainer.optimizer.param_groups:
        group["lr"] = 0.37 * trainer.config.lr
    return [float(trainer.get_lr(step)) for step in steps]


def ask_rates_of(
    trainer: DistributedTrainer, configs: list[TrainConfig], steps: list[int]
) -> list[list[float]]:
    """`get_lr` of each step under each config, which takes the place of the trainer's own."""
    found = []
    for config in configs:
        trainer.config = config
        found.append([float(trainer.get_lr(step)) for step in steps])
    return found


def save(kind: type[DistributedTrainer], seed: int) -> dict[str, Any]:
    """`save_checkpoint` in a state where the ranks differ in nothing but their random states.

    `write_checkpoint` takes what it is given and writes nothing: "calls", how often it was called;
    "ranks", `numbers_of` the random states in what it was given, or None where these are none;
    "returned", whether its path came back. "again" and "ranks_again", calls and states of a second
    save at the same step, with other random states, where a file of that step lies in the run's folder.
    "model", what `_differs_from` says of the weights in that save, which were turned to float64; "scaler",
    its scaler's states, of a scaler that is on, and "scaler_right", what they should be. torchrun's
    names say in the first save that the ranks are on one machine, in the second that each has its own.
    """
    take_seat(World.of_group("cpu").world_size)
    trainer: Any = make(kind)
    given: list[Any] = []
    path = Path("the path")

    def take_state(state):
        given.append(state)
        return path

    trainer.write_checkpoint = take_state
    _seed_rank(seed, trainer.world.rank)
    returned = trainer.save_checkpoint()
    found, calls = _random_in(given), len(given)
    _seed_rank(seed + OTHER, trainer.world.rank)
    take_seat(1)
    trainer.scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    trainer.plain_model.double()
    with torch.no_grad():
        for weight in trainer.plain_model.parameters():
            weight /= 3  # no longer a number that float32 holds
    with tempfile.TemporaryDirectory() as out:
        single_file.save({"step": trainer.step}, Path(out) / "checkpoints", trainer.step)
        trainer.config = dataclasses.replace(trainer.config, out=out)
        trainer.save_checkpoint()
    leave_seat()
    return {
        "calls": calls,
        "ranks": found,
        "returned": str(returned) == str(path),
        "again": len(given) - calls,
        "ranks_again": _random_in(given[calls:]),
        "model": _differs_from(trainer.plain_model, given[calls:]),
        "scaler": [part.get("scaler") for part in given[calls:] if isinstance(part, dict)],
        "scaler_right": trainer.scaler.state_dict(),
    }


def _differs_from(model: torch.nn.Module, given: list[Any]) -> str:
    """How the first of these states holds another tensor than the model, or "" where none does."""
    if not given:
        return ""
    found: Any = given[0].get("model") if isinstance(given[0], dict) else None
    try:
        found = plain_names(found)
        for name, right in model.state_dict().items():
            if found[name].dtype != right.dtype or not torch.equal(found[name].cpu(), right):
                text = str(found[name].dtype).removeprefix("torch.")
                return f"{name} {text}, {found[name].flatten()[0].item():.12f}"
    except (AttributeError, KeyError, TypeError) as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""


def _random_in(given: list[Any]) -> list[list[int]] | None:
    """`numbers_of` the random states in the first of these, None where these are none."""
    ranks: Any = given[0].get("ranks") if given and isinstance(given[0], dict) else None
    try:
        return [numbers_of(states) for states in ranks]
    except (TypeError, KeyError, IndexError):
        return None


def load(kind: type[DistributedTrainer], seed: int) -> dict[str, dict[str, Any]]:
    """`load_checkpoint` of a state of as many ranks as there are, of one more, of one fewer, and of nothing.

    Ranks are on one machine by torchrun's names, but for "apart", where each has one of its own.

    `read_checkpoint` gives that state, and no file is read. Of each case: "asked", the paths it was
    asked for; "returned"; "step", "random" (`numbers_of`) and "weights" afterwards; "config", whether
    the settings are as before; "differs", what `_differs_from` says of the weights and the state, which
    are in float64 in the cases with a path. By case: "same" and "apart", which are asked for without a path, "more",
    "fewer", "nothing".
    """
    world_size = World.of_group("cpu").world_size
    take_seat(1)
    apart = _load(kind, seed, world_size)
    take_seat(world_size)
    return {
        "apart": apart,
        "same": _load(kind, seed, world_size),
        "more": _load(kind, seed, world_size + 1, "a path"),
        "fewer": _load(kind, seed, world_size - 1, "a path"),
        "nothing": _load(kind, seed, 0),
    }


def _load(kind: type[DistributedTrainer], seed: int, ranks: int, *path: str) -> dict[str, Any]:
    """One case of `load`, with the random states of so many ranks; of 0 ranks there is no state."""
    trainer: Any = make(kind)
    asked: list[Any] = []
    state = known_checkpoint(trainer, seed, ranks) if ranks else None
    if state and path:
        trainer.plain_model.double()
        state["model"] = {name: weight.double() / 3 for name, weight in state["model"].items()}
    # a copy, since the answer may take the state apart
    right = [{"model": dict(state["model"])}] if state else []

    def read_checkpoint(path=None):
        asked.append(path)
        return state

    trainer.read_checkpoint, before = read_checkpoint, trainer.config
    trainer.step = 3
    _seed_rank(seed + OTHER, trainer.world.rank)
    returned = trainer.load_checkpoint(*path)
    return {
        "asked": asked,
        "returned": returned,
        "step": trainer.step,
        "random": numbers_of(random_states()),
        "weights": trainer.weights(),
        "config": trainer.config == before,
        "differs": _differs_from(trainer.plain_model, right),
    }


def known_checkpoint(trainer: DistributedTrainer, seed: int, ranks: int) -> dict[str, Any]:
    """A state like no other, of so many ranks, as a checkpoint has it."""
    draw = torch.Generator().manual_seed(seed)
    weights = {
        name: 0.1 * torch.randn(weight.shape, generator=draw)
        for name, weight in trainer.plain_model.state_dict().items()
    }
    weights["head.weight"] = weights["embedding.weight"]  # one matrix under two names
    kept, states = random_states(), []
    for rank in range(ranks):
        _seed_rank(seed, rank)
        states.append(random_states())
    restore_random_states(kept)
    return {
        "step": 7,
        "tokens_seen": 123,
        "model": weights,
        "optimizer": trainer.optimizer.state_dict(),
        "scaler": trainer.scaler.state_dict(),
        "loader": trainer.loader.state_dict(),
        "ranks": states,
        "config": dataclasses.asdict(trainer.config) | {"lr": 0.5},
    }


def _seed_rank(seed: int, rank: int) -> None:
    """Give this process the random states that `random_numbers(seed, rank)` tells."""
    random.seed(seed + rank)
    np.random.seed(seed + rank)
    torch.manual_seed(seed + rank)
    random.random(), np.random.rand(), torch.rand(3)  # a seed alone is not the state


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
