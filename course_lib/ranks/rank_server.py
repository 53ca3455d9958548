"""A process from which ranks are forked, since the process that asks for them must not be forked.

What it is: a server that has imported what its client has imported and has computed nothing, and
the client's side of it. Where torch sees an accelerator, autograd starts threads at the first
backward pass of a process, and each process forked after that refuses to run one; CUDA refuses too
once it has been used. A fresh interpreter for each rank would do, and would import torch each time.
What it leaves out: what a rank does (local_ranks.py).

    python -m course_lib.ranks.rank_server FD    the server; FD is its end of a socket pair
"""

import contextlib
import importlib
import multiprocessing.reduction
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

ROOTS = ("torch", "numpy", "course_lib")  # modules that take long to import, or that ranks share
UPPER = ("lab", "checks")  # rooms of course_lib that no rank needs
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class RankServer:
    """The client: starts a server on first use, and again should it have died. For one process."""

    def __init__(self):
        self._lock = threading.Lock()
        self._process: subprocess.Popen | None = None
        self._owner = 0
        self._told: set[str] = set()
        """Modules that the server has been told to import."""

    def start(self) -> None:
        """Returns when the server has imported what this process has imported."""
        with self._lock:
            self._order({"do": "import"}, [])

    def fork(self, target: str, argument: object, pipes: Sequence[int]) -> list[int]:
        """One process for each of `pipes`, file descriptors; their pids, in the same order.

        Each calls `target`, "module:function", as function(argument, place, pipe), with its place
        among the pipes and its own one. `argument` is anything that pickle takes.
        """
        with self._lock:
            order = {"do": "fork", "target": target, "argument": argument, "count": len(pipes)}
            return self._order(order, pipes)

    def end(self, pids: Sequence[int]) -> list[int]:
        """Kill these processes, and wait until they are gone; the signal that ended each, 0 for
        none. [] where nobody knows."""
        with self._lock, contextlib.suppress(OSError, EOFError):
            if self._process is not None:  # else they ended with their server
                return self._ask({"do": "end", "pids": list(pids)}, [])
        return []

    def _order(self, order: dict, pipes: Sequence[int]) -> list[int]:
        """Ask the server; once more with a new one where it has gone. RuntimeError when that ends
        too."""
        try:
            self._ensure()
            return self._ask(order, pipes)
        except (OSError, EOFError):
            self._ensure()
        try:
            return self._ask(order, pipes)
        except (OSError, EOFError):
            raise RuntimeError(
                f"the process from which ranks are forked ended at once: see what "
                f"`{sys.executable} -c 'import {__name__}'` says"
            ) from None

    def _ensure(self) -> None:
        if (
            self._owner == os.getpid()
            and self._process is not None
            and self._process.poll() is None
        ):
            return
        ours, theirs = socket.socketpair()
        library = str(Path(__file__).parents[2])
        places = os.pathsep.join([*(os.path.abspath(p) for p in sys.path if p), library])
        # one thread: a process that has several cannot be forked safely
        environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": places, "CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                env=environment,
                cwd=os.sep,  # the client's may be a check's, and torch fails to import in one that is gone
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the client
            )
        self._socket, self._connection = ours, Connection(os.dup(ours.fileno()))
        self._owner, self._told = os.getpid(), set()

    def _ask(self, order: dict, pipes: Sequence[int]) -> list[int]:
        loaded = {name for name in list(sys.modules) if name.partition(".")[0] in ROOTS}
        new = sorted(n for n in loaded - self._told if not _is_upper(n))
        try:
            self._connection.send(order | {"modules": new})
            if pipes:
                multiprocessing.reduction.sendfds(self._socket, list(pipes))
            self._told |= set(new)
            return self._connection.recv()
        except BaseException:  # an interrupt too: the next answer would be the one to this order
            self._hang_up()
            raise

    def _hang_up(self) -> None:
        """The server sees it, ends what it has forked, and itself."""
        self._socket.close()
        self._connection.close()
        self._process = None


def _is_upper(module: str) -> bool:
    return module.removeprefix("course_lib.").partition(".")[0] in UPPER


def serve(control: socket.socket) -> NoReturn:
    """Obey the client until it hangs up; then end every process that was forked, and this one."""
    connection, alive = Connection(os.dup(control.fileno())), set()
    try:
        while True:
            order = connection.recv()
            count = order.get("count", 0)
            pipes = multiprocessing.reduction.recvfds(control, count) if count else []
            for name in order["modules"]:
                with contextlib.suppress(Exception):  # one that only the client can import
                    importlib.import_module(name)
            if order["do"] == "fork":
                pids = [_fork(order, place, pipes, [control, connection]) for place in range(count)]
                alive |= set(pids)
                for pipe in pipes:
                    os.close(pipe)
                connection.send(pids)
                continue
            connection.send([_end(pid) for pid in order.get("pids", ())])
            alive -= set(order.get("pids", ()))
    finally:
        for pid in alive:
            _end(pid)
        os._exit(0)


def _fork(order: dict, place: int, pipes: list[int], ours: list) -> int:
    """Fork one process; its pid. The process itself never returns from here."""
    pid = os.fork()
    if pid:
        return pid
    try:
        for end in ours:  # else the client would not see the server's end
            end.close()
        for other, pipe in enumerate(pipes):
            if other != place:
                os.close(pipe)
        module, _, name = order["target"].partition(":")
        function = getattr(importlib.import_module(module), name)
        function(order["argument"], place, Connection(pipes[place], readable=False))
    finally:
        os._exit(1)


def _end(pid: int) -> int:
    """End it; the signal that it was ended by, 0 for none."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, 0)[1] & 0x7F
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError):
        serve(socket.socket(fileno=int(sys.argv[1])))
