"""One batch in four ways, from text in the loop to a gather: the data rungs of the speed ladder.

What it is: a byte-pair encoder in plain Python, slow on purpose, and a text whose windows can be
asked for as text or as tokens. Every way gives the same batch. What it leaves out: shards and ranks
(batches.py), and the tokenizer to use (tokenizer.py).
"""

from pathlib import Path

import numpy as np
import regex
import torch
from torch import Tensor

from course_lib.data.batches import get_batch, window_starts
from course_lib.data.corpus import Corpus
from course_lib.data.tokenizer import COURSE_RANKS, GPT2_PATTERN, Tokenizer, read_ranks

SPARE_PIECES = 4  # text kept behind a window: how white space is cut depends on what follows it


class SlowEncoder:
    """Text to ids as `Tokenizer` makes them, by the definition: merge the lowest rank, look again."""

    def __init__(self, ranks: dict[bytes, int]):
        self.ranks = ranks
        self.pattern = regex.compile(GPT2_PATTERN)

    @classmethod
    def course(cls) -> "SlowEncoder":
        """With the ranks of the course's tokenizer."""
        return cls(read_ranks(COURSE_RANKS)[0])

    def encode(self, text: str) -> list[int]:
        """Ids of a text."""
        return [id for piece in self.pattern.findall(text) for id in self._merge(piece.encode())]

    def _merge(self, piece: bytes) -> list[int]:
        parts = [bytes([byte]) for byte in piece]
        while len(parts) > 1:
            ranks = [self.ranks.get(a + b) for a, b in zip(parts, parts[1:], strict=False)]
            known = [rank for rank in ranks if rank is not None]
            if not known:
                break
            at = ranks.index(min(known))
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [self.ranks[part] for part in parts]


class WindowedText:
    """A text and its tokens, and windows of both that hold the same.

    Windows begin where a word does, so that a piece of the text alone gives the ids that the whole
    text has there. `folder` gets the file of tokens. ValueError for a text without a window
    of seq_len + 1 tokens.
    """

    def __init__(self, text: str, folder: str | Path, *, seq_len: int):
        self.text, self.seq_len, self.slow = text, seq_len, SlowEncoder.course()
        self.path = Path(folder) / "tokens.bin"
        tokenizer, lengths, counts, known = Tokenizer.course(), [], [], {}
        for piece in self.slow.pattern.findall(text):
            if piece not in known:
                known[piece] = len(tokenizer.encode(piece))
            lengths.append(len(piece))
            counts.append(known[piece])
        tokenizer.encode_to_array(text).tofile(self.path)
        self.tokens = np.memmap(self.path, dtype=np.uint16, mode="r")
        self.characters = np.cumsum([0, *lengths])
        self.pieces = np.cumsum([0, *counts])  # the token that each piece begins with
        assert self.pieces[-1] == len(self.tokens), "pieces and text give other tokens"
        self.num_starts = int(np.searchsorted(self.pieces, len(self.tokens) - seq_len)) - 1
        if self.num_starts < 1:
            raise ValueError(
                f"a window takes {seq_len + 1} tokens, the text has {len(self.tokens)}: use more "
                f"text or a smaller seq_len"
            )

    @classmethod
    def default(cls, folder: str | Path, *, seq_len: int, characters: int = 400_000):
        """The beginning of the default corpus."""
        text = ""
        for piece in Corpus.default().pieces():
            text += piece
            if len(text) >= characters:
                break
        return cls(text[:characters], folder, seq_len=seq_len)

    def batch(self, number: int, size: int, *, file: bool, gathered: bool) -> tuple[Tensor, Tensor]:
        """Batch `number` of `size` windows: (idx, targets), each (B, T) int64.

        file: tokens are read from the file; else made from the text, in Python.
        gathered: by strides, in one indexing; else a row at a time, with the file opened anew.
        """
        T = self.seq_len
        which = window_starts(number * size, size, num_starts=self.num_starts, seed=0)
        if not file:
            rows = [self.slow.encode(self._text(i))[: T + 1] for i in which]
            tokens, starts = np.array(rows, dtype=np.uint16).ravel(), np.arange(size) * (T + 1)
        else:
            tokens = self.tokens if gathered else np.memmap(self.path, dtype=np.uint16, mode="r")
            starts = self.pieces[which]
        if gathered:
            return get_batch(tokens, starts, T)
        rows = [torch.from_numpy(tokens[s : s + T + 1].astype(np.int64)) for s in starts]
        return torch.stack([row[:-1] for row in rows]), torch.stack([row[1:] for row in rows])

    def _text(self, start: int) -> str:
        """The text that the window from piece `start` lies in, and a little more."""
        last = np.searchsorted(self.pieces, self.pieces[start] + self.seq_len + 1) + SPARE_PIECES
        end = self.characters[min(last, len(self.characters) - 1)]
        return self.text[self.characters[start] : end]
