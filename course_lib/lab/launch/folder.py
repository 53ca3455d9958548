"""The folder of one run, and what can be read from it afterwards.

    runs/0007/plan.json      what was started: ranks, backend, command
    runs/0007/rank0.log ...  what each rank wrote, both streams; torchrun.log, torchrun's own words
    runs/0007/events.jsonl   signs of life of the ranks, findings of the launcher
    runs/0007/stacks0.txt    where a rank stood when it was asked
    runs/0007/summary.json   how it ended; error.json as well, when it failed

A run that is going on holds a lock on its folder, so that nobody takes it for a leftover.
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from course_lib.lab.home import home
from course_lib.runs.atomic import write_whole
from course_lib.runs.heartbeat import FILE

KEPT = 20  # newest runs
NUMBER = re.compile(r"\d{4,}")
LOCK = "lock"


@dataclass(frozen=True)
class Run:
    """A run that has ended, or one that is going on; everything is read when it is asked for."""

    folder: Path

    @property
    def plan(self) -> dict:
        """plan.json"""
        return _json(self.folder / "plan.json")

    @property
    def summary(self) -> dict:
        """summary.json; {} while the run goes on."""
        return _json(self.folder / "summary.json")

    def events(self, kind: str | None = None) -> list[dict]:
        """The events in the order they were written, of one kind: "step", "error", "stacks", ..."""
        try:
            lines = (self.folder / FILE).read_bytes().splitlines()
        except OSError:
            return []
        return [e for e in map(parse_event, lines) if e and kind in (None, e["kind"])]

    def log(self, rank: int = 0) -> str:
        """All that a rank wrote."""
        file = self.folder / f"rank{rank}.log"
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""

    def _ipython_display_(self) -> None:
        """Nothing: what there is to say was said while the run went on."""


def latest() -> Run:
    """The newest run. ValueError when there is none."""
    found = folders()
    if not found:
        raise ValueError(f"nothing was launched yet: {runs_folder()} holds no run")
    return Run(found[-1])


def runs_folder() -> Path:
    """Where the runs are: in the course home, or in the machine's temporary folder."""
    ours = home() / "runs"
    with contextlib.suppress(OSError):
        ours.mkdir(parents=True, exist_ok=True)
    if os.access(ours, os.W_OK):
        return ours
    return Path(tempfile.gettempdir()) / f"course-runs-{os.getuid()}"


def folders() -> list[Path]:
    """The folders of launched runs, oldest first."""
    found = (p.parent for p in runs_folder().glob("*/plan.json"))
    return sorted((p for p in found if NUMBER.fullmatch(p.name)), key=lambda p: int(p.name))


@contextmanager
def create_folder() -> Iterator[Path]:
    """A new folder with the next number, locked as long as the block lasts; old ones go."""
    prune(KEPT - 1)
    where = runs_folder()
    numbers = [int(p.name) for p in where.glob("[0-9]*") if NUMBER.fullmatch(p.name)]
    number = max(numbers, default=0) + 1
    while True:
        folder = where / f"{number:04d}"
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:  # another notebook was faster
            number += 1
    with (folder / LOCK).open("w") as held:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(held, fcntl.LOCK_EX)
        yield folder


def is_going_on(folder: Path) -> bool:
    """Whether the launcher of that run is alive. In doubt it is."""
    try:
        with (folder / LOCK).open("r+") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def prune(keep: int) -> None:
    """Remove all but the newest `keep` runs; those that are going on stay."""
    found = folders()
    for folder in found[: max(len(found) - keep, 0)]:
        if not is_going_on(folder):
            shutil.rmtree(folder, ignore_errors=True)


def write_json(file: Path, content: dict) -> None:
    """Write it whole or not at all; a full disk costs the file."""
    with contextlib.suppress(OSError):
        write_whole(file, json.dumps(content, indent=1, default=str) + "\n", sync=False)


def parse_event(line: bytes) -> dict | None:
    """An event; None for a line that is none, cut short by a full disk for example."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "kind" in event and "t" in event else None


def _json(file: Path) -> dict:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
