"""Which number format a run computes in, and what that takes.

What it is: the choice between float32, bfloat16 and float16 by device, and autocast for it. What it
leaves out: how the formats differ and why scaling helps (lesson 12).
"""

import contextlib
import functools
import platform
from pathlib import Path

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def compute_dtype(precision: str, device: torch.device) -> torch.dtype:
    """The dtype of matrix products for "fp32", "bf16", "fp16", or "auto".

    "auto" takes bfloat16 where the device's units make it faster than float32; it is the same on
    every run and rank of a machine. ValueError for another word.
    """
    if precision == "auto":
        return torch.bfloat16 if bf16_pays(device) else torch.float32
    if precision not in DTYPES:
        raise ValueError(f"precision must be auto, {', '.join(DTYPES)}; got {precision!r}")
    return DTYPES[precision]


def has_bf16_units(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 in hardware."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type == "cpu":
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return False


def bf16_pays(device: torch.device) -> bool:
    """Whether products in bfloat16 are faster than in float32: not with every unit for it.

    AVX512-BF16 doubles the rate of float32 on AMD's cores and halves it on Intel's, where AMX is the
    fast way; a virtual machine may hide that (`product_gflops` in benchmarks/results/train.json).
    """
    if device.type != "cpu" or torch.cpu._is_amx_tile_supported():
        return has_bf16_units(device)
    return has_bf16_units(device) and "AuthenticAMD" in _processor()


@functools.cache
def _processor() -> str:
    """What the system says of its processors; empty where it says nothing."""
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()


def autocast(dtype: torch.dtype, device: torch.device) -> contextlib.AbstractContextManager:
    """Matrix products in `dtype`; weights, norms' means and the loss stay in float32."""
    if dtype == torch.float32:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=dtype)
