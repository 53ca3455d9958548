"""Do the ranks reach each other? Two tiny collectives before anything depends on it.

What it is: an all-reduce and an all-gather with known results, and an error that names ranks and
machines, in place of a run that waits for ten minutes and says nothing. What it leaves out: speed
(measurement.py), and what goes wrong later (hang.py).
"""

import os
import socket
import time

import torch
import torch.distributed as dist

LIMIT_S = 120.0
"""Seconds to wait for all ranks: they come from one rendezvous, so it is a matter of moments."""


class RankCheckFailed(RuntimeError):
    """The ranks don't reach each other; the message says which do, from where, and what to look at."""


def check_ranks(
    group: dist.ProcessGroup, device: torch.device, *, seconds: float = LIMIT_S
) -> None:
    """RankCheckFailed unless a sum and a list over all ranks of the default `group` come out right.

    All ranks call it, with their `device`; the backend is the one that this device has. One
    all-reduce and one all-gather of 8 bytes a rank, some milliseconds over a link that works. The
    error comes on the ranks that see something wrong: a wrong number, a broken connection, or a
    collective that has not ended after `seconds`; the others of these ranks then end by theirs.
    """
    check = _Check(group, device, time.monotonic() + seconds, seconds)
    total = check.own.clone()
    check.wait("all-reduce", dist.all_reduce(total, group=group, async_op=True))
    numbers = check.own.new_empty(check.size)
    # torch 2.13 renamed it and warns of the old name
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    work = gather(numbers, check.own, group=group, async_op=True)
    check.wait("all-gather", work)
    check.compare("all-gather", numbers.tolist(), [r + 1 for r in range(check.size)])
    check.compare("all-reduce", total.tolist(), [check.size * (check.size + 1) // 2])


class _Check:
    """One check on this rank; what the ranks tell each other goes through the group's store."""

    def __init__(self, group, device: torch.device, ends: float, seconds: float):
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.ends, self.seconds = ends, seconds
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = dist.distributed_c10d._get_default_store()
        self.store = dist.PrefixStore(f"check_ranks{attempt}", store)
        self.own = torch.tensor([self.rank + 1], device=device)
        self.store.set(f"here{self.rank}", socket.gethostname())

    def wait(self, name: str, work: dist.Work) -> None:
        """Until the collective has ended."""
        while not work.is_completed():
            if time.monotonic() > self.ends:
                raise RankCheckFailed(self.describe(f"{name} has not ended in {self.seconds:g} s"))
            time.sleep(0.001)
        try:
            work.wait()
        except RuntimeError as error:
            text = str(error).strip().splitlines()[0]
            raise RankCheckFailed(self.describe(f"{name} failed: {text}")) from error

    def compare(self, name: str, found: list[int], expected: list[int]) -> None:
        """What came, number by number, with what must come."""
        odd = [i for i, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1]]
        if odd:
            of = f"of rank {odd[0]}: " if len(expected) > 1 else ""
            wrong = f"expected {expected[odd[0]]}, got {found[odd[0]]}"
            raise RankCheckFailed(self.describe(f"{name} gives a wrong number {of}{wrong}"))

    def describe(self, problem: str) -> str:
        """The problem, who is here, who is not, and what to do."""
        hosts: dict[str, list[str]] = {}
        for rank in range(self.size):
            here = self.store.check([f"here{rank}"])
            host = self.store.get(f"here{rank}").decode() if here else ""
            hosts.setdefault(host, []).append(str(rank))
        absent = hosts.pop("", [])
        places = "; ".join(f"{', '.join(ranks)} on {host}" for host, ranks in hosts.items())
        look = (
            f"ranks that never came: {', '.join(absent)}. Look at their output first"
            if absent
            else "all ranks came, so look at what joins them: NCCL_DEBUG=INFO (or "
            "TORCH_DISTRIBUTED_DEBUG=DETAIL under gloo) shows the way taken, NCCL_SOCKET_IFNAME and "
            "GLOO_SOCKET_IFNAME choose another, NCCL_P2P_DISABLE=1 goes without direct copies"
        )
        return f"check of the ranks, on rank {self.rank} of {self.size}: {problem}. Ranks here: {places}; {look}"
