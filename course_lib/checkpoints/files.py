"""Files that a kill leaves whole, and the one error for those that are not good.

What it is: `write_file`, which fills a file under a temporary name and puts it on the disk before
it gets its own; `sync_folder`, which does that for names. What it leaves out: what stands in a
checkpoint (saved_state.py) and which files it has (single_file.py, sharded.py).
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from course_lib.runs.atomic import replace_file


class CheckpointError(ValueError):
    """A checkpoint is missing, cut short, changed or of something else; the message says which."""


def write_file(path: Path, fill: Callable) -> str:
    """Fill a file under a temporary name, put it on the disk, then give it its name; its sha256.

    `fill(stream)` writes. OSError when the disk is full; nothing is left of the file then.
    """
    with replace_file(path, sync=True) as stream:
        hashing = _Hashing(stream)
        try:
            fill(hashing)
        except Exception as error:
            raise hashing.failed or error from None
    return hashing.digest.hexdigest()


def sync_folder(folder: Path) -> None:
    """Put the names of a folder's files on the disk, as fsync puts their bytes there."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Hashing:
    """A binary stream that hashes what is written through it, so that nothing is read again."""

    def __init__(self, stream):
        self.stream, self.digest, self.failed = stream, hashlib.sha256(), None

    def write(self, data) -> int:
        self.digest.update(data)
        try:
            return self.stream.write(data)
        except OSError as error:  # torch.save goes on and ends in an error of its own
            self.failed = self.failed or error
            raise

    def flush(self) -> None:
        self.stream.flush()
