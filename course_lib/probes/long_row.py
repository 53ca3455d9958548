"""Which places of a very long row of tokens an answer asks for.

What it is: a probe with a row of 2**31 + 1000 tokens in 2 bytes of memory, all of them the same one.
What it leaves out: answers that get at tokens without an index (`take`, `from_numpy`), which would
make a copy of such a row, and get none.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

LENGTH = 2**31 + 1000


class _Row(np.ndarray):
    """Notes the integers by which it is indexed: one, an array of them, or the ends of a slice."""

    places: list[int]

    def __getitem__(self, key: Any) -> Any:
        self.places += _integers(key)
        return np.asarray(self)[key]


def _integers(key: Any) -> list[int]:
    if isinstance(key, slice):
        ends = (key.start, key.stop)
        return list(range(*map(int, ends))) if None not in ends and ends[1] - ends[0] < 100 else []
    values = np.asarray(key) if key is not None and key is not Ellipsis else np.empty(0)
    return values.ravel().tolist() if values.dtype.kind in "iu" else []


def _row_of(length: int) -> _Row:
    one = np.array([7], dtype=np.uint16)
    row = np.lib.stride_tricks.as_strided(one, shape=(length,), strides=(0,)).view(_Row)
    row.places = []
    return row


def places_asked_for(answer: Callable, starts: Sequence[int], seq_len: int) -> list[int]:
    """The places of a row of LENGTH tokens that `answer(row, starts, seq_len)` indexes it by; empty
    where that is not how it gets at each token of a short row."""
    short, row, near = _row_of(1000), _row_of(LENGTH), [900, 400, 17]
    with contextlib.suppress(Exception):  # the other checks say what is wrong
        answer(short, np.array(near), seq_len)
        if set(short.places) >= {s + t for s in near for t in range(seq_len + 1)}:
            answer(row, np.array(starts), seq_len)
    return row.places
