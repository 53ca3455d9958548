"""Token shards: the right ids in bounded memory, the same bytes however they are made, and a clear
refusal of everything that is not what was written."""

import errno
import importlib.util
import json
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from course_lib.data import documents, token_store
from course_lib.data.corpus import Corpus
from course_lib.data.documents import CorpusDocuments, DatasetFiles, groups
from course_lib.data.token_file import HEADER_BYTES, TokenFileWriter, read_header
from course_lib.data.token_store import TokenStore, encode_documents, pretokenize
from course_lib.data.tokenizer import GPT2_PATTERN, Tokenizer

TEXTS = [f"def f{i}(x):\n    return x + {i}  # é {'long ' * (i % 7)}\n" for i in range(60)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.course()


@pytest.fixture
def corpus(tmp_path) -> Corpus:
    folder = tmp_path / "text"
    folder.mkdir()
    for i, text in enumerate(TEXTS):
        (folder / f"{i:03}.py").write_text(text, encoding="utf-8")
    return Corpus.folder(folder)


@pytest.fixture
def small_groups(monkeypatch):
    """Groups of a few documents, so that tests see many of them."""
    monkeypatch.setattr(token_store, "groups", lambda pieces: groups(pieces, block_chars=200))


def expected(tokenizer, texts=TEXTS) -> list[int]:
    return [id for text in texts for id in [*tokenizer.encode(text), tokenizer.end_of_text]]


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_documents_follow_each_other_with_their_end(tokenizer):
    ids = encode_documents(TEXTS, tokenizer)
    assert ids.dtype == np.uint16 and ids.tolist() == expected(tokenizer)
    assert encode_documents([], tokenizer).dtype == np.uint16
    assert encode_documents(iter(["", "a"]), tokenizer).tolist() == expected(tokenizer, ["", "a"])


def test_the_name_of_the_end_inside_a_text_is_text(tokenizer):
    ids = encode_documents(["a<|endoftext|>b"], tokenizer).tolist()
    assert ids.count(tokenizer.end_of_text) == 1 and ids[-1] == tokenizer.end_of_text


def test_a_vocabulary_beyond_16_bits_is_refused():
    large = types.SimpleNamespace(vocab_size=100_277)
    with pytest.raises(ValueError, match="uint16 holds ids 0..65535"):
        encode_documents(["text"], large)


@pytest.mark.parametrize("shard_tokens", [1, 7, 100, 10**6])
def test_the_tokens_come_back_whatever_the_size_of_a_shard(
    corpus, tokenizer, tmp_path, small_groups, shard_tokens
):
    if shard_tokens == 1:
        corpus = Corpus(root=corpus.root, files=corpus.files[:2])
    found = pretokenize(
        corpus, tokenizer, tmp_path / "t", shard_tokens=shard_tokens, progress=False
    )
    assert found.preload().tolist() == expected(tokenizer, TEXTS[: len(corpus.files)])
    assert len(found) == found.num_tokens == sum(map(len, found.arrays))
    assert {len(a) for a in found.arrays[:-1]} <= {shard_tokens}
    assert all(a.dtype == np.uint16 and not a.flags.writeable for a in found.arrays)
    assert (found.vocab_size, found.end_of_text) == (tokenizer.vocab_size, tokenizer.end_of_text)
    assert repr(found).startswith("TokenStore(t: ")


def test_several_threads_write_the_same_bytes_as_one(corpus, tokenizer, tmp_path, small_groups):
    for threads in (1, 2, 5):
        pretokenize(
            corpus,
            tokenizer,
            tmp_path / f"{threads}",
            shard_tokens=150,
            threads=threads,
            progress=False,
        )
    assert files_of(tmp_path / "1") == files_of(tmp_path / "2") == files_of(tmp_path / "5")


def test_a_document_larger_than_a_group_keeps_its_bytes(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "BLOCK_BYTES", 64)
    (tmp_path / "text").mkdir()
    long = "wörter und zahlen 123 " * 40
    (tmp_path / "text" / "long.txt").write_text(long, encoding="utf-8")
    (tmp_path / "text" / "z.txt").write_text("short")
    corpus = Corpus.folder(tmp_path / "text")
    assert sum(p.num_bytes for p in CorpusDocuments(corpus).pieces()) == corpus.num_bytes
    ids = pretokenize(corpus, tokenizer, tmp_path / "t", progress=False).preload().tolist()
    end = tokenizer.end_of_text
    assert ids.count(end) == 2 and ids[-1] == end
    assert tokenizer.decode(ids[: ids.index(end)]) == long
    assert tokenizer.decode(ids[ids.index(end) + 1 : -1]) == "short"


KILLED = """
import os, sys
from pathlib import Path
from course_lib.data import token_store
from course_lib.data.corpus import Corpus
from course_lib.data.documents import groups
from course_lib.data.token_file import TokenFileWriter
from course_lib.data.tokenizer import Tokenizer

writes = 0
write = TokenFileWriter.write

def dying(self, ids):
    global writes
    writes += 1
    if writes > int(sys.argv[3]):
        self._stream.flush()
        os.kill(os.getpid(), 9)
    return write(self, ids)

TokenFileWriter.write = dying
token_store.groups = lambda pieces: groups(pieces, block_chars=200)
token_store.pretokenize(Corpus.folder(sys.argv[1]), Tokenizer.course(), sys.argv[2], shard_tokens=150,
                   progress=False)
"""


def test_a_killed_run_goes_on_where_it_was(corpus, tokenizer, tmp_path, small_groups):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    pretokenize(corpus, tokenizer, whole, shard_tokens=150, progress=False)
    died = subprocess.run([sys.executable, "-c", KILLED, str(corpus.root), str(broken), "17"])
    assert died.returncode == -9
    left = files_of(broken)
    done = [name for name in left if name.endswith(".bin")]
    assert 2 <= len(done) < len(list(whole.glob("*.bin"))) and "index.json" not in left
    assert any(name.endswith(".tmp") for name in left)
    with pytest.raises(ValueError, match=rf"{len(done)} shards but no index.json.*goes on"):
        TokenStore.open(broken, tokenizer)
    times = {name: (broken / name).stat().st_mtime_ns for name in done}
    pretokenize(corpus, tokenizer, broken, shard_tokens=150, progress=False)
    assert files_of(broken) == files_of(whole)
    assert {name: (broken / name).stat().st_mtime_ns for name in done} == times


SLOW = """
import sys, time
from pathlib import Path
from course_lib.data import token_store
from course_lib.data.corpus import Corpus
from course_lib.data.token_file import TokenFileWriter
from course_lib.data.tokenizer import Tokenizer

write = TokenFileWriter.write

def waiting(self, ids):
    print("writing", file=sys.stderr, flush=True)
    while not Path(sys.argv[3]).exists():
        time.sleep(0.01)
    return write(self, ids)

TokenFileWriter.write = waiting
token_store.pretokenize(Corpus.folder(sys.argv[1]), Tokenizer.course(), sys.argv[2], shard_tokens=150,
                   progress=False)
"""


def test_of_two_processes_one_waits_for_the_other(corpus, tokenizer, tmp_path):
    folder, go = tmp_path / "t", tmp_path / "go"
    argv = [sys.executable, "-c", SLOW, str(corpus.root), str(folder), str(go)]
    first = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    assert first.stderr.readline() == "writing\n"
    second = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    said = second.stderr.readline()
    go.touch()
    errors = [process.communicate(timeout=120)[1] for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], errors
    assert "another process" in said and str(folder) in said
    assert "writing" not in errors[1]  # it found the tokens finished
    assert TokenStore.open(folder, tokenizer).preload().tolist() == expected(tokenizer)


@pytest.mark.parametrize("lost", [0, 1, -1])
def test_a_deleted_shard_is_filled_in(corpus, tokenizer, tmp_path, small_groups, lost):
    folder = tmp_path / "t"
    pretokenize(corpus, tokenizer, folder, shard_tokens=150, progress=False)
    before = files_of(folder)
    sorted(folder.glob("*.bin"))[lost].unlink()
    (folder / "index.json").unlink()
    pretokenize(corpus, tokenizer, folder, shard_tokens=150, progress=False)
    assert files_of(folder) == before


def test_a_finished_folder_is_not_tokenized_again(corpus, tokenizer, tmp_path, monkeypatch):
    folder = tmp_path / "t"
    first = pretokenize(corpus, tokenizer, folder, progress=False)
    monkeypatch.setattr(token_store, "encode_documents", None)
    assert pretokenize(corpus, tokenizer, folder, progress=False).num_tokens == first.num_tokens


def test_another_text_or_size_of_shard_is_refused(corpus, tokenizer, tmp_path):
    folder = tmp_path / "t"
    pretokenize(corpus, tokenizer, folder, progress=False)
    with pytest.raises(ValueError, match="begun with another shard_tokens: choose another folder"):
        pretokenize(corpus, tokenizer, folder, shard_tokens=5, progress=False)
    other = Corpus(root=corpus.root, files=corpus.files[1:])
    with pytest.raises(ValueError, match="begun with another text"):
        pretokenize(other, tokenizer, folder, progress=False)
    (corpus.root / "000.py").write_text("x" * corpus.files[0].num_bytes)
    with pytest.raises(ValueError, match="begun with another text"):
        pretokenize(corpus, tokenizer, folder, progress=False)
    with pytest.raises(ValueError, match="no plan.json: choose another folder"):
        pretokenize(corpus, tokenizer, corpus.root, progress=False)
    with pytest.raises(ValueError, match="at least 1"):
        pretokenize(corpus, tokenizer, folder, threads=0, progress=False)


def byte_tokenizer() -> Tokenizer:
    return Tokenizer({bytes([i]): i for i in range(256)}, name="bytes")


def test_another_vocabulary_is_refused_by_name(corpus, tokenizer, tmp_path):
    pretokenize(corpus, tokenizer, tmp_path / "t", progress=False)
    with pytest.raises(ValueError, match=r"shard_00000.bin was written .* 8,192 ids.*bytes: 257"):
        TokenStore.open(tmp_path / "t", byte_tokenizer())


def test_the_digest_of_a_vocabulary_follows_its_tokens(tokenizer):
    swapped = {bytes([i]): i ^ 1 for i in range(256)}
    own = byte_tokenizer().sha256
    assert Tokenizer(swapped).sha256 != own == byte_tokenizer().sha256 != tokenizer.sha256
    assert GPT2_PATTERN  # part of the digest: another way to cut words gives other ids


def spoil_magic(path: Path) -> None:
    path.write_bytes(b"PK" + path.read_bytes()[2:])


def spoil_header(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)


def spoil_token(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 16
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda p: p.unlink(), "found nothing: delete that file and index.json"),
        (spoil_magic, "another program wrote this file"),
        (spoil_header, "damaged header"),
        (lambda p: p.write_bytes(p.read_bytes()[:-100]), "cut short or added to"),
        (lambda p: p.write_bytes(p.read_bytes() + b"xx"), "cut short or added to"),
        (lambda p: p.write_bytes(p.read_bytes()[:50]), "damaged header"),
        (lambda p: p.write_bytes(b""), "another program"),
        (spoil_token, "do not fit their checksum"),
    ],
)
def test_a_spoiled_shard_is_named(corpus, tokenizer, tmp_path, spoil, says):
    folder = tmp_path / "t"
    pretokenize(corpus, tokenizer, folder, shard_tokens=500, progress=False)
    spoil(folder / "shard_00001.bin")
    with pytest.raises(ValueError, match=f"shard_00001.bin.*{says}"):
        TokenStore.open(folder, tokenizer)


def test_a_spoiled_index_or_folder_is_named(corpus, tokenizer, tmp_path):
    folder = tmp_path / "t"
    pretokenize(corpus, tokenizer, folder, progress=False)
    for text, says in (
        ("no json", "got something else"),
        ("{}", "not an index"),
        ('{"format": 1, "counts": []}', "not an index"),
    ):
        (folder / "index.json").write_text(text)
        with pytest.raises(ValueError, match=says):
            TokenStore.open(folder)
    with pytest.raises(ValueError, match="found no index.json: make it with"):
        TokenStore.open(tmp_path / "nothing")


def test_shards_of_two_folders_do_not_mix(corpus, tokenizer, tmp_path):
    for name, words in (("a", tokenizer), ("b", byte_tokenizer())):
        pretokenize(corpus, words, tmp_path / name, shard_tokens=400, progress=False)
    (tmp_path / "b" / "shard_00001.bin").replace(tmp_path / "a" / "shard_00001.bin")
    with pytest.raises(ValueError, match="shard_00001.bin belongs to another folder"):
        TokenStore.open(tmp_path / "a")


def test_a_full_disk_keeps_what_is_finished(corpus, tokenizer, tmp_path, small_groups, monkeypatch):
    folder, write, calls = tmp_path / "t", TokenFileWriter.write, []

    def full(self, ids):
        calls.append(1)
        if len(calls) > 9:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, ids)

    monkeypatch.setattr(TokenFileWriter, "write", full)
    with pytest.raises(OSError, match=r"disk is full after \d+ shards.*finished shards are kept"):
        pretokenize(corpus, tokenizer, folder, shard_tokens=150, progress=False)
    assert list(folder.glob("*.bin")) and not list(folder.glob("*.tmp"))
    monkeypatch.setattr(TokenFileWriter, "write", write)
    found = pretokenize(corpus, tokenizer, folder, shard_tokens=150, progress=False)
    assert found.preload().tolist() == expected(tokenizer)


def test_an_error_names_the_document(corpus, tmp_path):
    class Picky(Tokenizer):
        def encode_to_array(self, text):
            raise ValueError("shorten such runs")

    picky = Picky({bytes([i]): i for i in range(256)})
    with pytest.raises(ValueError, match=r"in or before 059.py: shorten such runs"):
        pretokenize(corpus, picky, tmp_path / "t", progress=False)


def test_a_shard_begins_its_tokens_on_a_page(corpus, tokenizer, tmp_path):
    pretokenize(corpus, tokenizer, tmp_path / "t", progress=False)
    path = tmp_path / "t" / "shard_00000.bin"
    header = read_header(path)
    assert path.stat().st_size == HEADER_BYTES + 2 * header.num_tokens
    raw = np.frombuffer(path.read_bytes()[HEADER_BYTES:], "<u2")
    assert raw.tolist() == expected(tokenizer)


def test_groups_stay_small_and_lose_nothing(corpus):
    made = list(groups(CorpusDocuments(corpus).pieces(), block_chars=200))
    assert [text for group in made for text in group.texts] == TEXTS
    assert all(sum(map(len, g.texts)) < 200 + max(map(len, TEXTS)) for g in made)
    assert sum(g.num_bytes for g in made) == corpus.num_bytes


@pytest.fixture
def rows(tmp_path) -> Path:
    path = tmp_path / "rows.jsonl"
    lines = [{"text": text, "id": i} for i, text in enumerate(TEXTS)] + [{"text": "", "id": -1}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def fake_datasets(monkeypatch) -> None:
    """Stands for the library: reads JSONL itself, and checks how it is called."""

    def load_dataset(kind, *, data_files, split, streaming):
        assert (kind, split, streaming) == ("json", "train", True)
        for line in Path(data_files[0]).read_text(encoding="utf-8").splitlines():
            yield json.loads(line)

    fake = types.SimpleNamespace(load_dataset=load_dataset)
    monkeypatch.setitem(sys.modules, "datasets", fake)


def test_rows_of_a_data_set_are_documents(rows, tokenizer, tmp_path, monkeypatch):
    fake_datasets(monkeypatch)
    source = DatasetFiles.find(rows)
    found = pretokenize(source, tokenizer, tmp_path / "t", progress=False)
    assert found.preload().tolist() == expected(tokenizer)
    assert sum(p.num_bytes for p in source.pieces()) == source.num_bytes == rows.stat().st_size
    with pytest.raises(ValueError, match="expected a column 'body'.*found text, id"):
        list(DatasetFiles.find(rows, column="body").pieces())


def test_a_long_row_is_cut_into_pieces(tokenizer, tmp_path, monkeypatch):
    fake_datasets(monkeypatch)
    monkeypatch.setattr(documents, "BLOCK_BYTES", 50)
    path = tmp_path / "long.jsonl"
    path.write_text(json.dumps({"text": "abc " * 50}) + "\n")
    ids = pretokenize(DatasetFiles.find(path), tokenizer, tmp_path / "t", progress=False).preload()
    assert tokenizer.decode(ids[:-1]) == "abc " * 50 and ids[-1] == tokenizer.end_of_text


def test_without_the_library_it_says_what_to_install(rows, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match="pip install datasets, or convert"):
        pretokenize(DatasetFiles.find(rows), tokenizer, tmp_path / "t", progress=False)


def test_data_files_that_do_not_exist_or_fit_are_refused(rows, tmp_path):
    with pytest.raises(ValueError, match="found none"):
        DatasetFiles.find(tmp_path / "*.parquet")
    (tmp_path / "rows.csv").write_text("a")
    with pytest.raises(ValueError, match="one format at a time"):
        DatasetFiles.find(tmp_path / "rows.*")


@pytest.mark.skipif(
    importlib.util.find_spec("datasets") is None, reason="the datasets library is not installed"
)
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_the_real_library_reads_local_files(rows, tokenizer, tmp_path, ending):
    from datasets import Dataset

    path = rows
    if ending == "parquet":
        path = tmp_path / "rows.parquet"
        Dataset.from_dict({"text": [*TEXTS, ""]}).to_parquet(str(path))
    found = pretokenize(DatasetFiles.find(path), tokenizer, tmp_path / "t", progress=False)
    assert found.preload().tolist() == expected(tokenizer)
