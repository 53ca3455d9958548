"""What the ranks are doing, from what they have written: events, logs, and the process table.

What it is: `Watch.read()`, which takes in what is new, and one `RankView` per rank. What it leaves
out: showing it (panel.py, plain.py) and judging it (stacks.py, cause.py). Prints are never parsed:
numbers come from heartbeats alone.
"""

import re
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.lab.launch import processes
from course_lib.lab.launch.folder import parse_event
from course_lib.runs.heartbeat import FILE

NUM_LINES, WIDTH = 200, 400  # of a log, kept for showing
MOST_BYTES = 1 << 16  # of a log that are read at once; what lies before is skipped, not lost
RATE_S = 5.0  # tokens per second are those of this long
MEMORY_S = 1.0
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Tail:
    """The end of a growing file, as lines without colors and without overwritten progress bars."""

    def __init__(self, file: Path):
        self.file, self.place, self.skipped = file, 0, 0
        self.lines: deque[str] = deque(maxlen=NUM_LINES)
        self.open_line, self._part = "", b""

    def read(self) -> list[str]:
        """The lines that were completed since the last call, at most MOST_BYTES of them."""
        try:
            size = self.file.stat().st_size
            if size <= self.place:
                return []
            with self.file.open("rb") as stream:
                if size - self.place > MOST_BYTES:
                    self.skipped += size - MOST_BYTES - self.place
                    self.place, self._part = size - MOST_BYTES, b""
                stream.seek(self.place)
                found = stream.read(MOST_BYTES)
        except OSError:
            return []
        self.place += len(found)
        *whole, self._part = (self._part + found).split(b"\n")
        self._part = self._part[-MOST_BYTES:]  # a line without an end
        new = [_clean_line(line) for line in whole]
        self.lines.extend(new)
        self.open_line = _clean_line(self._part)
        return new

    def last_line(self) -> str:
        """The newest line that says something."""
        said = [self.open_line, *reversed(self.lines)]
        return next((line for line in said if line.strip()), "")


@dataclass
class RankView:
    """One row of the panel."""

    rank: int
    log: Tail
    state: str = "starting"
    """ "starting", "running", "in all_reduce", ..., "ended", "done", "failed" or "stopped"."""
    pid: int | None = None
    step: int | None = None
    total: int | None = None
    loss: float | None = None
    tokens_per_s: float | None = None
    memory_mb: float | None = None
    error: dict | None = None
    """The event of the exception that ended it."""
    died: float | None = None
    """When its process was first seen to be gone, as `time.time()` has it."""
    heard: float = field(default_factory=time.monotonic)
    """When it last gave a sign of life: a heartbeat or output."""
    tokens: deque = field(default_factory=deque)

    def take(self, event: dict) -> None:
        """One event of this rank; what the launcher has found out is none."""
        if event["kind"] not in ("start", "step", "error"):
            return
        self.heard = time.monotonic()
        if event["kind"] == "start":  # a second time after an elastic restart
            self.pid, self.state = event.get("pid"), "running"
            self.error = self.died = None
        elif event["kind"] == "step":
            self.state, self.step, self.total = "running", event.get("step"), event.get("of")
            self.loss = event.get("loss", self.loss)
            self._count_tokens(event)
        elif event["kind"] == "error":
            self.state, self.error = "failed", event

    def _count_tokens(self, event: dict) -> None:
        if not isinstance(event.get("tokens"), (int, float)):
            return
        self.tokens.append((event["t"], event["tokens"]))
        while len(self.tokens) > 2 and self.tokens[0][0] < event["t"] - RATE_S:
            self.tokens.popleft()
        (before, few), (now, many) = self.tokens[0], self.tokens[-1]
        if now > before and many >= few:
            self.tokens_per_s = (many - few) / (now - before)


class Watch:
    """All ranks of one run."""

    def __init__(self, folder: Path, ranks: int):
        self.folder = folder
        self.ranks = [RankView(r, Tail(folder / f"rank{r}.log")) for r in range(ranks)]
        self.agent = Tail(folder / "torchrun.log")
        self._place, self._part, self._measured = 0, b"", 0.0

    def read(self) -> dict[int, list[str]]:
        """Take in what is new; the new lines of each rank."""
        self.agent.read()
        for event in self._events():
            rank = event.get("rank")
            if isinstance(rank, int) and 0 <= rank < len(self.ranks):
                self.ranks[rank].take(event)
        new = {}
        for view in self.ranks:
            before = view.log.place
            new[view.rank] = view.log.read()
            if view.log.place > before:
                view.heard = time.monotonic()
                view.state = "running" if view.state.startswith("in ") else view.state
        self._look_at_processes()
        return new

    def pids(self) -> list[int]:
        """The process ids that the ranks have told."""
        return [view.pid for view in self.ranks if view.pid]

    def alive(self) -> list[RankView]:
        """The ranks whose process ran when `read` last looked."""
        return [view for view in self.ranks if view.pid and not view.died]

    def quiet_s(self) -> float:
        """Seconds since any rank last gave a sign of life."""
        return time.monotonic() - max(view.heard for view in self.ranks)

    def has_failed(self) -> bool:
        """Whether a rank has failed, so that torchrun is ending the others."""
        ending = any("closing signal" in line for line in self.agent.lines)
        return ending or any(view.error for view in self.ranks)

    def _events(self) -> list[dict]:
        try:
            with (self.folder / FILE).open("rb") as stream:
                stream.seek(self._place)
                found = stream.read()
        except OSError:
            return []
        self._place += len(found)
        *lines, self._part = (self._part + found).split(b"\n")
        return [event for event in map(parse_event, lines) if event]

    def _look_at_processes(self) -> None:
        due = time.monotonic() - self._measured >= MEMORY_S
        self._measured = time.monotonic() if due else self._measured
        for view in self.ranks:
            if view.pid is None or view.died:
                continue
            if not processes.is_alive(view.pid):
                view.died = time.time()
                view.state = "failed" if view.error else "ended"
            elif due or view.memory_mb is None:
                view.memory_mb = processes.resident_mb(view.pid)


def _clean_line(line: bytes) -> str:
    """A line as a terminal would have left it: of a progress bar, its newest state."""
    text = line.decode("utf-8", errors="replace").rstrip("\r").rpartition("\r")[2]
    return ESCAPE.sub("", text)[:WIDTH]
