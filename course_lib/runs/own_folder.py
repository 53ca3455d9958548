"""A folder of its own for code that is being judged: nothing that it writes stays anywhere else.

What it is: a fresh working folder, removed afterwards, and a refusal of what Python would write
outside it. It guards against accidents, such as an answer that saves to `runs/ddp` whatever it was
told. What it leaves out: malice, and programs that the code starts; the judge confines these.
"""

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator

import torch

VARIABLE = "COURSE_OWN_FOLDER"
"""Ranks find the folder under this name in their environment."""

COMPILED = "TORCHINDUCTOR_CACHE_DIR"
"""torch sets this on first use, to a place in the temporary folder, for the rest of the process."""

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {
    "os.mkdir": 1, "os.rmdir": 1, "os.remove": 1, "os.rename": 2, "os.link": 2, "os.symlink": 2,
    "os.truncate": 1, "os.chmod": 1, "os.chown": 1, "os.utime": 1,
}  # fmt: skip
"""Audit events that change a file system, and how many of their arguments are paths."""
CACHES = ("__pycache__", "torchinductor", f"{os.sep}.triton", f"{os.sep}.cache")
DEVICES = ("/dev", "/proc")

_guarded: str | None = None
_made: set[str] = set()  # the folders of all checks so far: who finishes late may write there still
_strangers: set[int | None] = set()
_is_hooked = False


@contextlib.contextmanager
def own_folder() -> Iterator[str]:
    """A fresh working folder and temporary folder for the body; its path.

    While the body runs, PermissionError for each file that this thread, or one started by it, opens
    to write, makes, moves or removes anywhere else. Compilers' caches are left alone, and so are
    the folders of earlier checks, whose files may be closed and removed late. Ranks of `local_ranks`
    are held to the same folder.
    """
    with contextlib.ExitStack() as after:
        folder = os.path.realpath(after.enter_context(tempfile.TemporaryDirectory(prefix="check-")))
        after.callback(_return_to, _working_folder(), tempfile.tempdir)
        before = {name: os.environ.get(name) for name in (VARIABLE, "TMPDIR", COMPILED)}
        after.callback(_set_environment, before)
        _set_environment({VARIABLE: folder, "TMPDIR": folder})
        os.chdir(folder)
        after.callback(_guard, None)
        guard_folder(folder)
        yield folder


def guard_folder(folder: str) -> None:
    """From now on refuse to this process's new threads, and this one, to write outside `folder`."""
    if not os.path.isdir(os.path.dirname(os.environ.get(COMPILED, "/"))):
        del os.environ[COMPILED]  # a place in the folder of an earlier check, which is gone
    tempfile.tempdir = folder
    me = threading.get_ident()
    _guard(folder, {thread.ident for thread in threading.enumerate()} - {me})


def _guard(folder: str | None, strangers: Collection[int | None] = ()) -> None:
    global _guarded, _strangers, _is_hooked
    if not _is_hooked:  # an audit hook cannot be taken away again
        sys.addaudithook(_look_at_event)
        _open_archive = torch.serialization._open_zipfile_writer

        def open_archive(place):  # torch writes its archives past Python
            if isinstance(place, (str, os.PathLike)):
                sys.audit("open", os.fspath(place), "w", WRITES)
            return _open_archive(place)

        torch.serialization._open_zipfile_writer = open_archive
        _is_hooked = True
    _guarded, _strangers = folder, set(strangers)
    if folder:
        _made.add(folder)


def _look_at_event(event: str, args: tuple) -> None:
    if _guarded is None or (event != "open" and event not in CHANGES):
        return
    if threading.get_ident() in _strangers:
        return
    if event == "open":
        writes = isinstance(args[2], int) and args[2] & WRITES
        paths = args[:1] if writes else ()
    else:
        paths = args[: CHANGES[event]]
    for path in paths:
        if isinstance(path, (str, bytes)) or hasattr(path, "__fspath__"):
            _refuse_other_place(os.fsdecode(path), args[-1])


def _refuse_other_place(path: str, descriptor: object) -> None:
    """PermissionError for a path outside. `descriptor` may be that of the folder it begins at."""
    if not os.path.isabs(path) and isinstance(descriptor, int) and descriptor >= 0:
        with contextlib.suppress(OSError):
            path = os.path.join(os.readlink(f"/proc/self/fd/{descriptor}"), path)
    place = os.path.realpath(path)
    if place in _made or place.startswith((*(f"{folder}{os.sep}" for folder in _made), *DEVICES)):
        return
    if not any(part in place for part in CACHES):
        raise PermissionError(
            f"a check has a folder of its own, and this writes to {path}: write below the folder "
            f"that the function is given, such as config.out"
        )


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it has been removed
        return os.path.expanduser("~")


def _return_to(folder: str, temporary: str | None) -> None:
    tempfile.tempdir = temporary
    os.chdir(folder)


def _set_environment(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
