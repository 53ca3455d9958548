"""Tokenizer and trainer: nothing lost, ids that fit uint16, ranks that come from their text."""

import base64
import json
import os
import pickle
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import regex
import tiktoken
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiktoken import _educational
from tiktoken.load import data_gym_to_mergeable_bpe_ranks
from tiktoken_ext.openai_public import r50k_pat_str

from course_lib.data import gpt2_ranks, gpt2_words, tokenizer
from course_lib.data.tokenizer import COURSE_RANKS, GPT2_PATTERN, Tokenizer, read_ranks, write_ranks
from course_lib.data.train_ranks import count_words, train

COURSE = Tokenizer.course()
BYTES = {bytes([value]): value for value in range(256)}
TEXT = (
    "the cat sat on the mat; the hat, that cat's hat, sat there. " * 3 + "\n    théâtre 日本日本\n"
)


# The vocabulary that ships


def test_vocabulary_has_exactly_8192_ids():
    ranks, record = read_ranks(COURSE_RANKS)
    assert COURSE.vocab_size == 8192 and COURSE.end_of_text == 8191
    assert sorted(ranks.values()) == list(range(8191)) and record["num_ranks"] == 8191
    assert {token: rank for token, rank in ranks.items() if rank < 256} == BYTES


def test_record_says_what_the_ranks_were_made_from():
    _, record = read_ranks(COURSE_RANKS)
    assert record["pattern"] == GPT2_PATTERN == r50k_pat_str
    assert len(record["text_sha256"]) == 64 and record["python"] and record["text_bytes"] > 8e6


def test_every_token_is_two_older_ones():
    ranks, _ = read_ranks(COURSE_RANKS)
    for token, rank in ranks.items():
        splits = (
            max(ranks.get(token[:i], rank), ranks.get(token[i:], rank))
            for i in range(1, len(token))
        )
        assert rank < 256 or min(splits) < rank, token


def test_merges_pay_off_on_code_and_on_prose():
    code = Path(os.__file__).read_text(encoding="utf-8")
    assert len(code.encode()) / len(COURSE.encode(code)) > 3
    assert len(COURSE.encode("def __init__(self, value):\n        return value\n")) < 14


def test_no_network_and_no_cache_by_default(tmp_path):
    code = (
        "import socket\n"
        "def refuse(*args, **kwargs): raise SystemExit('network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from course_lib.data.tokenizer import Tokenizer\n"
        "print(Tokenizer.course())\n"
    )
    env = os.environ | {"TIKTOKEN_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout == "Tokenizer(course: 8,192 ids, end_of_text 8191)\n", done.stderr
    assert list(tmp_path.iterdir()) == []


# Text to ids and back


@settings(max_examples=60)
@given(st.text())
def test_round_trip(text):
    ids = COURSE.encode(text)
    assert COURSE.decode(ids) == text
    assert all(0 <= token < 8191 for token in ids)


@pytest.mark.parametrize(
    "text",
    ["", " ", "\r\n\t", "naïve", "日本語", "\U0001f469‍\U0001f680", "e\u0301", "\ufeffbom", "\0"],
)
def test_round_trip_of_unicode(text):
    assert COURSE.decode(COURSE.encode(text)) == text


def test_end_of_text_inside_a_text_is_ordinary_text():
    ids = COURSE.encode("a<|endoftext|>b")
    assert COURSE.end_of_text not in ids and COURSE.decode(ids) == "a<|endoftext|>b"
    assert COURSE.decode([COURSE.end_of_text]) == "<|endoftext|>"


def test_half_a_surrogate_pair_becomes_the_replacement_character():
    assert COURSE.decode(COURSE.encode("a\ud83db")) == "a\ufffdb"


def test_array_is_uint16_and_equals_the_list():
    array = COURSE.encode_to_array(TEXT)
    assert array.dtype == np.uint16 and array.shape == (len(COURSE.encode(TEXT)),)
    assert array.tolist() == COURSE.encode(TEXT)
    assert COURSE.encode_to_array("").shape == (0,)


def test_decode_takes_arrays_and_iterators():
    ids = COURSE.encode(TEXT)
    assert COURSE.decode(np.array(ids, np.uint16)) == TEXT
    assert COURSE.decode(np.array(ids, np.int64)) == TEXT
    assert COURSE.decode(iter(ids)) == TEXT
    assert COURSE.decode(list(np.array(ids, np.uint16))) == TEXT
    assert COURSE.decode(torch.tensor(ids)) == COURSE.decode(list(torch.tensor(ids))) == TEXT
    assert COURSE.decode([]) == ""


@given(st.lists(st.integers(0, 8191)))
def test_any_ids_decode(ids):
    COURSE.decode(ids)


def test_half_a_character_decodes_to_the_replacement_character():
    first = "日".encode()[0]  # ids of single bytes are their values
    assert COURSE.decode([ord("a"), first]) == "a\ufffd"


@pytest.mark.parametrize("bad", [8192, -1, 65535])
def test_decode_rejects_ids_outside_the_vocabulary(bad):
    with pytest.raises(ValueError, match=rf"expected ids 0\.\.8191, got {bad} at position 2"):
        COURSE.decode([1, 2, bad])


@pytest.mark.parametrize("bad", [[1.0], [[1, 2]], np.zeros((2, 2), int), np.zeros(2), 5, ["a"]])
def test_decode_rejects_what_is_no_row_of_integers(bad):
    with pytest.raises(ValueError, match="expected integer ids in one dimension, got"):
        COURSE.decode(bad)


@given(
    st.text(st.sampled_from(" \n\t\x0b\x1c\x85\xa0\u2003\u3000ab'sdé１2!_<\u0301\u200b\ufeff😀"))
)
@settings(max_examples=1000)
@example("a  b").via("one space for each side")
@example(gpt2_words.MARK + "  a  b").via("a text with a mark of its own")
def test_ids_are_those_of_the_pattern_that_looks_ahead(text):
    by_tiktoken = COURSE._encoding.encode(text, disallowed_special=())
    assert COURSE.encode(text) == by_tiktoken


def test_a_million_spaces_are_encoded():
    """The pattern that looks ahead cannot do it; it is used for texts with a mark in them alone."""
    spaces = " " * 1_000_000 + "x"
    ids = COURSE.encode(spaces)
    assert COURSE.decode(ids) == spaces and len(ids) < 100_000
    with pytest.raises(ValueError, match="1000002 characters.*shorten such runs"):
        COURSE.encode(gpt2_words.MARK + spaces)


def test_pickle_for_worker_processes():
    assert pickle.loads(pickle.dumps(COURSE)).encode(TEXT) == COURSE.encode(TEXT)


# Rank files


@pytest.fixture
def ranks_path(tmp_path):
    for path in (COURSE_RANKS, COURSE_RANKS.with_suffix(".json")):
        shutil.copy(path, tmp_path)
    return tmp_path / COURSE_RANKS.name


def read_error(path) -> str:
    with pytest.raises(ValueError) as caught:
        read_ranks(path)
    assert "\n" not in str(caught.value)
    assert "restore both files" in str(caught.value)
    return str(caught.value)


def test_truncated_file(ranks_path):
    ranks_path.write_bytes(ranks_path.read_bytes()[:50_000])
    message = read_error(ranks_path)
    assert "expected 8191 ranks" in message and "cut short or exchanged" in message


def test_foreign_file(ranks_path):
    ranks_path.write_bytes(base64.b64encode(b"a") + b" 0\n")
    assert "got 1 lines" in read_error(ranks_path)


def test_one_changed_byte(ranks_path):
    data = bytearray(ranks_path.read_bytes())
    data[-2] ^= 1
    ranks_path.write_bytes(data)
    assert "got 8191 lines" in read_error(ranks_path)


def test_missing_file(ranks_path):
    ranks_path.unlink()
    assert f"expected a rank file at {ranks_path}, found none" in read_error(ranks_path)


def test_missing_or_broken_record(ranks_path):
    record_path = ranks_path.with_suffix(".json")
    for data in (b"{", b"[]", b"{}", b"\xff"):
        record_path.write_bytes(data)
        assert "expected JSON with a sha256" in read_error(ranks_path)
    record_path.unlink()
    assert "found none" in read_error(ranks_path)


def test_a_new_file_under_an_old_name_gives_the_new_ranks(tmp_path, monkeypatch):
    path = tmp_path / "own.tiktoken"
    monkeypatch.setattr(tokenizer, "COURSE_RANKS", path)
    for token in (b"ab", b"cd"):
        write_ranks(path, BYTES | {token: 256}, {})
        assert Tokenizer.course().decode([256]) == token.decode()


@pytest.mark.parametrize("ranks", [{}, {b"a": 0}, BYTES | {b"ab": 257}, BYTES | {b"ab": 3}])
def test_ranks_must_cover_the_bytes_without_gaps(ranks):
    with pytest.raises(ValueError, match="256 single bytes among the tokens: got"):
        Tokenizer(ranks)


def test_ids_must_fit_uint16():
    ranks = BYTES | {f"{rank:06d}".encode(): rank for rank in range(256, 65536)}
    with pytest.raises(ValueError, match="at most 65536 ids: got 65536 ranks and the end of text"):
        Tokenizer(ranks)


# Training


def slow_train(words: Counter[bytes], num_ranks: int) -> dict[bytes, int]:
    """The same rule without bookkeeping: count all pairs for each merge, stop when none is left."""
    tokens = [bytes([value]) for value in range(256)]
    split = {word: list(word) for word in words}
    while len(tokens) < num_ranks:
        counts = Counter()
        for word, ids in split.items():
            for pair in zip(ids, ids[1:], strict=False):
                counts[pair] += words[word]
        if not counts:
            break
        left, right = min(counts, key=lambda pair: (-counts[pair], pair))
        token = tokens[left] + tokens[right]
        if token not in tokens:
            tokens.append(token)
        for ids in split.values():
            for place in range(len(ids)):
                if ids[place : place + 2] == [left, right]:
                    ids[place : place + 2] = [tokens.index(token)]
    return {token: rank for rank, token in enumerate(tokens)}


def test_trainer_equals_the_slow_one():
    words = count_words([TEXT])
    assert list(train(words, 285).items()) == list(slow_train(words, 285).items())


@settings(max_examples=30)
@given(
    st.dictionaries(
        st.text("ab", min_size=2, max_size=14).map(str.encode),
        st.integers(1, 4),
        min_size=1,
        max_size=8,
    )
)
def test_trainer_equals_the_slow_one_on_repeats(words):
    words = Counter(words)
    slow = slow_train(words, 400)
    assert list(train(words, len(slow)).items()) == list(slow.items())
    with pytest.raises(ValueError, match=f"all merged after {len(slow)}"):
        train(words, len(slow) + 1)


def test_trainer_equals_tiktoken_where_there_are_no_ties():
    text = " abcd" * 64 + " abc" * 32 + " ab" * 16 + " xyz" * 9 + " a" * 2
    theirs = _educational.bpe_train(text, 260, GPT2_PATTERN, visualise=None)
    assert train(count_words([text]), 260) == theirs
    assert [token for token, rank in theirs.items() if rank > 255] == [
        b" a",
        b" ab",
        b" abc",
        b" abcd",
    ]


def test_trainer_does_not_depend_on_the_order_of_the_words():
    words = list(count_words([TEXT]).items())
    first = train(Counter(dict(words)), 285)
    random.Random(0).shuffle(words)
    assert train(Counter(dict(words)), 285) == first


def test_trainer_is_the_same_in_another_process():
    code = (
        "from course_lib.data.train_ranks import count_words, train\n"
        f"print(list(train(count_words([{TEXT!r}]), 285)))"
    )
    env = os.environ | {"PYTHONHASHSEED": "7"}
    other = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert other.stdout.strip() == str(list(train(count_words([TEXT]), 285))), other.stderr


def test_encoder_cuts_words_as_the_trainer_did():
    ranks = train(count_words([TEXT]), 285)
    found = regex.findall(GPT2_PATTERN, TEXT)
    by_tiktoken = [Tokenizer(ranks).encode(word) for word in found]
    by_hand = [_educational.bpe_encode(ranks, word.encode(), visualise=None) for word in found]
    assert by_tiktoken == by_hand
    assert Tokenizer(ranks).decode(Tokenizer(ranks).encode(TEXT)) == TEXT


def test_words_never_cross_two_texts():
    assert count_words(["ab", "ab c"]) == {b"ab": 2, b" c": 1}


def test_long_runs_train_in_linear_time():
    start = time.process_time()
    train(Counter({b"ab" * 20_000: 1}), 260)
    assert time.process_time() - start < 20  # on the processor; with quadratic time it is minutes


def test_too_little_text():
    with pytest.raises(ValueError, match="expected text for 300 tokens.* after 258: use more text"):
        train(Counter({b"abc": 1}), 300)
    with pytest.raises(ValueError, match="at least 256, one per byte, got 255"):
        train(Counter({b"abc": 1}), 255)


def test_written_ranks_read_back(tmp_path):
    ranks = train(count_words([TEXT]), 285)
    write_ranks(tmp_path / "own.tiktoken", ranks, {"text": "a test"})
    again, record = read_ranks(tmp_path / "own.tiktoken")
    assert again == ranks and record["text"] == "a test" and record["num_ranks"] == 285
    assert json.loads((tmp_path / "own.json").read_text()) == record


# GPT-2


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache"


@pytest.fixture
def serve(monkeypatch):
    """serve(answer, drip_s=0): a server here that gives one answer, slowly if asked, then waits."""
    server, done = socket.create_server(("127.0.0.1", 0)), threading.Event()
    port = server.getsockname()[1]

    def answer_once(answer: bytes, drip_s: float) -> None:
        connection, _ = server.accept()
        step = 1 if drip_s else len(answer) + 1
        with connection:
            connection.recv(10_000)
            for start in range(0, len(answer), step):
                connection.sendall(answer[start : start + step])
                if done.wait(drip_s):
                    return
            done.wait()

    def serve(answer: bytes, *, drip_s: float = 0) -> None:
        monkeypatch.setattr(gpt2_ranks, "MERGES_URL", f"http://127.0.0.1:{port}/vocab.bpe")
        threads.append(threading.Thread(target=answer_once, args=(answer, drip_s), daemon=True))
        threads[-1].start()

    threads = []
    yield serve
    done.set()
    for thread in threads:
        thread.join(2)
    server.close()


def reply(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def gpt2_error(timeout_s: float) -> str:
    with pytest.raises(ConnectionError) as caught:
        Tokenizer.gpt2(timeout_s=timeout_s)
    assert "use Tokenizer.course(), which needs no network" in str(caught.value)
    return str(caught.value)


def test_gpt2_without_network(cache, monkeypatch):
    monkeypatch.setattr(gpt2_ranks, "MERGES_URL", "http://127.0.0.1:9/vocab.bpe")
    assert "within 5 s (ConnectionError)" in gpt2_error(5)
    assert not cache.exists()


def test_gpt2_from_a_server_that_never_answers(cache, serve):
    serve(b"")
    assert "within 0.5 s" in gpt2_error(0.5)


def test_gpt2_from_a_server_that_drips(cache, serve):
    serve(reply(b"x" * 1000), drip_s=0.1)
    assert "within 0.6 s (TimeoutError)" in gpt2_error(0.6)


def test_gpt2_when_the_lookup_of_the_host_hangs(cache, monkeypatch):
    monkeypatch.setattr(gpt2_ranks, "_get", lambda timeout_s: time.sleep(10))
    assert "within 0.3 s (TimeoutError)" in gpt2_error(0.3)


def test_gpt2_from_a_login_page(cache, serve):
    serve(reply(b"<html>log in</html>"))
    assert "(ValueError)" in gpt2_error(5)
    assert not cache.exists()


@pytest.fixture
def small_table(monkeypatch) -> bytes:
    """A vocab.bpe of three merges, taken for the genuine one."""
    table = "#version: 0.2\nh e\n\u0120 he\nl l\n".encode()
    monkeypatch.setattr(gpt2_ranks, "_is_genuine", lambda data: data == table)
    return table


def test_gpt2_downloads_once(cache, serve, small_table, monkeypatch):
    serve(reply(small_table))
    first = Tokenizer.gpt2()
    assert gpt2_ranks.cache_path().read_bytes() == small_table
    monkeypatch.setattr(gpt2_ranks, "_get", None)
    again = Tokenizer.gpt2()
    assert first.encode(" hell") == again.encode(" hell") == [257, 258]
    assert again.vocab_size == 260 and again.decode([257, 258]) == " hell"


def test_gpt2_replaces_a_cached_file_that_is_cut_short(cache, serve, small_table):
    serve(reply(small_table))
    cache.mkdir()
    gpt2_ranks.cache_path().write_bytes(small_table[:-5])
    assert Tokenizer.gpt2().vocab_size == 260
    assert gpt2_ranks.cache_path().read_bytes() == small_table


def test_gpt2_table_is_read_as_tiktoken_reads_it(tmp_path, small_table, cache):
    ours = gpt2_ranks.parse_merges(small_table.decode())
    shown = {token: "".join(map(show, token)) for token in ours}
    (tmp_path / "vocab.bpe").write_bytes(small_table)
    (tmp_path / "encoder.json").write_text(
        json.dumps({shown[token]: rank for token, rank in ours.items()})
    )
    paths = str(tmp_path / "vocab.bpe"), str(tmp_path / "encoder.json")
    assert ours == data_gym_to_mergeable_bpe_ranks(*paths)


def show(value: int) -> str:
    """The character that stands for a byte in GPT-2's files."""
    plain = [byte for byte in range(256) if chr(byte).isprintable() and byte != 32]
    others = [byte for byte in range(256) if byte not in plain]
    return chr(value) if value in plain else chr(256 + others.index(value))


def test_gpt2_cache_is_tiktokens(cache, monkeypatch):
    asked = []
    monkeypatch.setattr(tiktoken.load, "read_file", lambda url: asked.append(url) or b"")
    with pytest.raises(ValueError, match="Hash mismatch"):
        tiktoken.get_encoding("gpt2")
    assert asked == [gpt2_ranks.MERGES_URL]
    gpt2_ranks.cache_path().parent.mkdir()
    gpt2_ranks.cache_path().write_bytes(b"ours")
    assert tiktoken.load.read_file_cached(gpt2_ranks.MERGES_URL) == b"ours"
