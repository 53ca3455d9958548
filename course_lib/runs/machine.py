"""What this process may use of the machine."""

import os
import time
from pathlib import Path


def usable_cores() -> int:
    """Cores that this process may run on; all of the machine where the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_seconds(pid: int) -> float:
    """Processor time that a running process has used, all its threads; 0 where it cannot be read."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # Linux: the number of that process's CPU clock
    except (AttributeError, OSError):
        return 0.0


def is_ready(pid: int) -> bool:
    """Whether a process computes or could, if a processor or the disk had time for it: not when it
    waits for another process. False where the system does not say (macOS)."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return False
    return after_name.split()[0] in ("R", "D")


def cpu_seconds_with_children() -> float:
    """Processor time that this process and its children that have ended have used."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
