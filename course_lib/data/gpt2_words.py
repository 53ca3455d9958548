"""Where GPT-2's words end, marked in the text beforehand, so that no pattern has to look ahead.

What it is: `mark` and `PATTERN`, which together cut a text into the words of `GPT2_PATTERN`
(tokenizer.py). That pattern looks ahead in one place: a run of white space leaves its last
character to the word behind it. A regular expression that looks ahead runs in a slower engine, and
that costs about as much as all the rest of encoding (benchmarks/tokenizer.py). A pass over the
characters as numbers finds these places first. What it leaves out: merging, which is tiktoken's.
"""

import re

import numpy as np

MARK = "\U0010ffff"
"""Stands between white space and white space; Unicode gives it to nobody. It is its own word."""

PATTERN = MARK + r"|'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}" + MARK + r"]+|\s+"

# White space as Rust's \s has it. Python's takes four control characters more.
_SPACES = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_LAST = 0x3001  # the first number behind them all, and not one of them
_IS_SPACE = np.array([re.fullmatch(f"[{_SPACES}]", chr(n)) is not None for n in range(_LAST + 1)])


def mark(text: str) -> str:
    """`text` with a MARK in front of the last character of each run of white space, where a word
    follows the run and the run has two characters or more.

    Raises UnicodeEncodeError for half a surrogate pair. Memory: 15 to 18 bytes a character.
    """
    characters = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
    space = np.take(_IS_SPACE, characters, mode="clip")
    places = np.flatnonzero(space[:-2] & space[1:-1] & ~space[2:]) + 1
    return np.insert(characters, places, ord(MARK)).tobytes().decode("utf-32-le")
