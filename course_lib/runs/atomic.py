"""A file that is whole or as it was: filled under a name of its own, then renamed.

What it is: the one way in which the course replaces a file that somebody may read, or that must
outlive a kill. What it leaves out: the names of a folder on the disk (checkpoints/files.py), and
files to which one line at a time is added.
"""

import contextlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

SUFFIX = ".part"
"""How the temporary names end; a process that is killed while it writes leaves such a file."""


@contextmanager
def replace_file(path: str | os.PathLike, *, sync: bool) -> Iterator[BinaryIO]:
    """A new stream whose bytes become the file `path` when the block ends without an error.

    Otherwise, on a full disk for example, the old file stands, nothing is left beside it, and the
    error goes on. A link stays a link, a file that is replaced keeps its permissions. Threads and
    processes may write one file at a time of their choosing: the last to end wins. `sync` waits
    until the bytes are on the disk, some milliseconds: for what nobody can compute again, since a
    power cut may otherwise leave the new name on an empty file.
    """
    target = Path(path).resolve()
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}{SUFFIX}")
    try:
        with temporary.open("xb") as stream:
            with contextlib.suppress(OSError):  # there is no old file
                os.fchmod(stream.fileno(), target.stat().st_mode & 0o777)
            yield stream
            stream.flush()
            if sync:
                os.fsync(stream.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)  # a full disk gets its space back
        raise


def write_whole(path: str | os.PathLike, content: str | bytes, *, sync: bool) -> None:
    """Replace the file `path` by `content`, text as UTF-8, as `replace_file` does."""
    with replace_file(path, sync=sync) as stream:
        stream.write(content if isinstance(content, bytes) else content.encode("utf-8"))
