"""A check leaves nothing behind: whatever an answer writes stays in a folder that is removed."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from course_lib.lab import registry
from course_lib.runs.own_folder import own_folder
from grader.course import ROOT
from tests.soak import campaign, times

SCRIBBLE = """
def scribble():
    import contextlib, os, shutil
    import torch
    for place in (os.environ["WORK"], os.path.join(os.environ["WORK"], "runs", "ddp"),
                  os.environ["COURSE_HOME"], os.environ["HOME"]):
        for action in (
            lambda: os.makedirs(os.path.join(place, "made")),
            lambda: open(os.path.join(place, "new.txt"), "w").close(),
            lambda: open(os.path.join(place, "kept.txt"), "a").write("more"),
            lambda: torch.save({}, os.path.join(place, "new.pt")),
            lambda: os.remove(os.path.join(place, "kept.txt")),
            lambda: os.rename(os.path.join(place, "kept.txt"), "here.txt"),
            lambda: shutil.rmtree(os.path.join(place, "folder")),
        ):
            with contextlib.suppress(OSError):
                action()
    os.makedirs("runs/ddp", exist_ok=True)
    open("runs/ddp/kept.txt", "w").close()
"""

JUDGE = """
import ast, os, sys
from course_lib.lab import checking, registry, terminal
from tests.course import solved

os.chdir(os.environ["WORK"])
for exercise in sys.argv[2:]:
    card, tree = registry.exercise(exercise), ast.parse(solved(exercise))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body.insert(0, ast.parse("scribble()").body[0])
    text = sys.argv[1] + ast.unparse(tree)
    verdict = checking.judge(card, terminal.define(card, text, f"<{exercise}>"))
    print(exercise, verdict.code, os.getcwd() == os.environ["WORK"])
"""

SHORT = ["rmsnorm", "save-checkpoint", "load-checkpoint", "time-it", "ddp-sync"]


def read_tree(folder: Path) -> dict[str, bytes | str]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else ""
        for path in folder.rglob("*")
    }


@campaign
def test_an_answer_that_writes_everywhere_leaves_everything_as_it_was(tmp_path):
    tree = tmp_path / "learner"
    places = {name: tree / name for name in ("WORK", "COURSE_HOME", "HOME")}
    for place in (*places.values(), places["WORK"] / "runs" / "ddp"):
        (place / "folder").mkdir(parents=True)
        (place / "folder" / "inside.txt").write_text("as it was")
        (place / "kept.txt").write_text("as it was")
    before = read_tree(tree)
    exercises = times(SHORT, list(registry.exercises()))
    done = subprocess.run(
        [sys.executable, "-c", JUDGE, SCRIBBLE, *exercises],
        env=os.environ
        | {k: str(v) for k, v in places.items()}
        | {"PYTHONPATH": str(ROOT), "MPLCONFIGDIR": str(tmp_path / "plots")}
            | {"CUDA_CACHE_PATH": str(tmp_path / "driver")},  # a GPU's driver keeps it under HOME
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert read_tree(tree) == before
    assert done.stdout.splitlines() == [f"{exercise} PASS True" for exercise in exercises]


def test_what_is_refused_says_what_to_do(tmp_path):
    with own_folder(), pytest.raises(PermissionError, match="write below the folder"):
        (tmp_path / "new.txt").write_text("")
    (tmp_path / "new.txt").write_text("afterwards")


def test_temporary_files_and_relative_paths_are_inside():
    with own_folder() as folder:
        Path("here.txt").write_text("")
        with tempfile.TemporaryDirectory() as made:
            assert made.startswith(folder)
        assert Path(folder, "here.txt").is_file()
    assert not os.path.exists(folder) and not tempfile.gettempdir().startswith(folder)


def test_what_an_earlier_check_left_open_may_be_closed_and_removed():
    with own_folder():
        late = tempfile.TemporaryDirectory()
    with own_folder(), pytest.raises(FileNotFoundError):
        os.rmdir(late.name)
    with own_folder():
        late.cleanup()


def test_other_threads_of_the_notebook_go_on_writing(tmp_path):
    begin, written = threading.Event(), []

    def write():
        begin.wait()
        (tmp_path / "log.txt").write_text("")
        written.append(True)

    thread = threading.Thread(target=write)
    thread.start()
    with own_folder():
        begin.set()
        thread.join()
    assert written == [True]


def test_torchs_cache_is_not_left_in_the_folder_of_an_earlier_check(monkeypatch, tmp_path):
    """torch writes its place into the environment, and the check after that refused right answers."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    with own_folder() as folder:
        assert cache_dir().startswith(folder)
    assert "TORCHINDUCTOR_CACHE_DIR" not in os.environ
    gone = str(tmp_path / "check-gone/torchinductor_root")  # as a server of ranks may have it
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", gone)
    with own_folder() as folder:
        assert cache_dir().startswith(folder)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == gone
