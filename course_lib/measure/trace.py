"""Names for parts of a program, and a file that shows when each of them ran.

What it is: `mark_range`, a range that torch's profiler and Nsight Systems both show, and `chrome_trace`,
one call for a profile to be opened in ui.perfetto.dev. What it leaves out: the tables of a profile,
which `torch.profiler` prints itself (lesson 11).
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function


@contextlib.contextmanager
def mark_range(name: str) -> Iterator[None]:
    """A range of that name in a running profile, and on CUDA for nsys too; it nests.

    Costs nothing but the call where nobody records: no range is made then.
    """
    with contextlib.ExitStack() as ranges:
        if torch.autograd._profiler_enabled():
            ranges.enter_context(record_function(name))
        if torch.cuda.is_initialized():  # before, no kernel can run, and asking for more is slow
            ranges.enter_context(torch.cuda.nvtx.range(name))
        yield


def chrome_trace(function: Callable[[], object], path: str | Path, *, shapes: bool = False) -> Path:
    """Profile one call of `function` and write it to `path` as a chrome trace; the path.

    Warm it up first, or the trace shows the loading of code. On CUDA the kernels are in it, waited
    for. `shapes` notes the sizes of inputs, which takes time. ValueError for a path that does not
    end in .json or .json.gz, or a torch without a profiler. What `function` raises comes through.
    """
    path = Path(path)
    if not path.name.endswith((".json", ".json.gz")):
        raise ValueError(f"a trace is .json or .json.gz, got {path.name}")
    if not torch.profiler.kineto_available():
        raise ValueError(
            "this torch was built without its profiler (kineto): install a wheel from "
            "pytorch.org, or time parts with course_lib.measure.timing"
        )
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    path.parent.mkdir(parents=True, exist_ok=True)
    with profile(activities=activities, record_shapes=shapes) as found:
        function()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    found.export_chrome_trace(str(path))
    return path
