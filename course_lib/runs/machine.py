"""What this process may use of the machine."""

import os


def usable_cores() -> int:
    """Cores that this process may run on; all of the machine where the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
