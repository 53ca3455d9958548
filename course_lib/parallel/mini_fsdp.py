"""Fully sharded data parallelism by hand: gather a block, compute with it, free it, scatter its gradient.

What it is: a wrapper around a module that keeps 1 / R of its weights, gradients and optimizer state on
each rank, and puts the whole weights together only while they are needed. What it leaves out: what
torch's fully_shard does beyond it (gathering the next block ahead of time, frozen parameters, which
stay whole here, activation checkpointing around a block, initialization without the whole model).

Sources: Rajbhandari et al. 2020 ("ZeRO"), section 5.3; Zhao et al. 2023 ("PyTorch FSDP"), sections
3.2 and 4.

N parameters of one wrapped module, R ranks. Its flat weights are cut into R shards of S = ceil(N / R)
numbers, the last ones padded with zeros. A group of None is the default group; where there is
none, the world has one rank and nothing is sent.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from course_lib.parallel.zero import shard_of
from course_lib.ranks.collectives import all_gather, place, reduce_scatter


@dataclass(frozen=True)
class Slot:
    """Where one weight belongs."""

    owner: nn.Module
    """The module that reads it."""
    name: str
    """The attribute of the owner."""
    path: str
    """Its name in the wrapped module, such as "attention.q_proj.weight"."""
    index: int
    """Its number among the parameters; tied weights share one."""


class FlatModule(nn.Module):
    """`module` without weights of its own: they are one flat vector, of which `self.shard` is a part.

    This is what `ShardedModule` stands on: where each weight belongs, and how a graph refers to weights
    that come and go.

    Args: `module`; `dtype`, in which it computes and gathers, the weights' own where None;
    `reshard_after_forward`; `group`. ValueError when no trained parameter is left, or when they
    differ in dtype.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        dtype: torch.dtype | None = None,
        reshard_after_forward: bool = True,
        group: dist.ProcessGroup | None = None,
    ):
        super().__init__()
        self.module, self.group = module, group
        self.reshard_after_forward = reshard_after_forward
        self.slots, params = _take_out(module)
        if not params or len({p.dtype for p in params}) > 1:
            found = ", ".join(sorted({str(p.dtype) for p in params})) or "none"
            raise ValueError(f"expected trained parameters of one dtype to shard, got {found}")
        self.dtype = dtype or params[0].dtype
        self.shapes = [p.shape for p in params]
        flat = torch.cat([p.detach().reshape(-1) for p in params])
        self.num_params = flat.numel()
        self.shard = nn.Parameter(shard_of(flat, group))
        """This rank's part, (S,): what the optimizer trains."""
        self.full: Tensor | None = None
        """All weights, flat, (R * S,) in `dtype`, while they are gathered; else None."""

    whole: Callable[[], Tensor]
    """All weights again, for the backward pass: `ShardedModule` says how."""

    @contextlib.contextmanager
    def using(self, full: Tensor) -> Iterator[None]:
        """Inside, every module reads its weight from flat `full`, as a view; outside it has none.

        What autograd saves inside goes through `keep`, and through `bring_back` when it is asked for.
        """
        sizes = [shape.numel() for shape in self.shapes]
        *parts, _ = full.split([*sizes, full.numel() - self.num_params])
        for slot in self.slots:
            setattr(slot.owner, slot.name, parts[slot.index].view(self.shapes[slot.index]))
        try:
            with saved_tensors_hooks(self.keep, self.bring_back):
                yield
        finally:
            for slot in self.slots:
                delattr(slot.owner, slot.name)

    def cast(self, args: tuple) -> list:
        """The arguments of a call, floating-point tensors in `self.dtype`."""
        return [a.to(self.dtype) if _is_float(a) else a for a in args]

    def keep(self, x: Tensor) -> Tensor | tuple:
        """What autograd keeps of `x` for backward: a place in `self.full` if it lies there, else `x`.

        A graph that kept the weights themselves would hold every block until backward.
        """
        if self.full is None or _address(x) != _address(self.full):
            return x
        return x.size(), x.stride(), x.storage_offset()

    def bring_back(self, kept: Tensor | tuple) -> Tensor:
        """The tensor that `keep` was given, for backward."""
        return kept if isinstance(kept, Tensor) else self.whole().as_strided(*kept)


class ShardedModule(FlatModule):
    """`module` with its trained weights cut: each rank keeps one shard, `self.shard`, (S,).

    Call it as the module. The optimizer gets `shard`, a Parameter; its gradient is this rank's part
    of the mean over the ranks. Wrap inner modules first: a wrapper takes what they have left. All
    ranks must bring the same weights, and call the same wrapped modules in the same order.

    One step, on every rank, of a module of N weights:
    1. forward: `gather` all N, compute, forget them;
    2. backward, when the first operation asks for a weight: `whole` gathers again;
    3. when the gradient of all N is there: forget the weights, `scatter` the gradient.

    Collectives: an all-gather in forward and one in backward, each of N numbers in `self.dtype`,
    and a reduce-scatter of N float32 numbers. A rank sends (R - 1) / R of the bytes of each. If
    `self.reshard_after_forward` is False, the gathered weights stay from forward to backward: one
    all-gather fewer, N more numbers held.
    """

    def forward(self, *args):
        """What `self.module(*self.cast(args))` returns, computed inside `self.using(gathered)`.

        `gathered = Unshard.apply(self.shard, self)` calls `gather`; its backward pass is `scatter`.
        Before the module runs, `self.full` becomes `gathered.detach()`. Afterwards it becomes None
        again, with one exception: it stays for the backward pass if `self.reshard_after_forward` is
        False and `torch.is_grad_enabled()`. Leave no other reference to the gathered weights. If
        the module raises, the step is over, and `self.full` may be anything.
        """
        gathered = Unshard.apply(self.shard, self)
        self.full = gathered.detach()
        with self.using(gathered):
            out = self.module(*self.cast(args))
        if self.reshard_after_forward or not torch.is_grad_enabled():
            self.full = None
        return out

    def gather(self) -> Tensor:
        """All ranks' shards, flat, (R * S,) in `self.dtype`, outside any graph.

        One `all_gather(..., self.group)` in each call, of numbers that already have this dtype.
        """
        return all_gather(self.shard.detach().to(self.dtype), self.group)

    def whole(self) -> Tensor:
        """`self.full`, for the backward pass; if it is None, it is gathered again.

        The result stays in `self.full`, so that one all-gather serves every weight of the module.
        """
        if self.full is None:
            self.full = self.gather()
        return self.full

    def scatter(self, grad: Tensor) -> Tensor:
        """This rank's shard of the mean of `grad` over the ranks: (S,), in the shard's dtype.

        `grad`: (R * S,) in `self.dtype`, the gradient of the gathered weights, stays as it is.
        `self.full` is None afterwards: backward is through with this module. One
        `reduce_scatter(..., self.group)`, in float32: in 16 bits a sum of many ranks can lose
        digits with every addition.
        """
        self.full = None
        _, world_size = place(self.group)
        return (reduce_scatter(grad.float(), self.group) / world_size).to(self.shard.dtype)


class Unshard(torch.autograd.Function):
    """The shard of a `ShardedModule` to its whole weights; the gradient of them to that of the shard."""

    @staticmethod
    def forward(ctx, shard: Tensor, sharded: ShardedModule) -> Tensor:
        """`sharded.gather()`: (S,) to (R * S,)."""
        ctx.sharded = sharded
        return sharded.gather()

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        """`sharded.scatter(grad)`: (R * S,) to (S,)."""
        return ctx.sharded.scatter(grad), None


def shard_model(model: nn.Module, kinds: type | tuple[type, ...], **options) -> ShardedModule:
    """Wrap every part of `model` that is of these types, then what is left; changes `model`.

    `options` as `ShardedModule`. What is left, such as embedding, last norm and head, is needed
    first and last, so the outermost wrapper keeps its weights from forward to backward. ValueError
    for a weight that two wrappers would share, such as a tied one with one end in a wrapped part.
    """
    num_params = sum(p.requires_grad for p in model.parameters())
    for parent in reversed(list(model.modules())):  # inner parts before those around them
        for name, child in list(parent.named_children()):
            if isinstance(child, kinds):
                setattr(parent, name, ShardedModule(child, **options))
    whole = ShardedModule(model, **options | {"reshard_after_forward": False})
    wrappers = [m for m in whole.modules() if isinstance(m, FlatModule)]
    if sum(len(w.shapes) for w in wrappers) != num_params:
        raise ValueError(
            "a tied weight lies in two wrappers, which would train two copies of it: "
            "leave its owners unwrapped, so that the outermost wrapper has both"
        )
    return whole


def full_parameters(model: nn.Module) -> dict[str, Tensor]:
    """Copies of all parameters under the names of the plain model; every rank must call it.

    One all-gather per wrapper, in the shard's dtype, in which a rank receives the other ranks' shards;
    the result is as large as the plain model.
    """
    found = {}
    for module, prefix in _walk(model, ""):
        if isinstance(module, FlatModule):
            full = all_gather(module.shard.detach(), module.group)[: module.num_params]
            parts = full.split([shape.numel() for shape in module.shapes])
            for slot in module.slots:
                shape = module.shapes[slot.index]
                found[prefix + slot.path] = parts[slot.index].view(shape).clone()
        else:
            own = module.named_parameters(recurse=False, remove_duplicate=False)
            found |= {prefix + name: p.detach().clone() for name, p in own}
    return found


def _take_out(module: nn.Module) -> tuple[list[Slot], list[Tensor]]:
    """Remove the trained parameters that no inner wrapper has: where they were, and what."""
    slots: list[Slot] = []
    params: list[Tensor] = []
    for owner, prefix in _walk(module, ""):
        for name, p in list(owner.named_parameters(recurse=False, remove_duplicate=False)):
            if isinstance(owner, FlatModule) or not p.requires_grad:
                continue
            index = next((i for i, known in enumerate(params) if known is p), len(params))
            params += [p] * (index == len(params))
            slots.append(Slot(owner, name, prefix + name, index))
            delattr(owner, name)
    return slots, params


def _walk(module: nn.Module, prefix: str) -> Iterator[tuple[nn.Module, str]]:
    """Every module below `module` with the prefix of its names, as if nothing were wrapped."""
    yield module, prefix
    if isinstance(module, FlatModule):
        yield from _walk(module.module, prefix)
        return
    for name, child in module.named_children():
        yield from _walk(child, f"{prefix}{name}.")


def _address(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _is_float(value) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
