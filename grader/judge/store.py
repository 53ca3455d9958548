"""The results of a class in one file: what is done, what it was done with, and the cache.

    grades.jsonl     line 1: the version and the seed; then one line per graded notebook

Lines are only ever added, by one process at a time, each in one write that reaches the disk before
the next notebook is begun. So a kill at any moment loses at most the notebooks being graded; a line
cut short is dropped at the next start. The last line of a notebook is the one that counts. When its
file is gone, that line says so, and the lines before it stay.
"""

import fcntl
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO

import course_lib
from grader.judge.decision import CLOCK, PASSING
from grader.judge.grade import FILLED, MISSING, Result, result_from_json
from grader.judge.judge_process import Options
from grader.judge.sameness import Partners
from grader.judge.student import identify_student

VERSION = 1
GONE = ""
"""The key of a line that says that a notebook is gone."""
HEADER = b'{"course_grades"'
NOT_OURS = "is no results file of `course grade`; give another with --out"


@functools.cache
def environment_digest() -> str:
    """Digest of all but the answer that decides a verdict: suites, library, judge, versions."""
    found = hashlib.sha256()
    versions = [platform.python_version(), platform.machine(), importlib.metadata.version("torch")]
    found.update(json.dumps(versions).encode())
    here, library = Path(__file__).parent, Path(course_lib.__file__).parent
    files = [*library.rglob("*.py"), library / "lab/exercises.json", *here.glob("*.py")]
    for file in sorted(files):
        found.update(file.name.encode() + b"\0" + file.read_bytes())
    return found.hexdigest()


def cache_key(data: bytes, *, lesson: str | None, seed: int, options: Options) -> str:
    """The key under which the result of a notebook with these bytes is stored."""
    made_with = json.dumps([VERSION, lesson, seed, asdict(options), environment_digest()])
    return hashlib.sha256(made_with.encode() + b"\0" + data).hexdigest()


def read_results(path: Path) -> Iterator[Result]:
    """The last result of every notebook in a results file, by name; reads only, takes no lock.

    Those that are gone are marked so, and compared with nobody.
    ValueError when there is no such file or it is another kind of file.
    """
    if not path.is_file():
        raise ValueError(f"there is no {path}; run `course grade PATH...` first")
    places, offset = {}, 0
    with open(path, "rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break  # cut short by a kill, or being written
            record = _parse_record(line, path)
            if "result" in record:
                places[record["result"]["notebook"]] = offset, record.get("key") != GONE
            offset += len(line)
        if not offset:
            raise ValueError(f"{path} {NOT_OURS}")
        partners = Partners(_read_result(file, at) for at, there in places.values() if there)
        for notebook in sorted(places):
            offset, there = places[notebook]
            found = _read_result(file, offset)
            yield partners.mark(found) if there else found


class Store:
    """The results file, open for adding. ValueError when it is another kind of file or in use.

    `folders` are those that are graded; by them a notebook belongs to a student.
    """

    def __init__(self, path: Path, *, seed: int | None = None, folders: Sequence[Path] = ()):
        self.path, self.folders = path, folders
        self._file = open(path, "a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise ValueError(
                f"{path} is in use by another `course grade`; wait for it, or give "
                "this run another file with --out"
            ) from None
        try:
            self.read_lines(seed)
        except BaseException:
            self._file.close()
            raise

    def read_lines(self, seed: int | None) -> None:
        """Learn what is in the file; again after Ctrl-C, which may come between disk and memory."""
        self._places: dict[str, tuple[str, int]] = {}
        """By notebook: the key of its last result and where its line begins."""
        self._made_in: dict[str, str] = {}
        """By notebook: the folder from which its name leads to it."""
        self._known: dict[str, int] = {}
        """Where a result with that key begins; those that another try could change are left out."""
        header, offset = None, 0
        self._file.seek(0)
        for line in self._file:
            if not line.endswith(b"\n"):
                if header is None and not line.startswith(HEADER[: len(line)]):
                    raise ValueError(f"{self.path} {NOT_OURS}")  # never truncate another's file
                break  # cut short by a kill
            record = _parse_record(line, self.path)
            if header is None:
                header = record
            else:
                self._remember_result(record, offset)
            offset += len(line)
        self._file.truncate(offset)
        if header is None:
            header = {"course_grades": VERSION, "seed": secrets.randbelow(2**31 - 1) + 1}
            self._append_line(header)
        if header.get("course_grades") != VERSION or not isinstance(header.get("seed"), int):
            raise ValueError(f"{self.path} {NOT_OURS}")
        self.seed = header["seed"] if seed is None else seed

    def _remember_result(self, record: dict, offset: int) -> None:
        name, result = record["key"], record["result"]
        self._places[result["notebook"]] = (name, offset)
        self._made_in[result["notebook"]] = record.get("cwd", "")
        if name == GONE:
            return
        rows = result["exercises"].values()
        open_rows = any(row["code"] in PASSING or CLOCK in row["flags"] for row in rows)
        if not result["failed"] and not open_rows:
            self._known[name] = offset

    def has(self, notebook: str, name: str) -> bool:
        """Whether the notebook has a result under that key; the result of an equal one is copied."""
        if name not in self._known:
            return False
        if not self.holds(notebook, name):
            self.add(name, replace(_read_result(self._file, self._known[name]), notebook=notebook))
        return True

    def holds(self, notebook: str, name: str) -> bool:
        """Whether the notebook's last result has that key."""
        return notebook in self._places and self._places[notebook][0] == name

    def add(self, name: str, result: Result) -> None:
        """Store a result; it is on the disk when this returns."""
        student, number = identify_student(result.notebook, self.folders)
        self._add_record(name, replace(result, student=student, student_id=number))

    def _add_record(self, name: str, result: Result) -> None:
        record = {"key": name, "cwd": os.getcwd(), "result": result.json()}
        self._remember_result(record, self._append_line(record))

    def set_gone_aside(self, found: Iterable[Path]) -> list[str]:
        """Mark what was graded and is not in `found`, now that its folder was searched again.

        Returns the files that are missing. A folder without a notebook, which has one by now, is
        marked too, and not named. What cannot be looked at, and a folder in which nothing at all
        is found, stays as it was; a file that comes back counts again.
        """
        there, above = {*map(str, found)}, {str(one) for path in found for one in path.parents}
        searched = [folder for folder in self.folders if str(folder) in above]
        missing = []
        for notebook, (name, offset) in [*self._places.items()]:
            path = Path(notebook)
            if name == GONE or notebook in there or self._made_in[notebook] != os.getcwd():
                continue
            filled = notebook in above and path.is_dir()
            if filled or (any(map(path.is_relative_to, searched)) and _is_missing(path)):
                why = FILLED if filled else MISSING
                self._add_record(GONE, replace(_read_result(self._file, offset), gone=why))
                missing += [notebook] * (not filled)
        return missing

    def get(self, notebook: str) -> Result:
        """The last result of that notebook; KeyError without one."""
        return _read_result(self._file, self._places[notebook][1])

    def read_marked(self, notebooks: Iterable[str]) -> Iterator[Result]:
        """The last results of these notebooks, each compared with all that are stored."""
        partners = Partners(map(self.get, (n for n, at in self._places.items() if at[0] != GONE)))
        for notebook in notebooks:
            yield partners.mark(self.get(notebook))

    def _append_line(self, values: dict) -> int:
        line = json.dumps(values).encode() + b"\n"
        offset = self._file.seek(0, os.SEEK_END)
        self._file.write(line)
        self._file.flush()
        os.fsync(self._file.fileno())
        return offset

    def close(self) -> None:
        """Close the file and release its lock."""
        self._file.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_) -> None:
        self.close()


def _is_missing(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # it may be there
        return False
    return False


def _read_result(file: IO[bytes], offset: int) -> Result:
    file.seek(offset)
    return result_from_json(json.loads(file.readline())["result"])


def _parse_record(line: bytes, path: Path) -> dict:
    try:
        record = json.loads(line)
        if "course_grades" in record or isinstance(record["result"]["notebook"], str):
            return record
    except (ValueError, TypeError, KeyError):
        pass
    raise ValueError(f"{path} {NOT_OURS}")
