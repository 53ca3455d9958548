"""Corpus: same files, same order on every machine, whole bytes, errors that say what to do."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.data.corpus import Corpus


def write(folder: Path, files: dict[str, bytes]) -> Path:
    """Make files from {name: content} below the folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


@pytest.fixture
def folder(tmp_path):
    files = {"b.txt": b"two", "a.md": "één\r\n".encode(), "sub/c.PY": b"x = 1\n", "d.csv": b"1,2"}
    return write(tmp_path, files)


def test_folder_lists_matching_files_by_name(folder):
    corpus = Corpus.folder(folder)
    assert [file.name for file in corpus.files] == ["a.md", "b.txt", "sub/c.PY"]
    assert [file.num_bytes for file in corpus.files] == [7, 3, 6]
    assert corpus.num_bytes == 16


def test_text_keeps_every_byte(folder):
    assert Corpus.folder(folder).text() == "één\r\ntwox = 1\n"
    assert dict(Corpus.folder(folder).documents())["a.md"] == "één\r\n"


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 5, 1000])
def test_pieces_never_cut_a_character(tmp_path, block_bytes):
    text = "naïve 日本 \U0001f600 end"
    corpus = Corpus.folder(write(tmp_path, {"a.txt": text.encode()}))
    pieces = list(corpus.pieces(block_bytes))
    assert "".join(pieces) == text
    assert max(len(piece.encode()) for piece in pieces) <= block_bytes + 3


def test_only_the_named_suffixes(folder):
    assert [file.name for file in Corpus.folder(folder, suffixes=(".csv",)).files] == ["d.csv"]


def test_what_is_not_text_is_left_out_and_named(tmp_path):
    write(tmp_path, {"a.txt": b"text", "bad.txt": b"\xff", "zero.txt": b"a\0b", "empty.txt": b""})
    write(tmp_path, {"sub/__pycache__/c.txt": b"cache", ".hidden/d.txt": b"hidden", ".e.txt": b"e"})
    os.symlink(tmp_path / "nowhere", tmp_path / "dangling.txt")
    os.mkfifo(tmp_path / "pipe.txt")  # opening it would wait forever
    corpus = Corpus.folder(tmp_path)
    assert [file.name for file in corpus.files] == ["a.txt"]
    assert corpus.skipped == ("bad.txt", "dangling.txt", "pipe.txt", "zero.txt")


def test_half_a_character_at_the_end_is_not_text(tmp_path):
    corpus = Corpus.folder(write(tmp_path, {"a.txt": b"text", "cut.txt": "é".encode()[:1]}))
    assert corpus.skipped == ("cut.txt",)


def test_corpus_is_frozen(folder):
    with pytest.raises(dataclasses.FrozenInstanceError):
        Corpus.folder(folder).files = ()


def test_sha256_is_that_of_the_text(folder):
    before = Corpus.folder(folder)
    digest = before.sha256
    assert digest == Corpus.folder(folder).sha256
    (folder / "b.txt").write_bytes(b"twp")
    assert digest != Corpus.folder(folder).sha256


def many_files(folder: Path, names) -> Corpus:
    for name in names:
        (folder / f"{name}.txt").write_text(str(name))
    return Corpus.folder(folder)


def names(corpus: Corpus) -> list[str]:
    return [file.name for file in corpus.files]


def test_split_parts_the_files(tmp_path):
    corpus = many_files(tmp_path, range(300))
    train, valid = corpus.split(0.2)
    assert sorted(names(train) + names(valid)) == names(corpus)
    assert names(valid) == sorted(names(valid)) and names(train) == sorted(names(train))
    assert 40 <= len(valid.files) <= 80  # 60 expected, standard deviation 7


def test_split_keeps_a_file_on_its_side_when_files_are_added(tmp_path):
    before = many_files(tmp_path, range(100)).split(0.3)
    after = many_files(tmp_path, range(100, 200)).split(0.3)
    assert set(names(before[0])) <= set(names(after[0]))
    assert set(names(before[1])) <= set(names(after[1]))


@pytest.mark.parametrize("fraction", [1e-9, 0.5, 1 - 1e-9])
def test_split_of_two_files_leaves_none_empty(tmp_path, fraction):
    train, valid = many_files(tmp_path, "ab").split(fraction)
    assert len(train.files) == len(valid.files) == 1


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 10])
def test_split_rejects_other_fractions(folder, fraction):
    with pytest.raises(ValueError, match="valid_fraction must lie between 0 and 1"):
        Corpus.folder(folder).split(fraction)


def test_split_of_one_file_says_what_to_do(tmp_path):
    with pytest.raises(
        ValueError, match="needs 2 files or more.* has 1: cut the text into several"
    ):
        many_files(tmp_path, "a").split(0.1)


def error(path, **kwargs) -> str:
    with pytest.raises(ValueError) as caught:
        Corpus.folder(path, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_missing_folder(tmp_path):
    message = error(tmp_path / "nope")
    assert str(tmp_path / "nope") in message and "found nothing there" in message
    assert "pass the path of a folder that exists" in message


def test_file_in_place_of_a_folder(tmp_path):
    assert "found a file there" in error(write(tmp_path, {"a.txt": b"a"}) / "a.txt")


def test_empty_folder(tmp_path):
    message = error(tmp_path)
    assert str(tmp_path) in message and ".txt, .md, .py" in message
    assert "found no files at all: put text files there" in message


def test_folder_of_other_files(tmp_path):
    message = error(write(tmp_path, {"a.png": b"1", "b.png": b"2", "Makefile": b"3"}))
    assert "found 3 other files (2 .png, 1 without suffix)" in message
    assert "pass suffixes=(...)" in message


def test_folder_of_binary_files(tmp_path):
    message = error(write(tmp_path, {"a.txt": b"\xff\xff", "b.txt": b"\0"}))
    assert "found 2 with such a name but none that is UTF-8 text (the first: a.txt)" in message
    assert "convert them to UTF-8" in message


def test_folder_of_empty_files(tmp_path):
    assert "found only empty ones" in error(write(tmp_path, {"a.txt": b""}))


@pytest.mark.parametrize("suffixes", [".txt", ("txt",)])
def test_suffixes_must_be_a_tuple_with_dots(folder, suffixes):
    assert "suffixes must be a tuple of endings with their dot" in error(folder, suffixes=suffixes)


def test_default_is_the_standard_library_without_its_tests():
    corpus = Corpus.default()
    found = names(corpus)
    assert found == sorted(found)
    assert {"os.py", "json/decoder.py", "pydoc_data/topics.py"} <= set(found)
    folders = {part for name in found for part in name.split("/")[:-1]}
    assert not folders & {"site-packages", "test", "tests", "idle_test", "__pycache__"}
    assert not any(name.startswith("_sysconfig") for name in found)
    assert 8e6 < corpus.num_bytes < 16e6
    assert sys.prefix not in corpus.text()  # nothing that says where this Python lives


def test_default_and_its_split_are_the_same_in_another_process():
    code = "from course_lib.data.corpus import Corpus; print(Corpus.default().split(0.1)[1].sha256)"
    env = os.environ | {"PYTHONHASHSEED": "7"}
    other = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert other.stdout.strip() == Corpus.default().split(0.1)[1].sha256, other.stderr
