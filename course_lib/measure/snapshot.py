"""A recording of the GPU's memory: every allocation of a block of code, and the line that made it.

What it is: a context manager around torch's recorder, whose file pytorch.org/memory_viz draws. What
it leaves out: sums by category (memory.py), and memory of the CPU.

Source: PyTorch documentation, "Understanding CUDA Memory Usage" (torch_cuda_memory).
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch


@contextlib.contextmanager
def memory_snapshot(path: str | Path, *, max_entries: int = 100_000) -> Iterator[Path]:
    """Record allocations until the end of the block, then write them to `path`, a pickle.

    Also when the block fails, as with CUDA out of memory: that is when one wants to see. The oldest
    of more than `max_entries` events are forgotten; each takes some KB in the file. The recorder
    is one for the process, so snapshots do not nest. ValueError without CUDA.
    """
    if not torch.cuda.is_available():
        raise ValueError(
            "a memory snapshot needs CUDA, and this machine has none: for the bytes that a forward "
            "pass keeps use course_lib.measure.memory.saved_bytes, for the peak of a block "
            "course_lib.measure.held.Held; both count on a CPU"
        )
    record = torch.cuda.memory._record_memory_history  # private by name, documented all the same
    record(max_entries=max_entries, clear_history=True)
    try:
        yield Path(path)
    finally:
        try:
            torch.cuda.memory._dump_snapshot(str(path))
        finally:
            record(enabled=None)
