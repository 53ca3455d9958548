"""ZeRO: the state of training cut into one piece per rank, by formula and, for stage 1, by hand.

What it is: bytes held and bytes sent by stage, one sharded AdamW update as a pure function, and the
optimizer around it. What it leaves out: sharded gradients between backward and update (stage 2),
sharded weights (stage 3, mini_fsdp.py), and clipping, which needs one more sum over ranks.

Source: Rajbhandari et al. 2020 ("ZeRO: Memory Optimizations Toward Training Trillion Parameter
Models"), sections 3.1, 5 and 7.

N parameters, R ranks. The flat vector of all weights is cut into R shards of S = ceil(N / R); the last
ones are padded with zeros.
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.ranks.collectives import (
    all_gather,
    collective_cost,
    pad_to_multiple,
    place,
    reduce_scatter,
)
from course_lib.training.adamw import adamw_step

STAGES = (0, 1, 2, 3)


def check_stage(stage: int, world_size: int) -> None:
    """ValueError for a stage that is none of `STAGES`, or a world_size below 1."""
    if stage not in STAGES:
        raise ValueError(f"stage must be one of {', '.join(map(str, STAGES))}, got {stage!r}")
    if world_size < 1:
        raise ValueError(f"world_size must be at least 1, got {world_size}")


def zero_memory(
    num_params: int,
    world_size: int,
    stage: int,
    *,
    param_bytes: int = 2,
    grad_bytes: int = 2,
    optimizer_bytes: int = 12,
) -> dict[str, int]:
    """Bytes of training state on each of `world_size` ranks: "weights", "gradients", "optimizer".

    Stage 0 is plain data parallelism: every rank holds all. Stage 1 shards the optimizer's state,
    stage 2 the gradients too, stage 3 the weights too. A shard has ceil(num_params / world_size)
    numbers. Each number takes `param_bytes`, `grad_bytes` or `optimizer_bytes` (12: float32 master
    copy and Adam's two moments). Each size is used as it is given. Results are exact ints, however
    large. Activations and the blocks that stage 3 has gathered for the moment don't count.
    ValueError as `check_stage(stage, world_size)`.

    Source: Rajbhandari et al. 2020, section 5 and figure 1.
    """
    check_stage(stage, world_size)
    shard = -(-num_params // world_size)
    held = [shard if stage >= first else num_params for first in (3, 2, 1)]
    each = (param_bytes, grad_bytes, optimizer_bytes)
    names = ("weights", "gradients", "optimizer")
    return {name: n * b for name, n, b in zip(names, held, each, strict=True)}


def zero_traffic(
    num_params: int, world_size: int, stage: int, *, param_bytes: int = 2, grad_bytes: int = 2
) -> float:
    """Bytes that each rank sends for one update, all collectives in rings.

    Stage 0 all-reduces the gradients. Stages 1 and 2 reduce-scatter them and all-gather the new
    weights: the two halves of an all-reduce, so as much where weights and gradients have the same
    bytes. Stage 3 gathers the weights twice, before forward and before backward: half as much again
    then. Padding is left out. ValueError as `check_stage`.

    Source: Rajbhandari et al. 2020, section 7.
    """
    check_stage(stage, world_size)
    issued = {
        0: [("all_reduce", grad_bytes)],
        1: [("reduce_scatter", grad_bytes), ("all_gather", param_bytes)],
        2: [("reduce_scatter", grad_bytes), ("all_gather", param_bytes)],
        3: [("reduce_scatter", grad_bytes), ("all_gather", param_bytes), ("all_gather", param_bytes)],
    }  # fmt: skip
    costs = (collective_cost(name, num_params * b, world_size) for name, b in issued[stage])
    return sum(cost["bytes"] for cost in costs)


def shard_of(flat: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """This rank's S numbers of a flat vector of N: a copy, padded with zeros where N ends early."""
    rank, world_size = place(group)
    return pad_to_multiple(flat, world_size).chunk(world_size)[rank].clone()


def zero1_step(
    grad: Tensor,
    master: Tensor,
    m: Tensor,
    v: Tensor,
    step: int,
    *,
    lr: float,
    betas: tuple[float, float],
    weight_decay: float,
    eps: float = 1e-8,
    group: dist.ProcessGroup | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Update number `step` (from 1) of N weights, of which each rank updates S = ceil(N / R).

    `grad` (N,): this rank's own gradient of all weights, not averaged, in the dtype of the model.
    `master`, `m`, `v` (S,) float32: this rank's shard of the weights and of AdamW's two moments.
    The last shards are padded with zeros. The arguments stay as they are.
    Returns (weights, master, m, v). `weights` are all N new weights in grad's dtype, the same on
    every rank. The others are the three new shards. The update is `adamw_step` with the mean of the
    gradients over the R ranks: the summed gradients, divided in float32.
    Collectives: one `reduce_scatter` of the gradients and one `all_gather` of the weights, both in
    grad's dtype. Together they send 2 (R - 1) / R times the bytes of the gradients, padded to R * S
    numbers. A `group` of None is the default group; where there is none, the world has one rank.
    """
    _, world_size = place(group)
    mine = reduce_scatter(pad_to_multiple(grad, world_size), group)
    mean = mine.float() / world_size
    master, m, v = adamw_step(
        master, mean, m, v, step, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps
    )
    weights = all_gather(master.to(grad.dtype), group)[: grad.numel()]
    return weights, master, m, v


class ShardedAdamW(torch.optim.Optimizer):
    """AdamW whose state lies on R ranks: 12 bytes per parameter in all, 12 / R on each.

    Use it in place of DDP and AdamW: `step()` averages the gradients itself. All ranks must begin with
    the same weights. A parameter without a gradient counts as one with zeros; frozen ones are passed
    over. Settings are `lr`, `betas`, `eps` and `weight_decay` of `torch.optim.AdamW`, read from
    `param_groups` at each step. `state_dict()` holds this rank's shards alone. ValueError for a group
    of frozen ones alone.

    Collectives per step and group: one reduce-scatter and one all-gather, see `zero1_step`.
    """

    def __init__(
        self,
        params: Iterable,
        *,
        lr: float = 1e-3,
        betas: tuple = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        group: dist.ProcessGroup | None = None,
    ):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))
        self.group = group
        for settings in self.param_groups:
            if not _trained_params(settings):
                raise ValueError("expected a parameter that requires_grad in every group, got none")
            flat = torch.cat([p.detach().reshape(-1) for p in _trained_params(settings)])
            master = shard_of(flat, group).float()
            settings["step"], settings["master"] = 0, master
            settings["m"], settings["v"] = torch.zeros_like(master), torch.zeros_like(master)

    @torch.no_grad()
    def step(self, closure=None):
        """One update of every group from each `p.grad`; the closure's result, if there is one."""
        with torch.enable_grad():
            loss = closure() if closure else None
        for settings in self.param_groups:
            params = _trained_params(settings)
            grad = torch.cat(
                [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in params]
            )
            settings["step"] += 1
            fixed = {key: settings[key] for key in ("lr", "betas", "weight_decay", "eps")}
            state = [settings[key] for key in ("master", "m", "v", "step")]
            weights, *state = zero1_step(grad, *state, **fixed, group=self.group)
            settings["master"], settings["m"], settings["v"] = state
            for p, new in zip(params, weights.split([p.numel() for p in params]), strict=True):
                p.copy_(new.view_as(p))
        return loss


def _trained_params(settings: dict) -> list[Tensor]:
    return [p for p in settings["params"] if p.requires_grad]
