"""The sharded trainer's checkpoints on ranks: a known state saved or loaded, and what came of it.

What it is: what a check runs on each rank (`local_ranks.run(..., probe=...)`), a model of one small
block whose every number follows from a seed. What it leaves out: what is right, which is for the
check to say. Values that come back are plain: shapes, hashes, counts.
"""

import contextlib
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_leaves

from course_lib.checkpoints import manifest, sharded, single_file
from course_lib.checkpoints.dcp_index import read_index
from course_lib.checkpoints.files import CheckpointError
from course_lib.checkpoints.saved_state import flatten, name_parameters, without_tensors
from course_lib.probes.known_state import (
    TOKENS,
    digest,
    known_tensor,
    local_part,
    numbers_of,
    plain_state,
    put_state,
    random_numbers,
    settings_of,
    tensors_of,
    trainer_at,
)
from course_lib.probes.seats import leave_seat, take_seat
from course_lib.ranks.traffic import Traffic
from course_lib.ranks.world import World
from course_lib.runs.random_states import random_states
from course_lib.training.fsdp_trainer import FSDPTrainer, full_tensor

PARTS = ("step", "tokens_seen", "model", "optimizer", "scaler", "loader", "ranks", "config")
OBJECT_BYTES = 24_000  # of a rank, pickled: twice its random states, half of the state in tensors
SLOW_S = 0.15  # by which the last rank is late with its file


class _Incomplete(Exception):
    """A state that cannot be written; what it lacks is in the facts."""


class _Traffic(Traffic):
    """Calls all-gathers of whole numbers "objects": pickled ones, which random states may be."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        seen = len(self.seen)
        out = super().__torch_dispatch__(func, types, args, kwargs)
        tensors = [x for x in tree_leaves(args) if isinstance(x, Tensor)]
        if self.seen[seen:] and not any(x.is_floating_point() for x in tensors):
            name, num_bytes = self.seen[seen]
            self.seen[seen] = ("objects" if name == "allgather" else name, num_bytes)
        return out


def save_cases(kind: type, seed: int, cases: list[dict]) -> list[dict]:
    """`save_checkpoint` of a trainer in the state of `seed`, with each of these settings.

    With "frozen" the weight of the last norm is not trained any more. torchrun's names say that the
    ranks are on one machine. With "again" the facts have, under that name, what a second save at the
    same step handed over, in another state and with a machine for each rank: see `_save_again`.
    """
    return [_save_case(kind, seed, folder(str(i)), changes) for i, changes in enumerate(cases)]


def write_files(kind: type, seed: int) -> dict[str, Tensor]:
    """The files of a sharded checkpoint of that state, as the library writes it, on rank 0."""
    trainer = trainer_at(FSDPTrainer, folder("written"))
    put_state(trainer, seed)
    path = trainer.save_checkpoint()
    if not trainer.world.is_first:
        return {}
    return {
        p.name: torch.frombuffer(bytearray(p.read_bytes()), dtype=torch.uint8)
        for p in path.iterdir()
    }


def load_cases(kind: type, seed: int, files: dict[str, Tensor], cases: list[str]) -> list[dict]:
    """`load_checkpoint` of a trainer of another state, where those files lie, in each of the cases:

    "there": the checkpoint alone. "fresh": the same, and the optimizer has not made a step yet.
    "nothing": an empty folder. "half": beside a later folder that
    nobody has published. "text": with another text to read; "text fresh": that, and a new optimizer.
    "given": by its path, elsewhere. "full": in a run that saves one whole file itself. "apart":
    without sharding, and each rank is said to have a machine of its own; "there" is on one machine.
    "zero": what the library saves of that state as step 0, in place of the files.
    """
    return [_load_case(kind, seed, files, case, folder(case)) for case in cases]


def folder(name: str) -> Path:
    """A folder that all ranks see and that is removed with them: beside the file they met at."""
    store: Any = dist.group.WORLD.get_group_store()
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return Path(store.path).parent / name


def _meet(out: Path, rank: int, ranks: int) -> None:
    """Wait until every rank is here, without a message: one that is still inside a collective of
    the answer's must not get one of ours in its place."""
    (out.parent / f"{out.name}-{rank}").touch()
    while len(list(out.parent.glob(f"{out.name}-*"))) < ranks:
        time.sleep(0.005)


def _save_case(kind: type, seed: int, out: Path, changes: dict) -> dict:
    frozen, again = changes.pop("frozen", False), changes.pop("again", False)
    take_seat(dist.get_world_size())
    trainer = trainer_at(kind, out, **changes)
    put_state(trainer, seed)
    if frozen:
        trainer.plain_model.norm.requires_grad_(False)
    facts: dict[str, Any] = {"handed": None}
    full = trainer.config.checkpoint == "full"
    write = trainer.write_checkpoint

    def spy_on_write(state: dict) -> Path:
        lacks = [part for part in PARTS if part not in state]
        parts = flatten({k: v for k, v in state.items() if k in ("model", "optimizer")})
        sharded = sum(isinstance(t, DTensor) for t in parts.values())
        held = sum(local_part(t).nbytes for t in parts.values())
        # "step" of the optimizer is one number, which every rank has
        plain = {
            n: list(t.shape)
            for n, t in parts.items()
            if not isinstance(t, DTensor) and t.numel() > 1
        }
        facts.update(handed={"bytes": held, "sharded": sharded, "plain": plain, "lacks": lacks})
        if {"step", "model", "optimizer"} & set(lacks) or full and sharded:
            raise _Incomplete
        return write(state)

    trainer.write_checkpoint = spy_on_write
    returned = None
    with contextlib.suppress(_Incomplete), _delay_last_rank(trainer.world), _Traffic() as traffic:
        returned = trainer.save_checkpoint()
    facts["returned"] = None if returned is None else str(returned)
    places = sharded.candidates(out / "checkpoints")
    facts["at_once"] = len(places)
    trainer.checkpoints.wait()
    _meet(out, trainer.world.rank, trainer.world.world_size)
    objects = sum(b for name, b in traffic.seen if name == "objects")
    facts["gathered"] = sum(b for name, b in traffic.seen if name == "allgather")
    if objects > OBJECT_BYTES * trainer.world.world_size:
        facts["gathered"] += objects
    facts["kept"] = sum(local_part(t).nbytes for t in tensors_of(trainer).values())
    found = sharded.candidates(out / "checkpoints")
    facts["there"] = sorted(str(p.relative_to(out)) for p in out.rglob("*") if p.is_file())[:6]
    facts["file"] = _contents(found[0], trainer) if found and trainer.world.is_first else None
    facts["published"] = len(found)
    facts["one_file"] = bool(found) and found[0].is_file()
    facts["again"] = _save_again(trainer, seed + 1) if found and again else None
    leave_seat()
    return facts


def _save_again(trainer: FSDPTrainer, seed: int) -> dict[str, Any]:
    """A save at the step of the last one, in the state of another seed; nothing is written.

    "calls" of `write_checkpoint`; "other", the parts in which it got something else than that state.
    """
    handed: list[dict] = []
    step = trainer.step
    put_state(trainer, seed)
    trainer.step = step
    take_seat(1)

    def take_state(state: dict) -> Path:
        handed.append(state)
        return Path("the path")

    trainer.write_checkpoint = take_state
    trainer.save_checkpoint()
    return {
        "calls": len(handed),
        "other": _other_parts(handed[-1], trainer, seed) if handed else [],
    }


def _other_parts(state: dict, trainer: FSDPTrainer, seed: int) -> list[str]:
    own = {path: local_part(t) for path, t in tensors_of(trainer).items()}
    found = []
    for part in ("model", "optimizer"):
        for path, t in flatten({part: state.get(part) or {}}).items():
            path = path.replace("/state/", "/").replace("model/head.", "model/embedding.")
            whole = not isinstance(t, DTensor)
            right = known_tensor(path, t.shape, seed) if whole else own.get(path)
            found += [part] * (right is None or digest(local_part(t)) != digest(right))
    got, plain = _plain_values(state), plain_state(seed)
    for part, key in (
        ("tokens_seen", "tokens_seen"),
        ("loader", "next_window"),
        ("scaler", "scale"),
    ):
        found += [part] * (got[key] != plain[key])
    found += ["step"] * (got["step"] != trainer.step)
    if trainer.world.is_first:
        right_ranks = [random_numbers(seed, rank) for rank in range(trainer.world.world_size)]
        found += ["ranks"] * (got["ranks"] != right_ranks)
        found += ["optimizer"] * (got["groups"] != settings_of(trainer.optimizer.param_groups))
    return sorted(set(found))


@contextlib.contextmanager
def _delay_last_rank(world: World) -> Iterator[None]:
    """The last of several ranks is slow with the first tensor that it writes."""
    write, waits = torch.save, [SLOW_S]

    def save_slowly(*args, **kwargs):
        time.sleep(waits.pop() if waits else 0)
        return write(*args, **kwargs)

    if 1 < world.world_size == world.rank + 1:
        torch.save = save_slowly
    try:
        yield
    finally:
        torch.save = write


def _contents(path: Path, trainer: FSDPTrainer) -> dict:
    """What is in that checkpoint: {"plain": ..., "tensors": {path: [shape, hash]}}, or "problem";
    and "shards", the ranks of which the manifest of a folder names files."""
    facts: dict[str, Any] = {"shards": _shards(path) if path.is_dir() else None}
    try:
        plain, tensors = (_of_folder if path.is_dir() else _of_file)(path, trainer)
        return facts | {"plain": _plain_values(plain), "tensors": _hashes(tensors)}
    except (CheckpointError, KeyError, TypeError, IndexError) as error:
        return facts | {"problem": f"{type(error).__name__}: {error}"[:300]}


def _shards(path: Path) -> list[int]:
    try:
        names = manifest.read(path)["files"]
    except CheckpointError:
        return []
    return sorted(int(name[2]) for name in names if name[:2] == "__" and name[2:3].isdigit())


def _of_folder(path: Path, _: FSDPTrainer) -> tuple[dict, dict[str, Tensor]]:
    manifest.compare(path, manifest.read(path)["files"])
    index = read_index(path / sharded.DCP_INDEX)
    tensors = {name: torch.empty_like(like, device="cpu") for name, like in index.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this rank reads alone, as it should
        reader = dcp.FileSystemReader(path)
        dcp.load(tensors, storage_reader=reader, no_dist=True)
    return single_file.load(path / sharded.PLAIN), tensors


def _of_file(path: Path, trainer: FSDPTrainer) -> tuple[dict, dict[str, Tensor]]:
    state = single_file.load(path)
    names = [name for group in trainer.optimizer_groups() for name in group["names"]]
    parts = {"model": state["model"], "optimizer": name_parameters(state["optimizer"], names)}
    return without_tensors(state), flatten(parts)


def _plain_values(state: dict[str, Any]) -> dict[str, Any]:
    """The values of a state that are no tensors, as few plain ones; None for what is missing."""
    parts = (state.get(k) or {} for k in ("loader", "scaler", "config", "optimizer"))
    loader, scaler, config, optimizer = parts
    ranks = state.get("ranks")
    return {
        "lacks": [part for part in PARTS if part not in state],
        "step": state.get("step"),
        "tokens_seen": state.get("tokens_seen"),
        "next_window": loader.get("next_window"),
        "scale": scaler.get("scale"),
        "tracker": scaler.get("_growth_tracker"),
        "lr": config.get("lr") if isinstance(config, dict) else None,
        "settings": sorted(config) if isinstance(config, dict) else [],
        "groups": settings_of(optimizer.get("param_groups", ())),
        "ranks": [numbers_of(r) for r in ranks] if isinstance(ranks, list) else None,
    }


def _hashes(tensors: dict[str, Tensor]) -> dict[str, list]:
    return {path: [list(t.shape), digest(t)] for path, t in tensors.items()}


def _load_case(kind: type, seed: int, files: dict[str, Tensor], case: str, out: Path) -> dict:
    other = seed + 100
    tokens = TOKENS[::-1].copy() if case.startswith("text") else TOKENS
    changes = {"checkpoint": "full"} if case == "full" else {}
    changes |= {"sharding": "NO_SHARD"} if case == "apart" else {}
    if case in ("there", "apart"):
        take_seat(1 if case == "apart" else dist.get_world_size())
    trainer = trainer_at(kind, out, tokens, max_steps=60, **changes)  # 50 in what was saved
    settings = trainer.config
    put_state(trainer, other, moments="fresh" not in case)
    step = plain_state(seed)["step"]
    place = (out / "elsewhere" if case == "given" else out / "checkpoints") / f"step_{step:08d}"
    if case == "zero":
        source = trainer_at(FSDPTrainer, out)
        put_state(source, seed)
        source.step = 0
        source.save_checkpoint()
        source.checkpoints.wait()
    elif trainer.world.is_first and case != "nothing":
        _lay(place, files)
        if case == "half":
            _lay_half(place.with_name(f"step_{step + 1:08d}"), files)
    dist.barrier()
    facts: dict[str, Any] = {"error": None, "returned": None}
    with Traffic() as traffic:
        try:
            facts["returned"] = trainer.load_checkpoint(*([place] if case == "given" else []))
        except NotImplementedError:
            raise
        except (Exception, CheckpointException) as error:  # DCP's is none of Python's
            facts["error"] = [type(error).__name__, isinstance(error, ValueError), str(error)[:200]]
    facts["sent"] = sum(b for name, b in traffic.seen if name in ("allgather", "broadcast"))
    facts |= _plain_values(
        {
            "step": trainer.step,
            "tokens_seen": trainer.tokens_seen,
            "loader": trainer.loader.state_dict(),
            "scaler": trainer.scaler.state_dict(),
            "ranks": [random_states()],
        }
    )
    leave_seat()
    facts["groups"] = settings_of(trainer.optimizer.param_groups)
    facts["max_steps"] = trainer.config.max_steps if trainer.config == settings else "others"
    tensors = {path: full_tensor(t) for path, t in tensors_of(trainer).items()}
    facts["tensors"] = _hashes(tensors) if trainer.world.is_first else None
    facts["kept"] = sum(local_part(t).nbytes for t in tensors_of(trainer).values())
    return facts


def _lay(place: Path, files: dict[str, Tensor]) -> None:
    place.mkdir(parents=True)
    for name, content in files.items():
        (place / name).write_bytes(content.numpy().tobytes())


def _lay_half(place: Path, files: dict[str, Tensor]) -> None:
    """A later folder of a save that was killed: everything but the manifest, its shards of zeros."""
    _lay(place, {name: data for name, data in files.items() if name != manifest.NAME})
    for shard in place.glob("*.distcp"):
        shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 2])
