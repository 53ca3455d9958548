"""Text to token ids and back, with a byte-pair vocabulary of 8,192 that ships with the course.

What it is: tiktoken's encoder over our own ranks, checked by their sha256 when they are read. What
it leaves out: training the ranks (data/train_ranks.py), chat formats, padding. Nothing here touches
the network except `Tokenizer.gpt2`, and that gives up within seconds.

A rank file is text, one token a line: the bytes of the token in base64, a space, its rank. The
lower rank is merged first, and the rank is the token's id.
"""

import base64
import hashlib
import json
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import tiktoken

from course_lib.data import gpt2_words

COURSE_RANKS = Path(__file__).parent / "assets" / "course_8192.tiktoken"
END_OF_TEXT = "<|endoftext|>"
MAX_VOCAB_SIZE = 2**16  # ids are stored as uint16

# How GPT-2 cuts text into words before it merges: contractions, letters, digits, other signs, each
# with one leading space at most, and runs of white space. Written as tiktoken has it.
GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


class Tokenizer:
    """Byte-pair tokenizer: any text can be encoded, and decodes to itself.

    Make one with `Tokenizer.course()` or `Tokenizer.gpt2()`; with `Tokenizer(ranks)` from ranks of
    your own. Half of a surrogate pair, which is no text, becomes U+FFFD. It can be pickled, so it
    travels to worker processes.
    """

    def __init__(self, ranks: dict[bytes, int], *, name: str = "own"):
        """`ranks`: token bytes to id, ids 0..n-1, all 256 single bytes among them.

        The id n becomes the end of text, so the vocabulary has n + 1 ids. ValueError for more than
        65,536 of them, and for ranks that are not as said.
        """
        if len(ranks) + 1 > MAX_VOCAB_SIZE:
            raise ValueError(
                f"ids are kept as uint16, so a vocabulary has at most {MAX_VOCAB_SIZE} ids: got "
                f"{len(ranks)} ranks and the end of text; use fewer ranks"
            )
        num_bytes = sum(bytes([value]) in ranks for value in range(256))
        if num_bytes < 256 or sorted(ranks.values()) != list(range(len(ranks))):
            raise ValueError(
                f"expected ranks 0..{len(ranks) - 1}, each once, with all 256 single bytes among "
                f"the tokens: got {len(ranks)} tokens, {num_bytes} single bytes, highest rank "
                f"{max(ranks.values(), default=None)}; train them with course_lib.data.train_ranks"
            )
        self.name = name
        self._encoding = tiktoken.Encoding(
            name,
            pat_str=GPT2_PATTERN,
            mergeable_ranks=ranks,
            special_tokens={END_OF_TEXT: len(ranks)},
        )

    @classmethod
    def course(cls) -> "Tokenizer":
        """The course's tokenizer: 8,192 ids, trained on the Python standard library. No network."""
        # not tiktoken.load.load_tiktoken_bpe: it caches by path, and a new file gives the old ranks
        ranks, _ = read_ranks(COURSE_RANKS)
        return cls(ranks, name="course")

    @classmethod
    def gpt2(cls, timeout_s: float = 5) -> "Tokenizer":
        """GPT-2's tokenizer, 50,257 ids, from tiktoken's cache or the network.

        ConnectionError after `timeout_s` seconds at most when the table is in neither.
        """
        from course_lib.data.gpt2_ranks import gpt2_ranks

        return cls(gpt2_ranks(timeout_s=timeout_s), name="gpt2")

    @property
    def vocab_size(self) -> int:
        """V, number of ids, the end of text included."""
        return self._encoding.n_vocab

    @property
    def end_of_text(self) -> int:
        """Id that separates documents; `encode` never returns it, the caller puts it in between."""
        return self._encoding.eot_token

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the vocabulary: two tokenizers with the same one give the same ids."""
        digest = hashlib.sha256(GPT2_PATTERN.encode())
        for id in range(self.vocab_size):
            token = self._encoding.decode_single_token_bytes(id)
            digest.update(len(token).to_bytes(4, "big") + token)
        return digest.hexdigest()

    def encode(self, text: str) -> list[int]:
        """Ids of a text. The words "<|endoftext|>" inside a text are ordinary text."""
        return self.encode_to_array(text).tolist()

    def encode_to_array(self, text: str) -> np.ndarray:
        """Ids of a text as (num_tokens,) uint16: 2 bytes each. In int16, id 32,768 is negative."""
        try:
            ids = self._encode(text)
        except UnicodeEncodeError:  # half a surrogate pair, which UTF-8 cannot write
            ids = self._encode(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        return ids.astype(np.uint16)

    @cached_property
    def _marks_encoding(self) -> tiktoken.Encoding:
        """The same ranks for a text with marks in it; a mark becomes the id `vocab_size`."""
        ranks = self._encoding._mergeable_ranks | {gpt2_words.MARK.encode(): self.vocab_size}
        special = {END_OF_TEXT: self.end_of_text}  # with none, tiktoken is slower
        return tiktoken.Encoding(
            self.name, pat_str=gpt2_words.PATTERN, mergeable_ranks=ranks, special_tokens=special
        )

    def _encode(self, text: str) -> np.ndarray:
        if gpt2_words.MARK not in text:
            ids = self._marks_encoding.encode_to_numpy(gpt2_words.mark(text), disallowed_special=())
            return ids[ids != self.vocab_size]
        try:
            return self._encoding.encode_to_numpy(text, disallowed_special=())
        except UnicodeEncodeError:  # a ValueError too, but encode_to_array knows what to do
            raise
        except ValueError as error:
            raise ValueError(
                f"tiktoken gave up on a text of {len(text)} characters, as it does on hundreds of "
                f"thousands of spaces or line ends in a row: shorten such runs"
            ) from error

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids given as a list, a 1-D array or a 1-D tensor.

        Ids that a model made may begin or end inside a character: its bytes become U+FFFD.
        ValueError for an id outside 0..vocab_size-1, and for a batch.
        """
        try:
            ids = [*map(operator.index, ids.tolist() if hasattr(ids, "tolist") else ids)]
        except TypeError:
            raise ValueError(
                f"expected integer ids in one dimension, got {ids!r:.60}: pass one row of a "
                f"batch, as a list, an array or a tensor of integers"
            ) from None
        if ids and not 0 <= min(ids) <= max(ids) < self.vocab_size:
            position = next(i for i, id in enumerate(ids) if not 0 <= id < self.vocab_size)
            raise ValueError(
                f"expected ids 0..{self.vocab_size - 1}, got {ids[position]} at position "
                f"{position}: decode with the tokenizer that encoded, and give the model a "
                f"vocab_size of {self.vocab_size}"
            )
        return self._encoding.decode(ids, errors="replace")

    def __repr__(self) -> str:
        return f"Tokenizer({self.name}: {self.vocab_size:,} ids, end_of_text {self.end_of_text})"


@dataclass(frozen=True, kw_only=True)
class CharTokenizer:
    """One id per character: `first` plus its code point. For examples small enough to read.

    It does not guard against its own size: as an array, ids from 65,536 on wrap around.
    """

    vocab_size: int = 129
    first: int = 0

    @property
    def end_of_text(self) -> int:
        """The highest id."""
        return self.vocab_size - 1

    def encode(self, text: str) -> list[int]:
        """Ids of a text."""
        return [self.first + ord(character) for character in text]

    def encode_to_array(self, text: str) -> np.ndarray:
        """Ids of a text as (num_tokens,) uint16."""
        return np.array(self.encode(text), dtype=np.int64).astype(np.uint16)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids."""
        return "".join(chr(int(id) - self.first) for id in ids)


def read_ranks(path: Path) -> tuple[dict[bytes, int], dict]:
    """(ranks, record): the ranks of a file, and the JSON beside it that holds the file's sha256.

    ValueError when either is missing or the digests differ, so a file that was cut short or
    exchanged is never used: other ranks would give a trained model other words.
    """
    record_path = path.with_suffix(".json")
    what_to_do = (
        "restore both files from the repository, or write them with course_lib.data.train_ranks"
    )
    try:
        data = path.read_bytes()
        record = json.loads(record_path.read_bytes())
        expected = record["sha256"]
    except FileNotFoundError as error:
        raise ValueError(
            f"expected a rank file at {error.filename}, found none: {what_to_do}"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"expected JSON with a sha256 in {record_path}, got something else: {what_to_do}"
        ) from None
    digest = hashlib.sha256(data).hexdigest()
    if digest != expected:
        raise ValueError(
            f"expected {record.get('num_ranks')} ranks with sha256 {expected[:12]}... in {path}, "
            f"got {len(data.splitlines())} lines with sha256 {digest[:12]}...: the file was cut "
            f"short or exchanged; {what_to_do}"
        )
    return parse_ranks(data), record


def parse_ranks(data: bytes) -> dict[bytes, int]:
    """Token bytes to rank, from lines of base64, space, rank."""
    pairs = (line.split() for line in data.splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def write_ranks(path: Path, ranks: dict[bytes, int], made_from: dict) -> None:
    """Write a rank file and the record beside it: sha256, number of ranks, and `made_from`."""
    lines = (b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks.items())
    data = b"".join(lines)
    digest = hashlib.sha256(data).hexdigest()
    record = {"sha256": digest, "num_ranks": len(ranks), "pattern": GPT2_PATTERN} | made_from
    path.write_bytes(data)
    path.with_suffix(".json").write_bytes(json.dumps(record, indent=2).encode() + b"\n")
