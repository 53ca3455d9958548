"""One training step against the recipe of nanoGPT on a CPU: the same shapes, batch and data.

The recipe, rebuilt from torch's stock parts: float32, LayerNorm, learned positions, a GELU MLP of
4 D, fused attention, AdamW as its constructor gives it, clipping at 1; not compiled, as nanoGPT's
README has it on a CPU. Ours is the trainer of course_lib as it comes: bfloat16 where the CPU's
units for it pay, fused AdamW; and the same with `--compile`.
What bfloat16 can win at most is what the machine's products win, so these are measured too.
"""

import argparse
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.record import record
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.train_config import TrainConfig

SHAPES = {"1M": ("tiny", 12, 64, 81), "10M": ("small", 8, 256, 15)}  # preset, B, T, rounds
V = 65


class Block(nn.Module):
    """LayerNorm, attention, LayerNorm, GELU MLP; no biases."""

    def __init__(self, D: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.norms = nn.ModuleList(nn.LayerNorm(D, bias=False) for _ in range(2))
        self.qkv, self.out = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        self.up, self.down = nn.Linear(D, 4 * D, bias=False), nn.Linear(4 * D, D, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        q, k, v = (
            part.view(B, T, self.num_heads, -1).transpose(1, 2)
            for part in self.qkv(self.norms[0](x)).split(D, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, D))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Recipe(nn.Module):
    """The model of the recipe, head and embedding tied."""

    def __init__(self, D: int, num_layers: int, num_heads: int, T: int, vocab_size: int = V):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab_size, D), nn.Embedding(T, D)
        self.blocks = nn.ModuleList(Block(D, num_heads) for _ in range(num_layers))
        self.norm = nn.LayerNorm(D, bias=False)

    def forward(self, idx: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(idx) + self.places(torch.arange(idx.shape[1], device=idx.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def recipe_step(trainer: DistributedTrainer):
    """A function that makes one update of the recipe's model of the trainer's shape."""
    shape, config = trainer.plain_model.config, trainer.config
    model = Recipe(shape.d_model, shape.num_layers, shape.num_heads, config.tokens_per_sequence)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99))

    def step() -> None:
        loss = model(*trainer.loader.next_batch())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()

    return step, sum(p.numel() for p in model.parameters())


def compare(name: str, *, compiled: bool) -> dict:
    """Tokens per second of the recipe and of ours, in turn, and their ratios."""
    preset, batch, T, rounds = SHAPES[name]
    tokens = np.random.default_rng(0).integers(0, V, 100_000).astype(np.uint16)
    config = dict(model_size=preset, batch_size=batch, seq_len=T, max_steps=10_000, device="cpu")
    ours = {"ours": DistributedTrainer(TrainConfig(**config), tokens, vocab_size=V)}
    if compiled:
        settings = TrainConfig(**config, compile=True)
        ours["compiled"] = DistributedTrainer(settings, tokens, vocab_size=V)
    step, params = recipe_step(ours["ours"])
    steps = {"recipe": step} | {
        kind: lambda t=trainer: t.train_step([t.loader.next_batch()])
        for kind, trainer in ours.items()
    }
    rates = side_by_side(steps, batch * T, rounds)
    figures = {f"{kind}_tokens_per_s": round(statistics.median(r)) for kind, r in rates.items()}
    for kind in ours:
        ratios = [a / b for a, b in zip(rates[kind], rates["recipe"], strict=True)]
        figures[f"{kind}_to_recipe"] = {
            "median": round(statistics.median(ratios), 3),
            "min": round(min(ratios), 3),
            "max": round(max(ratios), 3),
        }
    counts = sum(p.numel() for p in ours["ours"].plain_model.parameters())
    return {
        "shape": f"B {batch}, T {T}",
        "parameters": counts,
        "recipe_parameters": params,
        "dtype": str(ours["ours"].dtype)[6:],
        **figures,
    }


def product_gflops() -> dict[str, int]:
    """10^9 operations per second of a product of two 1024 x 1024 matrices, by dtype; the best of 9."""
    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        a = torch.randn(1024, 1024, dtype=dtype)
        rates = side_by_side({"product": lambda a=a: a @ a}, 2 * 1024**3, 9)
        found[str(dtype)[6:]] = round(max(rates["product"]) / 1e9)
    return found


def side_by_side(steps: dict, work: int, rounds: int) -> dict[str, list[float]]:
    """Units of work per second by kind, a step of each in each round; two rounds warm up."""
    rates = {kind: [] for kind in steps}
    for number in range(2 + rounds):
        for kind, step in steps.items():
            began = time.perf_counter()
            step()
            if number >= 2:
                rates[kind].append(work / (time.perf_counter() - began))
    return rates


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-compile", action="store_true", help="leave the compiled model out")
    compiled = not parser.parse_args().no_compile
    figures = {name: compare(name, compiled=compiled) for name in SHAPES}
    print(record("train", figures | {"product_gflops": product_gflops()}))
