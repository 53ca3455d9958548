"""Kernels by themselves: attention by length, Triton's attention, the fused RMSNorm.

Each function takes `dry`, tiny sizes on the CPU, and returns figures as JSON.
"""

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks import attention
from course_lib import gpt
from course_lib.fast.flash_attention import flash_attention
from course_lib.fast.fused_rmsnorm import fused_rmsnorm
from course_lib.fast.triton_flash import Tiles, triton_attention, why_not
from course_lib.measure.timing import side_by_side

CANDIDATES = (Tiles(64, 64), Tiles(128, 64), Tiles(128, 64, warps=8), Tiles(64, 128),
              Tiles(128, 128, warps=8))  # fmt: skip


def sdpa(dry: bool) -> dict:
    """Attention by length, all ways, with a picture."""
    return attention.measure(*((attention.DRY, "cpu") if dry else (attention.GPU, "cuda")))


def triton(dry: bool) -> dict:
    """Whether the attention kernels are right on this GPU, and how fast by the sizes of their tiles."""
    device, lengths = ("cpu", (48,)) if dry else ("cuda", (512, 4096))
    if reason := why_not(torch.zeros(1, device=device)):
        return {"not_here": reason}
    errors = [
        {"dtype": str(dtype)[6:], "K": K, "causal": causal} | _errors(device, dtype, K, causal, dry)
        for dtype in (torch.bfloat16, torch.float16, torch.float32)
        for K, causal in ((64, True), (128, False))
    ]
    rows = []
    for T in lengths:
        sizes = dataclasses.replace(attention.DRY if dry else attention.GPU, tokens=32 * T)
        qkv, grad = attention.inputs(sizes, T, device)
        for tiles in (Tiles(16, 32),) if dry else CANDIDATES:
            rows.append({"T": T, **dataclasses.asdict(tiles)} | _timed(qkv, grad, tiles, device))
    return {"errors": errors, "tiles": rows}


def _errors(device: str, dtype: torch.dtype, K: int, causal: bool, dry: bool) -> dict:
    """Largest difference to float64 of out, dq, dk and dv: of the kernels, and of torch's own."""
    torch.manual_seed(K)
    *qkv, grad = torch.randn(4, 2, 3, 40 if dry else 1000, K, device=device).to(dtype)

    def run(way: Callable, x: list[Tensor], g: Tensor) -> list[Tensor]:
        x = [part.detach().requires_grad_() for part in x]
        out = way(*x)
        return [out, *torch.autograd.grad(out, x, g)]

    exact = run(
        lambda *x: flash_attention(*x, causal=causal), [x.double() for x in qkv], grad.double()
    )
    found = {}
    for name, way in (
        ("triton", lambda *x: triton_attention(*x, causal=causal)),
        ("sdpa", lambda *x: F.scaled_dot_product_attention(*x, is_causal=causal)),
    ):
        parts = run(way, qkv, grad)
        found[name] = [
            (a.double() - b).abs().max().item() for a, b in zip(parts, exact, strict=True)
        ]
    return found


def _timed(qkv: list[Tensor], grad: Tensor, tiles: Tiles, device: str) -> dict:
    def forward() -> None:
        with torch.no_grad():
            triton_attention(*qkv, tiles=tiles)

    def step() -> None:
        torch.autograd.grad(triton_attention(*qkv, tiles=tiles), qkv, grad)

    try:
        ways = {"forward_ms": forward, "step_ms": step}
        found = side_by_side(ways, warmup=2, rounds=10, device=device)
    except Exception as problem:  # tiles that do not fit into this GPU's shared memory
        return {"failed": str(problem).splitlines()[0][:160]}
    return {name: 1e3 * timing.median for name, timing in found.items()}


def rmsnorm(dry: bool) -> dict:
    """The fused RMSNorm against eager, compiled and torch's own: time, bytes a second, difference."""
    # 800 MB: a launch takes the CPU up to 0.3 ms, and the GPU must take longer than that
    device, N, D = ("cpu", 32, 48) if dry else ("cuda", 1024 * 512, 768)
    dtype = torch.float32 if dry else torch.bfloat16
    x, grad = torch.randn(2, N, D, device=device).to(dtype).unbind()
    norm = gpt.RMSNorm(D).to(device)
    ways = {
        "eager": norm,
        "torch": lambda x: F.rms_norm(x, (D,), norm.weight.to(x.dtype), norm.eps),
        "fused": lambda x: fused_rmsnorm(x, norm.weight, norm.eps),
    } | ({} if dry else {"compiled": torch.compile(norm)})
    x.requires_grad_()
    exact = norm(x.double())
    functions = {f"{name} forward": lambda w=way: w(x.detach()) for name, way in ways.items()} | {
        f"{name} step": lambda w=way: torch.autograd.grad(w(x), (x, norm.weight), grad)
        for name, way in ways.items()
    }
    times = side_by_side(functions, warmup=3, rounds=3 if dry else 30, device=device)
    least = {"forward": 2 * x.nbytes, "step": 5 * x.nbytes}  # x and out; then x, grad and dx again
    return {
        "rows": [
            {
                "name": name,
                "ms": 1e3 * timing.median,
                "spread_ms": [1e3 * s for s in timing.spread],
                "least_gb_per_s": least[name.split()[1]] / timing.median / 1e9,
                "difference": (ways[name.split()[0]](x).double() - exact).abs().max().item(),
            }
            for name, timing in times.items()
        ],
        "shape": f"{N} x {D} {str(dtype)[6:]}",
    }
