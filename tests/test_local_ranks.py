"""Ranks forked from this process: values, collectives, bytes, and every way to go wrong."""

import multiprocessing
import os
import time

import pytest
import torch
import torch.distributed as dist

from course_lib.ranks import local_ranks
from course_lib.ranks.local_ranks import RankFailed, RanksStuck


def total(x):
    dist.all_reduce(x)
    return x


def test_every_rank_gets_the_sum_and_says_what_it_sent():
    ranks = local_ranks.run(total, [(torch.full((3,), float(r)),) for r in range(3)])
    assert [r.value.tolist() for r in ranks] == [[3.0] * 3] * 3
    assert [r.collectives for r in ranks] == [[("allreduce", 12)]] * 3


def test_point_to_point_counts_too():
    def ring(x):
        rank, size = dist.get_rank(), dist.get_world_size()
        request = dist.isend(x, (rank + 1) % size)
        got = torch.empty_like(x)
        dist.recv(got, (rank - 1) % size)
        request.wait()
        return got

    ranks = local_ranks.run(ring, [(torch.tensor([float(r)]),) for r in range(4)])
    assert [r.value.item() for r in ranks] == [3.0, 0.0, 1.0, 2.0]
    assert [name for name, _ in ranks[0].collectives] == ["send", "recv"]


def test_bytes_held_are_those_that_stay():
    def keeps(n):
        torch.zeros(10 * n)  # gone when the function returns
        return torch.zeros(n)

    (one,) = local_ranks.run(keeps, [(1000,)])
    assert one.held_bytes == 4000


def test_it_works_after_threads_and_autograd_of_the_parent():
    x = torch.randn(400, 400, requires_grad=True)
    (x @ x).sum().backward()
    ranks = local_ranks.run(lambda w: (w @ w).sum(), [(torch.ones(300, 300),)] * 2)
    assert ranks[0].value == 300**3


def test_one_rank_that_raises_is_named_and_the_others_are_not_waited_for(tmp_path):
    def breaks():
        if dist.get_rank() == 1:
            raise IndexError("chunk 4 of 4")
        time.sleep(30)
        (tmp_path / "waited").touch()

    with pytest.raises(RankFailed, match="rank 1: IndexError: chunk 4 of 4") as caught:
        local_ranks.run(breaks, [()] * 3, seconds=60)
    assert (caught.value.rank, caught.value.kind) == (1, "IndexError")
    assert not (tmp_path / "waited").exists()
    assert not multiprocessing.active_children()


def test_a_rank_that_never_joins_ends_in_time(tmp_path):
    def waits():
        if dist.get_rank() == 0:
            time.sleep(60)
            (tmp_path / "awake").touch()
        dist.barrier()

    with pytest.raises((RanksStuck, RankFailed)):
        local_ranks.run(waits, [()] * 2, seconds=3)
    assert not (tmp_path / "awake").exists()
    assert not multiprocessing.active_children()


def test_a_rank_that_dies_is_said():
    with pytest.raises(RankFailed, match="ended without a word"):
        local_ranks.run(lambda: os._exit(0), [()] * 2, seconds=10)
