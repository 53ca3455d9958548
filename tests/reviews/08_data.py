"""Proofs of the review items of 08_data."""

import numpy as np
import pytest

from course_lib.data.batches import get_batch, rows_of_rank
from course_lib.data.token_store import encode_documents


def pretokenize_1(n):
    return int(np.array(n.token).astype(np.int16))


def pretokenize_2(n):
    other = eval(n.other, {"np": np})
    return str(np.concatenate((np.zeros(3, dtype=np.uint16), other)).dtype)


def pretokenize_3(n):
    class Tokens:
        vocab_size, end_of_text = 100, 99

        def encode_to_array(self, text):
            return np.zeros(len(text), dtype=np.uint16)

    return len(encode_documents(["x" * n.t] * n.n, Tokens()))


def get_batch_1(n):
    tokens = np.zeros(n.N, dtype=np.uint16)
    last = n.N - n.T - 1
    get_batch(tokens, np.array([last]), n.T)
    with pytest.raises(IndexError):
        get_batch(tokens, np.array([last + 1]), n.T)
    return [last + 1, last]


def get_batch_2(n):
    row = np.zeros(5000, dtype=np.uint16)
    windows = np.lib.stride_tricks.sliding_window_view(row, n.T + 1)
    assert np.shares_memory(windows, row) and windows.strides == (2, 2)
    return windows[np.arange(n.B)].nbytes


def get_batch_3(n):
    drawn = np.random.RandomState(0).choice(1000, n.B, replace=False)
    assert (drawn == np.random.RandomState(0).permutation(1000)[: n.B]).all()
    return n.N


def shard_batch_1(n):
    kept = rows_of_rank(np.arange(n.B), rank=n.r, world_size=n.R)
    return [kept[0], kept[-1]]


def shard_batch_2(n):
    return len(rows_of_rank(np.arange(n.B), rank=0, world_size=n.R))
