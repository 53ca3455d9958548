"""Batches of token windows, for one rank of any number of ranks.

What it is: `window_starts` draws where windows begin, `rows_of_rank` gives each rank its part,
`get_batch` gathers the windows without a Python loop, and `BatchLoader` joins the three. What it
leaves out: tokenizing (token_store.py), moving batches to a device.

The windows form one endless sequence that depends on the seed alone: window 0, 1, 2, ... A batch of
B on each of R ranks takes the next B * R of them, so one rank with a large batch, several ranks
with small ones, and one rank that accumulates several batches all train on the same windows.
"""

import zlib

import numpy as np
import torch
from torch import Tensor

from course_lib.data.token_store import TokenStore

SAMPLE = 4096  # tokens at both ends of the data that tell whether a state belongs to it


def window_starts(first: int, count: int, *, num_starts: int, seed: int) -> np.ndarray:
    """(count,) int64 in 0..num_starts - 1: starts of the windows first, first + 1, ... of a seed.

    Drawn with replacement. Jumping to any window takes no longer than beginning at 0.
    """
    bits = np.random.PCG64(seed)
    bits.advance(first)
    # the remainder prefers small numbers by num_starts / 2**64, which no data set can show
    return (bits.random_raw(count) % np.uint64(num_starts)).astype(np.int64)


def rows_of_rank(starts: np.ndarray, *, rank: int, world_size: int) -> np.ndarray:
    """This rank's part of a global batch: (B * world_size,) to (B,).

    Rank r gets the r-th block of B starts, counted from 0, in the dtype of `starts`: joined by
    rank, the parts are `starts`. B may be 0. Raises ValueError if the starts cannot be shared out
    evenly, or if rank is not in 0..world_size - 1. With a world_size of 0 or less, every rank
    raises it.
    """
    if not 0 <= rank < world_size:
        raise ValueError(f"rank must be in 0..{world_size - 1}, got {rank}")
    if len(starts) % world_size:
        raise ValueError(
            f"{len(starts)} windows cannot be shared out evenly among {world_size} ranks: choose "
            f"a global batch that is a multiple of {world_size}"
        )
    share = len(starts) // world_size
    return starts[rank * share : (rank + 1) * share]


def get_batch(tokens: np.ndarray, starts: np.ndarray, seq_len: int) -> tuple[Tensor, Tensor]:
    """Windows of (N,) uint16 tokens: (idx, targets), two int64 tensors of shape (B, seq_len).

    idx[b, t] is tokens[starts[b] + t]; targets[b, t] is the token after it. `starts` is (B,)
    int64 in 0..N - seq_len - 1: a window takes seq_len + 1 tokens. `tokens` is contiguous, maybe
    a mapped file of many gigabytes: only the windows are copied. Each tensor has memory of its
    own, which no other tensor and no other call uses. The arguments stay as they are.
    """
    # a view of all windows, each one token after the one before; sliding_window_view(tokens,
    # seq_len + 1) is the same, and its checks cost some microseconds per call
    shape, step = (len(tokens) - seq_len, seq_len + 1), tokens.itemsize
    windows = np.ndarray(shape, tokens.dtype, buffer=tokens, strides=(step, step))
    rows = windows[starts]  # copies B rows, 2 bytes a token
    idx, targets = rows[:, :-1].astype(np.int64), rows[:, 1:].astype(np.int64)
    return torch.from_numpy(idx), torch.from_numpy(targets)


class BatchLoader:
    """Endless batches of one rank, the same for the same seed on every machine.

    `tokens`: a 1-D uint16 array, a memmap, or `TokenStore`, in which no window crosses two files.
    `vocab_size`, when given, is the model's: ids beyond it are refused instead of crashing there.
    ValueError for such ids, for sizes below 1, a rank outside 0..world_size - 1, a seed below 0, and
    when no row of tokens is as long as a window, which takes seq_len + 1.
    """

    def __init__(
        self,
        tokens: np.ndarray | TokenStore,
        *,
        batch_size: int,
        seq_len: int,
        rank: int = 0,
        world_size: int = 1,
        seed: int = 0,
        vocab_size: int | None = None,
    ):
        _check_sizes(batch_size=batch_size, seq_len=seq_len, world_size=world_size)
        if not 0 <= rank < world_size:
            raise ValueError(f"rank must be in 0..{world_size - 1}, got {rank}")
        if seed < 0:
            raise ValueError(f"seed must be at least 0, got {seed}")
        self.batch_size, self.seq_len, self.vocab_size = batch_size, seq_len, vocab_size
        self.rank, self.world_size, self.seed = rank, world_size, seed
        self.next_window = 0
        parts = _parts(tokens, vocab_size)
        self._parts = [part for part in parts if len(part) > seq_len]
        if not self._parts:
            raise ValueError(
                f"a window takes seq_len + 1 = {seq_len + 1} tokens, the longest row of tokens has "
                f"{max(map(len, parts), default=0)}: use more text or a smaller seq_len"
            )
        # ends[i] is the number of starts in the parts up to i
        self._ends = np.cumsum([len(part) - seq_len for part in self._parts])
        self._data = _sample(self._parts)

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """(idx, targets), each (B, T) int64 on the CPU; targets[b, t] follows idx[b, t]."""
        count = self.batch_size * self.world_size
        starts = window_starts(
            self.next_window, count, num_starts=int(self._ends[-1]), seed=self.seed
        )
        idx, targets = self._gather(
            rows_of_rank(starts, rank=self.rank, world_size=self.world_size)
        )
        if self.vocab_size is not None:
            _check_ids(idx, targets, self.vocab_size)
        self.next_window += count
        return idx, targets

    def state_dict(self) -> dict:
        """Where the sequence of windows stands, and what it is a sequence of; plain numbers."""
        return {"next_window": self.next_window, **self._sequence()}

    def load_state_dict(self, state: dict) -> None:
        """Go on where `state` was taken.

        ValueError when it has another seed, seq_len or number of tokens, or a text whose first or last
        4,096 tokens differ: its windows are others. Tokens in the middle are not compared.
        batch_size, rank and world_size may differ: they cut the same windows in another way.
        """
        expected = self._sequence()
        if not isinstance(state, dict) or state.keys() != {"next_window", *expected}:
            raise ValueError(
                f"expected the state of a BatchLoader, with next_window, {', '.join(expected)}, "
                f"got {state!r:.80}: pass what state_dict() returned"
            )
        for name, value in expected.items():
            if state[name] != value:
                raise ValueError(
                    f"the state was made with {name} {state[name]}, this loader has {value}: its "
                    f"windows are others; make the loader with the settings and the text of the "
                    f"run that is resumed, or begin a new run"
                )
        self.next_window = int(state["next_window"])

    def _sequence(self) -> dict:
        """What decides which windows come: everything but the way they are cut into batches."""
        num_tokens = sum(map(len, self._parts))
        return {
            "seed": self.seed,
            "seq_len": self.seq_len,
            "num_tokens": num_tokens,
            "sample_crc32": self._data,
        }

    def _gather(self, starts: np.ndarray) -> tuple[Tensor, Tensor]:
        if len(self._parts) == 1:
            return get_batch(self._parts[0], starts, self.seq_len)
        idx, targets = torch.empty(2, len(starts), self.seq_len, dtype=torch.int64).unbind()
        part_of = np.searchsorted(self._ends, starts, side="right")
        for i in np.unique(part_of):
            (rows,) = np.nonzero(part_of == i)
            first = self._ends[i - 1] if i else 0
            idx[rows], targets[rows] = get_batch(self._parts[i], starts[rows] - first, self.seq_len)
        return idx, targets


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")


def _parts(tokens: np.ndarray | TokenStore, vocab_size: int | None) -> tuple[np.ndarray, ...]:
    """The rows of tokens inside which windows may lie."""
    if isinstance(tokens, TokenStore):
        if vocab_size is not None and tokens.vocab_size > vocab_size:
            raise ValueError(
                f"{tokens} holds ids up to {tokens.vocab_size - 1}, the model's vocab_size is "
                f"{vocab_size}: make the model with vocab_size={tokens.vocab_size}, or tokenize "
                f"with its own tokenizer"
            )
        return tokens.arrays
    tokens = np.asarray(tokens)
    if tokens.ndim != 1 or tokens.dtype != np.uint16:
        raise ValueError(
            f"expected one row of uint16 tokens, got {tokens.dtype} of shape {tokens.shape}: in "
            f"int16 the ids from 32,768 on are negative, and wider ids take more memory; use "
            f"course_lib.data.token_store.pretokenize or .astype(np.uint16)"
        )
    return (np.ascontiguousarray(tokens),)


def _check_ids(idx: Tensor, targets: Tensor, vocab_size: int) -> None:
    top = max(int(idx.max()), int(targets.max()))
    if top >= vocab_size:
        raise ValueError(
            f"a batch holds token id {top}, the model's vocab_size is {vocab_size}: the tokens "
            f"come from another tokenizer; use the one that wrote them, or a larger vocab_size"
        )


def _sample(parts: list[np.ndarray]) -> int:
    """Checksum of the first and the last tokens, so that other text of equal length is noticed."""
    ends = (np.ascontiguousarray(p) for p in (parts[0][:SAMPLE], parts[-1][-SAMPLE:]))
    return zlib.crc32(b"".join(end.tobytes() for end in ends))
