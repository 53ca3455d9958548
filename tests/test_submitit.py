"""The scripts of lesson 19 for a cluster, run by processes of this machine."""

import ast
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.course import lessons

LIMIT_S = 900  # on a busy machine; a quiet one needs 15


def script(name: str) -> str:
    """What the cell of the lesson writes into that file."""
    (lesson,) = (x for x in lessons() if x.name == "19_launch")
    first = f"%%writefile {name}\n"
    (cell,) = (c.source for c in lesson.source.cells if c.source.startswith(first))
    return cell.removeprefix(first)


def test_two_ranks_of_a_job_find_each_other_and_their_answers_come_back(tmp_path):
    (tmp_path / "submit.py").write_text(script("submit.py"))
    alone = {k: v for k, v in os.environ.items() if k not in ("RANK", "MASTER_PORT")}
    done = subprocess.run(
        [sys.executable, "submit.py", "local"],
        cwd=tmp_path,
        timeout=LIMIT_S,
        capture_output=True,
        text=True,
        env=alone | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = [ast.literal_eval(line) for line in done.stdout.splitlines()]
    assert told == [{"rank": r, "world_size": 2, "sum": 3.0} for r in range(2)]


def test_the_slurm_script_starts_one_torchrun_a_machine():
    text = script("train.sbatch")
    asked = dict(
        line.removeprefix("#SBATCH --").split("=")
        for line in text.splitlines()
        if line.startswith("#SBATCH --") and "=" in line
    )
    assert asked["ntasks-per-node"] == "1" and "--rdzv-backend=c10d" in text
    assert asked["open-mode"] == "append", "a job that is started again overwrites its log"
    assert f"--nproc_per_node={asked['gpus-per-node']}" in text


@pytest.mark.parametrize("job", [1, 22_767, 39_999, 2**26 - 1])
def test_the_port_of_a_job_is_not_one_that_linux_gives_out(job):
    (line,) = (x for x in script("train.sbatch").splitlines() if x.startswith("export port="))
    command = ["bash", "-c", f'{line}; echo "$port"']
    done = subprocess.run(command, env={"SLURM_JOB_ID": str(job)}, capture_output=True, text=True)
    assert 1024 <= int(done.stdout) < 32_768, "ephemeral ports begin there"


SRUN = """
while [[ $1 == --* ]]; do echo "$1" >> srun_options; shift; done
set -m
"$@" &
wait $!
status=$?
kill -9 -- -$! 2> /dev/null  # when the task has ended, what is left of the step is killed
exit $status
"""


def find_children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True)
    return [int(word) for word in found.stdout.split()]


@pytest.mark.parametrize(
    "number, to_all",
    [(signal.SIGUSR2, False), (signal.SIGTERM, True), (signal.SIGTERM, False)],
    ids=["warning", "scancel", "scancel for the task alone"],
)
def test_a_signal_of_slurm_leaves_a_checkpoint(number, to_all, tmp_path):
    """What stands for Slurm names this machine and starts the one task; torchrun is the real one.

    A warning goes to the task alone and ends in status 0; scancel's SIGTERM may go to all that it
    has started as well, and torchrun books it as a failure.
    """
    asked = script("train.sbatch")
    (tmp_path / "text").mkdir()
    for name in ("a.py", "b.py"):
        (tmp_path / "text" / name).write_bytes(Path(ast.__file__).read_bytes())
    small = (
        "--model_size tiny --device cpu --seq_len 16 --max_steps 100000 --eval_batches 0 "
        "--valid_fraction 0.5 --data text"
    )
    changes = {"--nproc_per_node=8": "--nproc_per_node=2", "--model_size small": small}
    for old, new in changes.items():
        assert asked.count(old) == 1
        asked = asked.replace(old, new)
    (tmp_path / "train.sbatch").write_text(asked)
    for name, lines in {"scontrol": "echo localhost", "srun": SRUN}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{lines}\n")
        (tmp_path / name).chmod(0o755)
    told = {"SLURM_JOB_NODELIST": "localhost", "SLURM_JOB_ID": str(os.getpid()),
            "SLURM_NNODES": "1", "SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_JOB_NAME": "gpt",
            "SLURM_CPUS_PER_TASK": "64", "OMP_NUM_THREADS": "1"}  # fmt: skip
    path = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    job = subprocess.Popen(
        ["bash", "train.sbatch"],
        cwd=tmp_path,
        env=os.environ | told | {"PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log, ends = tmp_path / "runs/gpt/log.csv", time.monotonic() + LIMIT_S
    while not (log.exists() and len(log.read_text().splitlines()) > 2):
        assert job.poll() is None and time.monotonic() < ends, job.communicate()
        time.sleep(0.1)
    (srun,) = find_children(job.pid)
    (task,) = find_children(srun)
    for pid in [task, *(find_children(task) if to_all else ())]:
        os.kill(pid, number)
    said, errors = job.communicate(timeout=LIMIT_S)
    assert (job.returncode == 0) == (number == signal.SIGUSR2), errors
    assert f"by {number.name}; checkpoint" in said, said
    assert len(list((tmp_path / "runs/gpt/checkpoints").iterdir())) == 1
    options = (tmp_path / "srun_options").read_text().split()
    assert "--cpus-per-task=64" in options, "srun does not take the cores over from sbatch"
