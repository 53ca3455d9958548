"""Where the training text comes from: a folder of text files, read one file at a time.

What it is: a frozen list of names and sizes, iterators over the text, and a train/validation split
by file. What it leaves out: tokens (tokenizer.py), batches, downloads. `Corpus.default()` needs no
network: it is the source of the Python standard library on this machine, 10 to 12 MB of English and
code.
"""

import codecs
import hashlib
import os
import sysconfig
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

TEXT_SUFFIXES = (".txt", ".md", ".py")
BLOCK_BYTES = 1 << 20

# Left out everywhere: caches. In the standard library also installed packages, tests (long tables
# of data), and the files that say how and where this one Python was built.
CACHE_FOLDERS = frozenset({"__pycache__", "node_modules"})
STDLIB_FOLDERS = CACHE_FOLDERS | {"site-packages", "dist-packages", "test", "tests", "idle_test"}
STDLIB_STARTS = ("_sysconfig", "config-")


@dataclass(frozen=True, kw_only=True)
class TextFile:
    """One file of a corpus."""

    name: str
    """Path below the root of the corpus, with forward slashes on every system."""
    num_bytes: int
    """Size in bytes of UTF-8."""


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Names and sizes of the files that make up a text; the text itself stays on disk.

    The order is that of the names as strings, so it is the same on every machine and file system.
    """

    root: Path
    """The folder that the names are below."""
    files: tuple[TextFile, ...]
    """The files, sorted by name; none is empty, each was UTF-8 text when the corpus was made."""
    skipped: tuple[str, ...] = ()
    """Names that had the right suffix but were not UTF-8 text, or could not be read."""

    @classmethod
    def default(cls) -> "Corpus":
        """Sources of the standard library of this Python, without its tests and installed packages.

        The same version of Python gives the same text, and another version another text. ValueError
        when this Python comes without its sources.
        """
        root = Path(sysconfig.get_path("stdlib"))
        if not (root / "os.py").is_file():
            raise ValueError(
                f"expected the sources of the Python standard library in {root}, found no os.py: "
                f"this Python comes without sources; use Corpus.folder(...) on a folder of text"
            )
        return _scan(root, (".py",), STDLIB_FOLDERS, STDLIB_STARTS)

    @classmethod
    def folder(cls, path: str | Path, suffixes: tuple[str, ...] = TEXT_SUFFIXES) -> "Corpus":
        """All UTF-8 files below `path` whose name ends in one of `suffixes` (upper or lower case).

        Leaves out hidden files and folders, `__pycache__`, `node_modules`, links to folders, and files
        that are empty or have a zero byte. ValueError when the
        folder is missing or gives no text.
        """
        if isinstance(suffixes, str) or not all(suffix.startswith(".") for suffix in suffixes):
            raise ValueError(
                f"suffixes must be a tuple of endings with their dot, such as ('.txt', '.md'): "
                f"got {suffixes!r}"
            )
        root = Path(path).expanduser()
        if not root.is_dir():
            found = "a file" if root.exists() else "nothing"
            raise ValueError(
                f"expected a folder of text files at {root}, found {found} there "
                f"(seen from {Path.cwd()}): pass the path of a folder that exists"
            )
        return _scan(root, tuple(suffix.lower() for suffix in suffixes), CACHE_FOLDERS, ())

    @property
    def num_bytes(self) -> int:
        """Size of the whole text in bytes of UTF-8."""
        return sum(file.num_bytes for file in self.files)

    @property
    def sha256(self) -> str:
        """Hex digest of the whole text, to tell whether two are the same; reads every file once."""
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece.encode())
        return digest.hexdigest()

    def documents(self) -> Iterator[tuple[str, str]]:
        """(name, text) of each file in order. Holds one whole file: for huge ones see `pieces`."""
        for file in self.files:
            yield file.name, (self.root / file.name).read_bytes().decode()

    def pieces(self, block_bytes: int = BLOCK_BYTES) -> Iterator[str]:
        """The text in order, in pieces of about `block_bytes` that never cross a file.

        A file larger than that comes in several pieces, cut anywhere between two characters, so
        memory stays bounded whatever the size of the files.
        """
        for file in self.files:
            yield from _read_text(self.root / file.name, block_bytes)

    def text(self) -> str:
        """The whole text as one string, `num_bytes` of UTF-8. For a corpus that fits in memory."""
        return "".join(self.pieces())

    def split(self, valid_fraction: float) -> tuple["Corpus", "Corpus"]:
        """(train, valid): about `valid_fraction` of the files, not of the bytes, go to valid.

        Whole files move, since neighboring windows of one file would leak. Which ones depends on
        the hash of each name: a file keeps its side when others are added, as long as neither side
        would be empty. ValueError for a share outside 0 to 1, both ends excluded, and for a corpus of
        one file.
        """
        if not 0 < valid_fraction < 1:
            raise ValueError(f"valid_fraction must lie between 0 and 1, got {valid_fraction}")
        if len(self.files) < 2:
            raise ValueError(
                f"a split by file needs 2 files or more, {self.root} has {len(self.files)}: "
                f"cut the text into several files"
            )
        by_draw = sorted(self.files, key=_draw)
        num_valid = sum(_draw(file) < valid_fraction for file in self.files)
        num_valid = min(max(num_valid, 1), len(self.files) - 1)
        return self._with_files(by_draw[num_valid:]), self._with_files(by_draw[:num_valid])

    def _with_files(self, files: list[TextFile]) -> "Corpus":
        return replace(self, files=tuple(sorted(files, key=lambda file: file.name)))

    def __repr__(self) -> str:
        return f"Corpus({self.root.name}: {len(self.files)} files, {self.num_bytes / 1e6:.2f} MB)"


def _draw(file: TextFile) -> float:
    """A number in [0, 1) that depends on the name alone; `hash` would change from run to run."""
    return int.from_bytes(hashlib.sha256(os.fsencode(file.name)).digest()[:6], "big") / 2**48


def _read_text(path: Path, block_bytes: int) -> Iterator[str]:
    """Text of one file in pieces. Line ends stay as they are, so the bytes add up."""
    decoder = codecs.getincrementaldecoder("utf-8")()  # keeps half a character for the next block
    with path.open("rb") as stream:
        while block := stream.read(block_bytes):
            if piece := decoder.decode(block):
                yield piece
    decoder.decode(b"", final=True)


def _is_text(path: Path) -> bool:
    """Whether the whole file can be read, is UTF-8 and has no zero byte."""
    try:
        return all("\0" not in piece for piece in _read_text(path, BLOCK_BYTES))
    except (OSError, UnicodeDecodeError):
        return False


def _scan(
    root: Path, suffixes: tuple[str, ...], exclude: frozenset[str], exclude_starts: tuple[str, ...]
) -> Corpus:
    """Walk the folder and keep what is text."""
    files, skipped, seen = [], [], Counter()
    for name in _names(root, exclude, exclude_starts):
        path = root / name
        seen[path.suffix.lower() or "without suffix"] += 1
        if not name.lower().endswith(suffixes):
            continue
        if not path.is_file() or not _is_text(path):  # in this order: opening a pipe would wait
            skipped.append(name)
        elif num_bytes := path.stat().st_size:
            files.append(TextFile(name=name, num_bytes=num_bytes))
    if not files:
        raise ValueError(_nothing_found(root, suffixes, skipped, seen))
    return Corpus(root=root, files=tuple(files), skipped=tuple(skipped))


def _names(root: Path, exclude: frozenset[str], exclude_starts: tuple[str, ...]) -> list[str]:
    """Names of all files below root, sorted."""
    starts = (".", *exclude_starts)
    names = []
    for folder, subfolders, filenames in os.walk(root):
        # assigning to the slice tells os.walk where not to go
        subfolders[:] = [
            name for name in subfolders if name not in exclude and not name.startswith(starts)
        ]
        below = Path(folder).relative_to(root)
        names += [(below / name).as_posix() for name in filenames if not name.startswith(starts)]
    return sorted(names)


def _nothing_found(
    root: Path, suffixes: tuple[str, ...], skipped: list[str], seen: Counter[str]
) -> str:
    """One sentence: what was looked for, what was found, what to do."""
    wanted = f"expected UTF-8 text files ending in {', '.join(suffixes)} below {root}"
    if skipped:
        return (
            f"{wanted}, found {len(skipped)} with such a name but none that is UTF-8 text "
            f"(the first: {skipped[0]}): convert them to UTF-8, or choose another folder"
        )
    if not seen:
        return f"{wanted}, found no files at all: put text files there, or choose another folder"
    if any(seen[suffix] for suffix in suffixes):
        return f"{wanted}, found only empty ones: put text into them, or choose another folder"
    kinds = ", ".join(f"{count} {suffix}" for suffix, count in seen.most_common(4))
    return (
        f"{wanted}, found {seen.total()} other files ({kinds}): put text files there, "
        f"choose another folder, or pass suffixes=(...)"
    )
