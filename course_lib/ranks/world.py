"""The processes that train together: who this one is, how many there are, which device it uses.

What it is: rank and world size from the environment that torchrun sets, one process group, and the
few collectives that a trainer needs beside its gradients. What it leaves out: meshes and sub-groups
(`fsdp_trainer.py` makes them), collectives by hand (collectives.py).

Without torchrun the world has one process, no group, and every method returns at once: the same
code trains on a laptop.
"""

import dataclasses
import opcode
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from course_lib.ranks.health import LIMIT_S, check_ranks
from course_lib.runs.launcher import end_with_launcher

TIMEOUT_S = 600
"""Seconds until a collective that one rank never joins becomes an error on the others."""
SEEN_S = 15.0
"""Seconds in which a shared file system is to show every machine what one of them has written."""

Result = TypeVar("Result")


def read_world(environment: Mapping[str, str], num_gpus: int) -> dict[str, int | str]:
    """Which process this is among how many, and what it computes on.

    `environment`: names and texts, as in `os.environ`; it stays as it is. torchrun sets RANK,
    LOCAL_RANK, WORLD_SIZE and LOCAL_WORLD_SIZE (the number of ranks on this machine). Without RANK
    nothing has launched this process: it is rank 0 of 1, even if others of these names are left
    over. No other names count, such as Slurm's. `num_gpus`: how many GPUs the process sees.
    Returns {"rank", "local_rank", "world_size", "device"}. The first three are ints. The device is
    "cpu" where no GPU is seen, else "cuda:N" with N the local rank.
    ValueError if this machine has GPUs, but fewer than ranks. All ranks of the machine raise it, so
    that none goes on and waits for the others.
    """
    if "RANK" not in environment:
        environment = {}
    rank, local_rank = int(environment.get("RANK", 0)), int(environment.get("LOCAL_RANK", 0))
    here = int(environment.get("LOCAL_WORLD_SIZE", 1))
    if 0 < num_gpus < max(here, local_rank + 1):
        raise ValueError(
            f"{here} ranks on this machine, and each wants a GPU of its own: it has {num_gpus}. "
            f"Start fewer (--nproc_per_node={num_gpus}) or pass --device cpu"
        )
    return {
        "rank": rank,
        "local_rank": local_rank,
        "world_size": int(environment.get("WORLD_SIZE", 1)),
        "device": f"cuda:{local_rank}" if num_gpus else "cpu",
    }


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
    def from_environment(cls, device: str = "auto", timeout_s: float = TIMEOUT_S) -> "World":
        """The world that torchrun has set up, or a world of one without it.

        `device`: "auto" (a GPU where there is one), "cpu" or "cuda". The group speaks gloo for
        tensors on the CPU and, on GPUs, NCCL for those there. After `timeout_s` seconds a collective
        for which one rank never came is an error. Call `close()` at the end. ValueError for a device
        that is not there.
        """
        seat = _seat(device)
        if "RANK" not in os.environ:
            return cls(**seat)
        _init_group(seat["device"], timeout_s, **_rendezvous(seat["rank"], seat["world_size"]))
        return cls(**seat, group=dist.group.WORLD)

    @classmethod
    def of_group(cls, device: str = "cpu") -> "World":
        """The world of the default group that is there, such as on a rank of `local_ranks`.

        Where there is none, one of this process alone is made: sharding asks for a group, even of
        one. ValueError for a device that is not there.
        """
        seat = _seat(device)
        if not dist.is_initialized():
            store = dist.HashStore()
            _init_group(seat["device"], TIMEOUT_S, store=store, rank=0, world_size=1)
        seat |= {"rank": dist.get_rank(), "world_size": dist.get_world_size()}
        return cls(**seat, group=dist.group.WORLD)

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

    def sum_numbers(self, values: Sequence[float]) -> list[float]:
        """The sum of each number over all ranks, as float64, on every rank.

        All pass equally many. One all-reduce on the CPU, with gloo, of 8 bytes a number: no rank
        waits for its device. Whole sums up to 2^53 are exact.
        """
        total = torch.tensor(values, dtype=torch.float64, device="cpu")
        if self.group is not None:
            dist.all_reduce(total, group=self.group)
        return total.tolist()

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
        """Rank 0's small Python value, on every rank: two broadcasts, of its pickled bytes and their number."""
        if self.group is None:
            return value
        box = [value]
        dist.broadcast_object_list(box, group=self.group)
        return box[0]

    def broadcast_state(self, state: dict | None) -> dict | None:
        """Rank 0's nested dict of tensors and plain values, on every rank; None where it is None.

        Rank 0 gets its own back; elsewhere the tensors are on `self.device`, but those in lists,
        such as random states, on the CPU. One broadcast of the pickled plain values, then one for
        each tensor: its bytes sent by rank 0, over NCCL on GPUs.
        """
        if self.group is None:
            return state
        plain = self.broadcast(_map_tensors(state, lambda t: t.to("meta")) if state else None)
        if plain is None:
            return None

        def send(here: Tensor, like: Tensor) -> Tensor:
            device = self.device
            moved = here.to(device) if self.is_first else torch.empty_like(like, device=device)
            dist.broadcast(moved, 0, group=self.group)
            return here if self.is_first else moved

        return _map_tensors(state or plain, send, plain)

    def do_on_first(self, work: Callable[[], Result]) -> Result:
        """What `work()` returns on rank 0, on every rank; the others wait for it.

        An OSError or a ValueError of it is raised on every rank, so that none goes on alone. One
        broadcast of a small pickled object, with the limit of this world's group: see `regroup`.
        """
        told: Any = None
        if self.is_first:
            try:
                told = None, work()
            except (OSError, ValueError) as error:
                told = error, None
        error, result = self.broadcast(told)
        if error is not None:
            raise error
        return result

    def require_same(self, look: Callable[[], Any], what: str) -> None:
        """ValueError on every rank unless each finds what rank 0 finds, within SEEN_S seconds.

        `look()` reads something small that can be compared and shown, such as the names in a
        folder. The message says what two ranks on which machines have found, and ends with `what`:
        what has to be the same, and what to do. Collectives: of small pickled objects.
        """
        expected = self.broadcast(look() if self.is_first else None)
        found, ends = expected if self.is_first else look(), time.monotonic() + SEEN_S
        while found != expected and time.monotonic() < ends:
            time.sleep(0.2)
            found = look()
        where = f"rank {self.rank} on {socket.gethostname()} finds"
        told = self.gather((found == expected, f"{where} {found or 'nothing'}"))
        odd = [text for same, text in told if not same]
        if problem := self.broadcast(f"{odd[0]}, {told[0][1]}: {what}" if odd else None):
            raise ValueError(problem)

    def regroup(self, limit: timedelta) -> "World":
        """The same ranks on the CPU in a gloo group of their own, whose collectives wait that long.

        For what one rank does while the others wait, and for threads beside the training. All ranks
        must call it; a world of one returns itself.
        """
        if self.group is None:
            return self
        group = dist.new_group(backend="gloo", timeout=limit)
        return dataclasses.replace(self, group=group, device=torch.device("cpu"))

    def barrier(self) -> None:
        """Wait until every rank is here. Moves no data of ours."""
        if self.group is not None:
            dist.barrier(group=self.group)

    def close(self) -> None:
        """Leave the group. The world can't be used afterwards."""
        if self.group is not None:
            self.barrier()
            dist.destroy_process_group()


def run(main: Callable[[World], None], device: str = "auto", timeout_s: float = TIMEOUT_S) -> None:
    """Call `main(world)` in the world of the environment, and end the process properly.

    `device` and `timeout_s`: as for `World.from_environment`. Where the ranks don't reach each other
    RankCheckFailed says so, before `main`. A ValueError that the course's library raises is what a
    person got wrong: one line, status 2. All else keeps its traceback. Under torchrun the process is
    killed when torchrun is. Ranks leave by `os._exit`: threads of gloo that still hold tensors
    otherwise abort some programs after their work is done (torch 2.13: 7 of 15 runs that send and
    receive).
    """
    end_with_launcher()
    if device == "cpu":  # where torch sees a GPU it makes NCCL groups, for a mesh of CPU ranks too
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    try:
        world = World.from_environment(device, timeout_s)
        if world.group is not None:
            check_ranks(world.group, world.device, seconds=min(LIMIT_S, timeout_s))
        main(world)
    except ValueError as error:
        if not _is_raised_by_us(error):
            raise
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    if dist.is_initialized():
        world = World.of_group(device)  # a world of one may have got its group in `main`
    world.close()
    if world.group is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _is_raised_by_us(error: BaseException) -> bool:
    """Whether a `raise` of this library made it, not torch, and not a call that went wrong."""
    place = error.__traceback__
    if place is None:
        return False
    while place.tb_next is not None:
        place = place.tb_next
    code, ours = place.tb_frame.f_code.co_code, place.tb_frame.f_globals.get("__name__", "")
    return ours.startswith("course_lib.") and code[place.tb_lasti] == opcode.opmap["RAISE_VARARGS"]


def _map_tensors(state: dict, change: Callable[..., Tensor], *like: dict) -> dict:
    """A nested dict with `change(tensor, ...)` for each tensor in its dicts, `like` walked along."""
    changed = {}
    for key, value in state.items():
        beside = [other[key] for other in like]
        if isinstance(value, dict):
            value = _map_tensors(value, change, *beside)
        elif isinstance(value, Tensor):
            value = change(value, *beside)
        changed[key] = value
    return changed


def _init_group(place: torch.device, timeout_s: float, **meeting) -> None:
    """Make the default group; `meeting` says where, unless torchrun's environment does."""
    limit = timedelta(seconds=timeout_s)
    if place.type == "cpu":
        dist.init_process_group("gloo", timeout=limit, **meeting)
        return
    torch.cuda.set_device(place)
    # gloo too: numbers of the host, and tensors that FSDP has offloaded, never pass a device
    dist.init_process_group("cpu:gloo,cuda:nccl", timeout=limit, device_id=place, **meeting)


def _rendezvous(rank: int, world_size: int) -> dict[str, Any]:
    """Where the ranks of this attempt meet, as `init_process_group` wants it.

    torchrun keeps its store over a restart, with the addresses of processes that are gone (pytorch
    issue 135712): a rank may read one of them, and its connection is refused. So a later attempt
    writes under a name of its own. Machines may count attempts differently: several of them need
    TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1.
    """
    seat = {"rank": rank, "world_size": world_size}
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if attempt == "0" or os.environ.get("GROUP_WORLD_SIZE") != "1":
        return seat
    store, _, _ = next(rendezvous("env://", rank, world_size))
    return seat | {"store": dist.PrefixStore(f"attempt{attempt}", store)}


def _seat(device: str) -> dict[str, Any]:
    """What `read_world` says of this process, its device as torch has it."""
    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device must be auto, cpu or cuda, got {device!r}")
    num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "cuda" and not num_gpus:
        raise ValueError("device cuda wants GPU 0, and this machine has 0: pass --device cpu")
    seat = read_world(os.environ, 0 if device == "cpu" else num_gpus)
    return seat | {"device": torch.device(seat["device"])}
