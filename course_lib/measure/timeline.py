"""When a process computed and when it communicated, from the trace that torch's profiler wrote.

What it is: two rows of time spans, and how much of the communication nothing hid. What it leaves
out: making the trace (trace.py), and which kernel took how long (torch.profiler's own tables).

On a GPU the rows are its kernels and copies, and NCCL's kernels among them. On a CPU they are the
operations of ATen, and the transfers of gloo, which go on in threads of their own.
"""

import gzip
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from course_lib.measure.trace import RECORDED

Span = tuple[float, float]
"""Where it begins and where it ends, in seconds."""
ON_GPU = {"kernel", "gpu_memcpy", "gpu_memset"}


@dataclass(frozen=True)
class Timeline:
    """Two rows of spans that do not overlap within a row, in order; 0 is the first beginning."""

    compute: list[Span]
    """While anything but a collective ran."""
    communication: list[Span]
    """While one collective or more was under way. Waiting for a slower rank is part of it."""

    @property
    def seconds(self) -> float:
        """From the first beginning to the last end."""
        return max(end for _, end in self.compute + self.communication)

    @property
    def communication_s(self) -> float:
        """Seconds with a collective under way."""
        return sum_spans(self.communication)

    @property
    def exposed_s(self) -> float:
        """Seconds with a collective under way and no computing.

        Communication costs at least this. It also slows down the computing beside it, which needs
        the same processors and the same memory.
        """
        return sum_spans(self.compute + self.communication) - sum_spans(self.compute)


def read_timeline(path: str | Path) -> Timeline:
    """The timeline in a chrome trace of one process, as `chrome_trace` writes it (.json or .json.gz).

    A trace with GPU kernels is read by these alone, another by its CPU operations. What is before
    the recorded call, such as a barrier, is left out. ValueError for a trace in which nothing
    computed or communicated.
    """
    path = Path(path)
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8") as stream:
        found = json.load(stream)["traceEvents"]
    events = [event for event in found if event.get("ph") == "X"]
    marks = (e["ts"] for e in events if (e["name"], e.get("cat")) == (RECORDED, "user_annotation"))
    begin = max(marks, default=-math.inf)
    events = [event for event in events if event["ts"] >= begin]
    if kernels := [event for event in events if event.get("cat") in ON_GPU]:
        communication = [event for event in kernels if "nccl" in event["name"].lower()]
        compute = [event for event in kernels if "nccl" not in event["name"].lower()]
    else:
        communication = [event for event in events if event["name"].startswith("gloo:")]
        compute = [event for event in events if event["name"].startswith("aten::")]
    if not compute + communication:
        raise ValueError(
            f"{path.name} has no kernels, ATen operations or collectives: write it with "
            "course_lib.measure.trace.chrome_trace, around a step that computes"
        )
    start = min(event["ts"] for event in compute + communication)

    def spans(events: list[dict]) -> list[Span]:
        return merge_spans(  # a trace counts microseconds
            ((e["ts"] - start) / 1e6, (e["ts"] - start + e["dur"]) / 1e6) for e in events
        )

    return Timeline(spans(compute), spans(communication))


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """The same time in spans that do not touch or overlap, in order."""
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def sum_spans(spans: Iterable[Span]) -> float:
    """Seconds that these cover together; where they overlap, time counts once."""
    return sum(end - begin for begin, end in merge_spans(spans))
