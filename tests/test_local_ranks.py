"""Ranks forked from this process: values, collectives, bytes, and every way to go wrong."""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import psutil
import pytest
import torch
import torch.distributed as dist

from course_lib.ranks import local_ranks
from course_lib.ranks.local_ranks import RankFailed, RanksStuck
from course_lib.ranks.rank_server import RankServer
from course_lib.runs import replaced
from course_lib.runs.own_folder import own_folder


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


CRASHES = """
import os, sys
from pathlib import Path
import torch.distributed as dist
from course_lib.ranks import local_ranks
folder, sent, fork = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "fork"

def crash_at_first(rank):
    tries = Path(folder) / f"tries{rank}"
    first = not tries.exists()
    with tries.open("a") as stream:
        stream.write("x")
    if first and rank == 1:
        os.kill(os.getpid(), sent)
    dist.barrier()
    return "done"

try:
    print([r.value for r in local_ranks.run(crash_at_first, [(0,), (1,)], fork=fork, again=True)])
except local_ranks.RankFailed as failure:
    print(failure.text)
"""


@pytest.mark.parametrize("fork", ["", "fork"])
@pytest.mark.parametrize(
    "sent, tries, said",
    [(signal.SIGSEGV, "xx", "['done', 'done']"), (signal.SIGABRT, "x", "ended without a word")],
)
def test_a_crash_in_gloo_is_tried_once_more(tmp_path, sent, tries, said, fork):
    """Its thread was seen to end a rank by SIGSEGV. What gloo refuses ends it by SIGABRT."""
    command = [sys.executable, "-c", CRASHES, str(tmp_path), str(int(sent)), fork]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert said in done.stdout, done.stderr
    assert (tmp_path / "tries1").read_text() == tries


def test_ranks_are_ended_when_they_have_computed_or_wait_not_when_the_machine_is_busy(monkeypatch):
    """The clocks are the test's own."""
    now, used = [0.0], {1: 0.0, 2: 0.0}
    monkeypatch.setattr(local_ranks.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(local_ranks, "cpu_seconds", used.get)
    monkeypatch.setattr(local_ranks, "is_ready", lambda pid: False)

    def over_after(steps: float, rate: float, other: float = 0.0) -> float:
        """When two ranks that use `rate` and `other` of a processor are ended."""
        now[0], used[1], used[2] = 0.0, 0.0, 0.0
        limit = local_ranks._Limit(8.0, [1, 2])
        while not limit.is_over():
            now[0] += steps
            used[1] += steps * rate
            used[2] += steps * other
        return now[0]

    assert over_after(0.1, 0.005) == pytest.approx(8, abs=0.5), "they wait"
    assert over_after(0.1, 1.5) == pytest.approx(8, abs=0.5), "a loop without end"
    assert over_after(0.1, 0.5) == pytest.approx(16, abs=2.1), "half a core: twice as long"
    assert over_after(0.1, 0.5, 0.5) == pytest.approx(16, abs=2.1), "two on one core"
    assert over_after(0.1, 0.1) == pytest.approx(40, abs=0.5), "in any case"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whether a process is ready")
def test_a_rank_that_others_keep_from_the_processor_does_not_count_as_waiting():
    def start(policy: int) -> subprocess.Popen:
        code = f"import os; os.sched_setscheduler(0, {policy}, os.sched_param(0))\nwhile True: pass"
        return subprocess.Popen([sys.executable, "-c", code], preexec_fn=pin_to_one_core)

    def pin_to_one_core():
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    with start(os.SCHED_OTHER) as hog, start(os.SCHED_IDLE) as starved:
        try:
            limit = local_ranks._Limit(1.0, [starved.pid])
            for _ in range(20):
                time.sleep(0.1)
                assert not limit.is_over()
            assert limit.used[starved.pid] < 0.9, "the test wants a process that is kept waiting"
        finally:
            hog.kill()
            starved.kill()


def test_a_function_may_mention_modules_of_torch_that_are_no_plain_modules():
    def reads():
        return torch.ops.aten.add(1, 2), torch._dynamo.config.suppress_errors

    import torch._dynamo  # noqa: F401  from here on it is a module that the function mentions

    assert local_ranks.run(reads, [()])[0].value == (3, False)


def test_what_cannot_be_copied_is_said():
    lock = threading.Lock()
    with pytest.raises(ValueError, match="cannot be copied.*pass plain values and tensors"):
        local_ranks.run(lambda: lock, [()])


def test_ranks_have_the_random_state_and_the_folder_of_their_caller(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COURSE_TEST", "told")
    torch.manual_seed(5)
    ranks = local_ranks.run(
        lambda: (torch.rand(1).item(), os.getcwd(), os.environ["COURSE_TEST"]), [()] * 2
    )
    torch.manual_seed(5)
    assert [rank.value for rank in ranks] == [(torch.rand(1).item(), str(tmp_path), "told")] * 2


def test_ranks_use_definitions_that_were_replaced(monkeypatch):
    from course_lib.ranks import collectives

    monkeypatch.setattr(local_ranks, "REPLACED", {})
    monkeypatch.setattr(replaced, "REPLACED", local_ranks.REPLACED)
    own = collectives.pad_to_multiple
    replaced.replace_definition("course_lib.ranks.collectives", "pad_to_multiple", lambda x: 7)

    def pads():
        return collectives.pad_to_multiple(1)

    try:
        assert local_ranks.run(pads, [()])[0].value == 7
    finally:  # in every module that has imported it
        replaced.replace_definition("course_lib.ranks.collectives", "pad_to_multiple", own)


def test_a_server_that_was_killed_is_started_again():
    local_ranks.run(lambda: 1, [()])
    server = local_ranks.SERVER._process
    server.kill()
    server.wait()
    assert local_ranks.run(lambda: 1, [()])[0].value == 1


def test_the_server_ends_with_the_process_that_started_it():
    code = """
import os
from course_lib.ranks import local_ranks
local_ranks.run(int, [()])
print(local_ranks.SERVER._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    server = psutil.Process(int(done.stdout)) if psutil.pid_exists(int(done.stdout)) else None
    if server is not None:
        server.wait(timeout=20)


def test_an_interrupted_order_does_not_answer_the_next_one(monkeypatch):
    """Interrupted while the server imports, as a learner does whose first check takes seconds."""
    local_ranks.run(int, [()])
    connection, end, ended = local_ranks.SERVER._connection, local_ranks.SERVER.end, []
    receive = connection.recv

    def interrupt_once():
        monkeypatch.setattr(connection, "recv", receive)
        raise KeyboardInterrupt

    monkeypatch.setattr(connection, "recv", interrupt_once, raising=False)
    with pytest.raises(KeyboardInterrupt):
        local_ranks.SERVER.start()
    monkeypatch.setattr(
        local_ranks.SERVER, "end", lambda pids: ended.append(len(pids)) or end(pids)
    )
    assert [r.value for r in local_ranks.run(lambda: dist.get_rank(), [()] * 2)] == [0, 1]
    assert ended == [2]  # the answer to the order before was an empty list


def temporary_folder() -> str:
    return tempfile.gettempdir()


def test_ranks_after_a_check_no_longer_use_its_folder(monkeypatch):
    """Their server has been started in a check, and knows the folder of that from its own start."""
    monkeypatch.setattr(local_ranks, "SERVER", RankServer())
    with own_folder() as folder:
        (inside,) = local_ranks.run(temporary_folder, [()])
        assert inside.value == folder
    (after,) = local_ranks.run(temporary_folder, [()])
    assert after.value == tempfile.gettempdir() != folder


def test_what_is_loaded_after_a_check_is_loaded_once_and_not_by_each_rank(tmp_path):
    """A check has a folder of its own, and torch._dynamo does not load in a folder that is gone."""
    code = """
import os, sys
from course_lib.ranks import local_ranks
os.mkdir("check")
os.chdir("check")
local_ranks.SERVER.start()
os.chdir("..")
os.rmdir("check")
import torch._dynamo
(rank,) = local_ranks.run(lambda: "torch._dynamo" in sys.modules, [()])
print(rank.value)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.parametrize("dies", [False, True], ids=["raises", "dies"])
def test_the_rank_that_failed_first_is_named_though_all_are_heard_at_once(monkeypatch, dies):
    def fails():
        if dist.get_rank() == 1:
            os._exit(3) if dies else 1 / 0
        dist.all_reduce(torch.ones(4))

    def wait_late(pipes, seconds):
        time.sleep(0.5)  # a busy machine: both have failed before anybody looks
        return multiprocessing.connection.wait(pipes, seconds)

    monkeypatch.setattr(local_ranks, "wait", wait_late)
    with pytest.raises(RankFailed) as caught:
        local_ranks.run(fails, [()] * 2)
    assert (caught.value.rank, caught.value.kind) == (
        1,
        "SystemExit" if dies else "ZeroDivisionError",
    )
