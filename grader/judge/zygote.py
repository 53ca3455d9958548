"""The process that workers are forked from: torch and the library are loaded once, here.

Started by `zygote_client.ZygoteClient` in a fresh interpreter, it imports what answers use, runs none of it,
and stays single-threaded: a fork copies the thread that forks and no other, so a thread pool of
torch would be missing in the child and the first large product would wait for it for ever.

It obeys the judge over one socket, one JSON object a line, and knows nothing of answers: the judge
talks to a worker directly, over a socket that comes back with the reply.
"""

import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import time
from pathlib import Path
from types import ModuleType

from grader.judge import confine, erase, memory_watch, witness, worker
from grader.judge.expose import expose_interpreter, readable_paths

ANSWERS_USE = (
    "torch", "torch.func", "torch.nn.attention", "torch.utils.checkpoint",
    "torch.utils.flop_counter", "numpy", "matplotlib.pyplot", "tqdm", "course_lib",
    "decimal", "encodings.idna", "fractions", "random", "statistics",
)  # fmt: skip
NEVER = ("course_lib.lab", "course_lib.checks")
PR_SET_CHILD_SUBREAPER = 36
SETTLE_S = 1.0  # a thread that an import leaves behind may be about to end
WATCH_S, LOOK_S = 0.02, 0.5  # between two looks at the memory of workers, at least and at most


class InertModule(ModuleType):
    """Stands for `course_lib.lab` in a worker: each of its names is a function that does nothing.

    So a lesson's import cell runs, and neither checks nor hints are in reach.
    """

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


def leave_as_it_is(model=None, **options):
    """Stands for `torch.compile`: what it is given computes the same without it."""
    return (lambda model: model) if model is None else model


def load_library() -> None:
    """Import what most answers use; what is not installed here is missing in workers too."""
    for name in NEVER:
        sys.modules[name] = InertModule(name)
    lab = sys.modules["course_lib.lab"]
    lab.__path__ = []
    for part in ("checking", "registry", "events", "mine"):
        sys.modules[f"course_lib.lab.{part}"] = InertModule(f"course_lib.lab.{part}")
    for name in ANSWERS_USE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    library = importlib.import_module("course_lib")
    for found in pkgutil.walk_packages(library.__path__, "course_lib."):
        if not found.name.startswith(NEVER) and not found.name.endswith("__main__"):
            with contextlib.suppress(Exception):
                importlib.import_module(found.name)
    sys.modules["torch"].compile = leave_as_it_is  # it starts compilers, which no worker may
    erase.remember_modules()
    witness.remember_definitions([f"{__package__}.{part}" for part in ("worker", "wire", "cell")])
    witness.remember_places(_ready_made())
    gc.collect()
    gc.freeze()  # or the first collection in each worker would copy every page it shares


@functools.cache
def _ready_made() -> list[str]:
    """What the cards of all exercises call ready-made; nothing else of the cards stays in memory."""
    cards = Path(sys.modules["course_lib"].__file__).parent / "lab/exercises.json"
    found = json.loads(cards.read_text(encoding="utf-8")).values()
    return sorted({name for card in found for name in card["ready_made"]})


class Zygote:
    """Forks and kills workers as the judge orders, over one socket."""

    def __init__(self, control: socket.socket, readable: list[tuple[str, int]]):
        self.control, self.readable = control, readable
        self.alive: set[int] = set()
        self.watched: dict[int, tuple[int, int]] = {}
        """By worker of several processes: bytes that all share with this one, and may use beside."""
        self.greedy: set[int] = set()
        """Workers that were ended for the memory that they used."""
        self.spare: tuple[dict, dict, socket.socket] | None = None
        self.parent = os.getppid()
        self.tried: set[str] = set()

    def run(self) -> None:
        """Obey orders until the judge closes its socket or has died; then end every worker."""
        pending = b""
        while os.getppid() == self.parent:
            if not select.select([self.control], [], [], self.watch_memory())[0]:
                continue
            part = self.control.recv(1 << 16)
            if not part:
                break
            *lines, pending = (pending + part).split(b"\n")
            for line in lines:
                self.obey_order(json.loads(line))
        for pid in list(self.alive):
            self.kill_worker(pid)

    def obey_order(self, order: dict) -> None:
        if order["do"] == "kill":
            greedy = order["pid"] in self.greedy
            self.send_reply({"status": self.kill_worker(order["pid"]), "greedy": greedy})
            return
        if threaded := self.load_modules(order["modules"]):
            error = f"{threaded} starts a thread when it is imported: a fork would hang"
            self.send_reply({"error": error, "threaded": threaded})
            return
        wanted = order["worker"]
        said, sock = self.take_worker(wanted)
        self.send_reply(said, sock)
        if sock is not None:
            sock.close()
            if order["again"]:  # confined while the judge is busy with the one before
                self.spare = (wanted, *self.fork_worker(wanted))

    def watch_memory(self) -> float:
        """End workers whose processes use too much together; seconds until the next look."""
        if self.greedy:
            self.kill_orphans()  # where no namespace of theirs ended with their worker
        if not self.watched:
            return 1.0
        began = time.monotonic()
        for pid, (shared, most) in list(self.watched.items()):
            family = memory_watch.find_family(pid)
            if memory_watch.count_bytes(family, shared=shared, most=most) > most:
                os.kill(pid, signal.SIGKILL)
                self.greedy.add(pid)
                del self.watched[pid]
        # a tenth of a core at most, and often enough where looking is slow
        return min(max(WATCH_S, 10 * (time.monotonic() - began)), LOOK_S)

    def load_modules(self, modules: list[str]) -> str:
        """Import what the next answer uses once, here, and not in every worker; "", or the name of a
        module that has left a thread behind, after which this process can fork no more."""
        new = [m for m in modules if m not in self.tried and not m.startswith("course_lib")]
        if not new:
            return ""
        for name in new:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
            if count_threads() > 1:
                return name
        self.tried.update(new)
        witness.remember_places(_ready_made())
        self.drop_spare()  # it has been forked without them
        gc.freeze()
        return ""

    def take_worker(self, wanted: dict) -> tuple[dict, socket.socket | None]:
        """The spare worker when it is of the wanted kind, else a new one."""
        spare, self.spare = self.spare, None
        if spare and spare[0] == wanted and spare[2] is not None:
            return spare[1:]
        self.spare = spare
        self.drop_spare()
        return self.fork_worker(wanted)

    def drop_spare(self) -> None:
        spare, self.spare = self.spare, None
        if spare and "pid" in spare[1]:
            spare[2].close()
            self.kill_worker(spare[1]["pid"])

    def fork_worker(self, wanted: dict) -> tuple[dict, socket.socket | None]:
        """Fork a confined worker: its pid and the judge's end of its socket, or an error and None."""
        if (threads := count_threads()) > 1:
            return {"error": f"{threads} threads in the zygote: a fork would hang"}, None
        ours, theirs = socket.socketpair()
        up_read, up_write = os.pipe()
        go_read, go_write = os.pipe()
        first = os.fork()
        if first == 0:
            os.close(go_write)
            _become_worker(theirs, wanted, self.readable, up_write, go_read)
        for fd in (up_write, go_read, theirs.detach()):
            os.close(fd)
        # one read: the process that goes on still holds the other end, and waits for this one
        said = json.loads(os.read(up_read, 1 << 16) or b'{"error": "the worker died at once"}')
        os.close(up_read)
        pid = said.get("pid")
        if pid != first:
            os.waitpid(first, 0)  # from here on this process is the parent of `pid`
        if pid is None:
            os.close(go_write)
            ours.close()
            return said, None
        self.alive.add(pid)
        if wanted["limits"]["processes"] > 1:
            shared = memory_watch.read_held_bytes(os.getpid())
            self.watched[pid] = shared, wanted["limits"]["memory_bytes"]
        os.write(go_write, b".")
        os.close(go_write)
        return said, ours

    def kill_worker(self, pid: int) -> int:
        """End the worker and all it started; returns its exit status, negative for a signal."""
        if pid not in self.alive:
            return 0
        # twice: once for its process group, once for itself should it have left that
        for end in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self.alive.discard(pid)
        self.greedy.discard(pid)
        self.watched.pop(pid, None)
        self.kill_orphans()
        return status

    def kill_orphans(self) -> None:
        """Kill what workers left behind: their orphans have become children of this process."""
        while strangers := _child_pids() - self.alive:
            for pid in strangers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)

    def send_reply(self, said: dict, sock: socket.socket | None = None) -> None:
        line = json.dumps(said).encode() + b"\n"
        if sock is None:
            self.control.sendall(line)
        else:
            socket.send_fds(self.control, [line], [sock.fileno()])


def count_threads() -> int:
    """Threads of this process, once those that are ending have had time to end."""
    ends = time.monotonic() + SETTLE_S
    while (threads := len(os.listdir("/proc/self/task"))) > 1 and time.monotonic() < ends:
        time.sleep(0.01)
    return threads


def _become_worker(sock: socket.socket, wanted: dict, readable: list, up: int, go: int) -> None:
    """Confine this process and serve the judge; never returns.

    An exception before the confinement holds is reported to the judge and ends the process.
    """

    def announce(pid: int) -> None:
        os.write(up, json.dumps({"pid": pid}).encode())
        os.close(up)

    try:
        limits = confine.Limits(**wanted["limits"])
        without = frozenset(wanted["without"])
        confine.confine_process(
            wanted["tier"],
            limits,
            readable,
            sock.fileno(),
            announce,
            lambda: os.read(go, 1),
            without,
        )
    except BaseException as problem:
        said = f"{type(problem).__name__}: {problem}"
        with contextlib.suppress(OSError):
            os.write(up, json.dumps({"error": said}).encode())
        with contextlib.suppress(Exception):
            worker.send_value(sock, {"failed": said})
        os._exit(3)
    worker.run_worker(sock, without)


def _child_pids() -> set[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return {int(pid) for pid in file.read().split()}


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    load_library()
    notes = expose_interpreter()
    zygote = Zygote(control, readable_paths())
    zygote.send_reply({"up": True, "notes": notes})
    zygote.run()


if __name__ == "__main__":
    # `python -m` runs this file as __main__; workers must not find a second copy of its classes
    from grader.judge import zygote

    zygote.main()
