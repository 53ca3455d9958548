"""Which files a worker must be able to read: the interpreter and the installed packages, without
the course itself. The library is in memory when a worker starts; its text holds the solutions."""

import ctypes
import os
import site
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from grader.judge import landlock

SYSTEM = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo",
          "/dev/null", "/dev/zero", "/dev/urandom", "/dev/random",
          "/sys/devices/system/cpu", "/sys/bus/pci/devices",
          "/proc/cpuinfo", "/proc/meminfo")  # fmt: skip
OURS = ("course_lib", "grader")
libc = ctypes.CDLL(None, use_errno=True)


def readable_paths() -> list[tuple[str, int]]:
    """Landlock rules: the system's libraries and this interpreter's, never the course's code."""
    ours = [Path(find_spec(name).origin).resolve().parent for name in OURS]
    rules = [
        rule
        for path in SYSTEM
        if (found := Path(path).resolve()).exists()
        for rule in landlock.cover_folder(found, ours)
    ]
    for folder in _import_folders():
        rules += landlock.cover_folder(folder, ours)
    data = Path(find_spec("course_lib").origin).resolve().parent / "data/assets"
    rules += [(str(path), landlock.READ) for path in data.glob("*.[jt]*")]  # the tokenizer's files
    # gloo lists the PCI devices and reads the class of each, even to use the loopback
    kinds = (d.resolve() / "class" for d in Path("/sys/bus/pci/devices").glob("*"))
    rules += [(str(path), landlock.READ) for path in kinds if path.exists()]
    write = [("/dev/null", landlock.READ | landlock.WRITE)]
    return list(dict.fromkeys([*rules, *write]))


def _import_folders() -> list[Path]:
    """Folders of the standard library and of installed packages. Others on the import path, such
    as a checkout, are left out: they hold more than packages."""
    folders = [*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()]
    kinds = ("site-packages", "dist-packages")
    stdlib = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    found = [Path(f).resolve() for f in folders if f in stdlib or Path(f).name in kinds]
    return list(dict.fromkeys(folder for folder in found if folder.is_dir()))


def expose_interpreter() -> list[str]:
    """As root: make the interpreter readable to the user that workers become.

    An interpreter under a home folder that only its owner may enter would be out of their reach,
    and with it every module not imported yet. In a mount namespace of its own this process covers
    that home with an empty folder that holds the interpreter alone. Returns what could not be done.
    """
    needed = {Path(p).resolve() for p in (sys.base_prefix, sys.prefix, *_import_folders())}
    closed = {path: top for path in needed if (top := _closed_parent(path))}
    if os.getuid() != 0 or not closed:
        return []
    try:
        _cover_homes(closed)
    except OSError as problem:
        return [
            f"workers cannot read {next(iter(closed))}, and it cannot be opened to them "
            f"({problem}): install Python outside of a private folder"
        ]
    return []


def _closed_parent(path: Path) -> Path | None:
    """The topmost folder above `path` that other users may not enter; None when all are open."""
    for parent in reversed(path.parents):
        if not os.stat(parent).st_mode & 0o001:
            return parent
    return None


def _cover_homes(closed: dict[Path, Path]) -> None:
    if libc.unshare(0x00020000) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    _mount(None, b"/", None, 0x44000)
    tops = set(closed.values())
    # the parts of one another: only the outermost are bound
    outer = [p for p in closed if not any(o != p and p.is_relative_to(o) for o in closed)]
    opened = {path: os.open(path, os.O_PATH) for path in outer}
    for top in tops:
        _mount(b"tmpfs", os.fsencode(top), b"tmpfs", 6, b"size=1m,mode=755")
    for path, fd in opened.items():
        path.mkdir(parents=True, exist_ok=True)
        _mount(f"/proc/self/fd/{fd}".encode(), os.fsencode(path), None, 0x1000)
        os.close(fd)


def _mount(
    source: bytes | None,
    target: bytes,
    kind: bytes | None,
    flags: int,
    options: bytes | None = None,
) -> None:
    if libc.mount(source, target, kind, flags, options) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {os.fsdecode(target)}: {os.strerror(number)}")
