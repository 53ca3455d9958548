"""Attention in tiles, by whatever can run it here: kernels of a GPU, or plain torch.

What it is: the one function that chooses between triton_flash.py and flash.py, and one that gives it
to a GPT. What it leaves out: both of them.
"""

import functools
from typing import cast

from torch import Tensor

from course_lib.fast.flash import TiledAttention, refuse_misfits
from course_lib.fast.triton_flash import triton_attention, why_not
from course_lib.gpt import GPT, CausalSelfAttention


def flash_attention(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    v_BHTK: Tensor,
    *,
    tile: int = 64,
    causal: bool = True,
    num_keys: Tensor | None = None,
    kernel: bool = False,
) -> Tensor:
    """As `gpt.causal_attention`, with memory that grows with T and not with its square.

    Arguments as `flash_forward`, of which it returns `out`; gradients flow to q, k and v. `kernel`
    takes those of triton_flash.py, which have tiles of their own, where they can run, and plain torch
    elsewhere. ValueError for shapes, dtypes, `tile` or `num_keys` that do not fit.
    """
    refuse_misfits(q_BHTK, k_BHTK, v_BHTK, tile, num_keys)
    if kernel and not why_not(q_BHTK):
        found = triton_attention(q_BHTK, k_BHTK, v_BHTK, causal=causal, num_keys=num_keys)
        return cast(Tensor, found)  # no logsumexp was asked for
    return TiledAttention.apply(q_BHTK, k_BHTK, v_BHTK, tile, causal, num_keys)


def use_flash_attention(model: GPT) -> GPT:
    """Let every block of `model` attend by `flash_attention`, with kernels where they run. Returns the model.

    In place; no parameter changes. Plain torch in tiles, elsewhere, is several times slower than
    torch's own fused attention, which a GPT takes by default. A model with fewer heads of keys than of
    queries is refused at its first forward pass, with ValueError.
    """
    for part in model.modules():
        if isinstance(part, CausalSelfAttention):
            part.attend = functools.partial(flash_attention, kernel=True)
    return model
