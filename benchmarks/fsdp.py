"""The trainers on two gloo ranks beside torch's own wrappers around the same model.

Bare: `fully_shard` (or DistributedDataParallel), AdamW, clipping and the loss, in a loop as short as
it gets. Ours: DistributedTrainer and FSDPTrainer as they come, with token counts, schedule and
losses summed over ranks. Then, by strategy, what a rank holds and sends; and how long a save keeps
the training waiting, beside DCP's own, which hashes and publishes nothing.
"""

import argparse
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from benchmarks.record import record
from course_lib.gpt import GPT
from course_lib.measure.memory import counted_state_bytes
from course_lib.ranks import local_ranks
from course_lib.ranks.traffic import Traffic, sent_bytes
from course_lib.ranks.world import World
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.fsdp_config import FSDPConfig
from course_lib.training.fsdp_trainer import FSDPTrainer

V, ROUNDS, RANKS = 1024, 11, 2
TOKENS = np.random.default_rng(0).integers(0, V, 100_000).astype(np.uint16)


def config_of(preset: str, out: str = "unused", **changes) -> FSDPConfig:
    """The settings of a run on the CPU in float32."""
    return FSDPConfig(model_size=preset, device="cpu", precision="fp32", out=out, **changes)


def trainer(kind: type[DistributedTrainer], config: FSDPConfig) -> DistributedTrainer:
    """A trainer on this rank."""
    return kind(config, TOKENS, vocab_size=V, world=World.of_group())


def bare(config: FSDPConfig, wrap: Callable[[GPT], nn.Module], loader) -> Callable[[], None]:
    """A function that makes one update with torch's own parts."""
    torch.manual_seed(config.seed)
    model = wrap(GPT(config.model_config(V)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        loss = model(*loader.next_batch())[1]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()

    return step


def sharded(model: GPT) -> GPT:
    """Each block, then the rest."""
    for module in [*model.blocks, model]:
        fully_shard(module)
    return model


def in_turn(ways: dict[str, Callable], rounds: int) -> dict[str, list[float]]:
    """Seconds by way, one call of each in every round; two rounds warm up."""
    seconds = {name: [] for name in ways}
    for number in range(2 + rounds):
        for name, work in ways.items():
            dist.barrier()
            began = time.perf_counter()
            work()
            if number >= 2:
                seconds[name].append(time.perf_counter() - began)
    return seconds


def speed(preset: str) -> dict[str, list[float]]:
    """Seconds of one update on this rank, by trainer."""
    config = config_of(preset)
    ddp, fsdp = trainer(DistributedTrainer, config), trainer(FSDPTrainer, config)
    return in_turn(
        {
            "ddp": lambda: ddp.train_step(ddp.next_batches()),
            "bare_ddp": bare(config, DistributedDataParallel, ddp._loader(TOKENS, 1)),
            "fsdp": lambda: fsdp.train_step(fsdp.next_batches()),
            "bare_fsdp": bare(config, sharded, ddp._loader(TOKENS, 1)),
        },
        ROUNDS,
    )


def system(preset: str, name: str) -> dict[str, int]:
    """Bytes that one rank holds when the optimizer steps, and sends for an update."""
    kind = DistributedTrainer if name == "DDP" else FSDPTrainer
    run = trainer(kind, config_of(preset, **({} if name == "DDP" else {"sharding": name})))
    run.train_step(run.next_batches())
    held = {}
    run.optimizer.register_step_pre_hook(
        lambda *_: held.update(counted_state_bytes(run.plain_model, run.optimizer))
    )
    with Traffic() as traffic:
        run.train_step(run.next_batches())
    return held | {"sent": round(sent_bytes(traffic.seen, RANKS))}


def saving(preset: str, out: str) -> dict[str, list[float]]:
    """Seconds that training waits for a save, by way, and until a save behind it is published."""
    run = trainer(FSDPTrainer, config_of(preset, out))
    behind = trainer(FSDPTrainer, config_of(preset, out + "/async", async_save=True))
    group = dist.new_group(backend="gloo")
    for each in (run, behind):
        each.train_step(each.next_batches())

    def plain() -> None:
        model, optimizer = get_state_dict(run.plain_model, run.optimizer)
        state, writer = (
            {"model": model, "optimizer": optimizer},
            dcp.FileSystemWriter(f"{out}/plain"),
        )
        dcp.save(state, storage_writer=writer, process_group=group)

    warnings.filterwarnings("ignore", "Detected an existing checkpoint")
    ways = {"ours": run.save_checkpoint, "dcp": plain, "ours_async": behind.save_checkpoint,
            "ours_async_rest": behind.checkpoints.wait}  # fmt: skip
    return in_turn(ways, 5)


def run(preset: str) -> dict:
    """All figures."""
    args = [(preset,)] * RANKS
    steps = local_ranks.run(speed, args, seconds=600)[0].value
    figures = {f"{name}_ms": round(1e3 * statistics.median(s), 1) for name, s in steps.items()}
    for name in ("ddp", "fsdp"):
        ratios = [a / b for a, b in zip(steps[name], steps[f"bare_{name}"], strict=True)]
        figures[f"{name}_to_bare"] = {
            "median": round(statistics.median(ratios), 3),
            "min": round(min(ratios), 3),
            "max": round(max(ratios), 3),
        }
    by_strategy = {
        name: local_ranks.run(system, [(preset, name)] * RANKS, seconds=120)[0].value
        for name in ("DDP", "NO_SHARD", "SHARD_GRAD_OP", "FULL_SHARD")
    }
    with tempfile.TemporaryDirectory() as out:
        saves = local_ranks.run(saving, [(preset, out)] * RANKS, seconds=600)[0].value
    return {
        "preset": preset,
        "ranks": RANKS,
        "rounds": ROUNDS,
        **figures,
        "bytes_per_rank": by_strategy,
        "save_s": {name: round(statistics.median(s), 4) for name, s in saves.items()},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model_size", default="small", help="preset of the model")
    print(record("fsdp", run(parser.parse_args().model_size)))
