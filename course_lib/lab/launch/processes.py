"""The processes of one run: found by what only they have in their environment, and ended.

What it is: the last resort. torchrun puts every rank into a session of its own, so killing
torchrun's process group reaches no rank, and ranks have children of their own. What all of them
share is COURSE_RUN. Where there is no /proc (macOS) the process ids that ranks wrote down are
used, each of which leads a process group.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from course_lib.runs.heartbeat import VARIABLE

PROC = Path("/proc")
SWEEP_S = 3.0


def of_run(folder: str | os.PathLike, recorded: Iterable[int] = ()) -> list[int]:
    """Process ids of the run in `folder`, this process not among them.

    `recorded` are the ids that the ranks wrote down; only used where there is no /proc.
    """
    if not (PROC / "self" / "environ").exists():
        return _listed(set(recorded))
    found = (pid for pid, value in _environments() if value == os.fspath(folder))
    return sorted(pid for pid in found if pid != os.getpid())


def runs_with_processes() -> set[str]:
    """The folders of all runs of which something is alive; empty where there is no /proc."""
    return {folder for _, folder in _environments()} if PROC.is_dir() else set()


def sweep(folder: str | os.PathLike, recorded: Iterable[int] = ()) -> int:
    """Kill what is left of a run, children of ranks included; how many processes that were."""
    killed, recorded = set(), list(recorded)
    deadline = time.monotonic() + SWEEP_S
    while (left := of_run(folder, recorded)) and time.monotonic() < deadline:
        for pid in left:  # a process may fork between the look and the kill: so once more
            signal_to(pid, signal.SIGKILL)
        killed |= set(left)
        time.sleep(0.02)
    return len(killed)


def signal_to(pid: int, number: int) -> bool:
    """Send a signal; False when nobody is there, or it is not ours."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and was not yet waited for does not."""
    try:
        state = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return not PROC.is_dir() and signal_to(pid, 0)
    return state not in "ZX"


def resident_mb(pid: int) -> float | None:
    """Memory that the process holds, in 10^6 bytes; None where that cannot be read."""
    try:
        pages = int((PROC / str(pid) / "statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def name_of(pid: int) -> str:
    """The program's name, for a sentence about it."""
    try:
        return (PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return "a process"


def _environments() -> Iterable[tuple[int, str]]:
    """(process id, value of COURSE_RUN) of this user's processes that have one."""
    mark = b"\0" + VARIABLE.encode() + b"="
    for entry in PROC.glob("[0-9]*/environ"):
        try:
            text = b"\0" + entry.read_bytes()
        except OSError:  # gone, or not ours
            continue
        if mark in text:
            value = text.partition(mark)[2].partition(b"\0")[0]
            yield int(entry.parent.name), os.fsdecode(value)


def _listed(recorded: set[int]) -> list[int]:
    """Of the process table, those that are, or are led by, a recorded rank."""
    done = subprocess.run(
        ["ps", "-axo", "pid=,pgid=,stat="], capture_output=True, text=True, check=False
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    alive = [(int(row[0]), int(row[1])) for row in rows if len(row) == 3 and "Z" not in row[2]]
    return sorted(pid for pid, group in alive if recorded & {pid, group} and pid != os.getpid())
