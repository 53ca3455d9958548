"""How much memory one call takes beyond what was there before it, at its highest.

What it is: a high-water mark that is set back before the call: of CUDA's allocator, or of the whole
process where Linux keeps one. What it leaves out: which tensors they are, and systems
without such a mark.
"""

import contextlib
import ctypes
from collections.abc import Callable
from pathlib import Path

import torch

PROCESS = Path("/proc/self")


def peak_bytes(call: Callable[[], object], device: torch.device) -> int | None:
    """Most bytes held during `call()` beyond those held before it; None where nobody counts.

    On CUDA: of tensors. On a CPU: of the process, in pages, with whatever the allocator keeps.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        call()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    before = _reset_mark()
    call()
    return None if before is None else max(0, _status("VmHWM") - before)


def _reset_mark() -> int | None:
    """Bytes of the process now; its mark starts again from there."""
    with contextlib.suppress(OSError, AttributeError):  # no glibc: pages stay, the figure is lower
        ctypes.CDLL(None).malloc_trim(0)
    try:
        (PROCESS / "clear_refs").write_text("5")
        return _status("VmRSS")
    except OSError:  # no Linux, or a container that does not allow it
        return None


def _status(name: str) -> int:
    lines = (PROCESS / "status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
