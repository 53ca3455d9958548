"""What a cache of keys and values holds and what one call of it costs, told in plain values.

What it is: the probes of the checks of `KVCache`. What it leaves out: what is right, which
course_lib.checks says.
"""

import copy
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten


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


def set_length(cache: Any, length: int) -> None:
    """Take back what is kept from place `length` on."""
    cache.length = length


def count_flops(cache: Any, *given: Tensor) -> int:
    """FLOPs of the matrix products of `attend(*given)` of a copy of the cache, in the fused kernel
    of the CPU too; 0 where it does something that cannot be watched."""
    try:
        with torch.no_grad(), _Products() as products:
            copy.deepcopy(cache).attend(*given)
    except Exception:  # it may make tensors of a kind of its own
        return 0
    return products.flops


def count_written(cache: Any, *given: Tensor) -> int:
    """Numbers that `attend(*given)` of a copy of the cache writes, into new tensors or over old ones;
    0 where it does something that cannot be watched."""
    own = copy.deepcopy(cache)
    try:
        with torch.no_grad(), _Written() as written:
            own.attend(*given)
    except Exception:  # it may make tensors of a kind of its own
        return 0
    return written.numbers


class _Written(TorchDispatchMode):
    """Counts while it is entered. Views write nothing, and places by index are not the whole."""

    BY_INDEX = (aten.index_copy_, aten.index_put_, aten._index_put_impl_, aten.scatter_)

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        old = {x.untyped_storage().data_ptr() for x in tree_leaves(args) if isinstance(x, Tensor)}
        out, kind = func(*args, **(kwargs or {})), func._overloadpacket
        over = func._schema.is_mutable and kind not in self.BY_INDEX
        for x in tree_leaves(out):
            if isinstance(x, Tensor) and (over or x.untyped_storage().data_ptr() not in old):
                self.numbers += x.numel()
        return out


class _Products(TorchDispatchMode):
    """Counts while it is entered: 2 FLOPs for each multiply-add."""

    def __init__(self):
        super().__init__()
        self.flops = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out, kind = func(*args, **(kwargs or {})), func._overloadpacket
        if kind in (aten.mm, aten.bmm):
            self.flops += 2 * out.numel() * args[0].shape[-1]
        elif kind in (aten.addmm, aten.baddbmm):
            self.flops += 2 * out.numel() * args[1].shape[-1]
        elif kind == aten._scaled_dot_product_flash_attention_for_cpu:
            self.flops += 4 * args[0].numel() * args[1].shape[2]
        return out
