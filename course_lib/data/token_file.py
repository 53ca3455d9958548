"""One file of tokens: a header of one page, then the ids as raw uint16, low byte first.

What it is: `TokenFileWriter`, which leaves a whole file or none, and `read_header` and `map_tokens`,
which refuse a file that is foreign, cut short or damaged. What it leaves out: which tokens go into
which file (token_store.py).

The header takes 4,096 bytes, so the tokens begin on a page of their own and the operating system
can map them as they are:

    offset  bytes  field
         0      8  magic "GPTTOKEN"
         8      4  version of the format
        12      4  dtype, "<u2" and a zero
        16      8  number of tokens
        24      4  vocabulary size
        28      4  id of the end of text
        32     32  sha256 of the vocabulary
        64      4  crc32 of the tokens' bytes
        68      8  where to go on: number of the next group of documents,
        76      8  and how many of its tokens are already in this file
        84      4  crc32 of the 84 bytes before
"""

import os
import struct
import zlib
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

HEADER_BYTES = 4096
MAGIC, VERSION, DTYPE = b"GPTTOKEN", 1, b"<u2\0"
FIELDS = struct.Struct("<8sI4sQII32sIQQ")
CHECK = struct.Struct("<I")
BLOCK_BYTES = 1 << 20  # read at a time when a checksum is taken


@dataclass(frozen=True, kw_only=True)
class Header:
    """What stands in front of the tokens."""

    num_tokens: int
    vocab_size: int
    end_of_text: int
    vocab_sha256: bytes
    crc32: int
    next_group: int
    next_offset: int

    def pack(self) -> bytes:
        """The whole first page of a file."""
        fields = FIELDS.pack(MAGIC, VERSION, DTYPE, *astuple(self))
        return (fields + CHECK.pack(zlib.crc32(fields))).ljust(HEADER_BYTES, b"\0")


class TokenFileWriter:
    """Writes one shard under another name and gives it its own when it is whole.

    A process that is killed on the way leaves a file ending in .tmp, which the next run overwrites.
    """

    def __init__(self, path: Path, capacity: int):
        self.path, self.capacity = path, capacity
        self.num_tokens = self._crc32 = 0
        self._temporary = path.with_name(path.name + ".tmp")
        self._stream = self._temporary.open("wb")
        self._stream.seek(HEADER_BYTES)

    def write(self, ids: np.ndarray) -> int:
        """Append as many of `ids` (uint16) as fit; returns how many that were."""
        ids = np.ascontiguousarray(ids[: self.capacity - self.num_tokens], dtype="<u2")
        self._stream.write(ids.data)
        self._crc32 = zlib.crc32(ids.data, self._crc32)
        self.num_tokens += len(ids)
        return len(ids)

    @property
    def full(self) -> bool:
        return self.num_tokens == self.capacity

    def finish(
        self,
        *,
        vocab_size: int,
        end_of_text: int,
        vocab_sha256: bytes,
        next_group: int,
        next_offset: int,
    ) -> Header:
        """Write the header and name the file; on disk when this returns."""
        header = Header(
            num_tokens=self.num_tokens,
            vocab_size=vocab_size,
            end_of_text=end_of_text,
            vocab_sha256=vocab_sha256,
            crc32=self._crc32,
            next_group=next_group,
            next_offset=next_offset,
        )
        self._stream.seek(0)
        self._stream.write(header.pack())
        self._stream.flush()
        os.fsync(self._stream.fileno())  # else a power cut may keep the name and lose the bytes
        self._stream.close()
        self._temporary.replace(self.path)
        return header

    def abandon(self) -> None:
        """Remove what was written so far."""
        self._stream.close()
        self._temporary.unlink(missing_ok=True)


def read_header(path: Path) -> Header:
    """The header of a file whose size fits it; ValueError names the file and what to do."""
    try:
        with path.open("rb") as stream:
            page = stream.read(HEADER_BYTES)
            size = os.fstat(stream.fileno()).st_size
    except FileNotFoundError:
        raise ValueError(f"expected a shard of tokens at {path}, found nothing: {REPAIR}") from None
    fields, check = page[: FIELDS.size], page[FIELDS.size : FIELDS.size + CHECK.size]
    if not page.startswith(MAGIC):
        raise ValueError(
            f"expected a shard of tokens in {path}, which begins with {MAGIC!r}, found "
            f"{page[:8]!r}: another program wrote this file; move it out of the folder"
        )
    if len(page) < HEADER_BYTES or check != CHECK.pack(zlib.crc32(fields)):
        raise ValueError(f"{path} has a damaged header: {REPAIR}")
    _, version, dtype, *rest = FIELDS.unpack(fields)
    if (version, dtype) != (VERSION, DTYPE):
        raise ValueError(
            f"expected version {VERSION} and dtype {DTYPE!r} in {path}, found {version} and "
            f"{dtype!r}: written by another release of the course; {REPAIR}"
        )
    header = Header(**dict(zip(Header.__dataclass_fields__, rest, strict=True)))
    expected = HEADER_BYTES + 2 * header.num_tokens
    if size != expected:
        raise ValueError(
            f"expected {expected:,} bytes in {path} ({header.num_tokens:,} tokens), found "
            f"{size:,}: the file was cut short or added to; {REPAIR}"
        )
    return header


def map_tokens(path: Path, header: Header, *, verify: bool) -> np.ndarray:
    """(num_tokens,) uint16, mapped and read-only.

    `verify` reads them once and compares their checksum; ValueError where it is another one.
    """
    if verify and _crc32(path) != header.crc32:
        raise ValueError(
            f"the tokens in {path} do not fit their checksum: the file is damaged; {REPAIR}"
        )
    tokens = np.memmap(path, "<u2", mode="r", offset=HEADER_BYTES, shape=(header.num_tokens,))
    return tokens.view(np.ndarray)  # slices of a memmap subclass cost microseconds each


def _crc32(path: Path) -> int:
    """Checksum of the tokens, read block by block: pages of a map would all count as memory."""
    value = 0
    with path.open("rb") as stream:
        stream.seek(HEADER_BYTES)
        while block := stream.read(BLOCK_BYTES):
            value = zlib.crc32(block, value)
    return value


REPAIR = "delete that file and index.json beside it, and run pretokenize again, which fills the gap"
