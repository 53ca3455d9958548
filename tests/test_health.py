"""Ranks that reach each other say nothing; others say who is missing, and where who is."""

import io
import socket
import sys
import time
import warnings

import pytest
import torch
import torch.distributed as dist

from course_lib.ranks import health, local_ranks, world
from course_lib.ranks.health import RankCheckFailed, check_ranks
from course_lib.ranks.world import World

CPU = torch.device("cpu")
GATHER = "all_gather_single" if hasattr(dist, "all_gather_single") else "all_gather_into_tensor"


def check(seconds: float = 30) -> str:
    """What the check says on this rank."""
    try:
        check_ranks(dist.group.WORLD, CPU, seconds=seconds)
    except RankCheckFailed as error:
        return str(error)
    return ""


def check_all() -> list[str]:
    """Twice, and then that training can go on."""
    found = [check(), check()]
    total = World.of_group().sum(torch.ones(2))
    return [*found, str(total.tolist())]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_ranks_that_reach_each_other_go_on(ranks):
    for rank in local_ranks.run(check_all, [()] * ranks):
        assert rank.value == ["", "", str([float(ranks)] * 2)]


def come_late(absent: int) -> str:
    if dist.get_rank() != absent:
        return check(seconds=0.5)
    time.sleep(1)
    return ""


def test_a_rank_that_never_comes_is_named_and_so_are_the_machines_of_the_others():
    first, absent, last = (r.value for r in local_ranks.run(come_late, [(1,)] * 3))
    assert absent == ""
    for number, said in ((0, first), (2, last)):
        assert said.startswith(
            f"check of the ranks, on rank {number} of 3: all-reduce has not ended"
        )
        assert f"Ranks here: 0, 2 on {socket.gethostname()}; ranks that never came: 1" in said


def spoil(collective: str, from_rank: int) -> str:
    """A link that turns a bit of what this rank receives or sends."""
    real = getattr(dist, collective)

    def spoiled(out: torch.Tensor, *args, **given):
        if dist.get_rank() == from_rank:
            (args[0] if args else out).add_(4)
        return real(out, *args, **given)

    setattr(dist, collective, spoiled)
    try:
        return check()
    finally:
        setattr(dist, collective, real)


@pytest.mark.parametrize(
    "collective, words",
    [
        ("all_reduce", "all-reduce gives a wrong number expected 3, got 7"),
        (GATHER, "all-gather gives a wrong number of rank 1: expected 2, got 6"),
    ],
)
def test_a_wrong_number_is_named_with_its_rank(collective, words):
    for rank in local_ranks.run(spoil, [(collective, 1)] * 2):
        assert words in rank.value and "all ranks came" in rank.value
        assert "NCCL_SOCKET_IFNAME" in rank.value


def check_strictly() -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return check()


def test_ranks_that_are_well_are_not_warned_of_anything():
    """The check runs in every program: torch 2.13 warns of all_gather_into_tensor."""
    assert [rank.value for rank in local_ranks.run(check_strictly, [()] * 2)] == [""] * 2


def break_off() -> str:
    """A connection that breaks: gloo ends the collective with an error of its own."""

    class Broken:
        def is_completed(self) -> bool:
            return True

        def wait(self) -> None:
            raise RuntimeError("Connection reset by peer\nand a long stack")

    health.dist.all_reduce, real = (lambda *_, **__: Broken()), health.dist.all_reduce
    try:
        return check()
    finally:
        health.dist.all_reduce = real


def test_a_broken_connection_is_named():
    (rank,) = local_ranks.run(break_off, [()])
    assert "all-reduce failed: Connection reset by peer. Ranks here: 0 on" in rank.value


def start_program(spoiled: bool) -> list[str]:
    """What `run` comes to, where the ranks are well and where one of them gets a wrong number."""
    done: list[str] = []
    sys.stdout = sys.stderr = io.StringIO()  # a forked rank has none
    World.from_environment = lambda *_, **__: World.of_group()
    World.close, world.os._exit = lambda self: None, lambda status: None
    look = world.check_ranks
    world.check_ranks = lambda *args, seconds: (done.append(seconds), look(*args, seconds=seconds))
    if spoiled:
        real = dist.all_reduce
        dist.all_reduce = lambda x, **given: real(x.add_(dist.get_rank()), **given)
    try:
        world.run(lambda _: done.append("trained"), "cpu", 30)
    except RankCheckFailed:
        done.append("refused")
    return done


@pytest.mark.parametrize("spoiled, done", [(False, [30, "trained"]), (True, [30, "refused"])])
def test_a_program_trains_only_where_the_ranks_reach_each_other(spoiled, done):
    assert [rank.value for rank in local_ranks.run(start_program, [(spoiled,)] * 2)] == [done] * 2
