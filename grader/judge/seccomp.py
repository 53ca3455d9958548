"""seccomp: which system calls a worker may make.

A filter of about a hundred instructions, written here and handed to the kernel: what nobody needs
to multiply matrices is refused. A call that is newer than this list is refused too, so that a
kernel's next invention is not a hole. Refusals are errors, not deaths: the answer sees
PermissionError, or "try again" where it asked for another process.

Why not `pyseccomp`: it is fast enough (1.3 ms a load against 0.7 ms), but it needs the machine's
libseccomp, and a rule for "every call newer than these" cannot be said to it.
"""

import ctypes
import errno
import os
import platform
import struct

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
LOAD, EQUAL, GREATER, ANY_BIT, RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
NUMBER_AT, ARCH_AT, FIRST_ARGUMENT_AT = 0, 4, 16
CLONE_THREAD, NEW_NAMESPACES = 0x10000, 0x7E020080
PR_SET_PDEATHSIG = 1
FAMILIES = (2, 10, 16)  # IPv4, IPv6, netlink
NEWEST = 462  # mseal, Linux 6.10; numbers from 424 on are the same on every architecture

# name: number on x86_64, on aarch64; None where the architecture has no such call
CALLS = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "execve": (59, 221), "execveat": (322, 281),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "memfd_create": (319, 279), "memfd_secret": (447, 447),  # memory that RLIMIT_AS does not count
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190),
    "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186),
    "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "syslog": (103, 116), "acct": (163, 89),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162),
    "personality": (135, 92), "vhangup": (153, 58), "iopl": (172, None), "ioperm": (173, None),
    "modify_ldt": (154, None), "uselib": (134, None), "setpriority": (141, 140),
    "ioprio_set": (251, 30), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274), "migrate_pages": (256, 238), "move_pages": (279, 239),
    # what Landlock does not look at, though it changes files that the worker may not even open
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16), "link": (86, None), "linkat": (265, 37),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
}  # fmt: skip
WITHOUT_EFFECT = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
}  # fmt: skip
"""Not done, and said to be: a right answer may set the mode of a file of its own."""
PROCESSES = {"fork": (57, None), "vfork": (58, None)}
SPECIAL = {"clone": (56, 220), "clone3": (435, 435), "prctl": (157, 167), "socket": (41, 198),
           "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131),
           "socketpair": (53, 199), "prlimit64": (302, 261), "sched_setaffinity": (203, 122), "fcntl": (72, 25),
           "ioctl": (16, 29)}  # fmt: skip
BY_FILE = {"fcntl": (8, 10, 15, 1024, 1026),
           "ioctl": (0x8901, 0x8902, 0x5412, 0x40086602, 0x401C5820)}  # fmt: skip
"""Commands that make a file signal its "owner", any process of this user; leases, on which others
wait; typing for others; flags of a file."""
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
    number = {name: n[column] for name, n in (CALLS | WITHOUT_EFFECT | PROCESSES | SPECIAL).items()}
    refused = dict.fromkeys(CALLS, errno.EPERM) | dict.fromkeys(WITHOUT_EFFECT, 0)
    # glibc falls back to clone, whose flags a filter can read; those of clone3 are in memory
    refused["clone3"] = errno.ENOSYS
    code += _test_argument(number["clone"], ANY_BIT, (NEW_NAMESPACES,), errno.EPERM)
    code += _test_argument(number["prctl"], EQUAL, (PR_SET_PDEATHSIG,), errno.EPERM)
    for call in ("prlimit64", "sched_setaffinity"):  # 0 is oneself; others of this user are not
        code += _test_argument(number[call], EQUAL, (0,), errno.EPERM, unless=True)
    for call, commands in BY_FILE.items():
        code += _test_argument(number[call], EQUAL, commands, errno.EPERM, index=1)
    # a pair of datagram sockets can send to any named socket of the machine
    streams = tuple(STREAM | more for more in (0, CLOEXEC, NONBLOCK, CLOEXEC | NONBLOCK))
    code += _test_argument(number["socketpair"], EQUAL, streams, errno.EACCES, index=1, unless=True)
    if processes:  # a named AF_UNIX socket belongs to the file system, where Landlock ignores it
        code += _test_argument(number["socket"], EQUAL, FAMILIES, errno.EACCES, unless=True)
    else:
        refused |= dict.fromkeys(PROCESSES, errno.EAGAIN) | {"socket": errno.EACCES}
        code += _test_argument(number["clone"], ANY_BIT, (CLONE_THREAD,), errno.EAGAIN, unless=True)
        for call in ("kill", "tgkill", "tkill"):
            code += _test_argument(number[call], EQUAL, (os.getpid(),), errno.EPERM, unless=True)
    for call, code_number in refused.items():
        if number[call] is not None:
            code += [_instruction(EQUAL, number[call], 0, 1), _refusal(code_number)]
    return b"".join([*code, _instruction(RETURN, ALLOW)])


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
    unless: bool = False,
) -> list[bytes]:
    """Refuse `call` when the low half of an argument passes the test with one of `values`; with
    `unless`, when it passes with none of them."""
    n = len(values)
    # a hit jumps over the remaining tests to the refusal, or over that too
    tests = [_instruction(test, value, n - i - (not unless), 0) for i, value in enumerate(values)]
    if not unless:
        tests[-1] = _instruction(test, values[-1], 0, 1)
    return [
        _instruction(EQUAL, call, 0, n + 3),
        _instruction(LOAD, FIRST_ARGUMENT_AT + 8 * index),
        *tests,
        _refusal(number),
        _instruction(LOAD, NUMBER_AT),
    ]
