"""Which number format a run computes in, and what that takes.

What it is: the choice between float32, bfloat16 and float16 by device, and autocast for it. What it
leaves out: how the formats differ and why scaling helps (lesson 14).
"""

import contextlib
import functools
import platform
from collections.abc import Iterator
from pathlib import Path

import torch

DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "ieee": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
"""What tensors are multiplied in, by the word for it; "auto" stands for one, see `compute_dtype`."""


def compute_dtype(precision: str, device: torch.device) -> torch.dtype:
    """The dtype of matrix products for a word of DTYPES, or for "auto".

    "auto" takes bfloat16 where the device's units make it faster than float32; it is the same on
    every run and rank of a machine. Three words mean float32, see `takes_tf32`. ValueError for
    another word.
    """
    if precision == "auto":
        return torch.bfloat16 if bf16_pays(device) else torch.float32
    if precision not in DTYPES:
        raise ValueError(f"precision must be auto, {', '.join(DTYPES)}; got {precision!r}")
    return DTYPES[precision]


def takes_tf32(precision: str, device: torch.device) -> bool:
    """Whether products of float32 round their inputs to 19 bits (TF32: 8 of exponent, 10 of mantissa).

    On a GPU with units for it, compute capability 8.0 or later, that multiplies the rate by 8 or so.
    Sums and all that is no matrix product keep float32. "fp32", or "auto" where it comes to float32,
    takes it where the units are; "tf32" insists on it; "ieee" computes in float32 to the last bit.
    ValueError for "tf32" on a device without the units.
    """
    has_units = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
    if precision == "tf32" and not has_units:
        raise ValueError(
            f"tf32 needs a GPU of compute capability 8.0 or later, this run is on {device.type}: "
            f"pass --precision fp32"
        )
    return has_units and precision != "ieee" and compute_dtype(precision, device) == torch.float32


@contextlib.contextmanager
def float32_products(tf32: bool) -> Iterator[None]:
    """Products of float32 in float32, or with inputs of 19 bits; afterwards as it was before."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


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
