"""How the judge reaches its zygote: starts it, orders confined workers from it, ends them all.

The zygote is a fresh interpreter, not a fork of the judge, so nothing the judge has in memory (the
suites, the other submissions, the gradebook's path) is in a worker's.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace

from grader.judge import wire
from grader.judge.confine import DEFENCES, TIERS, Limits

PATIENCE = 120.0  # seconds for a first import from a cold disk: torch, or what an answer needs
SPAWN_S = 15.0


class ZygoteError(RuntimeError):
    """The zygote is gone, or makes no worker of the wanted tier."""


class ThreadedModule(ZygoteError):
    """The zygote has imported a module that started a thread: it is of no use any more."""

    def __init__(self, module: str, reason: str):
        super().__init__(reason)
        self.module = module


class Worker:
    """One confined worker, alive until `close`."""

    def __init__(self, client: "ZygoteClient", pid: int, sock: socket.socket):
        self.client, self.pid, self.sock = client, pid, sock
        self.status: int | None = None
        self.greedy = False
        """Known when it is closed: its processes used more memory together than they may."""

    def count_loopback_bytes(self) -> int | None:
        """All bytes that its ranks have sent each other, counted by the kernel; None where its loopback
        is not its own."""
        if self.client.tier != TIERS[0]:
            return None
        with contextlib.suppress(OSError), open(f"/proc/{self.pid}/net/dev") as file:
            for line in file:
                device, _, counts = line.partition(":")
                if device.strip() == "lo":
                    return int(counts.split()[0])
        return None

    def close(self) -> int:
        """End the worker and all it started; returns its exit status, negative for a signal."""
        if self.status is None:
            self.sock.close()
            said = self.client._kill_worker(self.pid)
            self.status, self.greedy = said["status"], said["greedy"]
        return self.status


class ZygoteClient:
    """Starts confined workers of the best tier that this machine has; with `unsafe`, of none.

    `without` names defences to leave out; only tests pass it, to show what each defence is for.
    With `spares` the zygote prepares the next worker while the judge is busy.
    """

    def __init__(
        self,
        *,
        unsafe: bool = False,
        limits: Limits | None = None,
        tiers: tuple[str, ...] = TIERS[:2],
        without: frozenset[str] = frozenset(),
        spares: bool = True,
    ):
        assert without <= DEFENCES, without - DEFENCES
        self.limits, self.without, self.spares = limits or Limits(), without, spares
        self.refused: dict[str, str] = {}
        """Why a tier could not be had, by tier."""
        self.threaded: set[str] = set()
        """Modules that start a thread: workers import them, the zygote doesn't."""
        self.notes: list[str] = []
        self._start_zygote()
        try:
            self.tier = self._find_tier((*tiers, "none") if unsafe else tiers)
        except BaseException:
            self.close()
            raise

    def _start_zygote(self) -> None:
        ours, theirs = socket.socketpair()
        self.control, self.pending = ours, b""
        command = [sys.executable, "-P", "-m", "grader.judge.zygote", str(theirs.fileno())]
        self.process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            env=_zygote_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        try:
            said, _ = self._read_reply(time.monotonic() + PATIENCE)
        except BaseException:
            self.close()
            raise
        self.notes = said["notes"]

    def _find_tier(self, tiers: tuple[str, ...]) -> str:
        """The first of `tiers` in which a worker really starts."""
        for tier in tiers:
            try:
                self._spawn_in_tier(tier, again=False).close()
            except ZygoteError as problem:
                self.refused[tier] = str(problem)
                continue
            return tier
        why = "; ".join(f"{tier}: {reason}" for tier, reason in self.refused.items())
        raise ZygoteError(
            f"answers cannot be confined on this machine ({why}). Run `course doctor --sandbox`; "
            "to run them unconfined, with your own rights, on a machine you can lose: --unsafe"
        )

    def spawn_worker(
        self, *, ranks: int = 1, modules: Sequence[str] = (), cpu_s: int | None = None
    ) -> Worker:
        """A fresh worker, ready. It is tried twice: a zygote or a spare may have been killed.

        `modules` are loaded in it; the zygote imports them, if it has not yet. `cpu_s` seconds of
        processor time end it, where that is not what `limits` say.
        With `ranks` above 1 it may start that many processes beside itself, and talk to them over
        a loopback that nobody else is on; ZygoteError where the tier has none.
        """
        again = self.spares and ranks <= 1
        wanted = {"again": again, "ranks": ranks, "cpu_s": cpu_s}
        tries = 2
        while True:
            left = [name for name in modules if name not in self.threaded]
            try:
                return self._spawn_in_tier(self.tier, **wanted, modules=left)
            except ThreadedModule as found:
                self.threaded.add(found.module)
                self._restart_zygote()
            except ZygoteError:
                tries -= 1
                if not tries:
                    raise
                if self.process.poll() is not None:
                    self._restart_zygote()

    def _restart_zygote(self) -> None:
        self.close()
        self._start_zygote()

    def _spawn_in_tier(
        self,
        tier: str,
        *,
        again: bool,
        ranks: int = 1,
        modules: Sequence[str] = (),
        cpu_s: int | None = None,
    ) -> Worker:
        processes = 1 if ranks <= 1 else 1 + ranks
        limits = replace(
            self.limits,
            processes=max(self.limits.processes, processes),
            cpu_s=cpu_s or self.limits.cpu_s,
        )
        wanted = {"tier": tier, "limits": asdict(limits), "without": sorted(self.without)}
        # the zygote imports them first, once; torch._dynamo takes many seconds on a busy machine
        deadline = time.monotonic() + (PATIENCE if modules else SPAWN_S)
        order = {"do": "spawn", "worker": wanted, "again": again, "modules": list(modules)}
        said, sock = self._send_order(order, deadline)
        if "threaded" in said:
            raise ThreadedModule(said["threaded"], said["error"])
        if sock is None:
            raise ZygoteError(said.get("error", "no worker"))
        worker = Worker(self, said["pid"], sock)
        try:
            first = wire.receive(sock, deadline)
        except (wire.ConnectionClosed, wire.ProtocolError, TimeoutError) as problem:
            first = {"failed": f"the worker did not start: {problem!r}"}
        if first != {"ready": True}:
            worker.close()
            raise ZygoteError(str(first.get("failed") if isinstance(first, dict) else first))
        return worker

    def _kill_worker(self, pid: int) -> dict:
        try:
            said, _ = self._send_order({"do": "kill", "pid": pid}, time.monotonic() + SPAWN_S)
        except ZygoteError:
            return {"status": 0, "greedy": False}  # the zygote is gone, and its workers with it
        return said

    def _send_order(self, order: dict, deadline: float) -> tuple[dict, socket.socket | None]:
        try:
            self.control.sendall(json.dumps(order).encode() + b"\n")
            return self._read_reply(deadline)
        except BaseException as problem:
            # an order without its reply, for one by Ctrl-C: the next reply would be this one's
            self.process.kill()
            self.process.wait()
            if isinstance(problem, OSError):
                raise ZygoteError("the zygote is gone") from None
            raise

    def _read_reply(self, deadline: float) -> tuple[dict, socket.socket | None]:
        """The zygote's next line, and the socket that came with it."""
        fds: list[int] = []
        while b"\n" not in self.pending:
            self.control.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                part, came, _, _ = socket.recv_fds(self.control, 1 << 16, 1)
            except TimeoutError:
                raise ZygoteError("the zygote does not answer") from None
            except OSError as problem:
                raise ZygoteError(f"the zygote is gone: {problem}") from None
            if not part:
                raise ZygoteError("the zygote ended; its complaint is above")
            self.pending += part
            fds += came
        line, _, self.pending = self.pending.partition(b"\n")
        return json.loads(line), socket.socket(fileno=fds[0]) if fds else None

    def close(self) -> None:
        """Close the socket; the zygote sees that, ends its workers and exits."""
        self.control.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()  # workers follow: each dies when its parent does
            self.process.wait()


def _zygote_environment() -> dict[str, str]:
    """The environment of the zygote: what an interpreter needs to start, and nothing else."""
    keep = {k: os.environ[k] for k in ("PATH", "HOME", "LD_LIBRARY_PATH") if k in os.environ}
    # one thread: forks are safe only then
    single = dict.fromkeys(
        ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
    )
    # Objects on huge pages: a fork copies 512 times fewer entries, which makes it 5 times faster. One
    # arena: each thread of gloo would reserve 64 MB of the addresses that are a worker's allowance.
    memory = {
        "PYTHONMALLOC": "malloc",
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1",
    }
    return {
        **keep,
        **single,
        **memory,
        "MPLBACKEND": "agg",
        "LANG": "C.UTF-8",
        "CUDA_VISIBLE_DEVICES": "",
    }
