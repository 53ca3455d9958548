"""What ranks have written, understood: logs, heartbeats, stacks, and who failed first."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from course_lib.lab.launch import cause, plain, stacks
from course_lib.lab.launch.stacks import Place
from course_lib.lab.launch.watch import MOST_BYTES, NUM_LINES, RankView, Tail, Watch
from course_lib.runs import heartbeat
from grader.course import ROOT

# One message as torch, Python or the system writes it, and what its translation must name.
RAW = {
    "name": ("NameError: name 'model' is not defined", "`model`"),
    "module": ("ModuleNotFoundError: No module named 'my.tools'", "`my.tools`"),
    "input": ("EOFError: EOF when reading a line", "input()"),
    "duplicate-gpu": ("torch.distributed.DistBackendError: NCCL error ... Duplicate GPU detected : "
                      "rank 1 and rank 0 both on CUDA device 1b0", "ranks 1 and 0"),
    "cuda-memory": ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 3 "
                    "has a total capacity of 139.72 GiB of which 11.10 GiB is free. Of the",
                    "GPU 3 is full: 20.00 GiB asked for, 11.10 GiB of 139.72 GiB free"),
    "memory": ("RuntimeError: [enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't "
               "allocate memory: you tried to allocate 8 bytes", "memory is full"),
    "port": ("torch.distributed.DistNetworkError: The server socket has failed to listen on any "
             "local network address. port: 29500, code: -98, name: EADDRINUSE", "port is taken"),
    "no-group": ("ValueError: Default process group has not been initialized, please make sure to "
                 "call init_process_group.", "init_process_group"),
    "local-rank": ("torch.AcceleratorError: CUDA error: invalid device ordinal", "LOCAL_RANK"),
    "preamble": ("gloo::EnforceNotMet: [enforce fail at gloo/transport/tcp/pair.cc:454] "
                 "op.preamble.length <= op.nbytes. 8 vs 4", "different sizes"),
    "nccl-behind": ("[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=678, "
                    "OpType=_ALLGATHER_BASE, NumelIn=1", "did not come"),
    "timeout": ("RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 10000ms "
                "for recv operation to complete", "10000 ms"),
    "connection": ("RuntimeError: [gloo/transport/tcp/pair.cc:538] Connection closed by peer "
                   "[127.0.0.1]:4371", "lost the connection"),
    "exit-abort": ("terminate called without an active exception", "course_lib.ranks.world.run"),
    "disk": ("OSError: [Errno 28] No space left on device: 'x'", "disk is full"),
    "signal-9": ("killed by SIGKILL", "memory"),
    "signal-7": ("killed by SIGBUS", "shared memory"),
    "signal-11": ("killed by SIGSEGV", "native code"),
    "usage": ("torchrun: error: unrecognized arguments: --nproc", "unrecognized arguments: --nproc"),
}  # fmt: skip


def test_every_translation_has_its_message_and_the_other_way_round():
    assert [entry["id"] for entry in cause.translations()] == list(RAW)
    for name, (raw, names) in RAW.items():
        (entry,) = (e for e in cause.translations() if e["id"] == name)
        assert cause.translate_message(raw) and names in cause.translate_message(raw)
        assert cause.translate_message(raw).startswith(entry["text"].partition("{")[0])
    assert cause.translate_message("all is well") == ""


def rank(
    number: int, *, error: str = "", at: float = 0.0, died: float | None = None, said: str = ""
):
    view = RankView(number, Tail(Path(f"rank{number}.log")), pid=100 + number, died=died)
    if error:
        kind, _, text = error.partition(": ")
        view.error = {"type": kind, "text": text, "t": at, "frames": [], "names": {}}
    view.log.lines.extend(said.splitlines())
    return view


def listing(**codes: int) -> str:
    """The end of torchrun's report, as torch 2.13 prints it."""
    blocks = []
    for name, code in codes.items():
        number = int(name[1:])
        blocks.append(
            f"[{number}]:\n  time      : 2026-11-20_12:00:00\n  host      : box\n"
            f"  rank      : {number} (local_rank: {number})\n"
            f"  exitcode  : {code} (pid: {100 + number})\n  error_file: <N/A>\n"
        )
    return "\n".join(blocks)


CLOSED = "RuntimeError: [gloo/transport/tcp/pair.cc:538] Connection closed by peer [::1]:437"
TIMED_OUT = "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 4000ms for"


def test_the_first_exception_is_the_root():
    found = cause.find(
        [rank(0, error="KeyError: 'x'", at=5.2), rank(1, error="ValueError: y", at=5.1)],
        listing(r0=1, r1=1),
    )
    assert (found.rank, found.text) == (1, "ValueError: y")
    assert found.others == ("also   rank 0: KeyError: 'x'",)


def test_a_lost_connection_is_never_the_root_of_a_kill():
    found = cause.find([rank(0, error=CLOSED, at=1.0), rank(1, died=1.1)], listing(r0=1, r1=-9))
    assert (found.rank, found.text) == (1, "killed by SIGKILL")
    assert found.others == ("also   rank 0 stopped because rank 1 did",)


def test_an_exit_status_shows_the_last_words():
    found = cause.find(
        [rank(0, died=2.0), rank(1, died=1.0, said="error: lr must be > 0")], listing(r0=-15, r1=2)
    )
    assert (found.rank, found.text) == (1, "exit status 2: error: lr must be > 0")


def test_who_was_killed_by_torchrun_or_by_us_is_no_root():
    log = "W Unable to shutdown process 100 via 15\n" + listing(r0=-9, r1=1)
    raised = rank(1, error="ValueError: y", at=5.1)
    for text, killed in ((log, ()), (listing(r0=-9, r1=1), {100})):
        found = cause.find([rank(0, died=1.0), raised], text, killed=killed)
        assert found.rank == 1 and found.others == ("also   rank 0 stopped because rank 1 did",)


def test_of_a_timeout_the_root_is_who_did_not_come():
    views = [rank(0, error=TIMED_OUT, at=9.0), rank(1), rank(2, error=TIMED_OUT, at=8.9)]
    codes = listing(r0=1, r1=-15, r2=1)
    places = [
        Place(0, "t.py", 14, "main", "all_reduce"),
        Place(1, "t.py", 12, "main"),
        Place(2, "t.py", 14, "main", "all_reduce"),
    ]
    found = cause.find(views, codes, places)
    assert found.rank == 1 and "did not come" in found.text and "t.py:12" in found.text
    assert "ranks 0, 2" in found.means
    found = cause.find(views, codes)  # nobody looked: what is left is who has made no mistake
    assert found.rank == 1 and "never came" in found.text


def test_who_ends_well_while_others_wait_is_the_root():
    found = cause.find([rank(0, error=CLOSED, at=3.0), rank(1, died=2.9)], listing(r0=1))
    assert found.rank == 1 and "ended, without an error" in found.text
    early = [Place(0, "t.py", 14, "main"), Place(1, "t.py", 2, "<module>", "barrier")]  # on the way
    found = cause.find([rank(0, error=CLOSED, at=3.0), rank(1, died=2.9)], listing(r0=1), early)
    assert found.rank == 1 and "ended, without an error" in found.text


def test_different_collectives_are_named():
    places = [Place(0, "t.py", 14, "f", "all_reduce"), Place(1, "t.py", 17, "f", "barrier")]
    found = cause.find(
        [rank(0, error=TIMED_OUT, at=9.0), rank(1, error=TIMED_OUT, at=9.1)],
        listing(r0=1, r1=1),
        places,
    )
    assert "in all_reduce, t.py:14" in found.text and "in barrier, t.py:17" in found.text
    assert "different collectives" in found.means


def test_torchruns_own_end_is_said_where_no_rank_has_begun():
    view = rank(0)
    view.pid = None
    found = cause.find(
        [view], "usage: torchrun [-h]\ntorchrun: error: unrecognized arguments: --x\n"
    )
    assert found.rank is None and "unrecognized arguments: --x" in found.means
    assert found.lines("runs/0001", 1)[-1] == "  log    runs/0001/torchrun.log"
    assert "SIGKILL" in cause.find([rank(0)], "", status=-9).text


def test_nccls_numbers_say_who_is_behind():
    said = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, OpType={}, NumelIn=1)"
    views = [
        rank(r, error="RuntimeError: x", at=1.0, said=said.format(680, "ALLREDUCE")) for r in (0, 1)
    ]
    views.append(rank(2, error="RuntimeError: x", at=1.1, said=said.format(678, "_ALLGATHER_BASE")))
    (line,) = (x for x in cause.find(views, "").others if x.startswith("behind"))
    assert "rank 2" in line and "number 678" in line and "number 680" in line


DUMP = """Thread 0x00007f1 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait

Current thread 0x00007f2 (most recent call first):
  File "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3005 in all_reduce
  File "/env/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper
  File "lessons/train.py", line 14 in step
  File "lessons/train.py", line 20 in <module>
"""


def test_a_dump_is_read_as_place_and_collective():
    place = stacks.understood(DUMP, 3, step=7)
    assert (place.file, place.line, place.collective) == ("lessons/train.py", 14, "all_reduce")
    assert place.text == "in all_reduce, train.py:14"
    assert stacks.understood("", 0) is None
    lines = DUMP.splitlines()
    sleeping = stacks.understood("\n".join(lines[:4] + lines[6:]), 0)
    assert sleeping.collective == "" and sleeping.text == "at train.py:14"


@pytest.mark.parametrize("call, waits", [("work.wait()", "wait"), ("sums.add_(one)", "")])
def test_a_work_that_is_waited_for_is_a_collective(tmp_path, call, waits):
    """Its wait is in C++: Python's uppermost frame is the line that calls it."""
    script = tmp_path / "train.py"
    script.write_text(f"for work in works:\n    {call}\n")
    dump = f'Current thread 0x1 (most recent call first):\n  File "{script}", line 2 in finish\n'
    places = [stacks.understood(dump, rank) for rank in range(2)]
    assert [place.collective for place in places] == [waits, waits]
    lines = stacks.report(places, 20)
    assert any(line.startswith("No rank is seen to wait") for line in lines) == (not waits)


BUSY = """
import io, os, pickle, sys, time
os.environ["COURSE_RUN"] = sys.argv[1]  # here: a launch ends whatever was started with it and has no run
from course_lib.lab.launch import rank
rank.begin()
print("ready", flush=True)
class Part:
    @property
    def size(self): return sum(x for x in (1, 2, 3))
    def __reduce__(self): return Part, ()
end = time.process_time() + 3
while time.process_time() < end:
    sorted([Part().size for _ in range(20)], key=lambda x: -x)
    pickle.Pickler(io.BytesIO()).dump([Part(), Part()])
print("end", flush=True)
"""


def test_a_rank_survives_being_asked_where_it_is_at_any_moment(tmp_path):
    """A frame that is half made when the signal comes must not be read."""
    env = os.environ | {"RANK": "0", "TORCHELASTIC_RUN_ID": "x"}
    rank = subprocess.Popen([sys.executable, "-c", BUSY, tmp_path], env=env, cwd=ROOT)
    log = tmp_path / "rank0.log"
    while not (log.exists() and "ready" in log.read_text()):
        time.sleep(0.01)
    while rank.poll() is None:
        rank.send_signal(signal.SIGUSR1)
        time.sleep(0.0005)
    assert rank.returncode == 0 and log.read_text().endswith("end\n"), log.read_text()[:500]
    assert 'File "<string>"' in (tmp_path / "stacks0.txt").read_text()


def test_the_odd_rank_is_named():
    waits = [Place(r, "t.py", 14, "f", "all_reduce", 5) for r in (0, 1, 2)]
    report = stacks.report([*waits, Place(3, "t.py", 12, "f", "", 5)], 20)
    assert "  ranks 0-2 in all_reduce, t.py:14" in report
    assert report[-1] == "The others wait for rank 3."
    behind = [*waits, Place(3, "t.py", 11, "f", "barrier", 4)]
    assert [p.rank for p in stacks.odd_ones(behind)] == [3]
    assert stacks.odd_ones(waits) == []
    two = [Place(0, "t.py", 1, "f", "barrier"), Place(1, "t.py", 2, "f", "all_reduce")]
    assert stacks.odd_ones(two) == [] and "wait in different places" in stacks.report(two, 20)[-1]
    assert stacks.report([], 20) == []


@pytest.mark.parametrize(
    "call",
    ["loss.item()", "norm = norm.cpu()", "ids.tolist()", "loss = float(loss)", "if loss > 9: pass",
     "print(loss)", "y = x.nonzero()", "fine = bool(loss.isfinite())", "kept.copy_(x)", "x.to('cpu')"],
)  # fmt: skip
def test_a_rank_that_waits_for_its_gpu_is_not_accused(tmp_path, call):
    """NCCL's collectives return once they are queued: a rank stands where it reads a result."""
    script = tmp_path / "train.py"
    script.write_text(f"dist.all_reduce(loss)\n{call}\n")
    dump = f'Current thread 0x1 (most recent call first):\n  File "{script}", line 2 in step\n'
    reads = [stacks.understood(dump, rank, on_gpus=True) for rank in range(3)]
    assert stacks.report(reads, 20)[-1] == (
        "They wait for their GPUs, which may be slow, or wait for other ranks themselves."
    )
    asleep = Place(3, "t.py", 12, "f")
    assert stacks.report([*reads, asleep], 20)[-1] == "The others wait for rank 3."
    barrier = Place(3, "t.py", 12, "f", "barrier")
    assert stacks.odd_ones([*reads, barrier]) == [barrier]
    assert stacks.understood(dump, 0).collective == ""  # on CPUs it computes


@pytest.mark.parametrize("line", ["if time.sleep(9): pass", "loss.backward()"])
def test_a_rank_at_another_line_does_not_wait_for_its_gpu(tmp_path, line):
    script = tmp_path / "train.py"
    script.write_text(f"{line}\n")
    dump = f'Current thread 0x1 (most recent call first):\n  File "{script}", line 1 in step\n'
    assert stacks.understood(dump, 0, on_gpus=True).collective == ""


@pytest.mark.parametrize("function", ["synchronize", "_str", "clip_grad_norm_"])
def test_a_rank_in_synchronize_waits_for_its_gpu(tmp_path, function):
    script = tmp_path / "train.py"
    script.write_text("torch.cuda.synchronize()\n")
    dump = (
        "Current thread 0x1 (most recent call first):\n"
        f'  File "/env/lib/python3.11/site-packages/torch/some.py", line 9 in {function}\n'
        f'  File "{script}", line 1 in step\n'
    )
    place = stacks.understood(dump, 0, on_gpus=True)
    assert place.collective == stacks.GPU
    assert place.text == "in a wait for its GPU, train.py:1: torch.cuda.synchronize()"


def test_ranks_that_compute_are_not_accused():
    """A first step may take a minute, and no rank holds up another in it."""
    for steps in ((None, None), (3, 4)):
        places = [Place(r, "t.py", 14 + r, "f", "", step) for r, step in enumerate(steps)]
        *_, slow, queued = stacks.report(places, 20)
        assert slow.startswith("No rank is seen to wait in a collective")
        assert queued.startswith("On GPUs a wait for other ranks shows only at the next line")


def test_logs_are_read_as_a_terminal_would_show_them(tmp_path):
    file = tmp_path / "rank0.log"
    tail = Tail(file)
    assert tail.read() == [] and tail.last_line() == ""
    file.write_bytes(b"one\n 10%|#  |\r 20%|## |\r\x1b[31mred\x1b[0m\r\nhalf \xff")
    assert tail.read() == ["one", "red"] and tail.last_line() == "half \N{REPLACEMENT CHARACTER}"
    with file.open("ab") as stream:
        stream.write(b" done\n")
    assert tail.read() == ["half \N{REPLACEMENT CHARACTER} done"]


def test_a_flood_is_skipped_not_read(tmp_path):
    file = tmp_path / "rank0.log"
    file.write_bytes(b"x" * 99 + b"\n" + (b"y" * 99 + b"\n") * 50_000 + b"end\n")
    tail = Tail(file)
    new = tail.read()
    assert new[-1] == "end" and len(new) < MOST_BYTES / 90
    assert len(tail.lines) <= NUM_LINES and tail.skipped > 4_000_000
    view = RankView(0, tail)
    assert plain.output(view)[0] == "[0] ... more of it in rank0.log ..."
    assert len(plain.output(view)) == plain.NUM_LINES + 1


def beats(folder: Path, code: str, **environment: str) -> None:
    """Run lines of a rank, which imports nothing but the heartbeat.

    It sets the variables itself: a launch in another test would end a process that was started with
    COURSE_RUN as what an earlier run has left.
    """
    variables = {"COURSE_RUN": str(folder), "RANK": "1"} | environment
    begin = f"import os, sys\nos.environ |= {variables}\nfrom course_lib.runs.heartbeat import beat"
    code = f"{begin}\n{code}\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_heartbeats_are_rare_and_the_last_one_is_there(tmp_path):
    beats(tmp_path, "for i in range(1, 1001): beat(i, 1000, loss=1 / i, tokens=10 * i)")
    lines = (tmp_path / heartbeat.FILE).read_text().splitlines()
    events = [json.loads(line) for line in lines]
    assert 2 <= len(events) < 20  # at most ten a second
    assert events[-1]["step"] == 1000 and events[-1]["tokens"] == 10_000
    watch = Watch(tmp_path, 2)
    watch.read()
    assert (watch.ranks[1].step, watch.ranks[1].total) == (1000, 1000)
    assert plain.row(watch.ranks[1])[2:4] == ("1000/1000", "0.001")
    assert watch.ranks[0].step is None


def test_without_a_launch_a_heartbeat_does_nothing(tmp_path, monkeypatch):
    monkeypatch.delenv(heartbeat.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    heartbeat.beat(1, 1, loss=object())  # not even looked at
    heartbeat.say("error")
    assert not list(tmp_path.iterdir())


def test_a_heartbeat_never_ends_a_training(tmp_path):
    beats(tmp_path / "gone", "beat(1, 1, loss=0.5)")  # no such folder
    beats(tmp_path, "beat(1, 1, loss=float('nan'), what=object())")
    beats(tmp_path, "beat(2, 2, text='x' * 100_000)")
    events = [json.loads(line) for line in (tmp_path / heartbeat.FILE).read_text().splitlines()]
    assert [e["step"] for e in events] == [1, 2] and len(json.dumps(events[1])) < 2000


def test_lines_that_are_no_events_are_passed_over(tmp_path):
    (tmp_path / heartbeat.FILE).write_bytes(
        b'{"t": 1, "kind": "step", "rank": 0, "st\n[]\n\xff\n{"t": 1, "kind": "step", "rank": 9}\n'
        b'{"t": 2, "kind": "step", "rank": 0, "step": 3}\n{"t": 3, "kind": "st'
    )
    watch = Watch(tmp_path, 1)
    watch.read()
    assert watch.ranks[0].step == 3


def test_tokens_per_second_are_of_the_last_seconds(tmp_path):
    view = RankView(0, Tail(tmp_path / "rank0.log"))
    now = time.time()
    for i, tokens in enumerate((0, 10, 20, 30, 1030, 2030, 3030, 4030, 5030, 6030)):
        view.take({"kind": "step", "t": now + i, "step": i, "tokens": tokens})
    assert view.tokens_per_s == pytest.approx(1000)
