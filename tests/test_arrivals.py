"""`course grade --watch`, and the bar that says how long it takes."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from grader.cli import main
from grader.judge import arrivals, batch, store
from grader.judge.arrivals import find_arrivals
from grader.judge.judge_process import Options
from grader.judge.store import read_results
from tests.test_judge_batch import FAKE, ROOT, notebook

PROGRAM = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job has it ignored
from grader.judge import arrivals, batch, store
from grader.judge.judge_process import Options
store.environment_digest = lambda: "the same"
batch.Options = lambda **given: Options(**{{"judge": {FAKE!r}, **given}})
arrivals.LOOK_S = 0.2
from grader.cli import main
sys.exit(main(sys.argv[1:]))
"""
PATIENCE = 240


class Looks:
    """Looks at a folder one after the other, with what happens between them."""

    def __init__(self, folder: Path, *between):
        self.folder, self.between = folder, list(between)

    def find(self) -> list[Path]:
        return sorted(self.folder.iterdir())

    def wait(self, _: float) -> None:
        if not self.between:
            raise KeyboardInterrupt
        self.between.pop(0)()

    def arrivals(self) -> list[list[str]]:
        found = []
        with pytest.raises(KeyboardInterrupt):
            for group in find_arrivals(self.find, wait=self.wait):
                found.append([path.name for path in group])
        return found


def test_a_file_is_told_of_once_it_stays_the_same(tmp_path):
    (tmp_path / "old").write_text("a")

    def append(name, text="x"):
        return lambda: (tmp_path / name).open("a").write(text)

    def nothing():
        pass

    writing = [append("half"), append("half"), append("half"), nothing, nothing]
    assert Looks(tmp_path, nothing, nothing, *writing, nothing).arrivals() == [["old"], ["half"]]


def test_a_changed_file_is_told_of_again_and_a_vanished_one_is_not(tmp_path):
    file, gone = tmp_path / "a", tmp_path / "b"
    file.write_text("a")
    gone.write_text("b")

    def replace():
        (tmp_path / "c").write_text("z")
        os.utime(tmp_path / "c", ns=(0, file.stat().st_mtime_ns))  # of the same size and time
        os.replace(tmp_path / "c", file)

    def nothing():
        pass

    looks = Looks(tmp_path, gone.unlink, replace, nothing, nothing)
    assert looks.arrivals() == [["a"], ["a"]]


def start(folder: Path, *args: str, **streams) -> subprocess.Popen:
    env = os.environ | {"PYTHONPATH": str(ROOT), "FAKE_LOG": str(folder / "asked")}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "grade", "class", *args],
        cwd=folder,
        env=env,
        start_new_session=True,
        **streams,
    )


def scores(folder: Path) -> dict[str, float]:
    file = folder / "grades.jsonl"
    if not file.exists() or not file.stat().st_size:
        return {}
    found = (one for one in read_results(file) if one.status == "graded" and not one.gone)
    return {one.student: one.score for one in found}


def wait_until(condition) -> None:
    ends = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < ends, "it did not come"
        time.sleep(0.1)


def hand_in(folder: Path, student: str, data: bytes) -> None:
    path = folder / "class" / student / "02_rope.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_what_arrives_is_graded_and_ctrl_c_leaves_what_another_run_goes_on_from(tmp_path):
    (tmp_path / "class").mkdir()
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watching = start(tmp_path, "--watch", "--workers", "1", **pipes)
    try:
        hand_in(tmp_path, "ada", notebook("WRONG"))
        wait_until(lambda: scores(tmp_path) == {"ada": 4})
        hand_in(tmp_path, "ben", notebook()[:5000])  # half of it, the rest takes its time
        hand_in(tmp_path, "ada", notebook("better"))
        wait_until(lambda: scores(tmp_path) == {"ada": 5})
        hand_in(tmp_path, "ben", notebook())
        wait_until(lambda: scores(tmp_path) == {"ada": 5, "ben": 5})
        assert watching.poll() is None
    finally:
        os.killpg(watching.pid, signal.SIGINT)
        out, err = watching.communicate(timeout=PATIENCE)
    assert watching.returncode == 0, err
    assert "watching class" in err and "the same command goes on from" in err
    assert "Traceback" not in err and "class/ada/02_rope.ipynb" in out
    asked = (tmp_path / "asked").read_text()
    done = start(tmp_path, "--json", **pipes)
    out, err = done.communicate(timeout=PATIENCE)
    assert done.returncode == 0 and len(out.splitlines()) == 2, err
    assert (tmp_path / "asked").read_text() == asked, "nothing is graded a second time"


def test_ctrl_c_while_a_notebook_is_graded_keeps_what_is_done(tmp_path):
    for number in range(40):
        hand_in(tmp_path, f"s{number:02}", notebook(f"SLEEP {number}"))
    watching = start(tmp_path, "--watch", "--workers", "1", stderr=subprocess.PIPE, text=True,
                     stdout=subprocess.DEVNULL)  # fmt: skip
    wait_until(lambda: 3 <= len(scores(tmp_path)))
    os.killpg(watching.pid, signal.SIGINT)
    _, err = watching.communicate(timeout=PATIENCE)
    assert watching.returncode == 1 and "Traceback" not in err, "some are not graded"
    assert "the same command goes on from grades.jsonl" in err
    lines = (tmp_path / "grades.jsonl").read_bytes().splitlines()
    assert [json.loads(line) for line in lines], "no line is cut"


def test_watching_gives_the_rows_and_the_end_of_a_plain_run(tmp_path):
    """Folders without a notebook, files of other names, what is undecided, what came and went."""
    hand_in(tmp_path, "ada", notebook())
    hand_in(tmp_path, "ben", notebook("PERSON"))
    hand_in(tmp_path, "dot", notebook("WRONG"))
    for name in ("cy/rope.py", "dot/02_rope.ipynb.txt", "dot/.hidden.ipynb"):
        path = tmp_path / "class" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(notebook("other"))
    for name in ("empty", "late"):
        (tmp_path / "class" / name).mkdir()
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watching = start(tmp_path, "--watch", "--workers", "1", **pipes)
    try:
        file = tmp_path / "grades.jsonl"
        wait_until(lambda: len(scores(tmp_path)) == 3 and "class/late" in file.read_text())
        hand_in(tmp_path, "late", notebook("late"))
        (tmp_path / "class/dot/.hidden.ipynb").unlink()
        wait_until(lambda: scores(tmp_path).get("late") == 5)
        wait_until(lambda: '"gone": "filled"' in file.read_text())
    finally:
        os.killpg(watching.pid, signal.SIGINT)
        out, err = watching.communicate(timeout=PATIENCE)
    lines = len(file.read_bytes().splitlines())
    plain = start(tmp_path, "--workers", "1", **pipes)
    said = plain.communicate(timeout=PATIENCE)[0]
    assert watching.returncode == plain.returncode == 2, err
    ends = said.index("7 notebooks, 2 ungradable")
    assert out.endswith(said[ends:]) and "class/ben/02_rope.ipynb: rotate-half: odd output" in out
    assert "class/cy: it is a folder, with rope.py in it" in said[ends:]
    assert "left out as no notebooks: 1 .py" in err
    assert err.count("no longer in the folder") == 1 and "class/dot/.hidden.ipynb" in err
    new = set(said[:ends].splitlines()) - set(out.splitlines())
    assert new == set(), "the same rows"
    assert len(file.read_bytes().splitlines()) == lines, "and nothing is left to do"


def test_ctrl_c_between_the_disk_and_memory_forgets_no_row(tmp_path, capsys, monkeypatch):
    """Its moment is while a row goes to the disk, which on a busy disk is most of the time."""
    for student in ("ada", "ben", "cy"):
        hand_in(tmp_path, student, notebook())
    sync, calls = os.fsync, []

    def sync_and_stop(file):
        sync(file)
        calls.append(file)
        if len(calls) == 3:  # the file's first line, ada's row, ben's row
            raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(store.os, "fsync", sync_and_stop)
    monkeypatch.setattr(arrivals, "LOOK_S", 0.01)
    monkeypatch.setattr(batch, "Options", lambda **given: Options(**{"judge": FAKE, **given}))
    assert main(["grade", "class", "--watch", "--workers", "1"]) == 1
    out = capsys.readouterr().out
    assert "class/ben/02_rope.ipynb" in out and "2 notebooks" in out
    assert "not graded yet: 1 notebooks" in out
    assert scores(tmp_path) == {"ada": 5, "ben": 5}


def test_errors_of_watching(tmp_path):
    done = start(tmp_path, "--watch", stderr=subprocess.PIPE, text=True)
    _, err = done.communicate(timeout=PATIENCE)
    assert done.returncode == 2 and "does not exist" in err


def read_terminal(folder: Path) -> str:
    """What a terminal is sent on stderr."""
    mine, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 120))
    run = start(folder, "--workers", "1", stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    said = b""
    while True:
        ready, _, _ = select.select([mine], [], [], 0.2)
        try:
            part = os.read(mine, 4096) if ready else b""
        except OSError:  # the terminal's other end is closed
            break
        said += part
        if not part and run.poll() is not None:
            break
    os.close(mine)
    assert run.wait(timeout=PATIENCE) == 0, said
    return said.decode()


def test_a_terminal_sees_the_time_left_and_a_file_sees_nothing(tmp_path):
    for number in range(30):
        hand_in(tmp_path, f"s{number:02}", notebook(f"SLEEP {number}"))
    bars = re.findall(r"(\d+)/30 \[(\d\d:\d\d)<(\d\d:\d\d|\?)", read_terminal(tmp_path))
    assert len(bars) > 3 and bars[-1][0] == "30" and any(left != "?" for *_, left in bars)
    quiet = start(tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert quiet.communicate(timeout=PATIENCE)[1] == b""


def test_results_that_are_stored_promise_no_speed(tmp_path):
    """Twenty of thirty are stored, and the time left is told from the other ten alone."""
    for number in range(20):
        hand_in(tmp_path, f"s{number:02}", notebook(f"SLEEP {number}"))
    assert start(tmp_path, stdout=subprocess.DEVNULL).wait(timeout=PATIENCE) == 0
    for number in range(20, 30):
        hand_in(tmp_path, f"s{number:02}", notebook(f"SLEEP {number}"))
    counts = re.findall(r"(\d+)/(\d+) \[", read_terminal(tmp_path))
    assert counts[-1] == ("10", "10") and max(int(done) for done, _ in counts) == 10
