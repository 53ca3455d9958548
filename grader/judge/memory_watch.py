"""How much memory the processes of a worker use together.

The kernel limits the addresses of each process, and their number only generously. A control group
would count for all of them together, where the machine delegates one to its users; few do. So the
zygote looks itself, many times a second, and ends a worker that is above its limit.
"""

import os

HELD = ("RssAnon:", "RssShmem:", "VmSwap:")
SHARES = ("Pss_Anon:", "Pss_Shmem:", "SwapPss:")


def find_family(pid: int) -> list[int]:
    """A worker's processes. Those that lost their parent have become children of `pid`, which is
    process 1 of its namespace."""
    found, new = [], [pid]
    while new:
        found += new
        new = [child for parent in new for child in _read_children(parent)]
    return found


def count_bytes(pids: list[int], *, shared: int, most: int) -> int:
    """Bytes that these processes use, without `shared`, which they had from the zygote; 0 where it
    is plain that they are no more than `most`."""
    held = [read_held_bytes(pid) for pid in pids]
    if sum(held) <= most:
        return 0
    try:  # milliseconds a process: each page in as many parts as there are processes that share it
        parts = sum(_read_sizes(f"/proc/{pid}/smaps_rollup", SHARES) for pid in pids)
    except PermissionError:  # to root without CAP_SYS_PTRACE, in a container
        return sum(max(each - shared, 0) for each in held)
    return max(parts - shared, 0)


def read_held_bytes(pid: int) -> int:
    """Bytes that a process has in memory or swapped out, files aside."""
    return _read_sizes(f"/proc/{pid}/status", HELD)


def _read_children(pid: int) -> list[int]:
    found = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += [int(child) for child in file.read().split()]
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        pass
    return found


def _read_sizes(path: str, names: tuple[str, ...]) -> int:
    """The sum of lines such as "RssAnon:  12 kB", in bytes; 0 for a process that has ended."""
    try:
        with open(path) as file:
            return sum(int(line.split()[1]) << 10 for line in file if line.startswith(names))
    except (FileNotFoundError, ProcessLookupError):
        return 0
