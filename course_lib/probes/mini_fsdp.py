"""What one rank holds, sends and finds with a `ShardedModule` by hand: plain values.

What it is: probes for `local_ranks.run`, with which a lesson and its checks look at a learner's
class on a small GPT and on an odd model. What it leaves out: judging (course_lib/checks), updates.
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.gpt import GPT, GPTConfig, TransformerBlock
from course_lib.measure.held import Held
from course_lib.parallel import mini_fsdp
from course_lib.parallel.mini_fsdp import FlatModule, full_parameters, shard_model
from course_lib.ranks.traffic import Traffic

LAYERS, T, V = 3, 8, 23
CONFIG = GPTConfig(
    vocab_size=V, max_seq_len=T, num_layers=LAYERS, num_heads=2, d_model=16, d_hidden=40
)


class Odd(nn.Module):
    """Two layers with one weight, a frozen layer, and one that no forward pass uses."""

    def __init__(self, seed: int = 0):
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.second = nn.Linear(5, 5), nn.Linear(5, 5)
        self.frozen, self.unused = nn.Linear(5, 5), nn.Linear(2, 3)
        self.second.weight = self.first.weight
        self.frozen.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.frozen(torch.tanh(self.second(torch.tanh(self.first(x)))))


def gpt(seed: int = 0) -> GPT:
    """The model of `observe`."""
    torch.manual_seed(seed)
    return GPT(CONFIG)


def observe(
    kind: type[FlatModule], cases: list[dict], idx: Tensor, targets: Tensor, seed: int = 0
) -> list[dict]:
    """One forward and backward pass of a GPT of which each block is a `kind`, for each case.

    A case holds `dtype` and `reshard_after_forward`, as ShardedModule takes them. "sent": the
    collectives with bytes, and a mark between the passes. "loss" of this rank; "grads", the whole
    gradients by name. "shards": numbers the optimizer gets, by wrapper. Bytes of what was made and
    is alive: "after_forward", and "left" after the backward pass. "open": wrappers of blocks that
    are gathered after the forward pass, "open_after" after the backward pass; "open_eval" after a
    forward pass without gradients.
    """
    mini_fsdp.ShardedModule = kind  # on this rank: what shard_model wraps with
    return [
        _observe_pass(shard_model(gpt(seed), TransformerBlock, **case), idx, targets)
        for case in cases
    ]


def _observe_pass(model: FlatModule, idx: Tensor, targets: Tensor) -> dict:
    wrappers = [m for m in model.modules() if isinstance(m, FlatModule)]
    with Traffic() as traffic, Held() as held:
        loss = model(idx, targets)[1]
        traffic.mark("backward")
        after_forward, opened = held.settled_bytes(), sum(m.full is not None for m in wrappers[1:])
        loss.backward()
        value, seen = loss.item(), list(traffic.seen)
        del loss
        left, open_after = held.settled_bytes(), sum(m.full is not None for m in wrappers)
    shards = [p.numel() for p in model.parameters()]
    with torch.no_grad():
        model(idx, targets)
    return {
        "sent": seen,
        "loss": value,
        "shards": shards,
        "after_forward": after_forward,
        "left": left,
        "open": opened,
        "open_after": open_after,
        "grads": _gradients(model),
        "open_eval": sum(m.full is not None for m in wrappers),
    }


def odd_gradients(
    kind: type[FlatModule], batches: list[Tensor], seed: int = 0
) -> dict[str, Tensor]:
    """Gradients, by name, of `Odd` in one wrapper, after a backward pass of each batch of this rank."""
    model = kind(Odd(seed))
    for x in batches:
        model(x).pow(2).mean().backward()
    return _gradients(model)


def call_methods(
    kind: type[FlatModule], members: list[list[int]], weights: Tensor, grad: Tensor, x: Tensor
) -> list[dict]:
    """What the methods do on a layer of `weights` (out, in), sharded among the ranks of a group.

    Twice: float32 weights gathered in bfloat16, then bfloat16 ones. `members`: the ranks of each
    group. "gather": what it gives, "whole": what the first call gives, "again": whether a second
    gives the same without a collective; "scatter": this rank's shard for the gradient `grad`,
    "changed": whether that holds other numbers then, "freed": whether nothing is gathered then;
    "scatter_wide" and "changed_wide": the same where weights are gathered in float32, as is `grad`;
    "sent": collectives, with a mark before each method; "out": what the layer makes of a float32
    `x`, without a graph. "later": what `_call_later` says, with weights that are freed, then kept.
    "frozen": whether a forward pass of a shard that is not trained, of an x that needs a gradient,
    keeps what it gathered where it is to be kept.
    """
    groups = [(ranks, dist.new_group(ranks)) for ranks in members]
    group = next(g for ranks, g in groups if dist.get_rank() in ranks)
    return [
        _call_each(kind, weights.to(d), grad, x, group) for d in (torch.float32, torch.bfloat16)
    ]


def _layer(weights: Tensor) -> nn.Linear:
    layer = nn.Linear(weights.shape[1], weights.shape[0], bias=False, dtype=weights.dtype)
    layer.weight.data.copy_(weights)
    return layer


def _call_each(kind: type[FlatModule], weights: Tensor, grad: Tensor, x: Tensor, group) -> dict:
    model = kind(_layer(weights), dtype=torch.bfloat16, group=group)
    with Traffic() as traffic:
        gathered = model.gather()
        traffic.mark("whole")
        first = model.whole()
        again = first.clone(), model.whole()
        traffic.mark("scatter")
        given = grad.clone()
        scattered = model.scatter(given)
    with torch.no_grad():
        out = model(x)
    given_wide = grad.float()
    wide = kind(_layer(weights), dtype=torch.float32, group=group)
    wide.whole()
    scattered_wide = wide.scatter(given_wide)
    return {
        "gather": gathered,
        "graph": isinstance(gathered, Tensor) and gathered.requires_grad,
        "whole": first,
        "again": torch.equal(*again),
        "scatter": scattered,
        "changed": not torch.equal(given, grad),
        "scatter_wide": scattered_wide,
        "changed_wide": not torch.equal(given_wide, grad.float()),
        "freed": model.full is None,
        "sent": traffic.seen,
        "out": out,
        "later": [_call_later(kind, weights, x, group, frees) for frees in (True, False)],
        "frozen": _keeps_frozen(kind, weights, x, group),
    }


PASSES = ("", "", "no_grad", "eval", "no_grad", "")
"""Forward passes of `_call_later`, of which none has a backward pass."""


def loud(x: Tensor) -> Tensor:
    """Positive numbers, of which a sum is far from 0: beside them it shows whether weights grow."""
    return x.abs() + 0.5


def _call_later(kind: type[FlatModule], weights: Tensor, x: Tensor, group, frees: bool) -> list:
    """(what the layer makes of `loud(x)`, its collectives) in each of PASSES; then `gather` by itself.

    After each of them every weight grows by 1: in the shard itself, or by a new `data` of it.
    """
    options = dict(dtype=torch.bfloat16, reshard_after_forward=frees, group=group)
    model, found = kind(_layer(weights), **options), []
    for i, mode in enumerate((*PASSES, "gather")):
        model.train(mode != "eval")
        with Traffic() as traffic, torch.set_grad_enabled(mode != "no_grad"):
            out = model.gather() if mode == "gather" else model(loud(x))
        found.append((out.detach().clone(), [name for name, _ in traffic.seen]))
        if i % 2:
            model.shard.data = model.shard.data + 1
        else:
            model.shard.data.add_(1)
    return found


def _keeps_frozen(kind: type[FlatModule], weights: Tensor, x: Tensor, group) -> bool:
    model = kind(_layer(weights), dtype=torch.bfloat16, reshard_after_forward=False, group=group)
    model.shard.requires_grad_(False)
    model(x.clone().requires_grad_())
    return model.full is not None


def _gradients(model: nn.Module) -> dict[str, Tensor]:
    """Whole gradients under the names of the plain model: gathered in place of the weights."""
    shards = [m.shard for m in model.modules() if isinstance(m, FlatModule)]
    if any(p.grad is None for p in shards):
        return {}
    kept = [p.data for p in shards]
    for p in shards:
        p.data = p.grad
    found = full_parameters(model)
    for p, data in zip(shards, kept, strict=True):
        p.data = data
    return found
