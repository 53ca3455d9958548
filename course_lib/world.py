"""The processes that train together: who this one is, how many there are, which device it uses.

What it is: rank and world size from the environment that torchrun sets, one process group, and the
few collectives that a trainer needs beside its gradients. What it leaves out: meshes and sub-groups
(mesh.py), collectives by hand (collectives.py).

Without torchrun the world has one process, no group, and every method returns at once: the same
code trains on a laptop.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

TIMEOUT_S = 60
"""Seconds until a collective that one rank never joins becomes an error on the others."""


@dataclass(frozen=True, kw_only=True)
class World:
    """One process among `world_size`. Pass it on; nothing here is global."""

    rank: int = 0
    """Number of this process among all, from 0."""
    local_rank: int = 0
    """Number of this process on its machine, from 0; also the number of its GPU."""
    world_size: int = 1
    """How many processes there are on all machines."""
    device: torch.device = torch.device("cpu")
    """Where this process computes."""
    group: dist.ProcessGroup | None = None
    """The group of all processes; None when there is one."""

    @classmethod
    def from_environment(cls, device: str = "auto", *, cpu_too: bool = False) -> "World":
        """The world that torchrun has set up, or a world of one without it.

        `device`: "auto" (a GPU where there is one), "cpu" or "cuda". On GPUs the group speaks NCCL,
        else gloo; with `cpu_too` gloo as well, for tensors that have been offloaded. Call `close()`
        at the end. ValueError for a device that is not there.
        """
        place = _device(device, int(os.environ.get("LOCAL_RANK", 0)))
        if "RANK" not in os.environ:
            return cls(device=place)
        _init_group(place, cpu_too)
        return cls.of_group(device)

    @classmethod
    def of_group(cls, device: str = "cpu") -> "World":
        """The world of the default group that is there, such as on a rank of `local_ranks`.

        Where there is none, one of this process alone is made: sharding asks for a group, even of
        one. ValueError for a device that is not there.
        """
        local_rank = int(os.environ.get("LOCAL_RANK", 0))
        place = _device(device, local_rank)
        if not dist.is_initialized():
            _init_group(place, cpu_too=True, store=dist.HashStore(), rank=0, world_size=1)
        return cls(rank=dist.get_rank(), local_rank=local_rank, world_size=dist.get_world_size(),
                   device=place, group=dist.group.WORLD)  # fmt: skip

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, the one that writes and prints."""
        return self.rank == 0

    def sum(self, value: torch.Tensor) -> torch.Tensor:
        """The sum of `value` over all ranks, a new tensor of its shape and dtype, on every rank.

        One all-reduce: 2 (R - 1) / R times the bytes of `value` sent per rank, for R ranks.
        """
        total = value.detach().to(self.device, copy=True)
        if self.group is not None:
            dist.all_reduce(total, group=self.group)
        return total

    def gather(self, value: Any) -> list[Any]:
        """The small Python values of all ranks in rank order, on rank 0; [] elsewhere.

        One gather of pickled objects: for kilobytes such as random states, never for weights.
        """
        if self.group is None:
            return [value]
        found = [None] * self.world_size if self.is_first else None
        dist.gather_object(value, found, group=self.group)
        return found or []

    def broadcast(self, value: Any) -> Any:
        """Rank 0's small Python value, on every rank. One broadcast of a pickled object."""
        if self.group is None:
            return value
        box = [value]
        dist.broadcast_object_list(box, group=self.group)
        return box[0]

    def barrier(self) -> None:
        """Wait until every rank is here. Moves no data of ours."""
        if self.group is not None:
            dist.barrier(group=self.group)

    def close(self) -> None:
        """Leave the group. The world can't be used afterwards."""
        if self.group is not None:
            self.barrier()
            dist.destroy_process_group()


def run(main: Callable[[World], None], device: str = "auto", *, cpu_too: bool = False) -> None:
    """Call `main(world)` in the world of the environment, and end the process properly.

    A ValueError of `main` is what a person got wrong: one line, status 2. Under gloo the process
    leaves by `os._exit`: threads of gloo that still hold tensors otherwise abort some programs after
    their work is done (torch 2.13: 7 of 15 runs that send and receive).
    """
    try:
        world = World.from_environment(device, cpu_too=cpu_too)
        main(world)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    if dist.is_initialized():
        world = World.of_group(device)  # a world of one may have got its group in `main`
    gloo = world.group is not None and world.device.type == "cpu"
    world.close()
    if gloo:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _init_group(place: torch.device, cpu_too: bool, **meeting) -> None:
    """Make the default group; `meeting` says where, unless torchrun's environment does."""
    limit = timedelta(seconds=TIMEOUT_S)
    if place.type == "cpu":
        dist.init_process_group("gloo", timeout=limit, **meeting)
        return
    torch.cuda.set_device(place)
    backend = "cpu:gloo,cuda:nccl" if cpu_too else "nccl"
    dist.init_process_group(backend, timeout=limit, device_id=place, **meeting)


def _device(name: str, local_rank: int) -> torch.device:
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "cpu" or (name == "auto" and not found):
        return torch.device("cpu")
    if name not in ("auto", "cuda"):
        raise ValueError(f"device must be auto, cpu or cuda, got {name!r}")
    if local_rank >= found:
        raise ValueError(
            f"local rank {local_rank} wants GPU {local_rank}, and this machine has {found}: start "
            f"fewer processes per machine (--nproc_per_node={max(found, 1)}) or pass --device cpu"
        )
    return torch.device("cuda", local_rank)
