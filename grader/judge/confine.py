"""Confinement of one worker: what it may see, reach and use up.

Two tiers hold, and which one does is found out by trying it, not by asking:

    namespaces   user, process, network, mount, IPC and host name namespaces of its own, then all
                 of the next line
    landlock     Landlock (files), seccomp (system calls), resource limits
    none         resource limits alone, for answers one trusts; only on explicit demand

Every step raises OSError when the kernel refuses it, so a worker that says "ready" has passed them
all. Called in a fresh fork that has one thread. Order matters: uid before namespaces (a process
whose real uid is root has no limit on processes), mounts before Landlock (which forbids them),
seccomp last (it forbids the calls the other steps make).
"""

import ctypes
import os
import resource
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from grader.judge import landlock, seccomp

TIERS = ("namespaces", "landlock", "none")
DEFENCES = frozenset({"namespaces", "landlock", "seccomp", "limits", "uid", "erasure", "files"})
"""What tests may leave out, one at a time, to see an attack succeed."""
NOBODY = 65534
SPACES = 0x10000000 | 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000
PRIVATE, NOSUID_NODEV = 0x44000, 6
SCRATCH = ("/tmp", "/dev/shm", "/var/tmp")
SCRATCH_BYTES, SCRATCH_FILES, FILE_BYTES = 64 << 20, 1000, 32 << 20

libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Limits:
    """Allowances of one worker."""

    memory_bytes: int = 2 << 30
    """Memory beyond what a fresh worker already has, all processes together. A worker of one process
    is held to it by its address space, the others by a watcher (memory_watch.py)."""
    cpu_s: int = 20
    processes: int = 1
    """More than one only in the tier "namespaces", for exercises with several ranks."""


def confine_process(
    tier: str,
    limits: Limits,
    readable: list[tuple[str, int]],
    keep: int,
    announce: Callable[[int], None],
    wait_for_parent: Callable[[], None],
    without: frozenset[str] = frozenset(),
) -> None:
    """Confine this process; returns in the process that is confined, which may be a child.

    `keep` is the one file descriptor that stays open. `announce` is told the pid, as seen from
    outside, of the process that goes on. `wait_for_parent` returns, in that process, when its
    parent is the one that will reap it.
    """
    if tier not in TIERS:
        raise OSError(f"no tier is called {tier!r}")
    if tier == "landlock" and limits.processes > 1:
        raise OSError("several processes need the tier 'namespaces'")
    os.setsid()
    scratch = None
    if tier != "none" and "uid" not in without:
        _become_nobody()
    if tier == "namespaces" and "namespaces" not in without:
        _enter_namespaces(announce)
        _follow_parent(wait_for_parent)
        scratch = _mount_scratch_folder(readable)
        if limits.processes > 1:
            _start_loopback()
    else:
        announce(os.getpid())
        _follow_parent(wait_for_parent)
    if "files" not in without:
        _close_descriptors(keep)
    _clear_environment(scratch)
    if "limits" not in without:
        _set_limits(limits, tier)
    if tier == "none":
        return
    if "landlock" not in without:
        write = [(scratch, landlock.READ | landlock.WRITE)] if scratch else []
        landlock.restrict_process([*readable, *write], network=limits.processes > 1)
    _drop_capabilities()
    if "seccomp" not in without:
        seccomp.install_filter(processes=limits.processes > 1)


def _become_nobody() -> None:
    """Give up root's rights, so that root's files and processes are out of reach."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        # a process that is not dumpable finds its own /proc files owned by root
        _call_kernel("be dumpable", libc.prctl, 4, 1, 0, 0, 0)


def _enter_namespaces(announce: Callable[[int], None]) -> None:
    """Enter new namespaces; returns in a child, while this process announces its pid and exits.

    The child is process 1 of the new process namespace: when it is killed, the kernel kills every
    other process in there, whatever that did to hide.
    """
    uid, gid = os.getuid(), os.getgid()
    _call_kernel("unshare", libc.unshare, SPACES)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{NOBODY} {uid} 1"),
        ("gid_map", f"{NOBODY} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    child = os.fork()
    if child:
        announce(child)  # as seen from here: inside it is number 1
        os._exit(0)


def _follow_parent(wait_for_parent: Callable[[], None]) -> None:
    """Die when the parent dies: the adopted one, since the first parent ends by intention."""
    wait_for_parent()
    _call_kernel("follow the parent", libc.prctl, 1, int(signal.SIGKILL), 0, 0, 0)


def _mount_scratch_folder(readable: list[tuple[str, int]]) -> str:
    """Mount a small folder in memory over one that holds nothing the worker must read."""
    _call_kernel("make mounts private", libc.mount, None, b"/", None, PRIVATE, None)
    needed = [path for path, _ in readable]
    for folder in SCRATCH:
        if os.path.isdir(folder) and not any(p.startswith(folder + "/") for p in needed):
            options = f"size={SCRATCH_BYTES},nr_inodes={SCRATCH_FILES},mode=700".encode()
            _call_kernel(
                "mount a scratch folder",
                libc.mount,
                b"tmpfs",
                folder.encode(),
                b"tmpfs",
                NOSUID_NODEV,
                options,
            )
            os.chdir(folder)
            return folder
    raise OSError(f"none of {', '.join(SCRATCH)} can be a worker's scratch folder")


def _start_loopback() -> None:
    """Switch on 127.0.0.1 in the worker's own network namespace, over which ranks talk."""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = b"lo".ljust(16, b"\0") + (0x1 | 0x40).to_bytes(2, "little") + bytes(22)
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS: up, running


def _close_descriptors(keep: int) -> None:
    """Close every file descriptor but `keep`; standard input and output lead nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    os.closerange(3, keep)
    os.closerange(keep + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _clear_environment(scratch: str | None) -> None:
    home = scratch or "/nonexistent"
    if scratch:
        tempfile.tempdir = scratch  # the zygote's own may be remembered, and be out of reach
    shutil.copystat = lambda *args, **kwargs: None  # a copy without the times that seccomp refuses
    os.environ.clear()
    os.environ.update(
        HOME=home, TMPDIR=home, PATH="", LANG="C.UTF-8", OMP_NUM_THREADS="1", MPLBACKEND="agg"
    )


def _set_limits(limits: Limits, tier: str) -> None:
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    wanted = {
        resource.RLIMIT_AS: now + limits.memory_bytes // limits.processes,
        resource.RLIMIT_CPU: limits.cpu_s,
        resource.RLIMIT_FSIZE: FILE_BYTES,
        resource.RLIMIT_NOFILE: 128,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if tier == "namespaces":  # elsewhere it would count all that this user runs
        wanted[resource.RLIMIT_NPROC] = 32 * limits.processes
    for which, value in wanted.items():
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))


def _drop_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    _call_kernel("drop capabilities", libc.capset, header, (ctypes.c_uint32 * 6)())


def _call_kernel(what: str, function: Callable, *args) -> None:
    if function(*args) < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"cannot {what}: {os.strerror(error)}")
