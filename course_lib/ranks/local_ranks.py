"""A function on several ranks of this machine: processes that talk gloo over loopback.

What it is: what a notebook cell or a check needs to try distributed code in milliseconds, with the
collectives each rank issued and the bytes it holds afterwards. What it leaves out: GPUs, and
programs of their own, which torchrun starts (world.py, lesson 21).

Ranks are not forked from the process that asks for them. Where torch sees an accelerator, autograd
starts threads at the first backward pass of a process, and every process forked after that refuses
to run one. So ranks are forked from a server that has computed nothing (rank_server.py). Functions
travel there by cloudpickle, which takes those of a notebook's cells whole; with them go the random
states, the working folder, the environment, and the definitions of the library that were replaced
here (`REPLACED`).
"""

import builtins
import contextlib
import functools
import gc
import importlib
import io
import linecache
import math
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import cloudpickle
import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.measure.held import held_now
from course_lib.ranks.rank_server import RankServer
from course_lib.ranks.traffic import Traffic
from course_lib.runs import own_folder
from course_lib.runs.machine import cpu_seconds, is_ready
from course_lib.runs.random_states import random_states, restore_random_states
from course_lib.runs.replaced import REPLACED, replace_definition

SERVER = RankServer()
RANK = "course_lib.ranks.local_ranks:live_as_rank"


PATIENCE = 5
"""On a busy machine work takes longer; what has not ended after so many times its seconds is ended
all the same."""
IDLE_S, IDLE_SHARE = 2.0, 0.02
"""Ranks that have used less than this share of so many seconds (a waiting gloo uses 0.003), and were
ready to compute at fewer than half of the looks, wait for what never comes."""
LOOK_S = 0.1
LOST = ("Connection reset by peer", "Connection closed by peer", "Broken pipe")  # in gloo's words
CRASHES = {signal.SIGSEGV, signal.SIGBUS}
GRACE_S = 1.0  # after one rank has failed, for the others to say that they failed first


@dataclass(frozen=True)
class RankJob:
    """One call of `run`, as its ranks need to know it."""

    size: int
    folder: Path
    seconds: float

    @property
    def work(self) -> Path:
        """Function and arguments, packed."""
        return self.folder / "work"


@dataclass(frozen=True)
class Rank:
    """What one rank did."""

    value: Any
    """What the function returned."""
    collectives: list[tuple[str, int]] = field(default_factory=list)
    """(name, bytes of the whole tensor) of each, in order: "allreduce", "send", ... (`Traffic`)."""
    held_bytes: int = 0
    """Bytes of tensors that the call has made and that are alive after it, the result included."""


class RankFailed(Exception):
    """The function raised on `rank`: `kind` is the exception's built-in type, `line` where in the
    cell `file`, `at` when by this machine's monotonic clock (infinity where nobody knows)."""

    def __init__(
        self,
        rank: int,
        kind: str,
        text: str,
        line: int | None = None,
        file: str | None = None,
        at: float = math.inf,
    ):
        super().__init__(f"rank {rank}: {kind}: {text}")
        self.rank, self.kind, self.text, self.line, self.file = rank, kind, text, line, file
        self.at = at
        self.crashed = False
        """Whether a rank was ended for an access to memory: an error in C++, seldom the answer's."""

    @property
    def lost_another(self) -> bool:
        """Whether gloo says that the process on the other end has gone: another rank's failure."""
        return "gloo/transport" in self.text and any(said in self.text for said in LOST)

    @property
    def where(self) -> str:
        """ "line 3 of the cell: ...", as far as it is known."""
        if self.line is None:
            return ""
        text = linecache.getline(self.file or "", self.line).strip()
        return f"line {self.line} of the cell{': ' * bool(text)}{text}"

    def rebuild_exception(self) -> Exception:
        """An exception of that built-in kind here, its text led by the rank."""
        kind = getattr(builtins, self.kind, None)
        try:
            assert issubclass(kind, Exception)
            return kind(f"on rank {self.rank}: {self.text}")
        except Exception:  # not an Exception, or one that wants more than a text
            return RuntimeError(str(self))


class RanksStuck(TimeoutError):
    """Some ranks did not finish in time; the others have been ended too."""


def run(
    function: Callable,
    args_by_rank: Sequence[tuple],
    *,
    seconds: float = 10.0,
    probe: str | None = None,
    fork: bool = False,
    again: bool = False,
) -> list[Rank]:
    """`function(*args_by_rank[rank])` on each rank, inside a gloo group of all; by rank.

    Function and arguments are copied to the ranks, results back; no rank sees a GPU. ValueError for
    what cannot be copied. The first call of a process takes some seconds, for an import of torch.

    With `probe` "module:name", `name(function, *args_by_rank[rank])`: for functions that want what
    cannot be sent to another process, such as a model, which the probe then makes on the rank.
    The default group is theirs: `dist.get_rank()` and every collective work. RankFailed names the
    first rank that raised; RanksStuck names those that did not come back, for one because they wait
    for a rank that never joins: after `seconds` when they wait or have computed for so long, after
    `PATIENCE` times as long in any case. No process is left in any case.

    With `fork` ranks are forked from this process, and nothing is copied: only for a process that
    cannot start another, such as a worker of the judge, and has not run a backward pass.

    With `again` all ranks run once more, from the beginning, where one was ended by the system for
    an access to memory. It happened once in a run of all tests, in a thread of gloo's own.
    """
    if probe is not None:
        function = bind_probe(function, probe)
    try:
        return _run_once(function, args_by_rank, seconds, fork)
    except RankFailed as failure:
        if not (again and failure.crashed):
            raise
    return _run_once(function, args_by_rank, seconds, fork)


def _run_once(
    function: Callable, args_by_rank: Sequence[tuple], seconds: float, fork: bool
) -> list[Rank]:
    with tempfile.TemporaryDirectory() as folder:
        job = RankJob(len(args_by_rank), Path(folder), PATIENCE * seconds)
        pipes = [multiprocessing.Pipe(duplex=False) for _ in args_by_rank]
        write_ends = [theirs.fileno() for _, theirs in pipes]
        if fork:
            pids = [
                _fork_rank(job, rank, function, args_by_rank, pipes) for rank in range(job.size)
            ]
            end = _end_ranks
        else:
            job.work.write_bytes(_pack(function, args_by_rank))
            pids, end = SERVER.fork(RANK, job, write_ends), SERVER.end
        for _, theirs in pipes:
            theirs.close()
        try:
            return _collect([ours for ours, _ in pipes], _Limit(seconds, pids))
        except RankFailed as failure:
            pids, ended = [], end(pids)
            failure.crashed = bool(CRASHES & set(ended))
            raise
        finally:
            if pids:
                end(pids)


def bind_probe(function: Callable, probe: str) -> Callable:
    """The probe "module:name" of the library with `function` as its first argument."""
    module, _, name = probe.partition(":")
    return functools.partial(getattr(importlib.import_module(module), name), function)


class _Limit:
    """When ranks have had their time: processor time where they compute, time on the wall where
    they wait, so that a busy machine makes nobody late."""

    def __init__(self, seconds: float, pids: list[int]):
        self.seconds = seconds
        self.began = time.monotonic()
        self.end = self.began + PATIENCE * seconds
        self.looked, self.used = self.began, dict.fromkeys(pids, 0.0)
        self.looks: list[bool] = []  # whether a rank was ready, at each since `looked`

    def is_over(self) -> bool:
        """Whether the ranks are to be ended; asked every now and then."""
        now, before = time.monotonic(), sum(self.used.values())
        idle = False
        self.looks.append(any(map(is_ready, self.used)))
        if now - self.looked >= min(IDLE_S, self.seconds / 2):
            self.used = {pid: max(used, cpu_seconds(pid)) for pid, used in self.used.items()}
            done = sum(self.used.values()) - before
            idle = done < IDLE_SHARE * len(self.used) * (now - self.looked)
            idle = idle and sum(self.looks) < len(self.looks) / 2
            self.looked, self.looks = now, []
        late = now - self.began >= self.seconds
        # of the rank that computes most: ranks that share a core get less of it each
        spent = max(self.used.values(), default=0.0) >= self.seconds
        return now >= self.end or (late and (idle or spent))

    def shorten(self, seconds: float) -> None:
        """End in so many seconds at the latest."""
        self.end = min(self.end, time.monotonic() + seconds)


def _collect(pipes: list[Connection], limit: _Limit) -> list[Rank]:
    """The results by rank. Of several failures the one that came first: a rank that fails closes
    its connections, and the others then fail because of that."""
    found: dict[int, Rank] = {}
    failed: list[RankFailed] = []
    pipe: Any
    waiting = dict(enumerate(pipes))
    while waiting and not limit.is_over():
        for pipe in wait(list(waiting.values()), LOOK_S):
            rank = next(r for r, p in waiting.items() if p is pipe)
            del waiting[rank]
            try:
                result = _result(rank, *pickle.loads(pipe.recv_bytes()))
            except (EOFError, OSError):
                result = RankFailed(rank, "SystemExit", "the process ended without a word")
            if isinstance(result, RankFailed):
                failed.append(result)
                limit.shorten(GRACE_S)
            else:
                found[rank] = result
    if failed:
        raise min(failed, key=lambda failure: (failure.lost_another, failure.at))
    if waiting:
        stuck = ", ".join(map(str, waiting))
        raise RanksStuck(
            f"rank {stuck} of {len(pipes)} did not finish: does every rank call the "
            f"same collectives in the same order?"
        )
    return [found[rank] for rank in range(len(pipes))]


class NotCopied(ValueError):
    """The function of the ranks, or an argument, cannot be given to another process."""


class _Pickler(cloudpickle.Pickler):
    """Takes functions of a notebook's cells, and the modules that they mention."""

    def reducer_override(self, obj: Any) -> Any:
        # a function that says `torch.ops` takes that module along; torch has modules of classes of
        # its own, and does not say how they are copied
        if isinstance(obj, ModuleType) and type(obj) is not ModuleType:
            return importlib.import_module, (obj.__name__,)
        return super().reducer_override(obj)


def _dumps(value: Any) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream).dump(value)
    return stream.getvalue()


def _pack(function: Callable, args_by_rank: Sequence[tuple]) -> bytes:
    """All that ranks need of this process. ValueError for what cannot be copied."""
    here = {
        "path": sys.path,
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "dtype": torch.get_default_dtype(),
        "random": random_states(),
    }
    try:
        replaced, work = _dumps(REPLACED), _dumps((function, args_by_rank))
    except Exception as error:
        raise NotCopied(
            f"ranks are processes of their own, and something here cannot be copied to them "
            f"({error}): pass plain values and tensors, and make the rest in the function"
        ) from error
    return pickle.dumps((here, replaced, work))


def _unpack(packed: bytes) -> tuple[Callable, Sequence[tuple]]:
    """Make this process like the one that packed; its function and arguments."""
    here, replaced, work = pickle.loads(packed)
    sys.path[:] = here["path"]
    os.chdir(here["folder"])
    os.environ.clear()
    os.environ.update(here["environment"])
    torch.set_default_dtype(here["dtype"])
    restore_random_states(here["random"])
    for (module, name), value in pickle.loads(replaced).items():  # before anything refers to them
        replace_definition(module, name, value)
    return pickle.loads(work)


def live_as_rank(job: RankJob, rank: int, pipe: Connection) -> None:
    """The life of one rank, in a process of its own that the server has forked; never returns."""
    try:
        function, args_by_rank = _unpack(job.work.read_bytes())
    except BaseException as error:
        pipe.send_bytes(pickle.dumps((False, *_failure(error))))
        os._exit(0)
    tempfile.tempdir = None  # the server's may be a check's that has ended: TMPDIR says today's
    if own_folder.VARIABLE in os.environ:  # the ranks of a check
        own_folder.guard_folder(os.environ[own_folder.VARIABLE])
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a rank here is on the CPU; the GPUs are not its own
    _live(job, rank, function, args_by_rank[rank], pipe, _dumps)


def _fork_rank(job: RankJob, rank: int, function: Callable, args_by_rank, pipes) -> int:
    """Fork a rank from this process; its pid."""
    pid = os.fork()
    if pid:
        return pid
    try:
        for other, (ours, theirs) in enumerate(pipes):
            ours.close()
            if other != rank:
                theirs.close()
        _live(job, rank, function, args_by_rank[rank], pipes[rank][1], pickle.dumps)
    finally:
        os._exit(1)


def _end_ranks(pids: Sequence[int]) -> list[int]:
    """End them; the signal that each was ended by, 0 for none."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return [os.waitpid(pid, 0)[1] & 0x7F for pid in pids]


def _live(
    job: RankJob, rank: int, function: Callable, args: tuple, pipe: Connection, dumps: Callable
) -> NoReturn:
    torch.set_num_threads(1)  # a thread pool was not copied by the fork: waiting for it has no end
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    _be_quiet()
    try:
        with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
            dist.init_process_group(
                "gloo",
                init_method=f"file://{job.folder / 'meeting'}",
                rank=rank,
                world_size=job.size,
                timeout=timedelta(seconds=job.seconds),
            )
            gc.freeze()  # what is here already is neither looked through nor counted
            with Traffic() as traffic:
                value = function(*args)
            held = _held_bytes(settle=bool(traffic.seen))
        # by plain pickle: the one of multiprocessing would put tensors into shared memory
        pipe.send_bytes(dumps((True, value, traffic.seen, held)))
        dist.barrier()  # a rank that is still receiving must not lose this one
    except BaseException as error:
        with contextlib.suppress(Exception):
            pipe.send_bytes(pickle.dumps((False, *_failure(error))))
    finally:
        os._exit(0)


def _be_quiet() -> None:
    """Send stdout and stderr to nowhere: gloo writes there when a rank leaves, the pipe says why."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for standard in (1, 2):
        os.dup2(nowhere, standard)


def _result(rank: int, fine: bool, *parts) -> Rank | RankFailed:
    return Rank(*parts) if fine else RankFailed(rank, *parts)


def _failure(error: BaseException) -> tuple[str, str, int | None, str | None, float]:
    """Kind, text, line, file and moment of an exception, in plain values."""
    now = time.monotonic()
    kinds = [c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins"]
    frames = traceback.extract_tb(error.__traceback__)
    cells = [f for f in frames if not Path(f.filename).is_file()]  # code of a cell
    line, file = (cells[-1].lineno, cells[-1].filename) if cells else (None, None)
    try:
        text = str(error)[:600]
    except Exception:
        text = "an error whose text cannot be had"
    return kinds[0], text, line, file, now


def _held_bytes(*, settle: bool) -> int:
    """Bytes of the distinct storages of tensors made since `gc.freeze`, and still alive.

    With `settle` the least of some looks: threads of gloo hold what they have carried for a moment.
    """
    gc.collect()
    least = held_now(x for x in gc.get_objects() if isinstance(x, Tensor))
    for _ in range(5 if settle and least else 0):
        time.sleep(0.002)
        least = min(least, held_now(x for x in gc.get_objects() if isinstance(x, Tensor)))
    return least
