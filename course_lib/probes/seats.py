"""Ranks that take their seats as torchrun's environment says: what drives the checks of lesson 21.

What it is: `environment`, the texts that torchrun sets for one rank, and `launchers`, those of
other launchers; `take_seat`, which puts the first into this process; `meet`, which hands them to an
answer on real ranks and lets these form the group that it names, and `ask_launched`, which asks an
answer in a process that is itself a rank of some launch. What it leaves out:
starting processes (local_ranks.py, torchrun) and what an answer should say (world.py).
"""

import os
from collections.abc import Callable, Sequence
from datetime import timedelta

import torch
import torch.distributed as dist

MEET_S = 4.0
SEAT = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK")
LAUNCHERS = {  # of each: what it calls rank, local rank, number of ranks, and of those on a machine
    "Slurm": ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"),
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE",
                 "OMPI_COMM_WORLD_LOCAL_SIZE"),
    "MPICH": ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS"),
    "MVAPICH": ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE",
                "MV2_COMM_WORLD_LOCAL_SIZE"),
}  # fmt: skip
OTHERS = {
    "Slurm": ("SLURM_NPROCS", "SLURM_TASKS_PER_NODE", "SLURM_STEP_NUM_TASKS", "SLURM_NNODES"),
    "MPICH": ("PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", "PMIX_RANK"),
    "torch": ("GROUP_RANK", "NODE_RANK", "ROLE_RANK", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE"),
}
"""Further names, for some of those numbers."""


def environment(rank: int, *, per_machine: int, machines: int = 1) -> dict[str, str]:
    """What torchrun sets for that rank of `machines` with `per_machine` ranks each."""
    return environment_on(rank, [per_machine] * machines)


def environment_on(rank: int, ranks_by_machine: Sequence[int]) -> dict[str, str]:
    """What torchrun sets for that rank where machine m has `ranks_by_machine[m]` ranks."""
    machine, local_rank = 0, rank
    while local_rank >= ranks_by_machine[machine]:
        local_rank -= ranks_by_machine[machine]
        machine += 1
    return {
        "HOME": "nowhere",  # other things stand in an environment too
        "MASTER_ADDR": "node0",
        "MASTER_PORT": "29401",
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(sum(ranks_by_machine)),
        "LOCAL_WORLD_SIZE": str(ranks_by_machine[machine]),
        "GROUP_RANK": str(machine),
    }


def launchers(rank: int, local_rank: int, ranks: int, ranks_here: int) -> dict[str, dict[str, str]]:
    """What other launchers set for that rank, by launcher; some of them set more names."""
    numbers = [str(n) for n in (rank, local_rank, ranks, ranks_here)]
    found = {who: dict(zip(names, numbers, strict=True)) for who, names in LAUNCHERS.items()}
    for who, names in OTHERS.items():
        counts = {n: numbers[2 if "RANK" not in n else 0] for n in names}
        found[who] = found.get(who, {}) | counts
    return found


def take_seat(per_machine: int) -> None:
    """Let `os.environ` say that torchrun has started this group, so many ranks on each machine."""
    rank, size = dist.get_rank(), dist.get_world_size()
    seat = environment_on(rank, [per_machine] * (size // per_machine))
    os.environ |= {name: seat[name] for name in SEAT}


def leave_seat() -> None:
    """Take those names out of `os.environ`."""
    for name in SEAT:
        os.environ.pop(name, None)


def meet(read: Callable, machines: int) -> dict:
    """On each rank of a group: read the environment of that many machines, and meet accordingly.

    Returns {"said": what `read` says here, "met": by rank of the new group, the rank each member
    had before, "changed": whether `read` has written to the environment}; "met" is None, and nobody
    waits, when what the ranks say cannot make a group.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    given = environment(rank, per_machine=size // machines, machines=machines)
    said = read(given, 0)
    changed = given != environment(rank, per_machine=size // machines, machines=machines)
    seats = [None] * size
    dist.all_gather_object(seats, (said["rank"], said["world_size"]))
    if sorted(seats, key=str) != sorted(((r, size) for r in range(size)), key=str):
        return {"said": said, "met": None, "changed": changed}
    store = dist.PrefixStore("seats", dist.distributed_c10d._get_default_store())
    dist.destroy_process_group()
    dist.init_process_group(
        "gloo",
        store=store,
        rank=said["rank"],
        world_size=said["world_size"],
        timeout=timedelta(seconds=MEET_S),
    )
    met = [None] * size
    dist.all_gather_object(met, rank)
    return {"said": said, "met": met, "changed": changed}


def ask_launched(read: Callable, cases: list[tuple[dict[str, str] | None, int]]) -> list:
    """What `read` says in each case where the process is rank 5 of 6 and torch sees 8 GPUs.

    An environment of None stands for `os.environ` itself; a ValueError is told as text. Last comes
    what the first result holds when all have been asked. For a process of its own: its environment stays changed.
    """
    os.environ |= environment(5, per_machine=3, machines=2)
    for names in launchers(7, 3, 8, 4).values():
        os.environ |= names
    torch.cuda.is_available, torch.cuda.device_count = lambda: True, lambda: 8
    first, said = None, []
    for given, num_gpus in cases:
        try:
            found = read(os.environ if given is None else dict(given), num_gpus)
        except ValueError as error:
            found = f"ValueError: {error}"
        first = found if first is None else first
        said.append(dict(found) if isinstance(found, dict) else found)
    return [*said, first]
