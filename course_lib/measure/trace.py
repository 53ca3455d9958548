"""Names for parts of a program, and a file that shows when each of them ran.

What it is: `mark_range`, a range that torch's profiler and Nsight Systems both show; `chrome_trace`,
one call for a profile to be opened in ui.perfetto.dev; `StepTrace`, the same for some updates of a
run. What it leaves out: the tables of a profile, which `torch.profiler` prints itself (lesson 13).
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

WARM_UP = 3
"""Updates before a trace begins: the first ones load code, compile, and ask for memory."""
RECORDED = "recorded call"
"""The range around what `chrome_trace` was asked to record; what is before it was a preparation."""


@contextlib.contextmanager
def mark_range(name: str) -> Iterator[None]:
    """A range of that name in a running profile, and on CUDA for nsys too; it nests.

    Where nobody records, no range of the profile is made; once CUDA is in use, one of NVTX always is.
    """
    with contextlib.ExitStack() as ranges:
        if torch.autograd._profiler_enabled():
            ranges.enter_context(record_function(name))
        if torch.cuda.is_initialized():  # before, no kernel can run, and asking for more is slow
            ranges.enter_context(torch.cuda.nvtx.range(name))
        yield


def chrome_trace(
    function: Callable[[], object],
    path: str | Path,
    *,
    shapes: bool = False,
    barrier: Callable[[], object] | None = None,
) -> Path:
    """Profile one call of `function` and write it to `path` as a chrome trace; the path.

    Warm it up first, or the trace shows the loading of code. On CUDA the kernels are in it, waited
    for. `shapes` notes the sizes of inputs, which takes time.
    Profilers of several ranks don't start at one moment, and who is early waits in a collective for
    the others. So ranks pass a `barrier`, which returns when all ranks have called it: a call of
    `function` that isn't recorded comes first, then the barrier, then the recorded call.
    ValueError for a path that does not end in .json or .json.gz, or a torch without a profiler. What
    `function` raises comes through.
    """
    path = _check_path(path)
    plan = schedule(wait=0, warmup=1, active=1, repeat=1) if barrier else None
    with profile(activities=_list_activities(), schedule=plan, record_shapes=shapes) as found:
        if barrier:
            function()
            found.step()
            barrier()
        with mark_range(RECORDED):
            function()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    found.export_chrome_trace(str(path))
    return path


class StepTrace:
    """Profiles `count` updates of a run, after WARM_UP others, into a chrome trace at `path`.

    Call `step` after each update and `close` at the end. With a `count` of 0 nothing is profiled.
    OSError where the file can't be written. ValueError as `chrome_trace`.
    """

    def __init__(self, path: str | Path, count: int):
        self.path, self.count, self.updates, self._profile = Path(path), count, 0, None
        if count:
            self.path = _check_path(path)
            plan = schedule(wait=WARM_UP - 1, warmup=1, active=count, repeat=1)
            self._profile = profile(
                activities=_list_activities(), schedule=plan, on_trace_ready=self._write
            )
            self._profile.start()

    def step(self) -> None:
        """An update has been queued."""
        self.updates += 1
        if self._profile is None:
            return
        if self.updates == WARM_UP + self.count and torch.cuda.is_initialized():
            torch.cuda.synchronize()  # the kernels of the last update belong to it
        self._profile.step()
        if self.updates == WARM_UP + self.count:
            self.close()

    def close(self) -> str:
        """End it; a run that was too short for all updates writes those that it recorded. One line: what is
        where, or why there is nothing; empty where nothing was asked for."""
        if self._profile is not None:
            self._profile.stop()
            self._profile = None
        taken = min(self.updates - WARM_UP, self.count)
        if not self.count:
            return ""
        if taken < 1:
            return f"no trace: it begins after {WARM_UP} updates, and there were {self.updates}"
        return (
            f"trace of {taken} update{'s' * (taken > 1)} in {self.path}: open it in ui.perfetto.dev, "
            f"which reads it in the browser, or in chrome://tracing"
        )

    def _write(self, found: profile) -> None:
        if self.updates > WARM_UP:
            found.export_chrome_trace(str(self.path))


def _check_path(path: str | Path) -> Path:
    """The path, its folder made, where a trace can be."""
    path = Path(path)
    if not path.name.endswith((".json", ".json.gz")):
        raise ValueError(f"a trace is .json or .json.gz, got {path.name}")
    if not torch.profiler.kineto_available():
        raise ValueError(
            "this torch was built without its profiler (kineto): install a wheel from "
            "pytorch.org, or time parts with course_lib.measure.timing"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    # else kineto of torch 2.13 prints a line of its own at each start and stop
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    return path


def _list_activities() -> list[ProfilerActivity]:
    gpu = [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
    return [ProfilerActivity.CPU, *gpu]
