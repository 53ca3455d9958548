"""How many FLOPs a second a device could do at best: what utilization is a share of.

What it is: the makers' figures for dense matrix products of a few GPUs, and a measured matrix
product for everything else. What it leaves out: memory bandwidth (lesson 11).
"""

import time

import torch

# Dense TFLOP/s in 16 bits with float32 sums, from NVIDIA's data sheets: A100 (2021), H100 SXM
# (2023), H200 (2024), L4 (2023), V100 (2018, float16 alone).
DATA_SHEETS = {"A100": 312, "H100": 989, "H200": 989, "L4": 121, "V100": 125}


def peak_flops(device: torch.device, dtype: torch.dtype) -> tuple[float, str]:
    """(FLOPs per second, where the figure is from) for matrix products of that dtype.

    "data sheet" for a GPU of the table in 16 bits, else "measured": the best of at least 8 products
    of 2048 x 2048 matrices (8192 on a GPU), half a second of them. On a machine with other work
    even the best is too low, and utilization then too high.
    """
    if device.type == "cuda" and dtype != torch.float32:
        name = torch.cuda.get_device_name(device)
        for part, teraflops in DATA_SHEETS.items():
            if part in name:
                return teraflops * 1e12, "data sheet"
    return _measure_rate(device, dtype), "measured"


def _measure_rate(device: torch.device, dtype: torch.dtype, seconds: float = 0.5) -> float:
    size = 8192 if device.type == "cuda" else 2048
    a, b = (torch.ones(size, size, device=device, dtype=dtype) for _ in range(2))
    best, rounds, ends = float("inf"), 0, time.perf_counter() + seconds
    while time.perf_counter() < ends or rounds < 8:
        rounds += 1
        _wait(device)
        began = time.perf_counter()
        a @ b
        _wait(device)
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
