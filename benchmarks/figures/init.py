"""The table of the figure `init`: the residual stream by depth, and the first loss.

A line holds one model (by depth, std, scaled or not): RMS of the stream after 0, STEP, 2 STEP, ...
blocks, then the loss of the first batch. The model is that of course_lib/gpt.py, its weights
rescaled.
"""

import math
from typing import Any

import torch

from benchmarks.figures import store_table
from course_lib.gpt import GPT, GPTConfig

V = 8192
DEPTHS = {6: 1, 12: 2, 48: 6}  # number of blocks: blocks between two stored values
STDS = (0.002, 0.02, 0.06, 0.2, 1)


def measure_models(depth: int, grid: list[tuple[float, bool]]) -> list[list[float]]:
    """One row per (std, scaled): stream RMS at the stored depths, then the first loss.

    The model is the tiny preset with `depth` blocks, seed 0; the batch is 4 x 64 random tokens and
    their random successors. About 10 s for the whole grid of 48 blocks on one core.
    """
    torch.manual_seed(0)
    model = GPT(GPTConfig.preset("tiny", num_layers=depth, vocab_size=V))
    window = torch.randint(V, (4, 65))
    linear = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    factors = {  # the tied head and embedding are one matrix, and one key
        m.weight: math.sqrt(2 * depth) if hasattr(m, "writes_residual") else 1 for m in linear
    }
    drawn = {w: w.detach().clone() for w in factors}
    seen: list[float] = []

    def note(x: Any) -> None:
        seen.append(x.pow(2).mean().sqrt().item())

    model.embedding.register_forward_hook(lambda _module, _args, x: note(x))
    for i, block in enumerate(model.blocks, start=1):
        if i % DEPTHS[depth] == 0:
            block.register_forward_hook(lambda _module, _args, x: note(x))
    rows = []
    with torch.no_grad():
        for std, scaled in grid:
            for weight, factor in factors.items():
                weight.copy_(drawn[weight] * (std / 0.02) * (1 if scaled else factor))
            seen.clear()
            _, loss = model(window[:, :-1], window[:, 1:])
            rows.append([*seen, loss.item()])
    return rows


def main() -> None:
    """Measure every model and store its line: three digits, four for the loss."""
    grid = [(std, scaled) for std in STDS for scaled in (True, False)]
    rows = [row for depth in DEPTHS for row in measure_models(depth, grid)]
    digits = [[f"{x:.3g}" for x in rms] + [f"{loss:.4g}"] for *rms, loss in rows]
    store_table("init", [" ".join(f"{float(word):g}" for word in row) for row in digits])


if __name__ == "__main__":
    main()
