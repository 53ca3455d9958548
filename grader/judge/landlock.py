"""Landlock: which files this process and its children may touch, for the rest of their lives.

The kernel's own access control for ordinary processes (Linux 5.13 and newer), called directly: the
package of that name on PyPI is a pre-release. What is not allowed is denied. A right given to a
folder holds for all that is under it and cannot be taken back further down, so a folder with one
forbidden part is allowed piece by piece (`cover`).
"""

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

CREATE, ADD_RULE, RESTRICT = 444, 445, 446  # the same numbers on every architecture
VERSION_QUERY, PATH_BENEATH = 1, 1
WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL_DEV = 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
EXECUTE = 1 << 0
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READ = READ_FILE | READ_DIR
WRITE = ((1 << 13) - 1) & ~EXECUTE | TRUNCATE  # everything but running programs
FS_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Number of file rights the kernel knows, by version of its interface."""

libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("fd", ctypes.c_int32)]


def version() -> int:
    """Version of the kernel's interface; 0 where there is none."""
    return max(libc.syscall(CREATE, None, 0, VERSION_QUERY), 0)


def restrict_process(rules: Iterable[tuple[str, int]], *, network: bool) -> None:
    """Allow this process what `rules` say, pairs of path and rights, and nothing else.

    Rules for paths that do not exist are passed over. Without `network` there is no TCP either.
    Where the kernel's version can do so, it also refuses signals and abstract sockets to processes
    outside.
    """
    abi = version()
    if not abi:
        raise OSError("this kernel has no Landlock")
    handled = (1 << FS_RIGHTS.get(abi, 16)) - 1
    attributes = _Ruleset(handled, 3 if abi >= 4 and not network else 0, 3 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _check_result(
        libc.syscall(CREATE, ctypes.byref(attributes), size, 0), "create a ruleset"
    )
    try:
        for path, rights in rules:
            _allow_path(ruleset, path, rights & handled)
        _check_result(libc.prctl(38, 1, 0, 0, 0), "set no_new_privs")
        _check_result(libc.syscall(RESTRICT, ruleset, 0), "restrict itself")
    finally:
        os.close(ruleset)


def _allow_path(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # a path this worker cannot even name needs no permission
    try:
        rights &= rights if os.path.isdir(path) else ON_FILES
        rule = _Beneath(rights, fd)
        _check_result(libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), 0), path)
    finally:
        os.close(fd)


def _check_result(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"Landlock: {what}: {os.strerror(error)}")
    return result


def cover_folder(folder: Path, forbidden: Iterable[Path]) -> list[tuple[str, int]]:
    """Rules under which all of `folder` is readable but for the `forbidden` parts of it."""
    inside = [f for f in forbidden if f.is_relative_to(folder)]
    if not inside:
        return [(str(folder), READ)]
    if folder in inside:
        return []
    rules = [(str(folder), READ_DIR)]  # Python's importer lists the folders it searches
    for child in folder.iterdir():
        rules += cover_folder(child, inside)
    return rules
