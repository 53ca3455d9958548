"""A submitted notebook as plain cells; everything in it was written by someone who may be hostile.

Nothing is validated against the notebook format and nothing is believed: what is not a cell is
passed over, what is not a notebook raises `NotebookError` with a sentence that says why. nbformat
is not used: it upgrades, repairs and raises in ways that differ by version.
"""

import contextlib
import errno
import json
import os
import signal
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MAX_BYTES = 8 << 20  # a lesson with every figure in it is under 2 MB; JSON takes 20 times its size
MAX_CELLS = 2_000
READ_S = 60.0  # of processor time, to find the answers in one; a large one takes 3
MAX_NAMES = 3  # of files, that a message says
MAX_SOURCE = 100_000  # characters of one cell
MAX_TEXT = 1_000_000  # characters of all cells; a solved lesson has 60,000


class NotebookError(ValueError):
    """Not a notebook that can be graded; the message finishes "cannot be graded: ..."."""


class _TooSlow(BaseException):
    """Not an Exception: what parses hostile text forgives those."""


@contextlib.contextmanager
def limit_reading() -> Iterator[None]:
    """NotebookError when the body has computed for `READ_S`. Only the main thread can be
    interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signum, frame):
        raise _TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, READ_S, 1.0)  # again, should one be swallowed
    try:
        yield
    except _TooSlow:
        raise NotebookError(
            f"it takes more than {READ_S:g} seconds to read; a lesson's notebook takes one"
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@dataclass(frozen=True)
class Cell:
    """What is taken of a cell. `source` may hold anything but half surrogate pairs."""

    kind: str
    source: str
    id: str = ""
    tags: tuple[str, ...] = ()
    grading: dict = field(default_factory=dict, hash=False)
    """The cell's nbgrader metadata, as submitted."""

    @property
    def grade_id(self) -> str:
        found = self.grading.get("grade_id")
        return found if isinstance(found, str) else ""


def read_file(path: Path) -> bytes:
    """The file's bytes. Links are refused: one may point at another learner's work, or at ours."""
    try:
        # NONBLOCK, so that a named pipe does not hold up the class until someone writes into it
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        link = error.errno == errno.ELOOP
        raise NotebookError("it is a link to another file" if link else error.strerror) from None
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            names = sorted(os.listdir(handle))[:MAX_NAMES]
            raise NotebookError(f"it is a folder, with {', '.join(names) or 'nothing'} in it")
        if not stat.S_ISREG(mode):
            raise NotebookError("it is not an ordinary file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise NotebookError(error.strerror) from None
    finally:
        os.close(handle)


def parse_cells(data: bytes) -> list[Cell]:
    """The cells of a notebook of format 4, in order; NotebookError for anything else."""
    book = _parse_notebook(data)
    found = book.get("cells")
    if not isinstance(found, list):
        raise NotebookError("it has no list of cells")
    if len(found) > MAX_CELLS:
        raise NotebookError(f"it has {len(found):,} cells, more than {MAX_CELLS:,}")
    cells = [_make_cell(raw) for raw in found if isinstance(raw, dict)]
    if sum(len(cell.source) for cell in cells) > MAX_TEXT:
        raise NotebookError(
            f"its cells hold more than {MAX_TEXT:,} characters of code and text; data belongs in a "
            "file beside it"
        )
    return cells


def _parse_notebook(data: bytes) -> dict:
    if len(data) > MAX_BYTES:
        raise NotebookError(f"it is larger than {MAX_BYTES >> 20} MB; clear its outputs")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotebookError(f"its text is not UTF-8 (byte {error.start})") from None
    try:
        book = json.loads(text)
    except (ValueError, RecursionError):
        raise NotebookError("its text is not JSON") from None
    if not isinstance(book, dict) or not isinstance(book.get("nbformat"), int):
        raise NotebookError("it is not a notebook: no format number in it")
    if book["nbformat"] != 4:
        number = book["nbformat"] if abs(book["nbformat"]) < 100 else "unknown"
        raise NotebookError(f"its format is {number}, not 4; open it in JupyterLab and save it")
    return book


def _make_cell(raw: dict) -> Cell:
    meta = raw.get("metadata") if isinstance(raw.get("metadata"), dict) else {}
    grading, tags = meta.get("nbgrader"), meta.get("tags")
    kind = raw.get("cell_type")
    return Cell(
        kind=kind if kind in ("code", "markdown", "raw") else "raw",
        source=_join_source(raw.get("source")),
        id=raw["id"] if isinstance(raw.get("id"), str) else "",
        tags=tuple(t for t in tags if isinstance(t, str)) if isinstance(tags, list) else (),
        grading=grading if isinstance(grading, dict) else {},
    )


def _join_source(source) -> str:
    """The source as one string, from a string or a list of lines; half surrogate pairs go."""
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str):
        return ""
    return source.encode("utf-8", "replace").decode("utf-8")
