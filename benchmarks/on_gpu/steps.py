"""Whole training steps: ours, nanoGPT's recipe, single switches, wrappers over one rank; collectives.

Each function takes `dry`, tiny sizes on the CPU, and returns figures as JSON.
"""

import dataclasses
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.distributed as dist

from benchmarks.train import Recipe
from course_lib import gpt
from course_lib.fast.padding import pad_vocabulary
from course_lib.fast.triton_flash import triton_attention, why_not
from course_lib.ladder.rungs import float32_products
from course_lib.measure.flops import flops_per_token
from course_lib.measure.peak import peak_flops
from course_lib.measure.timing import side_by_side
from course_lib.ranks.world import World
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.fsdp_config import FSDPConfig
from course_lib.training.fsdp_trainer import FSDPTrainer
from course_lib.training.train_config import TrainConfig


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Of training steps."""

    preset: str
    batch: int
    seq_len: int
    vocab_size: int
    steps: int
    """In a turn; the clock is read before and after."""
    turns: int
    device: str


FULL = Sizes("134m", 64, 512, 32_000, 5, 6, "cuda")
TINY = Sizes("tiny", 2, 16, 97, 1, 1, "cpu")


def config(sizes: Sizes, kind: type[TrainConfig] = TrainConfig, **changes) -> TrainConfig:
    """The settings of a run that is measured."""
    return kind(
        model_size=sizes.preset,
        batch_size=sizes.batch,
        seq_len=sizes.seq_len,
        device=sizes.device,
        max_steps=10**6,
        out="unused",
        **changes,
    )


def trainer(sizes: Sizes, kind=DistributedTrainer, world: World | None = None, **changes):
    """One of the course's trainers, on random tokens."""
    tokens = np.random.default_rng(0).integers(0, sizes.vocab_size, 10**6).astype(np.uint16)
    settings = config(sizes, FSDPConfig if kind is FSDPTrainer else TrainConfig, **changes)
    world = world or World(device=torch.device(sizes.device))
    return kind(settings, tokens, vocab_size=sizes.vocab_size, world=world)


def in_turns(functions: dict[str, Callable], sizes: Sizes, made) -> dict:
    """ms a step, tokens a second, MFU and peak memory by name; `made` is a trainer of the shape."""
    seconds, peaks, waits = (
        {},
        {},
        torch.cuda.synchronize if sizes.device == "cuda" else lambda: None,
    )
    for name, function in functions.items():  # warm-up: compiles, allocates, shows the memory
        if sizes.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        for _ in range(3):
            function()
        peaks[name] = torch.cuda.max_memory_allocated() / 1e9 if sizes.device == "cuda" else None
        seconds[name] = []
    for _ in range(sizes.turns):
        for name, function in functions.items():
            waits()
            began = time.perf_counter()
            for _ in range(sizes.steps):
                function()
            waits()
            seconds[name].append((time.perf_counter() - began) / sizes.steps)
    model, tokens = made.plain_model.config, sizes.batch * sizes.seq_len
    peak, source = peak_flops(made.device, made.dtype)
    rows = []
    for name, found in seconds.items():
        middle = float(np.median(found))
        share = {
            f"mfu_{how}": tokens / middle * flops_per_token(model, sizes.seq_len, how) / peak
            for how in ("matmul", "all")
        }
        rows.append(
            {
                "name": name,
                "ms": 1e3 * middle,
                "turns_ms": [1e3 * s for s in found],
                "tokens_per_s": tokens / middle,
                **share,
                "peak_gb_all_held": peaks[name],
            }
        )
    shape = dataclasses.asdict(sizes)
    return {"rows": rows, "shape": shape, "peak_flops": source, "dtype": str(made.dtype)[6:]}


def step(dry: bool) -> dict:
    """Whole steps at equal shapes: ours as it trains, variants of it, and nanoGPT's recipe compiled."""
    sizes = TINY if dry else FULL
    made = {
        name: trainer(sizes, compile=not dry, prefetch=name != "ours")
        for name in ("ours", "ours, prefetched")
    }
    functions = {name: lambda t=t: t.train_step(t.next_batches()) for name, t in made.items()}
    functions["recipe"] = recipe(sizes, made["ours"], compiled=not dry)
    with float32_products(tf32=True):  # as nanoGPT has it; for both
        return in_turns(functions, sizes, made["ours"])


def recipe(sizes: Sizes, like: DistributedTrainer, *, compiled: bool) -> Callable[[], None]:
    """One update by nanoGPT's recipe: autocast, fused AdamW, clipping, no waiting for the loss."""
    c, device = like.plain_model.config, like.device
    model = Recipe(c.d_model, c.num_layers, c.num_heads, sizes.seq_len, sizes.vocab_size).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), fused=True)
    called = torch.compile(model) if compiled else model
    loader = like._loader((np.arange(10**5) % sizes.vocab_size).astype(np.uint16), 1)

    def update() -> None:
        idx, targets = loader.next_batch()
        if device.type == "cuda":
            idx, targets = (x.pin_memory().to(device, non_blocking=True) for x in (idx, targets))
        with like.autocast():
            loss = called(idx, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return update


def switches(dry: bool) -> dict:
    """Eager steps with one switch each: Triton's attention, a padded vocabulary, checkpointing."""
    sizes = dataclasses.replace(TINY if dry else FULL, vocab_size=101 if dry else 50_257)
    sizes = dataclasses.replace(sizes, batch=2 if dry else 16)
    plain, kept = trainer(sizes), trainer(sizes, activation_checkpointing=True)
    padded = trainer(sizes)
    pad_vocabulary(padded.plain_model)
    padded.optimizer = padded._setup_optimizer()
    functions = {
        name: lambda t=t: t.train_step(t.next_batches())
        for name, t in (("plain", plain), ("checkpointing", kept), ("padded vocabulary", padded))
    }
    fused = gpt.fused_attention

    def with_triton() -> None:
        gpt.fused_attention = triton_attention
        try:
            plain.train_step(plain.next_batches())
        finally:
            gpt.fused_attention = fused

    if not why_not(torch.zeros(1, device=sizes.device)):
        functions["triton attention"] = with_triton
    return in_turns(functions, sizes, plain)


def wrappers(dry: bool) -> dict:
    """One GPU: the trainer bare, in DDP, and sharded by FSDP over one rank."""
    sizes = TINY if dry else dataclasses.replace(FULL, batch=16)
    bare = trainer(sizes)
    world = World.of_group(sizes.device)
    made = {
        "bare": bare,
        "ddp": trainer(sizes, world=world),
        "fsdp": trainer(sizes, FSDPTrainer, world),
    }
    functions = {name: lambda t=t: t.train_step(t.next_batches()) for name, t in made.items()}
    figures = in_turns(functions, sizes, bare)
    world.close()
    return figures


def nccl(dry: bool) -> dict:
    """Collectives over one rank: whether the backend is there and right, and the two that copy.

    An all-reduce or a broadcast over one rank moves nothing, so its time would say nothing.
    """
    device, numel = ("cpu", 1 << 10) if dry else ("cuda", 1 << 27)
    world = World.of_group(device)
    x = torch.arange(numel, dtype=torch.float32, device=device) % 1000
    out, kept = torch.empty_like(x), x.clone()
    calls = {
        "all_reduce": lambda: dist.all_reduce(x),
        "all_gather": lambda: dist.all_gather_into_tensor(out, x),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(out, x),
        "broadcast": lambda: dist.broadcast(x, 0),
    }
    times = side_by_side(calls, warmup=2, rounds=3 if dry else 10, device=device)
    right = bool(torch.equal(x, kept) and torch.equal(out, kept))  # a sum over one rank is its part
    backend = dist.get_backend_config() if hasattr(dist, "get_backend_config") else ""
    world.close()
    rows = {
        name: {"ms": 1e3 * found.median, "gb_per_s": x.nbytes / found.median / 1e9}
        for name, found in times.items()
        if name in ("all_gather", "reduce_scatter")
    }
    return {"right": right, "backend": str(backend), "megabytes": x.nbytes / 1e6, "rows": rows}
