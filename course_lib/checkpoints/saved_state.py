"""A checkpoint that has been opened: plain values at once, tensors where they are asked for.

What it is: `SavedState.fill`, which reads into tensors that are there already, each rank its own
shards however many ranks there are, and the forms a state takes on the way: flat, nested, with an
optimizer that names its parameters or counts them. What it leaves out: files.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

from course_lib.checkpoints import single_file
from course_lib.checkpoints.files import CheckpointError

# What torch.compile, activation checkpointing and FSDP1 put into the names of parameters.
WRAPPERS = ("_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.")


@dataclass(frozen=True)
class SavedState:
    """A good checkpoint. `fill` is for every rank to call; the rest needs no one else."""

    path: Path
    """Where it lies."""
    plain: dict[str, Any]
    """The state without the tensors of "model" and "optimizer"."""
    shapes: dict[str, Tensor]
    """Those tensors by path, such as "model/norm.weight", without their numbers."""
    read: Callable[[Path, dict[str, Tensor]], None]
    """Fills tensors, by path, in place."""

    @classmethod
    def from_state(
        cls, state: dict[str, Any], names: list[str], path: Path = Path("memory")
    ) -> "SavedState":
        """From a whole state in memory, as `DistributedTrainer` saves it.

        Its optimizer counts parameters; `names` is theirs in that order. No collective: each rank
        has the whole state and copies its own parts.
        """
        parts = {
            "model": plain_names(state["model"]),
            "optimizer": name_parameters(state["optimizer"], names),
        }
        tensors = flatten(parts)
        shapes = {name: torch.empty_like(t, device="meta") for name, t in tensors.items()}
        return cls(
            path,
            state | without_tensors(parts),
            shapes,
            lambda _, targets: copy_parts(tensors, targets),
        )

    @classmethod
    def of_file(cls, path: Path, names: list[str]) -> "SavedState":
        """From a .pt file. CheckpointError for a file that is not good, or lacks a part."""
        state = single_file.load(path)
        if missing := {"step", "model", "optimizer"} - state.keys():
            raise CheckpointError(
                f"expected a training checkpoint, {path.name} lacks {', '.join(sorted(missing))}"
            )
        return cls.from_state(state, names, path)

    def refuse_other(self, model: dict[str, Tensor]) -> None:
        """CheckpointError unless the model that was saved has these names and shapes."""
        found = {n: t for n, t in self.shapes.items() if n.startswith("model/")}
        refuse_other_shapes(found, flatten({"model": model}))

    def fill(self, state: dict[str, Any]) -> dict[str, Any]:
        """Overwrite the tensors of `state`, {"model": ..., "optimizer": ...}, in place; return it with
        the plain values that were saved, such as the optimizer's groups.

        A DTensor gets this rank's part alone: who saved it, and on how many ranks, does not matter.
        Optimizer state that was not there yet begins at 0, as the optimizer would begin it.
        Collectives: of small objects, never of tensors. CheckpointError for another model; nothing
        has been changed then.
        """
        tensors = flatten(state)
        known = {name: t for name, t in tensors.items() if name in self.shapes}
        refuse_other_shapes(self.shapes, known)
        self.read(self.path, known)
        for name in tensors.keys() - known.keys():
            tensors[name].zero_()
        return unflatten({name: self.plain[name] for name in state}, tensors)


def flatten(state: dict[str, Any], prefix: str = "") -> dict[str, Tensor]:
    """The tensors in nested dicts, by path: the keys on the way, joined by "/"."""
    found = {}
    for key, value in state.items():
        if isinstance(value, dict):
            found |= flatten(value, f"{prefix}{key}/")
        elif isinstance(value, Tensor):
            found[f"{prefix}{key}"] = value
    return found


def without_tensors(state: dict[str, Any]) -> dict[str, Any]:
    """Nested dicts without the tensors in them."""
    return {
        k: without_tensors(v) if isinstance(v, dict) else v
        for k, v in state.items()
        if not isinstance(v, Tensor)
    }


def unflatten(plain: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
    """What `flatten` and `without_tensors` took apart."""
    whole = {k: unflatten(v, {}) if isinstance(v, dict) else v for k, v in plain.items()}
    for path, tensor in tensors.items():
        *keys, last = path.split("/")
        place = whole
        for key in keys:
            place = place.setdefault(key, {})
        place[last] = tensor
    return whole


def copy_parts(whole: dict[str, Tensor], targets: dict[str, Tensor]) -> None:
    """Copy into each target its part of the whole tensor of that path. No collective."""
    for name, target in targets.items():
        source = whole[name]
        if isinstance(target, DTensor):
            mesh, placements = target.device_mesh, target.placements
            # src_data_rank None: every rank has the whole, and cuts its own part out
            source = distribute_tensor(source, mesh, placements, src_data_rank=None).to_local()
            target = target.to_local()
        target.copy_(source)


def refuse_other_optimizer(saved_config: dict[str, Any], optimizer: str) -> None:
    """ValueError unless a run of these settings, as a dict, was trained with that optimizer.

    Settings of before there was a choice say nothing, and stand for "adamw".
    """
    known = isinstance(saved_config, dict)  # else the file says nothing of it
    saved = saved_config.get("optimizer", "adamw") if known else "adamw"
    if saved != optimizer:
        raise ValueError(
            f"the checkpoint was written with --optimizer {saved}, whose state {optimizer} cannot "
            f"use: pass --optimizer {saved} to go on with it, or another --out to start again"
        )


def number_parameters(optimizer: dict[str, Any]) -> dict[str, Any]:
    """An optimizer's state by name of parameter, as `Optimizer.state_dict` writes it: by number."""
    names = [name for group in optimizer["param_groups"] for name in group["params"]]
    return _rename_parameters(optimizer, {name: number for number, name in enumerate(names)})


def name_parameters(optimizer: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The reverse: `names` is that of each parameter, in the order of the groups.

    CheckpointError when there are more or fewer parameters than names.
    """
    count = sum(len(group["params"]) for group in optimizer["param_groups"])
    if count != len(names):
        raise CheckpointError(
            f"the checkpoint is of another model: its optimizer has {count} parameters, this one "
            f"{len(names)}"
        )
    return _rename_parameters(optimizer, dict(enumerate(names)))


def _rename_parameters(optimizer: dict[str, Any], to: dict) -> dict[str, Any]:
    groups = [
        group | {"params": [to[p] for p in group["params"]]} for group in optimizer["param_groups"]
    ]
    return {"state": {to[p]: s for p, s in optimizer["state"].items()}, "param_groups": groups}


def plain_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state dict of the bare model, from that of one wrapped by DDP, compile or FSDP.

    DDP's "module." goes where it leads every name: a model may have a part called module.
    """
    for part in WRAPPERS:
        state = {name.replace(part, ""): value for name, value in state.items()}
    while state and all(name.startswith("module.") for name in state):
        state = {name.removeprefix("module."): value for name, value in state.items()}
    return state


def refuse_other_shapes(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    """CheckpointError unless both have the same names, with the same shapes."""
    names = sorted(found.keys() | wanted.keys())
    odd = [
        n for n in names if n not in found or n not in wanted or found[n].shape != wanted[n].shape
    ]
    if odd:
        raise CheckpointError(
            f"the checkpoint is of another model: {len(odd)} of {len(names)} tensors differ, such "
            f"as {odd[0]}; pass the model_size it was made with (and --rungs padded_vocab only if it "
            f"was made with that, too), or another --out"
        )
