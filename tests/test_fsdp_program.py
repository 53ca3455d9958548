"""`torchrun -m course_lib.training.fsdp_trainer`: the command as it is typed, killed and resumed."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from course_lib.checkpoints.sharded import candidates
from course_lib.checkpoints.whole import whole_state
from course_lib.runs import run_log
from tests.soak import campaign, times

COMMAND = ["-m", "course_lib.training.fsdp_trainer", "--model_size", "tiny", "--device", "cpu", "--seq_len", "32",
           "--precision", "fp32", "--warmup_steps", "2", "--eval_batches", "2", "--sample_tokens", "4",
           "--valid_fraction", "0.3", "--batch_size", "4", "--global_batch", "8"]  # fmt: skip
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A folder with some small files, so that no test reads all of Python's library."""
    folder = tmp_path_factory.mktemp("text")
    for name in ("argparse", "ast", "bisect", "calendar"):
        source = sys.modules.get(name) or __import__(name)
        (folder / f"{name}.py").write_bytes(Path(source.__file__).read_bytes())
    return folder


def program(text, out, *more, launcher=()):
    command = [sys.executable, *launcher, *COMMAND, "--data", text, "--cache", out.parent / "tokens",
               "--out", out, *more]  # fmt: skip
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        list(map(str, command)), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finished(process) -> tuple[str, str]:
    said, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "Warning" not in errors and "Traceback" not in errors, errors
    return said, errors


def test_two_ranks_train_as_one_does(text, tmp_path):
    said, _ = finished(program(text, tmp_path / "two", "--max_steps", 4, launcher=TORCHRUN))
    assert said.count("tokens per step") == 1 and "FULL_SHARD on a mesh of 2" in said
    assert "parameters" in said and "sharded checkpoints" in said
    said, _ = finished(program(text, tmp_path / "one", "--max_steps", 4, "--checkpoint", "full"))
    assert "FULL_SHARD on a mesh of 1" in said and "full checkpoints" in said
    a, b = (run_log.read(tmp_path / name / "log.csv") for name in ("one", "two"))
    assert [r["step"] for r in a] == [r["step"] for r in b] == [1, 2, 3, 4]
    for name in ("loss", "grad_norm", "tokens", "lr", "valid_loss"):
        # float32 sums in another order grow a little from step to step, in the norm most of all
        rel = 1e-3 if name == "grad_norm" else 1e-4
        assert [r.get(name) for r in a] == [
            value if value is None else pytest.approx(value, rel=rel)
            for value in (r.get(name) for r in b)
        ], name


def ranks_of(process) -> list[int]:
    """Ids of the processes that torchrun has started."""
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True
    )
    return [int(word) for word in found.stdout.split()]


@campaign
def test_kill_nine_under_torchrun(text, tmp_path):
    """The rest is ended, what was published is good, and the same command goes on."""
    given = ("--max_steps", 400, "--save_every", 1, "--async_save", "--log_every", 1)
    draw, out = random.Random(0), tmp_path / "cut"
    for _ in range(times(1, 20)):
        run = program(text, out, *given, launcher=TORCHRUN)
        ends, log = time.monotonic() + 120, out / "log.csv"
        rows = len(log.read_text().splitlines()) if log.exists() else 0
        while time.monotonic() < ends and run.poll() is None:
            if log.exists() and len(log.read_text().splitlines()) >= rows + 4:
                break
            time.sleep(0.02)
        time.sleep(draw.random() * 0.2)
        ranks = ranks_of(run)
        assert len(ranks) == 2, run.communicate()[1]
        os.kill(draw.choice(ranks), signal.SIGKILL)
        _, errors = run.communicate(timeout=120)
        assert run.returncode != 0 and "SIGKILL" in errors
        assert not any(Path(f"/proc/{rank}").exists() for rank in ranks), "no rank is left"
        found = [whole_state(path)["step"] for path in candidates(out / "checkpoints")]
        assert found
    said, _ = finished(program(text, out, "--max_steps", found[0] + 2))  # one process goes on
    assert f"continuing from step {found[0]}" in said
