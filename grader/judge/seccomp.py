"""seccomp: which system calls a worker may make.

A list of what torch, Python and a learner's own files need is allowed, and all else is refused: a
list of what is dangerous would have to be complete. Refusals are errors, not deaths: the answer sees
PermissionError, "try again" where it asked for another process, and "no such call" for those that
are newer than the list, without which every library still works.

The list was measured (strace, all answers kept in tests/answers), and widened by relatives of what
was seen there: other versions of a C library and of torch call one for another.

Why not `pyseccomp`: it is fast enough (1.3 ms a load against 0.7 ms), but it needs the machine's
libseccomp, and a rule for "every call newer than these" cannot be said to it.
"""

import ctypes
import errno
import itertools
import os
import platform
import struct
from collections.abc import Iterable, Iterator

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
LOAD, EQUAL, GREATER, AT_LEAST, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06
NUMBER_AT, ARCH_AT, FIRST_ARGUMENT_AT = 0, 4, 16
CLONE_THREAD, NEW_NAMESPACES = 0x10000, 0x7E020080
PR_SET_PDEATHSIG = 1
FAMILIES = (2, 10, 16)  # IPv4, IPv6, netlink
NEWEST = 462  # mseal, Linux 6.10; numbers from 424 on are the same on every architecture

# name: number on x86_64, on aarch64; None where the architecture has no such call
NEEDED = {
    # memory
    "brk": (12, 214), "mmap": (9, 222), "munmap": (11, 215), "mremap": (25, 216),
    "mprotect": (10, 226), "madvise": (28, 233), "msync": (26, 227), "mincore": (27, 232),
    "membarrier": (324, 283), "pkey_alloc": (330, 289), "pkey_free": (331, 290),
    "pkey_mprotect": (329, 288), "map_shadow_stack": (453, 453), "mseal": (462, 462),
    "mbind": (237, 235), "get_mempolicy": (239, 236), "set_mempolicy": (238, 237),
    # itself: threads, time, signals
    "futex": (202, 98), "futex_wake": (454, 454), "futex_wait": (455, 455),
    "futex_requeue": (456, 456), "futex_waitv": (449, 449), "set_robust_list": (273, 99),
    "set_tid_address": (218, 96), "rseq": (334, 293), "arch_prctl": (158, None),
    "restart_syscall": (219, 128), "exit": (60, 93), "exit_group": (231, 94), "wait4": (61, 260),
    "waitid": (247, 95), "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173),
    "getpgid": (121, 155), "getpgrp": (111, None), "getsid": (124, 156), "setsid": (112, 157),
    "setpgid": (109, 154), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176),
    "getegid": (108, 177), "getresuid": (118, 148), "getresgid": (120, 150),
    "getgroups": (115, 158), "sched_yield": (24, 124), "sched_getaffinity": (204, 123),
    "sched_getparam": (143, 121), "sched_getscheduler": (145, 120),
    "sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126),
    "getpriority": (140, 141), "getcpu": (309, 168), "getrlimit": (97, 163),
    "setrlimit": (160, 164), "getrusage": (98, 165), "times": (100, 153), "time": (201, None),
    "gettimeofday": (96, 169), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115), "nanosleep": (35, 101), "alarm": (37, None),
    "pause": (34, None), "getitimer": (36, 102), "setitimer": (38, 103),
    "timer_create": (222, 107), "timer_settime": (223, 110), "timer_gettime": (224, 108),
    "timer_getoverrun": (225, 109), "timer_delete": (226, 111), "timerfd_create": (283, 85),
    "timerfd_settime": (286, 86), "timerfd_gettime": (287, 87), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136),
    "rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137), "sigaltstack": (131, 132),
    "signalfd": (282, None), "signalfd4": (289, 74), "uname": (63, 160), "sysinfo": (99, 179),
    "capget": (125, 90), "getrandom": (318, 278),
    # files, which Landlock looks at
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67),
    "pwrite64": (18, 68), "preadv": (295, 69), "pwritev": (296, 70), "preadv2": (327, 286),
    "pwritev2": (328, 287), "close": (3, 57), "close_range": (436, 436), "dup": (32, 23),
    "dup2": (33, None), "dup3": (292, 24), "pipe": (22, None), "pipe2": (293, 59),
    "lseek": (8, 62), "stat": (4, None), "fstat": (5, 80), "lstat": (6, None),
    "newfstatat": (262, 79), "statx": (332, 291), "statfs": (137, 43), "fstatfs": (138, 44),
    "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439), "creat": (85, None),
    "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None), "unlink": (87, None),
    "unlinkat": (263, 35), "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276),
    "symlink": (88, None), "symlinkat": (266, 36), "readlink": (89, None),
    "readlinkat": (267, 78), "getdents": (78, None), "getdents64": (217, 61), "getcwd": (79, 17),
    "chdir": (80, 49), "fchdir": (81, 50), "umask": (95, 166), "flock": (73, 32),
    "fsync": (74, 82), "fdatasync": (75, 83), "ftruncate": (77, 46), "fallocate": (285, 47),
    "fadvise64": (221, 223), "readahead": (187, 213), "sendfile": (40, 71),
    "copy_file_range": (326, 285), "poll": (7, None), "ppoll": (271, 73), "select": (23, None),
    "pselect6": (270, 72), "epoll_create": (213, None), "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22),
    "epoll_pwait2": (441, 441), "eventfd": (284, None), "eventfd2": (290, 19),
    # sockets that are there
    "sendto": (44, 206), "sendmsg": (46, 211), "recvfrom": (45, 207), "recvmsg": (47, 212),
    "shutdown": (48, 210), "getsockname": (51, 204), "getpeername": (52, 205),
    "getsockopt": (55, 209),
}  # fmt: skip
FOR_RANKS = {
    "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "accept": (43, 202),
    "accept4": (288, 242), "sendmmsg": (307, 269), "recvmmsg": (299, 243),
}  # fmt: skip
WITHOUT_EFFECT = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
}  # fmt: skip
"""Not done, and said to be: a right answer may set the mode of a file of its own."""
PROCESSES = {"fork": (57, None), "vfork": (58, None)}
SPECIAL = {"clone": (56, 220), "clone3": (435, 435), "prctl": (157, 167), "socket": (41, 198),
           "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "open": (2, None),
           "openat": (257, 56), "openat2": (437, 437), "socketpair": (53, 199),
           "setsockopt": (54, 208), "prlimit64": (302, 261), "sched_setaffinity": (203, 122),
           "fcntl": (72, 25), "ioctl": (16, 29)}  # fmt: skip
COMMANDS = {"fcntl": (*range(8), 36, 37, 38, 1030, 1032),
            "ioctl": (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x802C542A)}  # fmt: skip
"""Flags and locks of a file, its copies; whether it is a terminal, what is there to read. Others make
a file signal its "owner", any process of this user, or change a file that may only be read."""
BUFFERS = (7, 8, 32, 33)
"""Settings of a socket that let the kernel keep a gigabyte in it, which no limit on memory counts."""
ASK_NETWORK = (0x8912, 0x8913, 0x8915, 0x8921, 0x8927, 0x8933, 0x8946)
"""What gloo asks of the devices of a network; with `ioctl`."""
ACCESS, NO_ACCESS, TRUNCATE = 0x3, 0x3, 0x200
"""Of the flags of `open`: the way of access. One that neither reads nor writes, and one that reads and
empties what it opens, go past Landlock (the second before Linux 6.2)."""
STREAM, CLOEXEC, NONBLOCK = 1, 0x80000, 0x800
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def make_filter(*, processes: bool) -> bytes:
    """The filter. With `processes`, forks, sockets and signals to others are allowed: that is for
    a worker with a process and a network namespace of its own."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise OSError(f"no list of system calls for {machine}")
    column, arch = ARCHITECTURES[machine]
    code = [
        _instruction(LOAD, ARCH_AT), _instruction(EQUAL, arch, 1, 0), _instruction(RETURN, KILL),
        _instruction(LOAD, NUMBER_AT), _instruction(GREATER, NEWEST, 0, 1), _refusal(errno.ENOSYS),
    ]  # fmt: skip
    listed = NEEDED | SPECIAL | WITHOUT_EFFECT | PROCESSES | FOR_RANKS
    number = {name: n[column] for name, n in listed.items() if n[column] is not None}
    refused = dict.fromkeys(WITHOUT_EFFECT, 0)
    # glibc does without these two, whose flags are in memory, where no filter can read them
    refused |= {"clone3": errno.ENOSYS, "openat2": errno.ENOSYS}
    code += _test_argument(number["clone"], ANY_BIT, (NEW_NAMESPACES,), errno.EPERM)
    code += _test_argument(number["prctl"], EQUAL, (PR_SET_PDEATHSIG,), errno.EPERM)
    for call in ("prlimit64", "sched_setaffinity"):  # 0 is oneself; others of this user are not
        code += _test_argument(number[call], EQUAL, (0,), errno.EPERM, unless=True)
    for call, commands in COMMANDS.items():
        commands += ASK_NETWORK if processes and call == "ioctl" else ()
        code += _test_argument(number[call], EQUAL, commands, errno.EPERM, index=1, unless=True)
    code += _test_argument(number["setsockopt"], EQUAL, BUFFERS, errno.EPERM, index=2)
    ways = (NO_ACCESS, NO_ACCESS | TRUNCATE, TRUNCATE)
    for index, call in enumerate(("open", "openat"), 1):
        if call in number:
            mask = ACCESS | TRUNCATE
            code += _test_argument(number[call], EQUAL, ways, errno.EACCES, index=index, mask=mask)
    # a pair of datagram sockets can send to any named socket of the machine
    streams = tuple(STREAM | more for more in (0, CLOEXEC, NONBLOCK, CLOEXEC | NONBLOCK))
    code += _test_argument(number["socketpair"], EQUAL, streams, errno.EACCES, index=1, unless=True)
    allowed = {number[call] for call in NEEDED | SPECIAL if call in number}
    if processes:  # a named AF_UNIX socket belongs to the file system, where Landlock ignores it
        code += _test_argument(number["socket"], EQUAL, FAMILIES, errno.EACCES, unless=True)
        allowed |= {number[call] for call in PROCESSES | FOR_RANKS if call in number}
    else:
        refused |= dict.fromkeys(PROCESSES, errno.EAGAIN) | {"socket": errno.EACCES}
        code += _test_argument(number["clone"], ANY_BIT, (CLONE_THREAD,), errno.EAGAIN, unless=True)
        for call in ("kill", "tgkill", "tkill"):
            code += _test_argument(number[call], EQUAL, (os.getpid(),), errno.EPERM, unless=True)
    for call, code_number in refused.items():
        if call in number:
            code += [_instruction(EQUAL, number[call], 0, 1), _refusal(code_number)]
    for first, last in _find_runs(allowed):
        code += [_instruction(AT_LEAST, first, 0, 2), _instruction(GREATER, last, 1, 0),
                 _instruction(RETURN, ALLOW)]  # fmt: skip
    return b"".join([*code, _refusal(errno.EPERM)])


def _find_runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of each run of numbers without a gap."""
    left = sorted(numbers)
    for _, run in itertools.groupby(enumerate(left), lambda pair: pair[1] - pair[0]):
        found = [number for _, number in run]
        yield found[0], found[-1]


def install_filter(*, processes: bool = False) -> None:
    """Put the filter on this process, for good; its pid is the only one it may signal."""
    raw = make_filter(processes=processes)
    compiled = _Program(len(raw) // 8, raw)
    for what, args in (
        ("no_new_privs", (38, 1, 0, 0, 0)),
        ("filter", (22, 2, ctypes.byref(compiled), 0, 0)),
    ):
        if libc.prctl(*args) < 0:
            raise OSError(ctypes.get_errno(), f"seccomp: {what} was refused")


def _instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _refusal(number: int) -> bytes:
    return _instruction(RETURN, ERRNO | number)


def _test_argument(
    call: int,
    test: int,
    values: tuple[int, ...],
    number: int,
    *,
    index: int = 0,
    mask: int = 0xFFFFFFFF,
    unless: bool = False,
) -> list[bytes]:
    """Refuse `call` when the low half of an argument, of it what is in `mask`, passes the test with
    one of `values`; with `unless`, when it passes with none of them."""
    n = len(values)
    # a hit jumps over the remaining tests to the refusal, or over that too
    tests = [_instruction(test, value, n - i - (not unless), 0) for i, value in enumerate(values)]
    if not unless:
        tests[-1] = _instruction(test, values[-1], 0, 1)
    return [
        _instruction(EQUAL, call, 0, n + 4),
        _instruction(LOAD, FIRST_ARGUMENT_AT + 8 * index),
        _instruction(AND, mask),
        *tests,
        _refusal(number),
        _instruction(LOAD, NUMBER_AT),
    ]
