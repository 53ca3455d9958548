"""What counting alone reaches: the loss of a unigram and of a bigram model.

What it is: two baselines that a language model must beat before its loss says anything. What it
leaves out: longer n-grams.

Source: Witten and Bell 1991 (how much to trust a context: by the number of different followers).
"""

import numpy as np


def unigram_loss(train: np.ndarray, valid: np.ndarray, vocab_size: int) -> float:
    """Nats per token of `valid` when each token has the share it has in `train`, add-one smoothed.

    Both are 1-D arrays of ids in 0..vocab_size - 1. The first token of `valid` is not counted, so
    that the figure compares with that of `bigram_loss` and of a model.
    """
    return float(-np.log(_unigram(train, vocab_size)[valid[1:]]).mean())


def bigram_loss(train: np.ndarray, valid: np.ndarray, vocab_size: int) -> float:
    """Nats per token of `valid`, each token predicted from the one before it.

    The share of pair (a, b) among the pairs that begin with a is mixed with the unigram share of b,
    with weight n / (n + k): n pairs began with a in `train`, with k different followers. Memory:
    about 24 bytes for each token of `train`.
    """
    pairs, counts = np.unique(_pairs(train, vocab_size), return_counts=True)
    first = pairs // vocab_size
    began = np.bincount(first, weights=counts, minlength=vocab_size)
    followers = np.bincount(first, minlength=vocab_size)
    trust = began / np.maximum(began + followers, 1)

    asked = _pairs(valid, vocab_size)
    place = np.minimum(np.searchsorted(pairs, asked), len(pairs) - 1)
    seen = np.where(pairs[place] == asked, counts[place], 0)
    before, after = valid[:-1].astype(np.int64), valid[1:].astype(np.int64)
    share = seen / np.maximum(began[before], 1)
    mixed = trust[before] * share + (1 - trust[before]) * _unigram(train, vocab_size)[after]
    return float(-np.log(mixed).mean())


def _unigram(train: np.ndarray, vocab_size: int) -> np.ndarray:
    counts = np.bincount(train, minlength=vocab_size) + 1.0
    return counts / counts.sum()


def _pairs(tokens: np.ndarray, vocab_size: int) -> np.ndarray:
    """Each pair of neighbors as one number, (len - 1,) int64."""
    return tokens[:-1].astype(np.int64) * vocab_size + tokens[1:]
