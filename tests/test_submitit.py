"""The submitit script of lesson 19: a real job of two ranks, by processes of this machine."""

import ast
import os
import subprocess
import sys

from tests.course import lessons

LIMIT_S = 120  # on a busy machine; a quiet one needs 5


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
