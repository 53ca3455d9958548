"""What ranks measure together: how long the slowest of them took, on what, kept in a file.

What it is: for a script that torchrun starts, the stopwatch over all ranks, groups that cost nothing
to compare with, and the file in which rank 0 leaves the figures; for the notebook the way to read
them. What it leaves out: timing in
one process (measure/timing.py), and where inside a step the time goes (measure/timeline.py).

    world.run(main) with, inside main(w):
        times = time_over_ranks({"all_reduce": lambda: dist.all_reduce(x)}, w)
        write_measurement(__file__, {"ms": 1e3 * times["all_reduce"].median}, w)
    and in the notebook:
        found = read_measurement("script.py")
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from course_lib.measure.timing import Timing, side_by_side
from course_lib.ranks.world import World
from course_lib.runs.atomic import write_whole


@dataclass(frozen=True)
class RankTiming(Timing):
    """Seconds of each run on the rank that took longest in it, and what each rank saw itself."""

    ranks: tuple[Timing, ...]
    """Each rank's own seconds, in the order of the ranks."""

    @classmethod
    def of_ranks(cls, ranks: Sequence[Sequence[float]]) -> "RankTiming":
        """From the seconds of the runs, as many on each rank; run i of one is run i of all."""
        slowest = tuple(map(max, zip(*ranks, strict=True)))
        return cls(slowest, tuple(Timing(tuple(seconds)) for seconds in ranks))


def time_over_ranks(
    functions: Mapping[str, Callable[[], object]],
    world: World,
    *,
    warmup: int = 3,
    rounds: int = 20,
) -> dict[str, RankTiming]:
    """Time each function on all ranks of `world`, in turn; by name, the same on every rank.

    All ranks call it with the same names in the same order. After `warmup` calls that do not count
    there are `rounds` runs of each. A run begins when all ranks have ended the one before, so that
    nobody waits inside it for what another rank still owes the last function. On a GPU it lies
    between two CUDA events, on a CPU between two readings of the clock. Run number i of the result
    took as long as it did on the slowest rank, so `.median` is the median of the slowest rank of
    each run; `.ranks` has every rank's own. What a function raises comes through.
    Collectives: a barrier before the first call, an all-reduce of 4 bytes before each run that
    counts, and an all-gather of 8 bytes per run at the end. ValueError for less than one round.
    """
    world.barrier()
    token = torch.zeros(1, device=world.device)

    def meet() -> None:
        """On a GPU queued, as the run is: no host waits for its device."""
        if world.group is not None:
            dist.all_reduce(token, group=world.group)

    own = side_by_side(functions, warmup=warmup, rounds=rounds, device=world.device, before=meet)
    seconds = torch.tensor(
        [timing.seconds for timing in own.values()], dtype=torch.float64, device=world.device
    )
    found = [torch.empty_like(seconds) for _ in range(world.world_size)]
    if world.group is None:
        found = [seconds]
    else:
        dist.all_gather(found, seconds, group=world.group)
    by_name = torch.stack(found, dim=1).tolist()
    return {name: RankTiming.of_ranks(ranks) for name, ranks in zip(own, by_name, strict=True)}


def time_world_sizes(
    make: Callable[[World], Callable[[], object]],
    world: World,
    *,
    turns: int = 5,
    rounds: int = 4,
) -> dict[int, RankTiming]:
    """Time one function on the first rank alone, on the first 2, 4, 8 and so on, and on all of them.

    All ranks of `world` call it. For each size, `make(part)` is called on the ranks in it and
    returns the function to time; `part` is their world, with a group of its own. The sizes take
    turns, so that a busy moment of the machine hits each of them: in every turn a size makes one
    call that doesn't count and `rounds` that do, timed as `time_over_ranks` does, while the ranks
    that are not in it wait. So each size has `turns` times `rounds` runs. Returns, by number of
    ranks, the sizes that this rank took part in; on rank 0 these are all. What a function raises
    comes through. ValueError for less than one round.
    """
    sizes = sorted({2**i for i in range(world.world_size.bit_length())} | {world.world_size})
    groups = {n: None if world.group is None else dist.new_group(range(n)) for n in sizes}
    parts = {
        n: dataclasses.replace(world, world_size=n, group=groups[n])
        for n in sizes
        if world.rank < n
    }
    functions = {n: make(part) for n, part in parts.items()}
    seconds: dict[int, list[list[float]]] = {n: [[] for _ in range(n)] for n in parts}
    for n in turns * sizes:
        world.barrier()
        if n in parts:
            found = time_over_ranks({"": functions[n]}, parts[n], warmup=1, rounds=rounds)
            for rank, timing in zip(seconds[n], found[""].ranks, strict=True):
                rank += timing.seconds
    return {n: RankTiming.of_ranks(found) for n, found in seconds.items()}


def largest_over_ranks(values: Sequence[float], world: World) -> list[float]:
    """The largest of each number over all ranks, on every rank: the fullest rank decides what fits.

    All pass equally many; they come back as floats. One all-reduce on the CPU, of 8 bytes a number.
    """
    largest = torch.tensor(values, dtype=torch.float64, device="cpu")
    if world.group is not None:
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=world.group)
    return largest.tolist()


def silence_mesh(mesh: DeviceMesh) -> DeviceMesh:
    """A mesh of the same ranks, shape and names whose collectives end at once and bring nothing.

    What a step takes on it is what it takes without communication: tensors that should be received
    hold whatever was there. No rank waits for another in them. All ranks of `mesh` must call it.
    It stands on torch's backend "fake", which is made for tests: another torch may not have it.
    """
    from torch.testing._internal.distributed import fake_pg  # noqa: F401  brings the backend

    groups = [
        dist.new_group(
            dist.get_process_group_ranks(group), backend="fake", use_local_synchronization=True
        )
        for group in mesh.get_all_groups()
    ]
    return DeviceMesh.from_group(
        groups, mesh.device_type, mesh.mesh, mesh_dim_names=mesh.mesh_dim_names
    )


def describe_world(world: World) -> str:
    """One line on what was measured: "8 x NVIDIA H100 80GB HBM3, NCCL" or, where ranks share the
    cores of a CPU, "2 ranks on the CPU, gloo: ratios only". No collective; GPUs of other ranks are
    taken to be like this one's."""
    R = world.world_size
    if world.device.type == "cuda":
        return f"{R} x {torch.cuda.get_device_name(world.device)}, NCCL"
    return f"{R} rank{'s' * (R > 1)} on the CPU, gloo: ratios only"


def write_measurement(script: str | Path, figures: Mapping[str, Any], world: World) -> None:
    """Rank 0 leaves `figures` beside the script: speed.json for speed.py, whole or not at all.

    `figures` is JSON, its keys end in their unit: {"step_ms": 7.5}. Beside them stand "world"
    (`describe_world`), "ranks", "device" ("cuda" or "cpu") and "torch". Other ranks do nothing. NaN
    and infinity are a ValueError: they are not JSON.
    """
    if not world.is_first:
        return
    content = {
        "world": describe_world(world),
        "ranks": world.world_size,
        "device": world.device.type,
        "torch": torch.__version__,
        **figures,
    }
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    write_whole(Path(script).with_suffix(".json"), text, sync=False)


def read_measurement(script: str | Path) -> dict[str, Any]:
    """What the ranks that ran `script` left beside it; see `write_measurement` for what is in it.

    ValueError, with the cell to run, when there is nothing yet, or when it is older than the
    script, so that no figures are read as those of a script that has been changed since.
    """
    script = Path(script)
    path, run = script.with_suffix(".json"), f"%torchrun --nproc_per_node=auto {script}"
    if not path.exists():
        raise ValueError(f"there is no {path} yet: run the cell with {run}, then this one")
    if script.exists() and path.stat().st_mtime < script.stat().st_mtime:
        raise ValueError(
            f"{path} is older than {script}, which was written since: run the cell with {run} "
            "again, then this one"
        )
    return json.loads(path.read_text(encoding="utf-8"))
