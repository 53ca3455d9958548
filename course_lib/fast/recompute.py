"""Activation checkpointing with a choice: what to keep, what to compute again.

What it is: the cheapest set of parts whose recomputation makes a forward pass fit; a GPT whose half
blocks are recomputed by such a plan; and a policy for torch's selective checkpointing, which keeps
the products of a block and recomputes the rest. What it leaves out: offloading, compiled graphs.

Sources: Chen et al. 2016 ("Training deep nets with sublinear memory cost"); Korthikanti et al. 2022,
section 5 (selective recomputation).
"""

from collections.abc import Callable, Collection, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from course_lib.gpt import GPT, GPTConfig
from course_lib.measure.activations import activation_bytes

PRODUCTS = frozenset({torch.ops.aten.mm.default, torch.ops.aten.bmm.default})


def recompute_plan(
    kept: Sequence[int], inputs: Sequence[int], flops: Sequence[int], budget: int
) -> list[int]:
    """Positions, sorted, of the parts to recompute so that all fit into `budget` at the least cost.

    Part i keeps kept[i] bytes. If recomputed, it keeps only its input, inputs[i] bytes (usually
    fewer, but maybe more), and costs flops[i]. The three lists have one length, up to 12. All
    numbers are whole. All parts together keep at most `budget` bytes, and no other choice that fits
    costs fewer FLOPs. Of choices with the same cost, any will do. [] when nothing needs to be
    recomputed. ValueError when no choice fits.
    """
    excess = sum(kept) - budget
    cheapest = {min(0, excess): (0, [])}  # bytes freed -> the FLOPs they cost, and the parts
    for part, (whole, left, cost) in enumerate(zip(kept, inputs, flops, strict=True)):
        for freed, (spent, parts) in list(cheapest.items()):
            more = min(freed + whole - left, excess)  # beyond the excess all are alike
            if more not in cheapest or spent + cost < cheapest[more][0]:
                cheapest[more] = spent + cost, [*parts, part]
    if excess not in cheapest:
        raise ValueError(f"{sum(map(min, kept, inputs))} bytes at the least, over {budget}")
    return cheapest[excess][1]


def half_blocks(config: GPTConfig, batch: int, seq_len: int) -> tuple[list, list, list]:
    """(kept, inputs, flops) of a float32 GPT's half blocks, as `recompute_plan` takes them.

    Part 2 i is norm and attention of block i, part 2 i + 1 its norm and MLP. FLOPs are those of the
    matrix products in one forward pass, future tokens included.
    """
    parts = activation_bytes(config, batch, seq_len)
    D, L, N = config.d_model, config.num_layers, batch * seq_len
    norm = parts["norms"] // (2 * L + 1)
    kept = [norm + parts["attention"] // L, norm + parts["mlp"] // L]
    flops = [4 * N * D * (D + config.d_kv + seq_len), 6 * N * D * config.d_hidden]
    return kept * L, [4 * N * D] * (2 * L), flops * L


def loss_by_plan(model: GPT, idx: Tensor, targets: Tensor, plan: Collection[int]) -> Tensor:
    """The loss of `model(idx, targets)`, with the half blocks in `plan` recomputed in backward."""
    T = idx.shape[1]
    cos_TK, sin_TK = model.cos_TK[:T], model.sin_TK[:T]
    x_BTD = model.embedding(idx)
    for number, block in enumerate(model.blocks):
        halves: tuple[Callable[[Tensor], Tensor], ...] = (
            lambda x, block=block: block.attention(block.attention_norm(x), cos_TK, sin_TK),
            lambda x, block=block: block.mlp(block.mlp_norm(x)),
        )
        for half, function in enumerate(halves):
            if 2 * number + half in plan:
                x_BTD = x_BTD + checkpoint(function, x_BTD, use_reentrant=False)
            else:
                x_BTD = x_BTD + function(x_BTD)
    logits_BTV = model.head(model.norm(x_BTD))
    return F.cross_entropy(logits_BTV.flatten(0, 1).float(), targets.flatten())


def keep_products(context, operation, *args, **kwargs) -> CheckpointPolicy:
    """A policy of `create_selective_checkpoint_contexts`: matrix products stay, the rest goes."""
    if operation in PRODUCTS:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


def selective_contexts():
    """For `checkpoint(block, ..., use_reentrant=False, context_fn=selective_contexts)`.

    Kept products live in the context, out of sight of `saved_bytes`; `Held` sees them.
    """
    return create_selective_checkpoint_contexts(keep_products)
