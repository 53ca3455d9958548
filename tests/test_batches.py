"""Batches: the right windows and targets, shared out evenly, and exactly resumed."""

import numpy as np
import pytest
import torch

from course_lib.data.batches import BatchLoader, get_batch, rows_of_rank, window_starts
from course_lib.data.corpus import Corpus
from course_lib.data.token_store import TokenStore, pretokenize
from course_lib.data.tokenizer import Tokenizer

TOKENS = (np.arange(5000) * 7919 % 60_000).astype(np.uint16)


@pytest.fixture(scope="module")
def shards(tmp_path_factory) -> TokenStore:
    """Six files of 400 tokens and a rest that is too short for a window of 65."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "text").mkdir()
    words = Tokenizer({bytes([i]): i for i in range(256)})
    (folder / "text" / "a.txt").write_text("".join(map(str, range(900)))[: 6 * 400 + 29])
    corpus = Corpus.folder(folder / "text")
    return pretokenize(corpus, words, folder / "t", shard_tokens=400, progress=False)


def by_hand(tokens, starts, seq_len):
    rows = np.array([[int(tokens[s + t]) for t in range(seq_len + 1)] for s in starts])
    return torch.tensor(rows[:, :-1]), torch.tensor(rows[:, 1:])


def joined(batches):
    return [torch.cat(parts) for parts in zip(*batches, strict=True)]


@pytest.mark.parametrize(("B", "T"), [(1, 1), (3, 8), (16, 64), (2, 4999)])
def test_windows_and_targets(B, T):
    starts = np.linspace(0, len(TOKENS) - T - 1, B).astype(np.int64)
    idx, targets = get_batch(TOKENS, starts, T)
    assert idx.dtype == targets.dtype == torch.int64 and idx.shape == targets.shape == (B, T)
    expected = by_hand(TOKENS, starts, T)
    assert torch.equal(idx, expected[0]) and torch.equal(targets, expected[1])
    assert idx.is_contiguous() and targets.is_contiguous()


def test_writing_into_targets_leaves_the_input_alone():
    idx, targets = get_batch(TOKENS, np.array([0, 1]), 4)
    before = idx.clone()
    targets[:] = -100
    assert torch.equal(idx, before)


def test_a_window_that_does_not_fit_is_an_error():
    with pytest.raises(IndexError):
        get_batch(TOKENS, np.array([len(TOKENS) - 8]), 8)


def test_a_read_only_map_is_gathered_too(tmp_path):
    TOKENS.tofile(tmp_path / "raw.bin")
    mapped = np.memmap(tmp_path / "raw.bin", np.uint16, mode="r")
    starts = np.array([5, 4000])
    assert torch.equal(get_batch(mapped, starts, 9)[1], get_batch(TOKENS, starts, 9)[1])


def test_starts_are_one_sequence_that_can_be_entered_anywhere():
    whole = window_starts(0, 100, num_starts=977, seed=3)
    parts = [window_starts(first, 10, num_starts=977, seed=3) for first in range(0, 100, 10)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert not np.array_equal(whole, window_starts(0, 100, num_starts=977, seed=4))
    many = window_starts(0, 100_000, num_starts=10, seed=0)
    # 10,000 each on average, with a standard deviation of 95: six of them
    assert many.min() == 0 and many.max() == 9
    assert np.abs(np.bincount(many) - 10_000).max() < 570
    huge = window_starts(10**15, 1000, num_starts=2**40, seed=1)
    assert huge.min() >= 0 and huge.max() < 2**40 and len(set(huge.tolist())) == 1000


def test_the_starts_of_a_seed_stay_what_they_are():
    # a resumed run must draw the same windows under a later numpy too
    assert window_starts(0, 4, num_starts=1000, seed=0).tolist() == GOLDEN


GOLDEN = [271, 617, 24, 533]


@pytest.mark.parametrize("world_size", [1, 2, 3, 6])
def test_ranks_share_a_batch_without_rest_or_overlap(world_size):
    starts = np.arange(12)
    parts = [rows_of_rank(starts, rank=r, world_size=world_size) for r in range(world_size)]
    assert {len(p) for p in parts} == {12 // world_size}
    assert np.concatenate(parts).tolist() == starts.tolist()


@pytest.mark.parametrize(
    ("count", "rank", "world_size", "says"),
    [(12, 2, 2, r"in 0\.\.1, got 2"), (12, -1, 2, "got -1"), (7, 0, 2, "cannot be shared out")],
)
def test_ranks_that_cannot_be_are_refused(count, rank, world_size, says):
    with pytest.raises(ValueError, match=says):
        rows_of_rank(np.arange(count), rank=rank, world_size=world_size)


@pytest.mark.parametrize("source", ["array", "shards"])
@pytest.mark.parametrize("world_size", [2, 3])
def test_several_ranks_train_on_the_batch_of_one(shards, source, world_size):
    tokens = TOKENS if source == "array" else shards
    one = BatchLoader(tokens, batch_size=4 * world_size, seq_len=64, seed=9)
    ranks = [
        BatchLoader(tokens, batch_size=4, seq_len=64, rank=r, world_size=world_size, seed=9)
        for r in range(world_size)
    ]
    accumulated = BatchLoader(tokens, batch_size=4, seq_len=64, seed=9)
    for _ in range(3):
        idx, targets = one.next_batch()
        together = joined([rank.next_batch() for rank in ranks])
        in_turn = joined([accumulated.next_batch() for _ in range(world_size)])
        assert torch.equal(idx, together[0]) and torch.equal(targets, together[1])
        assert torch.equal(idx, in_turn[0]) and torch.equal(targets, in_turn[1])


def test_shards_give_windows_of_one_file_each(shards):
    assert len(shards.arrays) == 7 and len(shards.arrays[-1]) < 65
    loader = BatchLoader(shards, batch_size=200, seq_len=64)
    idx, targets = loader.next_batch()
    rows = {tuple(a[s : s + 65].tolist()) for a in shards.arrays for s in range(len(a) - 64)}
    drawn = [(*x.tolist(), y[-1].item()) for x, y in zip(idx, targets, strict=True)]
    assert set(drawn) <= rows
    first = {tuple(a[:65].tolist()): i for i, a in enumerate(shards.arrays[:-1])}
    assert len(first) == 6


def test_all_starts_of_all_files_can_be_drawn(shards):
    loader = BatchLoader(shards, batch_size=30_000, seq_len=64)
    idx, targets = loader.next_batch()
    drawn = {(*x[:40], *y[-20:]) for x, y in zip(idx.tolist(), targets.tolist(), strict=True)}
    all_rows = {
        (*a[s : s + 40].tolist(), *a[s + 45 : s + 65].tolist())
        for a in shards.arrays
        for s in range(len(a) - 64)
    }
    # 30,000 draws from 2,016 starts miss a given one with chance 4e-7
    assert drawn == all_rows


@pytest.mark.parametrize("source", ["array", "shards"])
def test_a_state_goes_on_exactly(shards, source):
    tokens = TOKENS if source == "array" else shards
    kwargs = dict(batch_size=3, seq_len=16, seed=5)
    loader = BatchLoader(tokens, **kwargs)
    for _ in range(7):
        loader.next_batch()
    state = loader.state_dict()
    assert all(type(value) is int for value in state.values())
    following = [loader.next_batch() for _ in range(4)]
    resumed = BatchLoader(tokens, **kwargs)
    resumed.next_batch()
    resumed.load_state_dict(state)
    for (idx, targets), (again, targets_again) in zip(
        following, (resumed.next_batch() for _ in range(4)), strict=True
    ):
        assert torch.equal(idx, again) and torch.equal(targets, targets_again)


def test_a_state_goes_on_with_other_ranks():
    one = BatchLoader(TOKENS, batch_size=8, seq_len=16)
    one.next_batch()
    state = one.state_dict()
    expected = one.next_batch()
    ranks = [BatchLoader(TOKENS, batch_size=4, seq_len=16, rank=r, world_size=2) for r in (0, 1)]
    for rank in ranks:
        rank.load_state_dict(state)
    assert torch.equal(expected[0], joined([r.next_batch() for r in ranks])[0])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (dict(seed=6), "seed 5, this loader has 6"),
        (dict(seq_len=8), "seq_len 16"),
        (dict(tokens=TOKENS[:-1]), "num_tokens"),
        (dict(tokens=TOKENS[::-1]), "sample_crc32"),
    ],
)
def test_a_state_of_other_windows_is_refused(change, says):
    settings = dict(tokens=TOKENS, batch_size=3, seq_len=16, seed=5)
    state = BatchLoader(**settings).state_dict()
    with pytest.raises(ValueError, match=says):
        BatchLoader(**(settings | change)).load_state_dict(state)


@pytest.mark.parametrize("state", [None, {}, {"next_window": 3}, {"step": 1, "seed": 0}])
def test_a_state_that_is_none_is_refused(state):
    with pytest.raises(ValueError, match="state of a BatchLoader"):
        BatchLoader(TOKENS, batch_size=1, seq_len=4).load_state_dict(state)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (dict(seq_len=5000), r"takes seq_len \+ 1 = 5001 tokens, the longest .* 5000"),
        (dict(tokens=TOKENS.astype(np.int16)), "got int16.*negative"),
        (dict(tokens=TOKENS.astype(np.int64)), "got int64"),
        (dict(tokens=TOKENS.reshape(2, -1)), "one row of uint16"),
        (dict(tokens=[1, 2, 3]), "one row of uint16"),
        (dict(batch_size=0), "batch_size must be at least 1"),
        (dict(seq_len=0), "seq_len must be at least 1"),
        (dict(rank=1), r"rank must be in 0\.\.0, got 1"),
        (dict(seed=-1), "seed must be at least 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(change, says):
    with pytest.raises(ValueError, match=says):
        BatchLoader(**(dict(tokens=TOKENS, batch_size=2, seq_len=8) | change))


def test_the_smallest_text_has_one_window():
    idx, targets = BatchLoader(TOKENS[:9], batch_size=2, seq_len=8).next_batch()
    assert idx.tolist() == [TOKENS[:8].tolist()] * 2 and targets[0].tolist() == TOKENS[1:9].tolist()


def test_ids_beyond_the_model_are_refused(shards):
    loader = BatchLoader(TOKENS, batch_size=50, seq_len=64, vocab_size=8192)
    with pytest.raises(ValueError, match=r"token id \d+, the model's vocab_size is 8192"):
        loader.next_batch()
    assert loader.next_window == 0
    BatchLoader(TOKENS, batch_size=50, seq_len=64, vocab_size=60_000).next_batch()
    with pytest.raises(ValueError, match="vocab_size=257"):
        BatchLoader(shards, batch_size=1, seq_len=8, vocab_size=256)
    BatchLoader(shards, batch_size=1, seq_len=8, vocab_size=257)
