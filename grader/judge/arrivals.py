"""`course grade --watch`: which files have arrived, told by looking again and again.

Looking works on every disk, a share among machines included, where the system's own notices do not
come. A file that is still being written differs from one look to the next, and is left alone until
two looks see the same; one that changes later is told of again.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

LOOK_S = 2.0


def find_arrivals(
    find: Callable[[], list[Path]], *, wait: Callable[[float], None] = time.sleep
) -> Iterator[list[Path]]:
    """The files that `find` lists and that are new or changed, in groups, for ever.

    `wait` is called between two looks. What is told of once is not told of again until it changes.
    """
    told: dict[Path, tuple] = {}
    before: dict[Path, tuple] = {}
    while True:
        now = {path: state for path in find() if (state := _read_state(path))}
        ready = [p for p, state in now.items() if state == before.get(p) != told.get(p)]
        before = now
        if ready:
            told |= {path: now[path] for path in ready}
            yield ready
        wait(LOOK_S)


def _read_state(path: Path) -> tuple | None:
    """What changes when a file is written or replaced; None when it is gone."""
    try:
        found = path.lstat()
    except OSError:
        return None
    inside = sorted(os.walk(path)) if stat.S_ISDIR(found.st_mode) else []
    return found.st_ino, found.st_size, found.st_mtime_ns, inside
