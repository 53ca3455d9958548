"""How many FLOPs a second a device could do at best: what utilization is a share of.

What it is: the makers' figures for dense matrix products of a few GPUs, and a measured matrix
product for everything else. What it leaves out: memory bandwidth (lesson 13).
"""

import time

import torch

from course_lib.measure.timing import synchronize

BOTH = (torch.bfloat16, torch.float16)
HALF = (torch.float16,)  # units that came before bfloat16

# Dense TFLOP/s of products in 16 bits with float32 sums, from NVIDIA's data sheets; where a sheet
# gives the figure "with sparsity" alone, half of it. The name is the whole name, as
# torch.cuda.get_device_name has it behind "NVIDIA ": an L40S is no L4, and one H100 has less power
# to spend than another.
DATA_SHEETS = {
    # B200 (2024: 4.5 PFLOP/s with sparsity)
    "B200": (2250, BOTH),
    # H200 (2024: 1,979 with sparsity; NVL 1,671), GH200 (2023: 1,979)
    "H200": (989, BOTH),
    "H200 NVL": (835, BOTH),
    "GH200 480GB": (989, BOTH),
    # H100 (2023 and 2024: SXM 1,979 with sparsity, NVL 1,671, PCIe 1,513)
    "H100 80GB HBM3": (989, BOTH),
    "H100 NVL": (835, BOTH),
    "H100 PCIe": (756, BOTH),
    # A100 (2021), A30 (2021), A40 (2021)
    "A100-SXM4-40GB": (312, BOTH),
    "A100-SXM4-80GB": (312, BOTH),
    "A100-PCIE-40GB": (312, BOTH),
    "A100 80GB PCIe": (312, BOTH),
    "A30": (165, BOTH),
    "A40": (149.7, BOTH),
    # L4, L40, L40S (2023: 242, 362 and 733 with sparsity)
    "L4": (121, BOTH),
    "L40": (181, BOTH),
    "L40S": (362, BOTH),
    # GeForce, from the white papers of GA102 (2020) and Ada (2022): float16 with float32 sums
    "GeForce RTX 3090": (71, BOTH),
    "GeForce RTX 4090": (165.2, BOTH),
    # V100 (2018: SXM2 125, PCIe 112), T4 (2018)
    "Tesla V100-SXM2-16GB": (125, HALF),
    "Tesla V100-SXM2-32GB": (125, HALF),
    "Tesla V100-PCIE-16GB": (112, HALF),
    "Tesla V100-PCIE-32GB": (112, HALF),
    "Tesla T4": (65, HALF),
}
"""(TFLOP/s, the dtypes that reach them) by device."""


def peak_flops(device: torch.device, dtype: torch.dtype) -> tuple[float, str]:
    """(FLOPs per second, where the figure is from) for matrix products of that dtype.

    "data sheet" for a GPU and a dtype of the table, else "measured": the best of at least 8 products
    of 2048 x 2048 random matrices (8192 on a GPU), half a second of them; in float32 with TF32 where
    that is switched on. On a machine with other work even the best is too low, and utilization then
    too high. A measurement on a GPU clears torch's count of the most memory held so far, so that its
    own three matrices, up to 805 MB, are not in it.
    """
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device).removeprefix("NVIDIA ")
        teraflops, dtypes = DATA_SHEETS.get(name, (0.0, ()))
        if dtype in dtypes:
            return teraflops * 1e12, "data sheet"
    try:
        return _measure_rate(device, dtype), "measured"
    finally:
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)


def _measure_rate(device: torch.device, dtype: torch.dtype, seconds: float = 0.5) -> float:
    size = 8192 if device.type == "cuda" else 2048
    # numbers that differ: a matrix of ones switches few transistors, and a GPU clocks higher for it
    draw = torch.Generator(device).manual_seed(0)
    a, b = (torch.randn(size, size, device=device, dtype=dtype, generator=draw) for _ in range(2))
    best, rounds, ends = float("inf"), 0, time.perf_counter() + seconds
    while time.perf_counter() < ends or rounds < 8:
        rounds += 1
        synchronize(device)
        began = time.perf_counter()
        a @ b
        synchronize(device)
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best
