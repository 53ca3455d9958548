"""The learner's record: one line of JSON per event in `learning/events.jsonl`, append-only.

Everything else about progress (levels, due dates, summaries) is rebuilt from it. An event has

    v     1, the version of this format
    t     when, UTC, ISO 8601 to the second: "2026-11-20T09:14:03Z"
    kind  "check", "hint", "solution", "predict", "review", "session", "note", ...

and the fields that fit: session, item (exercise or review id), concepts, result ("pass", "fail"),
code, attempt, hint, confidence (1..5), secs, course (version), src (the answer's `digest`: code is
never stored). Nothing leaves the machine.

The file may have been edited, cut short, or merged by git from two machines. What is no event is
passed over and stays in the file; `problems` names it.
"""

import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from course_lib.lab.home import home
from course_lib.runs.atomic import write_whole

VERSION = 1
CLOCK = "%Y-%m-%dT%H:%M:%SZ"
LONG_AGO = "1970-01-01T00:00:00Z"
TYPES = {
    **dict.fromkeys(("item", "result", "code", "exercise", "preset", "note", "text", "src"), str),
    **dict.fromkeys(("started", "ended"), str),
    **dict.fromkeys(("attempt", "hint", "rating", "number", "confidence"), int),
    "concepts": list,
}
CONFLICT = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")


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
        _warn_once(f"progress is not being recorded: {reason}")
        return False
    return True


def read() -> list[dict]:
    """All events, oldest first, each with a usable `t` and fields of the types in `TYPES`.

    Passed over: lines that are no event, copies that joining two files has left, and events of a
    newer version of the course, which is said once.
    """
    return in_order(event for _, event in _without_copies(_parse_lines(_lines())))


def in_order(found: Iterable[dict]) -> list[dict]:
    """The events by time, in place where times are equal; wrong types of known fields are dropped.

    An event without a usable time gets that of the event before it: where it stands is all that is
    known of it.
    """
    latest, clean = None, []
    for event in found:
        latest = _time(event.get("t")) or latest
        clean.append(_with_time(_drop_wrong_types(event), latest))
    first = next((e["t"] for e in clean if e["t"]), LONG_AGO)
    return sorted((_with_time(e, e["t"] or first) for e in clean), key=lambda e: e["t"])


def parse_time(event: dict) -> datetime:
    """The time of an event that `read` or `in_order` gave: UTC, aware."""
    return datetime.fromisoformat(event["t"])


def stamp(time: datetime) -> str:
    """A time as events have it."""
    return time.astimezone(UTC).strftime(CLOCK)


def problems() -> list[str]:
    """What `read` passes over, one sentence per kind; empty when all is well."""
    bad, newer = [], 0
    conflict = False
    for number, line in enumerate(_lines(), start=1):
        event = _event(line)
        newer += event is not None and _is_newer(event)
        conflict |= line.startswith(CONFLICT)
        if event is None and line.strip(b"\0\r \t"):
            bad.append(number)
    said = []
    if bad:
        where = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
        why = "git's conflict marks" if conflict else "cut short or changed by hand"
        said.append(
            f"{path().name}: {len(bad)} of its lines are no events and are passed over "
            f"({why}; line {where}). Nothing was removed."
        )
    return said + ([_newer_text(newer)] if newer else [])


def prune(keep: Callable[[dict], dict | None]) -> int:
    """Rewrite the file with what `keep` makes of each event; None drops it. Returns how many went.

    Whole or not at all: on a full disk OSError is raised and the old file stands.
    """
    found = [event for _, event in _without_copies(_parse_lines(_lines()), newer=True)]
    kept = [event for event in map(keep, found) if event is not None]
    write_whole(path(), "".join(json.dumps(event) + "\n" for event in kept), sync=True)
    return len(found) - len(kept)


def sureness(confidence: int | None) -> int | None:
    """A confidence that a learner gave, as it is; ValueError when it is not 1 to 5."""
    if confidence is not None and confidence not in range(1, 6):
        raise ValueError(f"confidence goes from 1 (a guess) to 5 (certain), got {confidence!r}")
    return confidence


def digest(source: str) -> str:
    """A fingerprint of an answer, "sha256:" and 16 hex digits: tells tries apart, shows none."""
    return "sha256:" + hashlib.sha256(source.encode("utf-8", "replace")).hexdigest()[:16]


def _line(kind: str, fields: dict) -> bytes:
    event = {"v": VERSION, "t": stamp(datetime.now(UTC)), "kind": kind}
    event |= {k: v for k, v in fields.items() if k not in event and v is not None}
    try:
        text = json.dumps(event, default=str, allow_nan=False)
    except ValueError:  # NaN or infinity somewhere: JSON has no such numbers
        text = json.dumps({k: _make_finite(v) for k, v in event.items()}, default=str)
    return text.encode("ascii") + b"\n"


def _make_finite(value):
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


def _lines() -> list[bytes]:
    """The file's lines. By line feed alone: `str.splitlines` also cuts at marks inside a text."""
    try:
        return path().read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as problem:
        _warn_once(f"the progress record cannot be read: {problem.strerror or problem}")
        return []


def _event(line: bytes) -> dict | None:
    line = line.strip(b"\0 \t\r")  # a power cut can leave zeros where a line was to come
    if not line.startswith(b"{"):
        return None
    try:
        event = json.loads(line.decode("utf-8", errors="replace"))
        if b"\\ud" in line.lower():  # halves of a character, which no file could be written with
            event = json.loads(_repair_surrogates(json.dumps(event, ensure_ascii=False)))
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("kind"), str) else None


def _repair_surrogates(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _parse_lines(lines: list[bytes]) -> list[tuple[bytes, dict]]:
    found = ((line, _event(line)) for line in lines)
    return [(line, event) for line, event in found if event is not None]


def _without_copies(
    found: list[tuple[bytes, dict]], *, newer: bool = False
) -> list[tuple[bytes, dict]]:
    """Without the second copy of a history that two joined files share.

    A copy repeats lines seen before, and begins by going back in time; the same line twice in one
    second is two events.
    """
    seen, latest, copying, kept, strange = set(), "", False, [], 0
    for line, event in found:
        if _is_newer(event) and not newer:
            strange += 1
            continue
        time = _time(event.get("t")) or latest
        copying = line in seen and (copying or time < latest)
        if not copying:
            seen.add(line)
            latest = max(latest, time)
            kept.append((line, event))
    if strange:
        _warn_once(_newer_text(strange))
    return kept


def _is_newer(event: dict) -> bool:
    version = event.get("v")
    return isinstance(version, (int, float)) and version > VERSION


def _newer_text(count: int) -> str:
    return (
        f"{path().name}: passed over, from a newer version of the course: {count}. What it wrote "
        "stays in the file; update the course to see it."
    )


def _time(text) -> str | None:
    """A time in the form of `CLOCK`; without a zone it is taken as UTC. None when it is no time."""
    try:
        time = datetime.fromisoformat(text)
        if len(text) == 20 and text[10::9] == "TZ":  # as we write it; the long way costs ten times
            return text
        return stamp(time if time.tzinfo else time.replace(tzinfo=UTC)).rjust(20, "0")
    except (ValueError, TypeError, OverflowError):
        return None


def _drop_wrong_types(event: dict) -> dict:
    """Without known fields of a type or size that would break who reads them."""
    bad = [k for k, v in event.items() if type(v) is not TYPES.get(k, type(v))]
    if event.get("confidence", 1) not in (1, 2, 3, 4, 5):
        bad.append("confidence")
    kept = {k: v for k, v in event.items() if k not in bad} if bad else event
    if not all(isinstance(name, str) for name in kept.get("concepts", ())):
        kept = kept | {"concepts": [name for name in kept["concepts"] if isinstance(name, str)]}
    return kept | {"concepts": []} if "concepts" in bad else kept


def _with_time(event: dict, time: str | None) -> dict:
    return event if event.get("t", "") == time else event | {"t": time}


@functools.cache  # the cache is what makes it once: the same sentence is never said twice
def _warn_once(sentence: str) -> None:
    print(sentence, file=sys.stderr)
