"""The one atomic write: whole or as it was, whoever else writes, whatever ends it."""

import errno
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from course_lib.checkpoints.files import write_file
from course_lib.runs.atomic import replace_file, write_whole

WRITES = """
import sys
from course_lib.runs.atomic import write_whole
for turn in range(40):
    write_whole(sys.argv[1], sys.argv[2] * 50_000, sync=False)
"""


def names(folder) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("content", ["é, text\r\n", b"\xff\x00"])
def test_what_is_written_is_there_to_the_byte(tmp_path, content, sync):
    write_whole(tmp_path / "file", content, sync=sync)
    data = content if isinstance(content, bytes) else content.encode("utf-8")
    assert (tmp_path / "file").read_bytes() == data and names(tmp_path) == ["file"]


def test_threads_and_processes_write_one_file_and_never_half_of_it(tmp_path):
    """Under one temporary name, one writer renames what another is still filling."""
    file = tmp_path / "file"
    file.write_text("b")
    others = [subprocess.Popen([sys.executable, "-c", WRITES, file, text]) for text in "xy"]
    with ThreadPoolExecutor(4) as pool:
        written = [pool.submit(write_whole, file, text * 50_000, sync=False) for text in "pqrs" * 9]
        while not all(done.done() for done in written) or any(p.poll() is None for p in others):
            found = file.read_text()
            assert found == "b" or (len(found) == 50_000 and len(set(found)) == 1)
    assert [done.result() for done in written] == [None] * 36
    assert [other.wait() for other in others] == [0, 0] and names(tmp_path) == ["file"]


@pytest.mark.parametrize("write", [write_whole, None], ids=["write_whole", "write_file"])
def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(tmp_path, write):
    """The limit on a file's size stands for a full disk: writing fails in the same place."""
    resource = pytest.importorskip("resource")
    file = tmp_path / "file"
    file.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
        with pytest.raises(OSError) as problem:
            if write:
                write(file, bytes(100_000), sync=True)
            else:
                write_file(file, lambda stream: stream.write(bytes(100_000)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert problem.value.errno == errno.EFBIG
    assert file.read_bytes() == b"old" and names(tmp_path) == ["file"]


def test_an_error_inside_the_block_goes_on_and_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), replace_file(tmp_path / "file", sync=False) as stream:
        stream.write(b"half")
        raise KeyboardInterrupt
    assert names(tmp_path) == []


def test_permissions_stay_and_a_new_file_gets_the_usual_ones(tmp_path):
    (tmp_path / "usual").touch()
    write_whole(tmp_path / "new", "x", sync=False)
    mode = [(tmp_path / name).stat().st_mode & 0o777 for name in ("usual", "new")]
    assert mode[0] == mode[1], "what the umask gives, not the 600 of a temporary file"
    (tmp_path / "new").chmod(0o640)
    write_whole(tmp_path / "new", "y", sync=False)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/page.md").write_text("old")
    (tmp_path / "page.md").symlink_to(tmp_path / "notes/page.md")
    write_whole(tmp_path / "page.md", "new", sync=False)
    assert (tmp_path / "page.md").is_symlink()
    assert (tmp_path / "notes/page.md").read_text() == "new" and names(tmp_path / "notes") == [
        "page.md"
    ]


@pytest.mark.parametrize("sync", [True, False])
def test_bytes_are_waited_for_when_that_is_asked(tmp_path, monkeypatch, sync):
    waited = []
    monkeypatch.setattr(os, "fsync", waited.append)
    write_whole(tmp_path / "file", "x", sync=sync)
    assert len(waited) == sync
