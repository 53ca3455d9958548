"""Who a process is, and where the ranks of an attempt meet."""

import os

import pytest
import torch
import torch.distributed as dist

from course_lib.probes.seats import environment
from course_lib.ranks import local_ranks, world
from course_lib.ranks.world import World, read_world

VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE",
             "TORCHELASTIC_RESTART_COUNT")  # fmt: skip


@pytest.fixture(autouse=True)
def nobody_launched_us(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_the_world_takes_its_device_from_the_seat(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert World.from_environment().device == torch.device("cuda", 0)
    assert World.from_environment("cpu").device == torch.device("cpu")


def test_too_many_ranks_are_told_both_numbers():
    with pytest.raises(ValueError, match="4 ranks on this machine.*it has 2.*nproc_per_node=2"):
        read_world(environment(0, per_machine=4), 2)
    assert read_world(environment(6, per_machine=4, machines=2), 4)["device"] == "cuda:2"


def test_a_later_attempt_meets_under_a_name_of_its_own(monkeypatch):
    """In the store of torchrun the addresses of the first attempt are still there."""
    server = dist.TCPStore("localhost", 0, 1, is_master=True, wait_for_workers=False)
    told = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(server.port), "GROUP_WORLD_SIZE": "1",
            "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}  # fmt: skip
    for name, text in told.items():
        monkeypatch.setenv(name, text)
    assert world._rendezvous(0, 1) == {"rank": 0, "world_size": 1}
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    server.set("address", "of a process that is gone")
    store = world._rendezvous(0, 1)["store"]
    assert not store.check(["address"])
    store.set("address", "mine")
    assert server.get("attempt1/address") == b"mine"
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")  # machines may count attempts differently
    assert "store" not in world._rendezvous(0, 1)


def test_a_run_on_the_cpu_sees_no_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    seen = []
    world.run(lambda _: seen.append(os.environ["CUDA_VISIBLE_DEVICES"]), "cpu")
    assert seen == [""]


def test_numbers_of_the_host_are_summed_without_a_device():
    def work(rank):
        world = World.of_group("cpu")
        with torch.device("meta"):  # what a device computes would have no value
            return world.sum_numbers([2**51 + rank, 0.5, rank])

    ranks = local_ranks.run(work, [(0,), (1,)])
    assert [rank.value for rank in ranks] == [[2**52 + 1, 1.0, 1.0]] * 2
    assert World().sum_numbers([3, 0.5]) == [3.0, 0.5] and World().sum_numbers([]) == []


def test_ranks_on_gpus_have_gloo_for_the_host(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", asked.append)
    monkeypatch.setattr(dist, "init_process_group", lambda *given, **more: asked.append(given[0]))
    for name, text in environment(0, per_machine=1).items():
        monkeypatch.setenv(name, text)
    World.from_environment()
    assert asked == [torch.device("cuda", 0), "cpu:gloo,cuda:nccl"]
