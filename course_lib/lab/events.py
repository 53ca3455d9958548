"""The learner's record: one line of JSON per event in `learning/events.jsonl`, append-only.

Everything else about progress (levels, due dates, summaries) is rebuilt from it. An event has

    v     1, the version of this format
    t     when, UTC, ISO 8601 to the second: "2026-11-20T09:14:03Z"
    kind  "check", "hint", "solution", "predict", "review", "session", "note", ...

and the fields that fit: session, item (exercise or review id), concepts, result ("pass", "fail"),
code, attempt, hint, confidence (1..5), secs, course (version), src (the answer's `digest`: code is
never stored). Nothing leaves the machine.
"""

import functools
import hashlib
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from course_lib.lab.home import home

VERSION = 1


def path() -> Path:
    """Where the events are, whether or not the file exists yet."""
    return home() / "learning" / "events.jsonl"


def record(kind: str, /, **fields) -> bool:
    """Append one event; `None` fields are left out. False when it could not be written.

    Never raises: a full or read-only disk costs the record and is said once. While nbgrader grades
    nothing is recorded: the notebook's author is not the one who runs it.
    """
    if "NBGRADER_EXECUTION" in os.environ:
        return False
    try:
        file = path()
        file.parent.mkdir(parents=True, exist_ok=True)
        _append(file, _line(kind, fields))
    except Exception as problem:  # the learner's cell must go on, whatever broke here
        reason = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
        _warn(f"progress is not being recorded: {reason}")
        return False
    return True


def read() -> list[dict]:
    """All events, oldest first. A line cut short by a crash or a full disk is passed over."""
    try:
        lines = path().read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as problem:
        _warn(f"the progress record cannot be read: {problem.strerror or problem}")
        return []
    return [event for event in map(_event, lines) if event is not None]


def digest(source: str) -> str:
    """A fingerprint of an answer, "sha256:" and 16 hex digits: tells tries apart, shows none."""
    return "sha256:" + hashlib.sha256(source.encode("utf-8", "replace")).hexdigest()[:16]


def _line(kind: str, fields: dict) -> bytes:
    event = {"v": VERSION, "t": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "kind": kind}
    event |= {k: v for k, v in fields.items() if k not in event and v is not None}
    try:
        text = json.dumps(event, default=str, allow_nan=False)
    except ValueError:  # NaN or infinity somewhere: JSON has no such numbers
        text = json.dumps({k: _finite(v) for k, v in event.items()}, default=str)
    return text.encode("ascii") + b"\n"


def _finite(value):
    return value if isinstance(value, (str, int, bool)) else str(value)


def _append(file: Path, line: bytes) -> None:
    """One write on an append-only handle, so two kernels never mix their lines."""
    handle = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(handle).st_size
        os.lseek(handle, max(size - 1, 0), os.SEEK_SET)
        if size and os.read(handle, 1) != b"\n":  # the last write was cut short: begin a new line
            line = b"\n" + line
        if os.write(handle, line) != len(line):
            raise OSError(28, "No space left on device")
    finally:
        os.close(handle)


def _event(line: str) -> dict | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("kind"), str) else None


@functools.cache  # the cache is what makes it once: the same sentence is never said twice
def _warn(sentence: str) -> None:
    print(sentence, file=sys.stderr)
