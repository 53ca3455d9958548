"""A tokenizer whose ids are no characters, as those of a real one are not, and can be sent to a worker."""

import re
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, kw_only=True)
class ByteTokenizer:
    """One id for each byte of UTF-8, and 256 for "ab": more ids than characters, or fewer.

    The end of text may be any id, the first as well.
    """

    vocab_size: int = 300
    end_of_text: int = 0

    def encode(self, text: str) -> list[int]:
        """Ids of a text."""
        pieces = re.split("(ab)", text)
        return [id for piece in pieces for id in ([256] if piece == "ab" else piece.encode())]

    def encode_to_array(self, text: str) -> np.ndarray:
        """Ids of a text as (num_tokens,) uint16."""
        return np.array(self.encode(text), dtype=np.uint16)


@dataclass(frozen=True, kw_only=True)
class CachingTokenizer(ByteTokenizer):
    """The array of a text is made once, and given out again when the text comes again."""

    known: dict[str, np.ndarray] = field(default_factory=dict, compare=False)

    def encode_to_array(self, text: str) -> np.ndarray:
        """Ids of a text as (num_tokens,) uint16, the same array each time."""
        if text not in self.known:
            self.known[text] = ByteTokenizer.encode_to_array(self, text)
        return self.known[text]
