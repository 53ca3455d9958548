"""Attention by length of the sequence: explicit, in tiles, torch's fused kernels, Triton's.

Each way makes out and the gradients of q, k and v from the same random numbers, causal. The ways take
turns at each length. Peak memory is what is held beyond the inputs: by the GPU's allocator, or by all
tensors on a CPU. A way that a machine has not, or that runs out of memory, is named with its reason.

    python -m benchmarks.attention [--dry] [--picture attention.png]
"""

import argparse
import contextlib
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.record import record
from course_lib.fast.flash_attention import flash_attention
from course_lib.fast.triton_flash import triton_attention, why_not
from course_lib.gpt import causal_attention
from course_lib.measure.held import Held
from course_lib.measure.timing import side_by_side

BACKENDS = {"sdpa flash": SDPBackend.FLASH_ATTENTION, "sdpa cudnn": SDPBackend.CUDNN_ATTENTION,
            "sdpa efficient": SDPBackend.EFFICIENT_ATTENTION, "sdpa math": SDPBackend.MATH}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What is measured."""

    tokens: int
    """B times T, so that every length makes as many rows."""
    num_heads: int
    head_dim: int
    lengths: tuple[int, ...]
    rounds: int
    dtype: torch.dtype
    tile: int
    """Of the tiles in torch."""
    longest: dict[str, int]
    """Lengths up to which a way is tried: one that holds T x T numbers, or launches too much."""


CPU = Sizes(
    tokens=2048,
    num_heads=4,
    head_dim=64,
    lengths=(128, 256, 512, 1024, 2048),
    rounds=5,
    dtype=torch.float32,
    tile=128,
    longest={},
)
GPU = Sizes(
    tokens=16384,
    num_heads=12,
    head_dim=64,
    lengths=(512, 1024, 2048, 4096, 8192, 16384),
    rounds=10,
    dtype=torch.bfloat16,
    tile=256,
    longest={"explicit": 8192, "sdpa math": 8192, "tiled": 4096},
)
DRY = dataclasses.replace(
    CPU, tokens=64, num_heads=2, head_dim=16, lengths=(32, 64), rounds=1, tile=16
)


def ways(x: Tensor, tile: int) -> tuple[dict[str, Callable], dict[str, str]]:
    """What can be asked for tensors like `x`, and what not, with the reason."""
    found: dict[str, Callable] = {
        "explicit": causal_attention,
        "tiled": lambda q, k, v: flash_attention(q, k, v, tile=tile),
    }
    missing = {}
    for name, backend in BACKENDS.items():
        way = _fused(backend)
        try:
            way(*(x.detach().requires_grad_() for _ in range(3))).sum().backward()
            found[name] = way
        except RuntimeError as problem:
            missing[name] = str(problem).splitlines()[0][:120]
    if reason := why_not(x) or ("" if x.is_cuda else "interpreted on a CPU: not worth timing"):
        missing["triton"] = reason
    else:
        found["triton"] = triton_attention
    return found, missing


def _fused(backend: SDPBackend) -> Callable:
    def way(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return way


def inputs(sizes: Sizes, T: int, device: str) -> tuple[list[Tensor], Tensor]:
    """q, k, v as a model has them, the heads inside the tokens; and the gradient of out."""
    torch.manual_seed(T)
    B = max(1, sizes.tokens // T)
    shape = (4, B, T, sizes.num_heads, sizes.head_dim)
    *qkv, grad = torch.randn(shape, device=device, dtype=sizes.dtype).transpose(2, 3).unbind()
    return [x.detach().requires_grad_() for x in qkv], grad


def peak_bytes(function: Callable[[], object], device: str) -> int:
    """Most bytes held at once beyond what was there before."""
    if device == "cpu":
        with Held() as held:
            function()
        return held.peak
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    function()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def at_length(sizes: Sizes, T: int, device: str) -> tuple[list[dict], dict[str, str]]:
    """A row for each way, and the reasons of those that have none."""
    qkv, grad = inputs(sizes, T, device)
    found, missing = ways(qkv[0].detach(), sizes.tile)
    for name, longest in sizes.longest.items():
        if T > longest and found.pop(name, None):
            missing[name] = f"not tried beyond {longest} tokens"
    forward = {name: _forward(way, qkv) for name, way in found.items()}
    step = {name: _step(way, qkv, grad) for name, way in found.items()}
    peaks = {}
    for name in list(found):
        try:
            peaks[name] = peak_bytes(step[name], device)
        except Exception as problem:  # a GPU out of memory, a kernel that does not fit it
            missing[name] = f"{type(problem).__name__}: {str(problem).splitlines()[0][:120]}"
            del forward[name], step[name]
            torch.cuda.empty_cache()
    times = [side_by_side(f, warmup=1, rounds=sizes.rounds, device=device) for f in (forward, step)]
    rows = [
        {
            "name": name,
            "T": T,
            "forward_ms": 1e3 * times[0][name].median,
            "step_ms": 1e3 * times[1][name].median,
            "step_spread_ms": [1e3 * s for s in times[1][name].spread],
            "peak_mb": peaks[name] / 1e6,
            "difference": difference(found[name], qkv),
        }
        for name in step
    ]
    return rows, missing


def _forward(way: Callable, qkv: list[Tensor]) -> Callable:
    def function() -> None:
        with torch.no_grad():
            way(*qkv)

    return function


def _step(way: Callable, qkv: list[Tensor], grad: Tensor) -> Callable:
    return lambda: torch.autograd.grad(way(*qkv), qkv, grad)


@torch.no_grad()
def difference(way: Callable, qkv: list[Tensor]) -> float:
    """Largest difference to float64, over the first sequence, its first head and 1,024 tokens."""
    q, k, v = (x[:1, :1, :1024] for x in qkv)
    exact = causal_attention(q.double(), k.double(), v.double())
    return (way(q, k, v).double() - exact).abs().max().item()


def measure(sizes: Sizes, device: str, say: Callable[[str], object] = print) -> dict:
    """All figures; lengths in rising order, so that what was measured stands when one fails."""
    rows, missing = [], {}
    for T in sizes.lengths:
        found, reasons = at_length(sizes, T, device)
        for row in found:
            say(
                f"{T:>6} {row['name']:<15} forward {row['forward_ms']:9.3f} ms, with backward "
                f"{row['step_ms']:9.3f} ms, peak {row['peak_mb']:9.2f} MB"
            )
        rows += found
        missing |= {f"{name} at {T}": reason for name, reason in reasons.items()}
    shape = {"tokens": sizes.tokens, "num_heads": sizes.num_heads, "head_dim": sizes.head_dim,
             "dtype": str(sizes.dtype)[6:], "rounds": sizes.rounds, "tile": sizes.tile}  # fmt: skip
    return {"device": device, "shape": shape, "rows": rows, "not_measured": missing}


def draw(figures: dict, path: str | Path) -> None:
    """Time and memory by length, one line a way, both axes logarithmic."""
    import matplotlib

    with contextlib.suppress(ValueError):
        matplotlib.use("agg")
    import matplotlib.pyplot as plt

    _, panels = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    names = dict.fromkeys(row["name"] for row in figures["rows"])
    for panel, key, label in zip(
        panels, ("step_ms", "peak_mb"), ("ms, forward and backward", "peak MB"), strict=True
    ):
        for name in names:
            rows = [row for row in figures["rows"] if row["name"] == name]
            panel.plot([row["T"] for row in rows], [row[key] for row in rows], "o-", label=name)
        panel.set(xscale="log", yscale="log", xlabel="tokens in a sequence", ylabel=label)
        lengths = sorted({row["T"] for row in figures["rows"]})
        panel.set_xticks(lengths, [f"{T:,}" for T in lengths])
        panel.set_xticks([], minor=True)
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter("")
    panels[1].legend(fontsize=8)
    plt.savefig(path, dpi=150)
    plt.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dry", action="store_true", help="tiny sizes, and nothing is written")
    parser.add_argument("--picture", help="also draw the figures into this file")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    figures = measure(DRY if given.dry else GPU if device == "cuda" else CPU, device)
    if not given.dry:
        print(record("attention" if device == "cpu" else "gpu_attention", figures))
    if given.picture:
        draw(figures, given.picture)


if __name__ == "__main__":
    main()
