"""DCP's writer of shards, with two things put right that a crash or a full disk shows.

What it is: `CheckpointWriter`. DCP asks the disk for a file before Python has handed over the last bytes
of it, and what torch.save makes of a full disk is "unexpected pos 704 vs 598". What it leaves out:
everything that DCP does itself.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint import FileSystemWriter
from torch.distributed.checkpoint.filesystem import FileSystem


class CheckpointWriter(FileSystemWriter):
    """Writes this rank's shards into a folder, one file, on the disk when it returns."""

    def __init__(self, path: Path):
        super().__init__(path)
        self.fs: _Files = _Files()

    @property
    def failed(self) -> OSError | None:
        """What the system said when a write failed."""
        return self.fs.failed


class _Files(FileSystem):
    def __init__(self):
        super().__init__()
        self.failed: OSError | None = None

    @contextlib.contextmanager
    def create_stream(self, path: str | os.PathLike, mode: str) -> Iterator[Any]:
        try:
            with super().create_stream(path, mode) as stream:
                yield _Stream(stream, self)
        except OSError as error:
            self.failed = self.failed or error
            raise


class _Stream:
    """A stream that keeps the error of a failed write, which torch.save replaces by its own."""

    def __init__(self, stream, files: _Files):
        self._stream, self._files = stream, files

    def write(self, data) -> int:
        try:
            return self._stream.write(data)
        except OSError as error:
            self._files.failed = self._files.failed or error
            raise

    def fileno(self) -> int:
        self._stream.flush()  # asked for in order to fsync: without this the last bytes miss it
        return self._stream.fileno()

    def __getattr__(self, name: str):
        return getattr(self._stream, name)
