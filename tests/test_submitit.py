"""The scripts of lesson 19 for a cluster, run by processes of this machine."""

import ast
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

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
    assert f"--nproc_per_node={asked['gpus-per-node']}" in text


def test_slurms_warning_ends_the_job_well_and_with_a_checkpoint(tmp_path):
    """What stands for Slurm names this machine and starts the one task; torchrun is the real one."""
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
    for name, line in {"scontrol": "echo localhost", "srun": 'shift; exec "$@"'}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{line}\n")
        (tmp_path / name).chmod(0o755)
    told = {"SLURM_JOB_NODELIST": "localhost", "SLURM_JOB_ID": str(os.getpid()),
            "SLURM_NNODES": "1", "SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_JOB_NAME": "gpt",
            "OMP_NUM_THREADS": "1"}  # fmt: skip
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
    tasks = subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, text=True)
    (task,) = map(int, tasks.stdout.split())
    os.kill(task, signal.SIGUSR2)  # Slurm signals the tasks of a step, not what they have started
    said, errors = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 0, errors
    assert "by SIGUSR2; checkpoint" in said, said
    assert len(list((tmp_path / "runs/gpt/checkpoints").iterdir())) == 1
