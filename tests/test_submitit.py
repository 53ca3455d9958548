"""The scripts of lesson 21 for a cluster, run by processes of this machine."""

import ast
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from course_lib.lab.launch.slurm import RehearsedJob
from tests.course import lessons

LIMIT_S = 900  # on a busy machine; a quiet one needs 15


def script(name: str) -> str:
    """What the cell of the lesson writes into that file."""
    (lesson,) = (x for x in lessons() if x.name == "21_launch")
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
        option.removeprefix("--").split("=")
        for line in text.splitlines()
        if line.startswith("#SBATCH")
        for option in line.split()[1:]
        if "=" in option
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


def find_children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True)
    return [int(word) for word in found.stdout.split()]


def write_small_job(name: str) -> dict[str, str]:
    """The script of that name and a text, into the working folder; what a rehearsal changes."""
    Path("text").mkdir()
    for file in ("a.py", "b.py"):
        Path("text", file).write_bytes(Path(ast.__file__).read_bytes())
    Path(name).write_text(script(name))
    small = (
        "--model_size tiny --device cpu --seq_len 16 --max_steps 100000 --eval_batches 0 "
        "--valid_fraction 0.5 --data text"
    )
    return {"--nproc_per_node=8": "--nproc_per_node=2", "--model_size small": small}


def test_a_torchrun_without_the_shell_before_it_dies_of_the_warning(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    changes = write_small_job("plain.sbatch")
    changes["--model_size small"] += " --save_every 0"
    with RehearsedJob("plain.sbatch", changes) as job:
        job.wait_for_lines("runs/gpt/log.csv", 3, limit_s=LIMIT_S)
        job.send_warning()
        assert job.wait(LIMIT_S) == 128 + signal.SIGUSR2, job.read_output()
    assert not list(Path("runs/gpt").glob("checkpoints/*"))


@pytest.mark.parametrize(
    "number, to_all",
    [(signal.SIGUSR2, False), (signal.SIGTERM, True), (signal.SIGTERM, False)],
    ids=["warning", "scancel", "scancel for the task alone"],
)
def test_a_signal_of_slurm_leaves_a_checkpoint(number, to_all, tmp_path, monkeypatch):
    """A signal that goes to the task alone ends in status 0; scancel's SIGTERM may go to torchrun as
    well, which books it as a failure."""
    monkeypatch.chdir(tmp_path)
    changes = write_small_job("train.sbatch")
    with RehearsedJob("train.sbatch", changes) as job:
        job.wait_for_lines("runs/gpt/log.csv", 3, limit_s=LIMIT_S)
        for pid in find_children(job.task) if to_all else ():
            os.kill(pid, number)
        job.send_warning(number)
        status = job.wait(LIMIT_S)
        assert (status != 0) == to_all, job.read_output()
        assert "stopped at step" in job.read_output() and "; checkpoint" in job.read_output(), (
            job.read_output()
        )
        assert "--cpus-per-task=64" in job.options, "srun does not take the cores over from sbatch"
    assert len(list((tmp_path / "runs/gpt/checkpoints").iterdir())) == 1


RANK = """
import pathlib, signal, time

heard = pathlib.Path("heard")
signal.signal(signal.SIGUSR2, lambda *_: heard.open("a").write("a signal\\n"))
pathlib.Path("begun").write_text("a line\\n")
while not pathlib.Path(UNTIL).exists():
    time.sleep(0.01)
"""
TORCHRUN = "import subprocess, sys; subprocess.run([sys.executable, 'rank.py']); sys.exit(STATUS)"


def change_torchrun(status: int, until: str) -> dict[str, str]:
    """For the script, a torchrun with one rank, which runs until that file is there."""
    Path("rank.py").write_text(RANK.replace("UNTIL", repr(until)))
    Path("fake.py").write_text(TORCHRUN.replace("STATUS", str(status)))
    Path("train.sbatch").write_text(script("train.sbatch"))
    return {"exec torchrun": "exec python fake.py"}


def test_the_signal_at_the_limit_does_not_end_a_save(tmp_path, monkeypatch):
    """A rank ends at its second signal, and torchrun would start it again."""
    monkeypatch.chdir(tmp_path)
    changes = change_torchrun(0, until="saved")
    ignore = "trap '' USR2 TERM"
    with RehearsedJob("train.sbatch", changes | {ignore: f"{ignore}; echo > deaf"}) as job:
        job.wait_for_lines("begun", 1)
        job.send_warning()
        job.wait_for_lines("deaf", 1)
        job.send_warning(signal.SIGTERM)
        time.sleep(0.3)  # for a second signal, if there were one
        Path("saved").touch()
        assert job.wait(LIMIT_S) == 0, job.read_output()
    assert Path("heard").read_text().splitlines() == ["a signal"]


def test_without_the_second_wait_a_job_ends_well_and_its_rank_is_killed(tmp_path, monkeypatch):
    """The lesson leaves that line out. With it the status would be torchrun's, which is 3 here."""
    monkeypatch.chdir(tmp_path)
    (last,) = (line for line in script("train.sbatch").splitlines() if "# 8." in line)
    with RehearsedJob("train.sbatch", change_torchrun(3, until="saved") | {last: ""}) as job:
        job.wait_for_lines("begun", 1)
        job.send_warning()
        assert job.wait(LIMIT_S) == 0, job.read_output()


@pytest.mark.parametrize("status", [0, 3])
def test_a_job_ends_with_the_status_of_torchrun(status, tmp_path, monkeypatch):
    """Also when torchrun ends while the shell still passes the warning on."""
    monkeypatch.chdir(tmp_path)
    pkill = 'pkill -USR2 -P "$torchrun"'
    changes = change_torchrun(status, until="heard") | {pkill: f"{pkill}; sleep 1"}
    with RehearsedJob("train.sbatch", changes) as job:
        job.wait_for_lines("begun", 1)
        job.send_warning()
        assert job.wait(LIMIT_S) == status, job.read_output()


def test_a_task_that_has_begun_is_known(tmp_path, monkeypatch):
    """Also on a machine that is slow to write down which process it is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mv").write_text(f'#!/bin/sh\nsleep 0.5\nexec {shutil.which("mv")} "$@"\n')
    (tmp_path / "mv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "job").write_text("srun bash -c 'echo $$ > begun; sleep 600'\n")
    with RehearsedJob("job", {}) as job:
        job.wait_for_lines("begun", 1)
        assert job.task == int(Path("begun").read_text())


def test_a_rehearsal_names_what_is_wrong_with_it_and_leaves_no_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job").write_text("srun bash -c 'echo begun; sleep 600'\n")
    with pytest.raises(ValueError, match="has 'eight' 0 times, expected once"):
        RehearsedJob("job", {"eight": "two"})
    with RehearsedJob("job", {"600": "601"}) as job:
        while not job.read_output():
            time.sleep(0.05)
        with pytest.raises(RuntimeError, match="never had 1 lines(?s:.*)begun"):
            job.wait_for_lines("nothing", 1, limit_s=0.2)
        task = job.task
    assert job.process.returncode == -signal.SIGKILL
    ends = time.monotonic() + LIMIT_S
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(task).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < ends, "it sleeps on"
            time.sleep(0.02)
