"""Signs of life of a rank: a line of JSON now and then, for whoever has started the rank.

What it is: `beat`, which a training loop calls once a step. It costs a microsecond, at most ten
lines a second are written, and without COURSE_RUN in the environment it does nothing: `%torchrun`
and `course launch` set that, to the folder of the run. What it leaves out: the log of a training
(run_log.py), and who reads this (lab/launch). Standard library alone, so any script can use it.

All ranks append to one file. A line is one write to a file opened for appending, which the kernel
does not interleave with another on a local disk.
"""

import json
import os
import time
from typing import Any

VARIABLE = "COURSE_RUN"
FILE = "events.jsonl"
EVERY_S = 0.1
LONGEST = 8000  # bytes of a line: a message may quote anything

_due = 0.0  # when the next step may be written


def beat(step: int, total: int | None = None, **numbers: float) -> None:
    """Say that this rank has finished step `step` of `total`; `numbers` as plain Python numbers.

    `loss` and `tokens` (trained on so far, by all ranks together) are shown while the run lasts,
    other names are kept in its file. Never raises, and never waits for a device: convert a tensor
    that you have read anyway. Steps that follow closely are left out, the last one never is.
    """
    global _due
    if not os.environ.get(VARIABLE):
        return
    now = time.monotonic()
    if now < _due and step != total:
        return
    _due = now + EVERY_S
    say("step", step=step, of=total, **numbers)


def say(kind: str, **fields: Any) -> None:
    """Append one event of this rank: its time and rank, `kind`, and `fields`, which JSON can hold.

    A full disk, or a folder that is gone, costs the line and nothing else.
    """
    if folder := os.environ.get(VARIABLE):
        append(folder, kind, rank=int(os.environ.get("RANK", 0)), **fields)


def append(folder: str | os.PathLike, kind: str, **fields: Any) -> None:
    """The same into a run's folder that is not this process's own."""
    event = {"t": round(time.time(), 3), "kind": kind, **fields}
    line = json.dumps(event, default=str).encode()
    if len(line) > LONGEST:  # whole or not at all: half a line would hide the next one
        line = json.dumps({k: _cut(v) for k, v in event.items()}).encode()
    try:
        descriptor = os.open(
            os.path.join(folder, FILE), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644
        )
        try:
            os.write(descriptor, line + b"\n")
        finally:
            os.close(descriptor)
    except OSError:
        return


def _cut(value: Any) -> Any:
    return value if isinstance(value, (int, float)) else str(value)[:500]
