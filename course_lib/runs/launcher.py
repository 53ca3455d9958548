"""A process ends when the one that has launched it is gone.

What it is: `end_with_launcher`, for ranks under torchrun. torchrun ends its ranks in every case but
one: when it is killed itself (kill -9, or memory has run out) they would train on, hold their GPUs
and write into a folder that the next run uses too. What it leaves out: ranks that end orderly.
"""

import ctypes
import os
import signal
import sys
import threading
import time

VARIABLE = "TORCHELASTIC_RUN_ID"
"""What torchrun sets for each of its ranks, and nobody else does."""
PR_SET_PDEATHSIG = 1
LOOK_S = 1.0


def end_with_launcher() -> None:
    """Under torchrun, have this process killed as soon as torchrun is gone; else do nothing.

    On Linux the kernel does that (`prctl(2)`, PR_SET_PDEATHSIG); elsewhere a thread looks once a
    second who the parent is.
    """
    if VARIABLE not in os.environ:
        return
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # gone between the two lines: no signal will come
            _end()
        return
    threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    _end()


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
