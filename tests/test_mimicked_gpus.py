"""What is decided on a machine with 1, 2 and 8 GPUs, some in use: doctor, launcher, World, presets.

The GPUs are mimicked where NVML and torch.cuda are asked, in processes of their own.
"""

import json
import os
import subprocess
import sys

import pytest

from grader.course import ROOT
from tests.stand_in.gpus import VARIABLE, tell_gpus, write_site

SEATS = """
import json, os
from course_lib.ranks.world import _seat
from course_lib.training.fsdp_config import FSDPConfig
from course_lib.training.precision import compute_dtype

def sit(local_rank, ranks):
    os.environ |= {"RANK": str(local_rank), "LOCAL_RANK": str(local_rank),
                   "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    return _seat("auto")["device"]

import sys
count = int(sys.argv[1])
devices = [sit(i, count) for i in range(count)]
try:
    sit(count, count + 1)
    too_many = ""
except ValueError as error:
    too_many = str(error)
print(json.dumps([[str(device) for device in devices], too_many,
                  str(compute_dtype("auto", devices[0])),
                  FSDPConfig().with_sizes(devices[0].type).batch_size]))
"""

RANK = """
import os
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return write_site(tmp_path_factory.mktemp("gpus"))


@pytest.fixture
def machine(site, tmp_path):
    """The environment of a machine with such GPUs."""

    def describe(count: int, **more) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
        path = f"{site}{os.pathsep}{ROOT}"
        return kept | {"PYTHONPATH": path, VARIABLE: tell_gpus(count, **more)}

    return describe


def course(*words: str, env: dict, cwd) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "grader.cli", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, cwd=cwd)


@pytest.mark.parametrize("count", [1, 2, 8])
def test_the_doctor_names_each_gpu(machine, count):
    done = course("doctor", "--json", env=machine(count), cwd=ROOT)
    found = json.loads(done.stdout)
    (gpu,) = (f["text"] for f in found["findings"] if f["name"] == "gpu")
    assert gpu.count("NVIDIA H100 80GB HBM3 (75 GiB, bf16)") == count
    assert "training on a GPU" in found["runs"] and "bf16 at full speed" in found["runs"]


@pytest.mark.parametrize("count", [1, 2, 8])
def test_each_rank_gets_a_gpu_of_its_own(machine, count):
    done = subprocess.run(
        [sys.executable, "-c", SEATS, str(count)],
        env=machine(count), capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    devices, too_many, dtype, batch_size = json.loads(done.stdout)
    assert devices == [f"cuda:{i}" for i in range(count)]
    assert f"--nproc_per_node={count}" in too_many and "--device cpu" in too_many
    assert (dtype, batch_size) == ("torch.bfloat16", 8)


def test_a_gpu_without_bfloat16_trains_in_float32(machine):
    done = subprocess.run(
        [sys.executable, "-c", SEATS, "1"],
        env=machine(1, name="Tesla V100-SXM2-16GB"), capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert json.loads(done.stdout)[2] == "torch.float32", done.stderr


@pytest.mark.parametrize(
    "asked, count, ranks, place",
    [("auto", 8, 8, "nccl · GPUs 0-7"), ("auto", 1, 1, "nccl · GPU 0"), ("2", 1, 2, "CPU (1 GPU)"),
     ("auto", 2, 2, "nccl · GPUs 0-1")],
)  # fmt: skip
def test_a_launch_takes_as_many_ranks_as_there_are_gpus(
    machine, tmp_path, asked, count, ranks, place
):
    (tmp_path / "t.py").write_text(RANK, encoding="utf-8")
    env = machine(count) | {"COURSE_HOME": str(tmp_path)}
    done = course("launch", "--ranks", asked, "t.py", env=env, cwd=tmp_path)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert place in said.splitlines()[0]
    assert sum(f"rank {i} of {ranks}" in said for i in range(ranks)) == ranks


def test_a_launch_says_which_gpus_are_in_use_and_by_whom(machine, tmp_path):
    (tmp_path / "t.py").write_text(RANK, encoding="utf-8")
    env = machine(8, busy={2: os.getpid(), 5: 1}) | {"COURSE_HOME": str(tmp_path)}
    env |= {"CUDA_VISIBLE_DEVICES": "2,3,5"}
    done = course("launch", "--ranks", "auto", "t.py", env=env, cwd=tmp_path)
    said = done.stdout + done.stderr
    assert "3 ranks" in said and f"({os.getpid()})" in said, said
    assert "GPU 0: NVIDIA H100 80GB HBM3, 60.0 of 80.0 GB used" in said
    assert "GPU 1:" not in said and "GPU 2: NVIDIA H100" in said
