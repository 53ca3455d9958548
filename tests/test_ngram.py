"""The counting baselines against sums done by hand and by a slow loop."""

import math
from collections import Counter

import numpy as np
import pytest

from course_lib.data.ngram import bigram_loss, unigram_loss


def test_unigram_by_hand():
    """Three tokens seen 2, 1 and 0 times; smoothed shares 3/6, 2/6, 1/6."""
    loss = unigram_loss(np.array([0, 0, 1]), np.array([0, 0, 1, 2]), 3)
    assert loss == pytest.approx(-(math.log(1 / 2) + math.log(1 / 3) + math.log(1 / 6)) / 3)


def test_bigram_is_what_a_loop_counts():
    rng = np.random.default_rng(0)
    V = 7
    train, valid = rng.integers(0, V - 1, 200), rng.integers(0, V, 60)
    pairs, firsts = Counter(zip(train[:-1], train[1:], strict=True)), Counter(train[:-1])
    shares = {v: (Counter(train)[v] + 1) / (len(train) + V) for v in range(V)}
    total = 0.0
    for a, b in zip(valid[:-1], valid[1:], strict=True):
        n, k = firsts[a], sum(1 for pair in pairs if pair[0] == a)
        trust = n / (n + k) if n else 0.0
        total -= math.log(trust * (pairs[a, b] / n if n else 0) + (1 - trust) * shares[b])
    assert bigram_loss(train, valid, V) == pytest.approx(total / (len(valid) - 1))


def test_probabilities_add_up():
    """Over all followers of a token the mixed shares sum to 1, or the losses mean nothing."""
    rng = np.random.default_rng(1)
    train = rng.integers(0, 5, 100)
    for a in range(6):  # 5 never occurs in train
        total = sum(math.exp(-bigram_loss(train, np.array([a, b]), 6)) for b in range(6))
        assert total == pytest.approx(1)


def test_a_bigram_language_is_learned_by_pairs_alone():
    train = np.array([0, 1, 2, 3] * 500)
    assert bigram_loss(train, train, 4) < 0.05 < 1.3 < unigram_loss(train, train, 4)
