"""Which number format a run computes in, and what that takes.

What it is: the choice between float32, bfloat16 and float16 by device, and autocast for it. What it
leaves out: how the formats differ and why scaling helps (lesson 12).
"""

import contextlib

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def compute_dtype(precision: str, device: torch.device) -> torch.dtype:
    """The dtype of matrix products for "fp32", "bf16", "fp16", or "auto".

    "auto" takes bfloat16 where the device has units for it: without them it is emulated, and slower
    than float32. ValueError for another word.
    """
    if precision == "auto":
        return torch.bfloat16 if has_bf16_units(device) else torch.float32
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


def autocast(dtype: torch.dtype, device: torch.device) -> contextlib.AbstractContextManager:
    """Matrix products in `dtype`; weights, norms' means and the loss stay in float32."""
    if dtype == torch.float32:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=dtype)
