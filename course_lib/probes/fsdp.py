"""What one rank decides, holds and sends when `FSDPTrainer` trains a tiny model: plain values.

What it is: probes for `local_ranks.run`, with which a lesson and its checks look at a trainer class,
a learner's among them. Meshes, policies and modules cannot leave a rank, so they are told in words
and numbers. What it leaves out: judging them (course_lib/checks), updates, speed.
"""

import contextlib
import dataclasses
import os
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

    For a strategy that FSDPConfig would refuse, and with "uneven": the name of the exception that
    `method` raises, or REFUSED. Another "model_size" is a model without numbers, whose blocks in
    "frozen" do not train and those in "derived" are of a class of their own. With "wrapped" that
    one sits in an nn.Sequential, after the last of `blocks` comes a norm, and one more block is
    outside, as `last_block`. "anew" makes another trainer. "device" and "dtype" are those of the
    trainer, whatever its settings ask for.
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
    wrapped = case.pop("wrapped", None)
    dtype, uneven = case.pop("dtype", case.get("precision", "fp32")), case.pop("uneven", False)
    trainer.device = torch.device(case.pop("device", "cpu"))
    trainer.world = dataclasses.replace(trainer.world, device=trainer.device)
    trainer.config = config(**case | ({} if known else {"sharding": "FULL_SHARD"}))
    trainer.dtype = DTYPES[dtype]
    if "model_size" in case:
        with torch.device("meta"):
            trainer.plain_model = GPT(trainer.config.model_config(V))
        for number in frozen:
            trainer.plain_model.blocks[number].requires_grad_(False)
        for number in derived:
            trainer.plain_model.blocks[number].__class__ = DerivedBlock
        if wrapped is not None:
            _scatter_blocks(trainer.plain_model, wrapped)
    if known and not uneven:
        found = getattr(trainer, method)()
    else:
        if not known:
            object.__setattr__(trainer.config, "sharding", case["sharding"])
        try:
            found = getattr(trainer, method)()
        except (KeyError, ValueError):
            return REFUSED
        except Exception as error:
            return type(error).__name__
    told = _plain_decision(found, trainer.plain_model)
    _leave()
    return told


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
