"""One run at a time in a folder.

What it is: `RunLock`, a file that the running process holds and in which it is named. On its own
machine the kernel gives the lock back however the process ends, so a run that was killed never
stands in the way. Other machines may not see such locks (not every shared file system passes them
on); for them the process touches the file, and a name that was not touched for STALE_S is of a run
that is gone. What it leaves out: which rank takes the lock.
"""

import fcntl
import json
import os
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import TextIO

from course_lib.runs.launcher import VARIABLE

NAME = "run.lock"
TOUCH_S, STALE_S = 20.0, 120.0


class RunLock:
    """The lock of one run's folder; `take` it, and `release` it at the end."""

    def __init__(self, folder: str | Path):
        self.path = Path(folder) / NAME
        self._stream: TextIO | None = None
        self._released = threading.Event()

    def take(self) -> None:
        """Hold the folder from now on; it is made where it is missing.

        ValueError, naming process, machine and start, when another run holds it, and for a folder
        that cannot be written. A restart of the same launch, one with the same id for torchrun,
        takes over from its earlier attempt.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            stream = self.path.open("a+", encoding="utf-8")
        except OSError as error:
            raise ValueError(f"cannot write below {self.path.parent} ({error}): pass an --out that "
                             f"is yours") from None  # fmt: skip
        free = _try_lock(stream)
        stream.seek(0)
        holder = _read_holder(stream.read())
        if free is False or (holder and self._is_alive(stream, holder, free)):
            stream.close()
            raise ValueError(self._describe_refusal(holder))
        stream.truncate(0)
        stream.write(json.dumps(_describe_self()))
        stream.flush()
        self._stream = stream
        threading.Thread(target=self._touch, daemon=True).start()

    def read(self) -> str:
        """What is written in the lock, as this process sees it; "" without one."""
        try:
            return self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def release(self) -> None:
        """Let the next run in. Without a lock it does nothing."""
        self._released.set()
        if self._stream is not None:
            self._stream.truncate(0)
            self._stream.close()
            self._stream = None

    def _touch(self) -> None:
        while not self._released.wait(TOUCH_S):
            try:
                os.utime(self.path)
            except OSError:  # of a file system that is away for a moment
                continue

    def _is_alive(self, stream: TextIO, holder: dict, free: bool | None) -> bool:
        """Whether the run that has its name in the lock may still be at work."""
        myself = _describe_self()
        if holder.get("launch") not in (None, "none") and holder["launch"] == myself["launch"]:
            return False  # an earlier attempt: torchrun has ended it before it started this one
        if free and holder.get("host") == myself["host"]:
            return False
        with tempfile.TemporaryFile(dir=self.path.parent) as now:  # by the clock of the file system
            age = os.fstat(now.fileno()).st_mtime - os.fstat(stream.fileno()).st_mtime
        return age < STALE_S

    def _describe_refusal(self, holder: dict | None) -> str:
        who = "another run"
        if holder:
            who = f"process {holder['pid']} on {holder['host']}, started {holder['started']}"
        return (
            f"{self.path.parent} is in use by {who}: pass another --out, or wait until that has "
            f"ended (if it was killed on another machine, for {STALE_S:.0f} seconds)"
        )


def _try_lock(stream: TextIO) -> bool | None:
    """Whether the lock is ours now; None on a file system without locks."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _read_holder(text: str) -> dict | None:
    """Who has written that; None for an empty lock, and for one that a crash has cut short."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.keys() >= {"host", "pid", "started"} else None


def _describe_self() -> dict:
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "started": time.strftime("%Y-%m-%d %H:%M:%S"),
        "launch": os.environ.get(VARIABLE),
    }
