"""Text to token shards on disk, and the shards as one long row of tokens.

What it is: `pretokenize` encodes documents once, into files of uint16 ids (token_file.py);
`TokenStore` opens such a folder. What it leaves out: batches (batches.py).

    folder/plan.json          what is tokenized, with which vocabulary: written first
    folder/shard_00000.bin    shard_tokens ids each, the last one fewer
    folder/index.json         written last: without it the folder is unfinished

The text is read in groups of about 1 MB. Threads encode groups ahead (tiktoken releases Python's
lock while it works), one thread writes them in order, so the bytes do not depend on their number.
Each shard records the group at which the next one begins. A run that was killed goes on there.
"""

import contextlib
import errno
import fcntl
import json
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from tqdm import tqdm

from course_lib.data.corpus import BLOCK_BYTES, Corpus
from course_lib.data.documents import CorpusDocuments, Documents, Group, groups
from course_lib.data.token_file import TokenFileWriter, map_tokens, read_header
from course_lib.data.tokenizer import MAX_VOCAB_SIZE, Tokenizer
from course_lib.runs.atomic import SUFFIX, write_whole
from course_lib.runs.machine import usable_cores

SHARD_TOKENS = 100_000_000  # 200 MB a file
LEFTOVERS = (".tmp", ".lock", SUFFIX)  # no tokens: the lock, and what a killed process left
FORMAT = 1
PLAN, INDEX, LOCK = "plan.json", "index.json", "tokenizing.lock"


def encode_documents(documents: Iterable[str], tokenizer: Tokenizer) -> np.ndarray:
    """Ids of all documents in one row, the end of text after each: (num_tokens,) uint16.

    `tokenizer.encode_to_array(text)` gives the ids of one text as a uint16 array. Do not change it:
    the tokenizer may cache it. `tokenizer.end_of_text` is the id that marks an end. If
    there are no documents, the row is empty. Raises ValueError if `tokenizer.vocab_size` exceeds
    65,536: a cast to 16 bits would wrap larger ids around without any error.
    """
    if tokenizer.vocab_size > MAX_VOCAB_SIZE:
        raise ValueError(
            f"uint16 holds ids 0..{MAX_VOCAB_SIZE - 1}, the vocabulary has {tokenizer.vocab_size}: "
            f"use a smaller one"
        )
    end = np.array([tokenizer.end_of_text], dtype=np.uint16)
    rows = [np.empty(0, dtype=np.uint16)]  # concatenate refuses to join nothing
    for text in documents:
        rows += [tokenizer.encode_to_array(text), end]
    return np.concatenate(rows)


def pretokenize(
    corpus: Corpus | Documents,
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    shard_tokens: int = SHARD_TOKENS,
    threads: int | None = None,
    progress: bool = True,
) -> "TokenStore":
    """Tokenize the documents into `folder`, or what is still missing there, and open it.

    Every shard but the last holds `shard_tokens` ids. Finished shards are kept when a run is
    killed. While another process writes the folder, this one waits and says so, where the file
    system knows locks; elsewhere start one at a time. `threads`: default, one for each core.
    Memory stays near 20 MB a thread, whatever the size of the text. ValueError when the folder
    holds tokens of another text or vocabulary; OSError when the disk is full.
    """
    source = CorpusDocuments(corpus) if isinstance(corpus, Corpus) else corpus
    threads = usable_cores() if threads is None else threads
    if shard_tokens < 1 or threads < 1:
        raise ValueError(
            f"shard_tokens and threads must be at least 1, got {shard_tokens} and {threads}"
        )
    folder = Path(folder).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    finished = (folder / INDEX).exists()  # it may be a folder that others can only read
    with contextlib.nullcontext() if finished else _hold(folder):
        _record_plan(folder, _plan(source, tokenizer, shard_tokens))
        if not (folder / INDEX).exists():
            bar = tqdm(
                total=source.num_bytes,
                unit="B",
                unit_scale=True,
                desc="tokenizing",
                disable=not progress,
            )
            with bar:
                counts = _write_shards(source, tokenizer, folder, shard_tokens, threads, bar)
            _write_json(folder / INDEX, {"format": FORMAT, "counts": counts})
    return TokenStore.open(folder, tokenizer)


@contextlib.contextmanager
def _hold(folder: Path) -> Iterator[None]:
    """The folder is this process's alone; the kernel frees it however the process ends."""
    with (folder / LOCK).open("w") as held:
        with contextlib.suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"another process writes tokens into {folder}: waiting for it",
                      file=sys.stderr, flush=True)  # fmt: skip
                fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _write_shards(source, tokenizer, folder, shard_tokens, threads, bar) -> list[int]:
    """Write the shards that are missing; the number of tokens of each, all of them."""
    counts, group, offset = _read_progress(folder)
    vocabulary = _vocabulary(tokenizer)
    writer = None
    try:
        for number, ids in _encode_groups(source, tokenizer, threads, group, bar):
            while offset < len(ids):
                writer = writer or TokenFileWriter(_path(folder, len(counts)), shard_tokens)
                offset += writer.write(ids[offset:])
                if writer.full:
                    writer.finish(next_group=number, next_offset=offset, **vocabulary)
                    counts.append(writer.num_tokens)
                    writer = None
            group, offset = number + 1, 0
        if writer:
            writer.finish(next_group=group, next_offset=0, **vocabulary)
            counts.append(writer.num_tokens)
    except BaseException as error:
        if writer:
            writer.abandon()
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise OSError(
                error.errno,
                f"the disk is full after {len(counts)} shards in {folder}: free some space and run "
                f"it again, the finished shards are kept",
            ) from error
        raise
    if not counts:
        raise ValueError("expected text to tokenize, found no document that is not empty")
    return counts


def _read_progress(folder: Path) -> tuple[list[int], int, int]:
    """(tokens of each shard that is there, group and offset at which the next one begins)."""
    counts, group, offset = [], 0, 0
    while (path := _path(folder, len(counts))).exists():
        header = read_header(path)
        counts.append(header.num_tokens)
        group, offset = header.next_group, header.next_offset
    return counts, group, offset


def _encode_groups(source, tokenizer, threads, first, bar) -> Iterator[tuple[int, np.ndarray]]:
    """(number, ids) of each group from `first` on, in order, a few groups ahead of the reader."""
    ahead: deque = deque()
    stream = enumerate(groups(source.pieces()))
    for _, group in islice(stream, first):  # read again, which is fast, and not encoded again
        bar.update(group.num_bytes)
    with ThreadPoolExecutor(threads) as pool:
        # pool.map would take in the whole text at once; this window holds 2 groups a thread
        for number, group in stream:
            ahead.append((number, group, pool.submit(_encode, group, tokenizer)))
            if len(ahead) > 2 * threads:
                yield _take(ahead, bar)
        while ahead:
            yield _take(ahead, bar)


def _take(ahead: deque, bar: tqdm) -> tuple[int, np.ndarray]:
    number, group, future = ahead.popleft()
    ids = future.result()
    bar.update(group.num_bytes)
    return number, ids


def _encode(group: Group, tokenizer: Tokenizer) -> np.ndarray:
    try:
        ids = encode_documents(group.texts, tokenizer)
    except ValueError as error:
        raise ValueError(f"in or before {group.name}: {error}") from error
    return ids if group.ends else ids[:-1]  # a document goes on in the next group


@dataclass(frozen=True, kw_only=True)
class TokenStore:
    """A folder of shards, mapped into memory: pages are read when they are touched."""

    folder: Path
    arrays: tuple[np.ndarray, ...]
    """One (n,) uint16 per shard, read-only."""
    vocab_size: int
    end_of_text: int
    vocab_sha256: str

    @classmethod
    def open(
        cls, folder: str | Path, tokenizer: Tokenizer | None = None, *, verify: bool = True
    ) -> "TokenStore":
        """The shards of a finished folder.

        `verify` reads every token once against its checksum. ValueError,
        naming the file, when one is missing, foreign, cut short or damaged, and when the
        vocabulary is not that of `tokenizer`.
        """
        folder = Path(folder).expanduser()
        index = _read_index(folder)
        paths = [_path(folder, number) for number in range(len(index["counts"]))]
        headers = [read_header(path) for path in paths]
        for path, header, count in zip(paths, headers, index["counts"], strict=True):
            if (header.num_tokens, header.vocab_sha256) != (count, headers[0].vocab_sha256):
                raise ValueError(
                    f"{path} belongs to another folder than {INDEX} beside it: "
                    f"delete {folder} and run pretokenize again"
                )
            if tokenizer:
                _same_vocabulary(path, header, tokenizer)
        pairs = zip(paths, headers, strict=True)
        return cls(
            folder=folder,
            arrays=tuple(map_tokens(path, header, verify=verify) for path, header in pairs),
            vocab_size=headers[0].vocab_size,
            end_of_text=headers[0].end_of_text,
            vocab_sha256=headers[0].vocab_sha256.hex(),
        )

    @property
    def num_tokens(self) -> int:
        return sum(map(len, self.arrays))

    def __len__(self) -> int:
        return self.num_tokens

    def preload(self) -> np.ndarray:
        """A copy of all tokens in memory, (num_tokens,) uint16, 2 bytes each."""
        return np.concatenate(self.arrays)

    def __repr__(self) -> str:
        return (
            f"TokenStore({self.folder.name}: {self.num_tokens:,} tokens in {len(self.arrays)} "
            f"files, {self.vocab_size:,} ids)"
        )


def _same_vocabulary(path: Path, header, tokenizer: Tokenizer) -> None:
    if header.vocab_sha256.hex() != tokenizer.sha256:
        raise ValueError(
            f"{path} was written with a vocabulary of {header.vocab_size:,} ids, sha256 "
            f"{header.vocab_sha256.hex()[:12]}..., and {tokenizer} has {tokenizer.sha256[:12]}...: "
            f"open it with the tokenizer that wrote it, or tokenize again into another folder"
        )


def _vocabulary(tokenizer: Tokenizer) -> dict:
    return dict(
        vocab_size=tokenizer.vocab_size,
        end_of_text=tokenizer.end_of_text,
        vocab_sha256=bytes.fromhex(tokenizer.sha256),
    )


def _plan(source: Documents, tokenizer: Tokenizer, shard_tokens: int) -> dict:
    return {
        "format": FORMAT,
        "text": source.fingerprint(),
        "vocabulary": tokenizer.sha256,
        "shard_tokens": shard_tokens,
        "group_bytes": BLOCK_BYTES,
    }


def _record_plan(folder: Path, plan: dict) -> None:
    """Write the plan into a new folder; ValueError when the folder was begun with another one."""
    path = folder / PLAN
    if not path.exists():
        if strange := sorted(p.name for p in folder.iterdir() if p.suffix not in LEFTOVERS):
            raise ValueError(
                f"expected an empty or a new folder, {folder} holds {strange[0]} and "
                f"no {PLAN}: choose another folder"
            )
        _write_json(path, plan)
    begun = _read_json(path)
    differs = [name for name in plan if begun.get(name) != plan[name]]
    if differs:
        raise ValueError(
            f"{folder} was begun with another {' and another '.join(differs)}: choose another "
            f"folder, or delete this one to tokenize again"
        )


def _read_index(folder: Path) -> dict:
    if not (folder / INDEX).is_file():
        done = len(list(folder.glob("shard_*.bin")))
        state = f"{done} shards but no" if done else "no"
        raise ValueError(
            f"expected a folder of token shards at {folder}, found {state} {INDEX}: make it with "
            f"course_lib.data.token_store.pretokenize, which also goes on where it was stopped"
        )
    index = _read_json(folder / INDEX)
    counts = index.get("counts")
    if index.get("format") != FORMAT or not isinstance(counts, list) or not counts:
        raise ValueError(
            f"{folder / INDEX} is not an index of this release: delete it and run pretokenize again"
        )
    return index


def _read_json(path: Path) -> dict:
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(
            f"expected JSON in {path}, got something else: delete {path.parent} and "
            f"run pretokenize again"
        )
    return found


def _write_json(path: Path, content: dict) -> None:
    write_whole(path, json.dumps(content, indent=2) + "\n", sync=True)


def _path(folder: Path, number: int) -> Path:
    return folder / f"shard_{number:05}.bin"
