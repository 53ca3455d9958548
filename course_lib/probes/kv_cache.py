"""What a cache of keys and values holds and what one call of it costs, told in plain values.

What it is: the probes of the checks of `KVCache`. What it leaves out: what is right, which
course_lib.checks says.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode


def spoil_room(cache: Any) -> None:
    """Write NaN into all that was reserved, as memory that nobody has written may hold."""
    cache.k_BGMK.fill_(torch.nan)
    cache.v_BGMK.fill_(torch.nan)


def look_inside(cache: Any) -> dict[str, Any]:
    """ "k", "v" and "length" as they are, and "at", where the two tensors lie in memory."""
    k, v = cache.k_BGMK, cache.v_BGMK
    at = [x.data_ptr() if isinstance(x, Tensor) else 0 for x in (k, v)]
    return {"k": _copy(k), "v": _copy(v), "length": cache.length, "at": at}


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def count_flops(cache: Any, *given: Tensor) -> int:
    """FLOPs of the matrix products of `cache.attend(*given)`, in the fused kernel of the CPU too."""
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    with FlopCounterMode(display=False, custom_mapping={kernel: _attention_flops}) as counter:
        cache.attend(*given)
    return int(counter.get_total_flops())


def _attention_flops(q: Any, k: Any, v: Any, *args: Any, out_shape: Any = None, **named: Any) -> int:
    B, H, T, K = q
    return 4 * B * H * T * k[2] * K
