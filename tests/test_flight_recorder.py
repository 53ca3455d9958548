"""The flight recorder is on for NCCL, with the names that this torch reads."""

import mmap
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from course_lib.ranks import flight_recorder, world
from course_lib.ranks.flight_recorder import COLLECTIVES, NAMES, record_flight

GLOO = """
import pickle, torch, torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
for _ in range(9):
    dist.all_reduce(torch.ones(1))
print(len(pickle.loads(torch._C._distributed_c10d._dump_fr_trace())["entries"]))
"""


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


def test_it_is_on_before_anyone_asks(tmp_path, gpu):
    environment = {"RANK": "3"}
    assert record_flight(tmp_path / "run" / "flight", environment=environment)
    assert environment == {
        "RANK": "3",
        "TORCH_FR_BUFFER_SIZE": str(COLLECTIVES),
        "TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/run/flight/rank_",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    }
    assert (tmp_path / "run" / "flight").is_dir(), "torch makes no folder"


@pytest.mark.parametrize("name, old", NAMES.items())
def test_what_a_user_has_set_stays(name, old, tmp_path, gpu):
    for given in filter(None, (name, old)):
        environment = {"RANK": "0", given: "mine"}
        record_flight(tmp_path, environment=environment)
        assert environment[given] == "mine"
        assert (name in environment) == (given == name), "two names of one thing"


def test_it_is_for_ranks_on_gpus(tmp_path, gpu, monkeypatch):
    assert not record_flight(tmp_path / "a", environment={})
    assert not record_flight(tmp_path / "a", "cpu", environment={"RANK": "0"})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert not record_flight(tmp_path / "a", environment={"RANK": "0"})
    assert not list(tmp_path.iterdir())


def test_this_torch_reads_these_names(tmp_path, gpu, monkeypatch):
    """gloo's groups fill the same buffer, so how long it is can be seen without a GPU."""
    monkeypatch.setattr(flight_recorder, "COLLECTIVES", 4)
    environment = {"RANK": "0"}
    record_flight(tmp_path, environment=environment)
    done = subprocess.run(
        [sys.executable, "-c", GLOO],
        env={"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "4"
    (library,) = (Path(torch.__file__).parent / "lib").glob("libtorch_cpu.*")
    with library.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as text:
        assert text.find(b"TORCH_FR_DUMP_TEMP_FILE") > 0


@pytest.mark.parametrize("program", ["ddp_trainer", "fsdp_trainer"])
def test_the_trainers_switch_it_on_before_they_make_a_group(program, tmp_path, gpu, monkeypatch):
    seen = []
    for name in [*NAMES, *filter(None, NAMES.values())]:
        monkeypatch.setenv(name, "")  # so that what is set is gone after the test
        monkeypatch.delenv(name)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(sys, "argv", ["train", "--out", str(tmp_path / "run")])
    monkeypatch.setattr(
        world, "run", lambda *_, **__: seen.append(os.environ["TORCH_FR_DUMP_TEMP_FILE"])
    )
    monkeypatch.delitem(sys.modules, f"course_lib.training.{program}", raising=False)
    runpy.run_module(f"course_lib.training.{program}", run_name="__main__")
    assert seen == [f"{tmp_path}/run/flight_recorder/rank_"]
