"""A kernel over rows under a check: launched on made-up tensors, every access counted.

What it is: `launch_cases`, which the checks of `rmsnorm_kernel` run where the answer is
(`local_ranks.run(..., probe=)`), always with the interpreter of tiles.py, so that a verdict does not
depend on Triton being installed. What it leaves out: which numbers are right.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.fast import tiles


def launch_cases(answer: Any, cases: list[dict]) -> list[dict]:
    """Each case: "x" (N, X), of whose rows the first D numbers are the input, "weight" (D,), "gap",
    the numbers between two rows of the output, "eps", "block"; and maybe "out_dtype", else that of x.

    Returns of each case: "out" (N, D), NaN where nothing was stored; "loads" and "stores", times for
    each number of x, weight and out; or "error", with "doing", "tensor", "between" and "text".
    """
    kernel = tiles.Kernel(_function(answer))
    return [_launch_case(kernel, **case) for case in cases]


def _function(answer: Any) -> Callable:
    """What was decorated, by this course's `jit` or by Triton's."""
    for name in ("function", "fn"):
        answer = getattr(answer, name, answer)
    return answer


def _launch_case(
    kernel: tiles.Kernel,
    x: Tensor,
    weight: Tensor,
    gap: int,
    eps: float,
    block: int,
    out_dtype: torch.dtype | None = None,
) -> dict:
    N, D = x.shape[0], len(weight)
    x_ND = x[:, :D]
    out_ND = torch.full((N, D + gap), math.nan, dtype=out_dtype or x.dtype)[:, :D]
    try:
        with tiles.count_launches() as launches:
            kernel[(N,)](
                x_ND, weight, out_ND, x_ND.stride(0), out_ND.stride(0), D, eps, BLOCK=block
            )
    except tiles.OutOfBounds as problem:
        place = list(kernel.signature.parameters).index(problem.name)
        return {
            "error": "OutOfBounds",
            "doing": problem.doing,
            "between": problem.between,
            "tensor": ("x", "weight", "out")[place],
            "text": str(problem),
        }
    except ValueError as problem:
        if "power of two" not in str(problem):
            raise
        return {"error": "ValueError", "text": str(problem)}
    (launch,) = launches
    loads, stores = (
        [counts.contiguous() for counts in side.values()] for side in (launch.loads, launch.stores)
    )
    return {"error": "", "out": out_ND.contiguous(), "loads": loads, "stores": stores}
