"""The life of a run: what it waits for, refuses, and leaves behind when it is stopped or killed."""

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from course_lib.checkpoints import single_file
from course_lib.checkpoints.sharded import candidates
from course_lib.data.tokenizer import Tokenizer
from course_lib.ranks import local_ranks, world
from course_lib.ranks.world import World
from course_lib.runs import run_lock
from course_lib.runs.run_lock import RunLock
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.run_tokens import run_tokens
from course_lib.training.train_config import TrainConfig
from tests.fsdp_runs import TOKENS, V, make, settings

SIZES = ["--model_size", "tiny", "--device", "cpu", "--seq_len", "16", "--batch_size", "1",
         "--precision", "fp32", "--warmup_steps", "0", "--eval_batches", "0", "--sample_tokens", "0",
         "--valid_fraction", "0.3"]  # fmt: skip
TRAINERS = {kind: f"course_lib.training.{kind}_trainer" for kind in ("ddp", "fsdp")}
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
TWO = [*TORCHRUN, "--standalone", "--nproc_per_node=2"]
FOREVER = ["--max_steps", "100000", "--save_every", "0"]
LIMIT_S = 900  # on a busy machine

SLOW = """
import dataclasses, sys, time
from datetime import timedelta
import torch.distributed as dist
from course_lib.checkpoints import single_file
from course_lib.ranks.world import run
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.fsdp_trainer import FSDPTrainer
from tests.fsdp_runs import TOKENS, V, settings

LIMIT_S, SAVE_S = 6, 9
write = single_file.save

def save(*args, **options):
    time.sleep(SAVE_S)
    return write(*args, **options)

single_file.save = save

def main(world):
    hurried = dataclasses.replace(world, group=dist.new_group(timeout=timedelta(seconds=LIMIT_S)))
    for kind in (DistributedTrainer, FSDPTrainer):
        config = settings(f"{sys.argv[1]}/{kind.__name__}", checkpoint="full", max_steps=1)
        kind(config, TOKENS, vocab_size=V, world=hurried).fit()

run(main, "cpu")
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    for name in ("argparse", "ast", "bisect"):
        source = sys.modules.get(name) or __import__(name)
        (folder / f"{name}.py").write_bytes(Path(source.__file__).read_bytes())
    return folder


def start(command, cwd=None, **variables) -> subprocess.Popen:
    own = {k: v for k, v in os.environ.items() if not k.startswith(("TORCHELASTIC", "RANK"))}
    return subprocess.Popen(
        list(map(str, command)),
        cwd=cwd,
        env=own | {"OMP_NUM_THREADS": "1"} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def trainer(kind, text, tmp_path, *more, launcher=(sys.executable,)) -> list:
    """The command of a small run in tmp_path/run."""
    given = ["--data", text, "--cache", tmp_path / "tokens", "--out", tmp_path / "run"]
    return [*launcher, "-m", TRAINERS[kind], *SIZES, *given, *more]


def wait_for_rows(process, log: Path, count: int) -> None:
    ends = time.monotonic() + LIMIT_S
    while not (log.exists() and len(log.read_text().splitlines()) > count):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < ends
        time.sleep(0.05)


def ranks_of(process) -> list[int]:
    """Ids of the processes that torchrun has started."""
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True
    )
    return [int(word) for word in found.stdout.split()]


def test_a_save_may_take_longer_than_a_collective(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    root = Path(__file__).parents[1]
    run = start([*TWO, tmp_path / "slow.py", tmp_path], PYTHONPATH=str(root))
    _, errors = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0, errors
    for kind in ("DistributedTrainer", "FSDPTrainer"):
        assert single_file.steps(tmp_path / kind / "checkpoints") == [1]


def test_two_machines_without_a_common_folder_are_refused(text, tmp_path):
    """Each agent stands in a folder of its own, and --out is relative."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    meet = ["--nnodes=2", "--nproc_per_node=1", "--rdzv-backend=c10d", "--rdzv-id=7"]
    command = trainer("ddp", text, tmp_path, "--out", "run", "--max_steps", 4)
    places = [tmp_path / name for name in ("a", "b")]
    for place in places:
        place.mkdir()
    alone = start([sys.executable, *command[1:], "--max_steps", 2], places[0])
    assert alone.communicate(timeout=LIMIT_S) and alone.returncode == 0
    launcher = [*TORCHRUN, *meet, f"--rdzv-endpoint=localhost:{port}"]
    agents = [start([*launcher, *command[1:]], place) for place in places]
    said = [agent.communicate(timeout=LIMIT_S)[1] for agent in agents]
    assert all(agent.returncode for agent in agents)
    assert all("error: rank 1 on " in words and "absolute path" in words for words in said), said
    assert single_file.steps(places[0] / "run/checkpoints") == [2]


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
@pytest.mark.parametrize("there", ["nothing", "another"])
def test_ranks_that_see_other_checkpoints_do_not_go_on(tmp_path, kind, there):
    def work(rank):
        world.SEEN_S = 0.5
        config = settings(tmp_path / f"folder{rank}", checkpoint="full")
        run = make(config, DistributedTrainer) if kind == "ddp" else make(config)
        if rank == 0 or there == "another":
            alone = World()
            one = DistributedTrainer(config, TOKENS[rank:], vocab_size=V, world=alone)
            one.save_checkpoint()
        with pytest.raises(ValueError, match="rank 1 on .* finds .*rank 0 on .*--out") as raised:
            run.load_checkpoint()
        return str(raised.value)

    said = [rank.value for rank in local_ranks.run(work, [(0,), (1,)], seconds=60)]
    assert said[0] == said[1]
    assert ("rank 1" in said[0] and "finds nothing" in said[0]) == (there == "nothing")


def test_the_first_rank_alone_reads_and_all_have_its_state(tmp_path):
    def work(rank):
        config = settings(tmp_path)
        first = make(config, DistributedTrainer)
        first.train_step(first.next_batches())
        first.save_checkpoint()
        again, load = make(config, DistributedTrainer), single_file.load
        reads = []
        single_file.load = lambda *args, **options: reads.append(1) or load(*args, **options)
        assert again.load_checkpoint() == 1
        single_file.load = load
        same = all(torch.equal(x, first.weights()[name]) for name, x in again.weights().items())
        a, b = (run.train_step(run.next_batches())["loss"] for run in (first, again))
        return len(reads), same, a == b

    found = [rank.value for rank in local_ranks.run(work, [(0,), (1,)], seconds=60)]
    assert found == [(1, True, True), (0, True, True)]


def test_a_cache_that_is_not_shared_is_refused(text, tmp_path):
    def work(rank):
        world.SEEN_S = 0.5
        sys.stderr = io.StringIO()  # a rank of a test has none, and the tokenizer shows progress
        place = tmp_path / str(rank)
        place.mkdir()
        os.chdir(place)
        config = TrainConfig(data=str(text), cache="tokens", valid_fraction=0.3)
        with pytest.raises(ValueError, match=r"rank 1 on .*no index.*--cache as an absolute path"):
            run_tokens(World.of_group(), config, Tokenizer.course())
        os.chdir(tmp_path / "0")
        return len(run_tokens(World.of_group(), config, Tokenizer.course())[0])

    found = [rank.value for rank in local_ranks.run(work, [(0,), (1,)], seconds=60)]
    assert found[0] == found[1] > 1000


def test_an_error_of_the_first_rank_reaches_all():
    def work(rank):
        team = World.of_group()
        assert team.do_on_first(lambda: team.rank + 5) == 5
        for error in (ValueError("no such text"), OSError(28, "No space left on device")):

            def fail(error=error):
                raise error

            with pytest.raises(type(error), match="no such text|No space left"):
                team.do_on_first(fail)
        return True

    assert all(rank.value for rank in local_ranks.run(work, [(0,), (1,)]))


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_signal_to_one_rank_stops_all_with_a_checkpoint(text, tmp_path, kind):
    """What Slurm's warning does: torchrun sees ranks that have ended well, and so does the shell."""
    run = start(trainer(kind, text, tmp_path, *FOREVER, launcher=TWO))
    wait_for_rows(run, tmp_path / "run/log.csv", 2)
    os.kill(ranks_of(run)[1], signal.SIGUSR2)
    said, errors = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0, errors
    step = int(re.search(r"stopped at step (\d+) by SIGUSR2; checkpoint .*step_", said)[1])
    assert "start the same command to go on" in said and "Traceback" not in errors
    assert [int(p.stem[5:]) for p in candidates(tmp_path / "run/checkpoints")] == [step]
    more = ("--max_steps", step + 1)
    last = start(trainer(kind, text, tmp_path, *more))
    said, errors = last.communicate(timeout=LIMIT_S)
    assert last.returncode == 0 and f"continuing from step {step}" in said, errors


def test_torchrun_passes_sigterm_on_and_the_ranks_save(text, tmp_path):
    run = start(trainer("ddp", text, tmp_path, *FOREVER, launcher=TWO))
    wait_for_rows(run, tmp_path / "run/log.csv", 2)
    run.send_signal(signal.SIGTERM)
    said, errors = run.communicate(timeout=LIMIT_S)
    assert re.search(r"stopped at step \d+ by SIGTERM", said), errors
    assert run.returncode in (1, -signal.SIGABRT), (
        errors
    )  # torchrun's own; Python's end may abort it
    assert len(single_file.steps(tmp_path / "run/checkpoints")) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_process_stops_with_a_checkpoint_and_status_0(text, tmp_path, number):
    run = start(trainer("ddp", text, tmp_path, *FOREVER))
    wait_for_rows(run, tmp_path / "run/log.csv", 2)
    run.send_signal(number)
    said, errors = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0, errors
    assert f"by {number.name}; checkpoint" in said and "once more ends it at once" in errors
    assert len(single_file.steps(tmp_path / "run/checkpoints")) == 1


def test_a_second_signal_ends_at_once_and_an_echo_does_not():
    code = (
        "import os, signal, time\n"
        "from course_lib.runs import stop_request\n"
        "with stop_request.StopRequest() as asked:\n"
        "    for _ in range(2): os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print(asked.received.name, flush=True)\n"
        "    time.sleep(stop_request.ECHO_S + 0.2)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('still here')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("SIGTERM\n", -signal.SIGTERM)


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_no_rank_outlives_a_torchrun_that_was_killed(tmp_path, platform):
    """Elsewhere than on Linux a thread looks; that works on Linux too."""
    (tmp_path / "wait.py").write_text(
        f"import sys, time\nfrom pathlib import Path\nfrom course_lib.ranks.world import run\n"
        f"sys.platform = {platform!r}\n"
        f"def main(world):\n    Path(f'{tmp_path}/{{world.rank}}').touch()\n    time.sleep(600)\n"
        f"run(main, 'cpu')\n"
    )
    run = start([*TWO, tmp_path / "wait.py"])
    ends = time.monotonic() + LIMIT_S
    while not all((tmp_path / str(rank)).exists() for rank in range(2)):
        assert time.monotonic() < ends and run.poll() is None
        time.sleep(0.05)
    ranks = ranks_of(run)
    assert len(ranks) == 2
    run.kill()
    run.communicate()
    ends = time.monotonic() + 30
    while any(Path(f"/proc/{rank}").exists() for rank in ranks):
        assert time.monotonic() < ends, "they train on, and nobody knows"
        time.sleep(0.1)


def test_a_second_run_into_one_folder_is_refused_by_name(text, tmp_path):
    lock = RunLock(tmp_path / "run")
    lock.take()
    command = trainer("ddp", text, tmp_path, "--max_steps", 1)
    second = start(command)
    _, errors = second.communicate(timeout=LIMIT_S)
    assert second.returncode == 2 and "Traceback" not in errors
    assert f"is in use by process {os.getpid()} on {socket.gethostname()}, started 2" in errors
    assert "pass another --out" in errors
    lock.release()
    third = start(command)
    assert third.communicate(timeout=LIMIT_S) and third.returncode == 0


def test_a_killed_run_holds_no_lock(tmp_path):
    code = (
        "import os, signal, sys\nfrom course_lib.runs.run_lock import RunLock\n"
        "RunLock(sys.argv[1]).take()\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path])
    assert '"pid"' in RunLock(tmp_path).read()
    lock = RunLock(tmp_path)
    lock.take()
    assert json.loads(lock.read())["pid"] == os.getpid()
    lock.release()
    assert lock.read() == ""


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"cannot write below .*file/run .*--out"):
        RunLock(tmp_path / "file" / "run").take()


@pytest.mark.parametrize("locks", [True, False], ids=["locks", "no locks"])
@pytest.mark.parametrize(
    "age, launch, refused",
    [(10, None, True), (10, "job 7", False), (1000, None, False)],
    ids=["at work", "same launch", "silent"],
)
def test_a_lock_of_another_machine(tmp_path, monkeypatch, locks, age, launch, refused):
    """Its kernel does not tell: only how long it has been silent, and whether it was this launch."""
    if not locks:
        monkeypatch.setattr(run_lock, "_try_lock", lambda stream: None)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job 7")
    other = {"host": "node17", "pid": 4, "started": "2026-01-02 03:04:05", "launch": launch}
    path = tmp_path / run_lock.NAME
    path.write_text(json.dumps(other))
    then = time.time() - age
    os.utime(path, (then, then))
    lock = RunLock(tmp_path)
    if refused:
        with pytest.raises(ValueError, match="process 4 on node17.*--out.*120 seconds"):
            lock.take()
        assert json.loads(lock.read()) == other
    else:
        lock.take()
        assert json.loads(lock.read())["host"] == socket.gethostname()
        lock.release()


def test_a_lock_shows_signs_of_life(tmp_path, monkeypatch):
    monkeypatch.setattr(run_lock, "TOUCH_S", 0.05)
    lock = RunLock(tmp_path)
    lock.take()
    os.utime(lock.path, (1, 1))
    ends = time.monotonic() + 30
    while lock.path.stat().st_mtime == 1:
        assert time.monotonic() < ends
        time.sleep(0.01)
    lock.release()


@pytest.mark.parametrize(
    "line, ours",
    [
        ("TrainConfig(max_steps=0)", True),
        ("torch.tensor([1.0, [2.0]])", False),
        ("torch.distributed.init_process_group('no such')", False),
        ("import course_lib.data.token_store as t; t.np.zeros(2).reshape(3)", False),
        ("raise ValueError('of a script')", False),
    ],
)
def test_only_errors_of_a_user_lose_their_traceback(tmp_path, line, ours):
    script = tmp_path / "script.py"
    script.write_text(
        f"import torch\nfrom course_lib.ranks.world import run\n"
        f"from course_lib.training.train_config import TrainConfig\n"
        f"def main(world):\n    {line}\nrun(main, 'cpu')\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == (2 if ours else 1), done.stderr
    assert ("Traceback" not in done.stderr) == ours, done.stderr
