"""Documents in pieces of bounded size: what `pretokenize` reads, whatever the text is kept in.

What it is: a corpus of text files, or rows of JSONL and Parquet files (through the `datasets`
library, if it is installed), as a stream of groups of about 1 MB. What it leaves out: tokens
(token_store.py), downloads. A document larger than a group comes in several pieces, so memory stays
bounded whatever the size of the text.
"""

import glob
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from course_lib.data.corpus import BLOCK_BYTES, Corpus

DATASET_FORMATS = {".jsonl": "json", ".json": "json", ".parquet": "parquet"}


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A document, or a part of one."""

    name: str
    text: str
    ends: bool
    """Whether the document ends here."""
    num_bytes: int
    """Share of the source's `num_bytes` that this piece stands for."""


class Documents(Protocol):
    """A source of documents."""

    @property
    def num_bytes(self) -> int:
        """Size of the source in bytes, for the progress bar."""

    def fingerprint(self) -> str:
        """Hex digest that changes when a file is added, removed, resized or written again."""

    def pieces(self) -> Iterator[Piece]:
        """All documents in order, the same at every call."""


@dataclass(frozen=True)
class CorpusDocuments:
    """Each file of a corpus is one document."""

    corpus: Corpus

    @property
    def num_bytes(self) -> int:
        return self.corpus.num_bytes

    def fingerprint(self) -> str:
        return _fingerprint(self.corpus.root, [file.name for file in self.corpus.files])

    def pieces(self) -> Iterator[Piece]:
        for file in self.corpus.files:
            alone = Corpus(root=self.corpus.root, files=(file,)).pieces(BLOCK_BYTES)
            text = next(alone, "")
            for following in alone:  # one piece late: the last is known when none follows
                yield _piece(file.name, text, ends=False)
                text = following
            yield _piece(file.name, text, ends=True)


@dataclass(frozen=True, kw_only=True)
class DatasetFiles:
    """Each row of JSONL or Parquet files is one document: its text stands in one column.

    This is the format in which OpenWebText and FineWeb are published. Rows are streamed, nothing
    is copied into a cache. Rows whose text is missing or empty are left out.
    """

    files: tuple[Path, ...]
    column: str = "text"

    @classmethod
    def find(cls, pattern: str | Path, column: str = "text") -> "DatasetFiles":
        """Files that match `pattern`, such as "fineweb/*.parquet", sorted by name.

        ValueError when none does, or when they are not all of one known format.
        """
        files = tuple(sorted(map(Path, glob.glob(str(Path(pattern).expanduser())))))
        known = ", ".join(DATASET_FORMATS)
        if not files:
            raise ValueError(
                f"expected files ending in {known} at {pattern}, found none "
                f"(seen from {Path.cwd()}): pass a path or a pattern of files that exist"
            )
        formats = {DATASET_FORMATS.get(file.suffix.lower()) for file in files}
        if len(formats) > 1 or None in formats:
            endings = ", ".join(sorted({file.suffix or "no ending" for file in files}))
            raise ValueError(
                f"expected files of one format, {known}: {pattern} matches {endings}; "
                f"pass one format at a time"
            )
        return cls(files=files, column=column)

    @property
    def num_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.files)

    def fingerprint(self) -> str:
        return _fingerprint(Path(), map(str, self.files), self.column)

    def pieces(self) -> Iterator[Piece]:
        for file in self.files:
            size = file.stat().st_size  # rows may be compressed: the file counts with its first
            for number, text in enumerate(_rows(file, self.column)):
                for first in range(0, len(text), BLOCK_BYTES):
                    part = text[first : first + BLOCK_BYTES]
                    ends = first + BLOCK_BYTES >= len(text)
                    name = f"{file.name}, row {number}"
                    yield Piece(name=name, text=part, ends=ends, num_bytes=size)
                    size = 0


@dataclass(frozen=True, kw_only=True)
class Group:
    """Texts that are tokenized together: whole documents, but for the last one of them."""

    texts: list[str]
    ends: bool
    """Whether the last text ends its document."""
    name: str
    """The last document's."""
    num_bytes: int


def groups(pieces: Iterable[Piece], block_chars: int = BLOCK_BYTES) -> Iterator[Group]:
    """The pieces in order, joined until they hold `block_chars` characters."""
    texts: list[str] = []
    num_chars = num_bytes = 0
    for piece in pieces:
        texts.append(piece.text)
        num_chars += len(piece.text)
        num_bytes += piece.num_bytes
        if not piece.ends or num_chars >= block_chars:
            yield Group(texts=texts, ends=piece.ends, name=piece.name, num_bytes=num_bytes)
            texts, num_chars, num_bytes = [], 0, 0
    if texts:
        yield Group(texts=texts, ends=True, name=piece.name, num_bytes=num_bytes)


def _piece(name: str, text: str, *, ends: bool) -> Piece:
    return Piece(name=name, text=text, ends=ends, num_bytes=len(text.encode()))


def _fingerprint(root: Path, names: Iterable[str], *more: str) -> str:
    """Names, sizes and times of writing: reading gigabytes to compare them would take minutes."""
    digest = hashlib.sha256(repr(more).encode())
    for name in names:
        status = (root / name).stat()
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode(errors="replace"))
    return digest.hexdigest()


def _rows(file: Path, column: str) -> Iterator[str]:
    """Texts of one file, streamed."""
    try:
        from datasets import load_dataset  # late and optional: it brings pyarrow and pandas
    except ImportError:
        raise ValueError(
            f"reading {file.name} needs the `datasets` library, which is not installed: "
            f"pip install datasets, or convert the rows to text files and use Corpus.folder"
        ) from None
    kind = DATASET_FORMATS[file.suffix.lower()]
    rows = load_dataset(kind, data_files=[str(file)], split="train", streaming=True)
    for row in rows:
        if column not in row:
            raise ValueError(
                f"expected a column {column!r} in {file}, found {', '.join(row)}: "
                f"pass column=... with the one that holds the text"
            )
        if row[column]:
            yield row[column]
