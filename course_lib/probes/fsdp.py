"""What one rank decides, holds and sends when `FSDPTrainer` trains a tiny model: plain values.

What it is: probes for `local_ranks.run`, with which a lesson and its checks look at a trainer class,
a learner's among them. Meshes, policies and modules cannot leave a rank, so they are told in words
and numbers. What it leaves out: judging them (course_lib/checks), updates, speed.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
from torch.distributed.tensor import DTensor

from course_lib.gpt import GPT, RMSNorm, TransformerBlock
from course_lib.measure.held import Held
from course_lib.measure.memory import tensor_bytes
from course_lib.ranks.traffic import Traffic
from course_lib.ranks.world import World
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.fsdp_config import STRATEGIES, FSDPConfig
from course_lib.training.fsdp_trainer import FSDPTrainer

V, T = 37, 16
"""Vocabulary of the runs, tokens in a sequence of theirs."""
REFUSED = "KeyError or ValueError"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class DerivedBlock(TransformerBlock):
    """A block of a class of its own, which is a TransformerBlock all the same."""


class TwiceDerivedBlock(DerivedBlock):
    """A block whose class is derived from that one."""


def config(
    *,
    sharding: str = "FULL_SHARD",
    shard_size: int | None = None,
    precision: str = "fp32",
    seed: int = 0,
    machine: int | None = None,
    model_size: str = "tiny",
) -> FSDPConfig:
    """Settings of a tiny run. `machine`: how many ranks are said to share one machine."""
    os.environ.pop("LOCAL_WORLD_SIZE", None)
    if machine:
        os.environ["LOCAL_WORLD_SIZE"] = str(machine)
    return FSDPConfig(
        model_size=model_size,
        seq_len=T,
        batch_size=2,
        precision=precision,
        device="cpu",
        warmup_steps=0,
        seed=seed,
        sharding=sharding,
        shard_size=shard_size,
    )


def make(kind: type[FSDPTrainer], **case) -> FSDPTrainer:
    """A trainer on this rank, with the settings of `config(**case)`."""
    text = (np.arange(99) % V).astype(np.uint16)  # for its loader, which nothing here uses
    return kind(config(**case), text, vocab_size=V, world=World.of_group())


def decide(kind: type[FSDPTrainer], method: str, cases: list[dict]) -> list[Any]:
    """What `method` says in each case (arguments of `make`), in plain values, before sharding.

    For a strategy that FSDPConfig would refuse, and with "may_raise": the name of the exception
    that `method` raises, or REFUSED. Another "model_size" is a model without numbers, whose blocks
    in "frozen" do not train and those in "derived" are of classes of their own, the last of them of
    one that is derived twice. With "wrapped" that one sits in an nn.Sequential, after the last of
    `blocks` comes a norm, and one more block is outside, as `last_block`. With "shared" that block
    stands in an nn.Sequential called `extra` too, and again at the end of `blocks`. "anew" makes
    another trainer. "device", "dtype" and "world_size" are those of the trainer, whatever its
    settings ask for and however many ranks there are; "default" is torch's default dtype.
    """
    whole = {
        "_build_model": DistributedTrainer._build_model,
        "_wrap_model": lambda self: self.plain_model,
    }
    trainer = make(type(kind.__name__, (kind,), whole))
    found = []
    for case in cases:
        case = dict(case)
        if case.pop("anew", False):
            trainer = make(type(kind.__name__, (kind,), whole))
        found.append(_decide_case(trainer, method, case))
    return found


def _decide_case(trainer: FSDPTrainer, method: str, case: dict) -> Any:
    known = case.get("sharding", "FULL_SHARD") in STRATEGIES
    frozen, derived = case.pop("frozen", ()), case.pop("derived", ())
    wrapped, shared = case.pop("wrapped", None), case.pop("shared", None)
    dtype = case.pop("dtype", case.get("precision", "fp32"))
    may_raise, default = case.pop("may_raise", False), case.pop("default", "fp32")
    trainer.device = torch.device(case.pop("device", "cpu"))
    size = case.pop("world_size", dist.get_world_size())
    trainer.world = dataclasses.replace(trainer.world, device=trainer.device, world_size=size)
    trainer.config = config(**case | ({} if known else {"sharding": "FULL_SHARD"}))
    trainer.dtype = DTYPES[dtype]
    if "model_size" in case:
        with torch.device("meta"):
            trainer.plain_model = GPT(trainer.config.model_config(V))
        for number in frozen:
            trainer.plain_model.blocks[number].requires_grad_(False)
        for number in derived:
            last = number == derived[-1]
            kind = TwiceDerivedBlock if last else DerivedBlock
            trainer.plain_model.blocks[number].__class__ = kind
        if wrapped is not None:
            _scatter_blocks(trainer.plain_model, wrapped)
        if shared is not None:
            _share_block(trainer.plain_model, shared)
    if not known:
        object.__setattr__(trainer.config, "sharding", case["sharding"])
    try:
        with Traffic() as traffic, _default_dtype(DTYPES[default]):
            found = getattr(trainer, method)()
    except Exception as error:
        if isinstance(error, NotImplementedError) and known or not (may_raise or not known):
            raise
        return REFUSED if isinstance(error, (KeyError, ValueError)) else type(error).__name__
    told = _plain_decision(found, trainer.plain_model)
    if isinstance(told, list) and told and isinstance(told[0], dict) and "shape" in told[0]:
        told[0]["sent"] = [name for name, _ in traffic.seen if name != "barrier"]
    _leave()
    return told


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _share_block(model: GPT, shared: int) -> None:
    model.extra = nn.Sequential(model.blocks[shared])
    model.blocks.append(model.blocks[shared])


def _scatter_blocks(model: GPT, wrapped: int) -> None:
    with torch.device("meta"):
        model.last_block = TransformerBlock(model.config)
        model.blocks.append(RMSNorm(model.config.d_model))
    model.blocks[wrapped] = nn.Sequential(model.blocks[wrapped])


def _leave() -> None:
    """Give up the groups that meshes have made: each has threads."""
    dist.barrier()  # a rank that is still connecting must not lose its peer
    for group in list(dist.distributed_c10d._world.pg_map):
        if group is not dist.group.WORLD:
            dist.destroy_process_group(group)


def observe(
    kind: type[FSDPTrainer], cases: list[dict], idx: Tensor, targets: Tensor, peak: bool = False
) -> list[dict]:
    """Forward and backward pass of each case (arguments of `make`) on this rank's batch.

    "sent": collectives with their bytes, and a mark between the passes. "loss" of this rank;
    "squares", the sum of the squares of its part of the gradient of the mean over ranks. Bytes:
    "weights" and "gradients" of its parts; "gathered", whole weights that stay after the forward
    pass; with `peak` "peak", the most that the forward pass made (slow: every operation is
    followed). "dtypes" of what a block sees, by name. "whole": parameters of the model; "units":
    those of each module that `fully_shard` was called on, by its name.
    """
    found = []
    for case in cases:
        trainer = make(kind, **case)
        found.append(_observe_pass(trainer, idx, targets, peak))
        _leave()
    return found


def _observe_pass(trainer: FSDPTrainer, idx: Tensor, targets: Tensor, peak: bool) -> dict:
    model, dtypes = trainer.plain_model, {}
    whole, units = _units(model)
    attention = model.blocks[0].attention
    attention.register_forward_pre_hook(
        lambda module, args: dtypes.update(weight=module.q_proj.weight.dtype, table=args[1].dtype)
    )
    with Traffic() as traffic:
        with Held() if peak else contextlib.nullcontext() as held:
            loss = trainer.mean_loss(idx, targets)
        traffic.mark("backward")
        gathered = sum(
            p.numel() * p.element_size() for p in model.parameters() if not hasattr(p, "to_local")
        )
        trainer.backward(loss / trainer.world.world_size)
    scale = trainer.scaler.get_scale()  # 1 but in float16
    parts = [cast(DTensor, p.grad).to_local() for p in model.parameters()]
    return {
        "sent": [(name, b) for name, b in traffic.seen if b > 8 or name == "backward"],
        "loss": loss.item(),
        "squares": sum(g.double().pow(2).sum().item() for g in parts) / scale**2,
        "weights": tensor_bytes(model.parameters()),
        "gradients": tensor_bytes(parts),
        "gathered": gathered,
        "peak": held.peak if peak else None,
        "whole": whole,
        "units": units,
        "dtypes": dtypes | {"shard": attention.q_proj.weight.dtype, "gradient": parts[0].dtype},
    }


def _units(model: nn.Module) -> tuple[int, dict[str, int]]:
    """Parameters of the model, and of each unit of FSDP by name; the root's name is ""."""
    units, taken = {}, set()
    for name, module in reversed(list(model.named_modules())):  # inner modules first
        if isinstance(module, FSDPModule):
            own = {p for p in cast(nn.Module, module).parameters() if p not in taken}
            units[name], taken = sum(p.numel() for p in own), taken | own
    return sum(p.numel() for p in model.parameters()), units


def _plain_decision(found: Any, model: nn.Module) -> Any:
    """A decision in plain values; what is none of ours goes as the name of its type."""
    if isinstance(found, MixedPrecisionPolicy):
        return {
            "param": found.param_dtype,
            "reduce": found.reduce_dtype,
            "output": found.output_dtype,
            "inputs": found.cast_forward_inputs,
        }
    if isinstance(found, DeviceMesh):
        return {
            "shape": tuple(found.mesh.shape),
            "names": found.mesh_dim_names,
            "ranks": found.mesh.flatten().tolist(),
            "device": found.device_type,
        }
    if isinstance(found, nn.Module):
        names = {id(module): name for name, module in model.named_modules()}
        kind = "block" if isinstance(found, TransformerBlock) else type(found).__name__
        return {"module": names.get(id(found)), "kind": "root" if found is model else kind}
    if isinstance(found, (tuple, list)):
        return [_plain_decision(one, model) for one in found]
    return found if found is None or isinstance(found, (bool, int)) else f"a {type(found).__name__}"
