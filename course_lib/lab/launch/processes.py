"""The processes of one run: found by what only they have in their environment, and ended.

What it is: the last resort. torchrun puts every rank into a session of its own, so killing
torchrun's process group reaches no rank, and ranks have children of their own. What all of them
share is COURSE_RUN.
"""

import os
import signal
import time
from collections.abc import Iterable, Iterator

import psutil

from course_lib.runs.heartbeat import VARIABLE

SWEEP_S = 3.0


def of_run(folder: str | os.PathLike, recorded: Iterable[int] = ()) -> list[int]:
    """Process ids of the run in `folder`, this process not among them.

    `recorded` are the ids that the ranks wrote down, each of which leads a process group. They
    count for processes whose environment the system hides (macOS: programs of its own).
    """
    groups = set(recorded)
    found = {
        process.pid
        for process, value in _environments()
        if value == os.fspath(folder)
        or (groups and value is None and _group_of(process.pid) in groups)
    }
    return sorted(found - {os.getpid()})


def runs_with_processes() -> set[str]:
    """The folders of all runs of which something is alive."""
    return {folder for _, folder in _environments() if folder}


def sweep(folder: str | os.PathLike, recorded: Iterable[int] = ()) -> int:
    """Kill what is left of a run, children of ranks included; how many processes that were."""
    killed, recorded = set(), list(recorded)
    deadline = time.monotonic() + SWEEP_S
    while (left := of_run(folder, recorded)) and time.monotonic() < deadline:
        for pid in left:  # a process may fork between the look and the kill: so once more
            send_signal(pid, signal.SIGKILL)
        killed |= set(left)
        time.sleep(0.02)
    return len(killed)


def end_run(folder: str | os.PathLike, agent: int, seconds: float) -> None:
    """Give torchrun, process `agent`, so many seconds to end its run; kill what is left then."""
    deadline = time.monotonic() + seconds
    while is_alive(agent) and time.monotonic() < deadline:
        time.sleep(0.05)
    sweep(folder)


def send_signal(pid: int, number: int) -> bool:
    """Send a signal; False when nobody is there, or it is not ours."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and was not yet waited for does not."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def resident_mb(pid: int) -> float | None:
    """Memory that the process holds, in 10^6 bytes; None where that cannot be read."""
    try:
        return psutil.Process(pid).memory_info().rss / 1e6
    except psutil.Error:
        return None


def name_of(pid: int) -> str:
    """The program's name, for a sentence about it."""
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "a process"


def _environments() -> Iterator[tuple[psutil.Process, str | None]]:
    """All processes with their COURSE_RUN: "" without one, None where it is hidden."""
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            yield process, environment.get(VARIABLE, "") if environment else None
        except psutil.AccessDenied:
            yield process, None
        except psutil.NoSuchProcess:  # gone by now, or waiting to be waited for
            continue


def _group_of(pid: int) -> int | None:
    """The id of the process group; None for a process that has ended."""
    try:
        return os.getpgid(pid) if is_alive(pid) else None
    except OSError:
        return None
