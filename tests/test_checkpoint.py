"""Checkpoints: whole or not there, checked, and readable whatever had wrapped the model."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch import nn

from course_lib.checkpoints import single_file
from course_lib.checkpoints.files import CheckpointError
from course_lib.checkpoints.saved_state import plain_names
from course_lib.runs.random_states import random_states, restore_random_states
from tests.soak import campaign, times


def state(value: float) -> dict:
    return {"weights": torch.full((1000,), value), "step": 3, "list": [1, "two", None]}


def test_what_is_saved_comes_back(tmp_path):
    path = single_file.save(state(1.5), tmp_path, step=7)
    found = single_file.load(path)
    assert torch.equal(found["weights"], state(1.5)["weights"]) and found["list"] == [
        1,
        "two",
        None,
    ]
    assert torch.load(path, weights_only=True)["step"] == 3, "an ordinary torch.save file"


def test_the_last_ones_are_kept(tmp_path):
    for step in (1, 2, 3, 4):
        single_file.save(state(step), tmp_path, step, keep=2)
    assert single_file.steps(tmp_path) == [4, 3]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "step_00000003.json",
        "step_00000003.pt",
        "step_00000004.json",
        "step_00000004.pt",
    ]


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def record_gone_bad(path):
    path.with_suffix(".json").write_text("{")


@pytest.mark.parametrize(
    "harm, word", [(cut, "cut short"), (flip, "changed"), (record_gone_bad, "damaged")]
)
def test_a_bad_one_is_named_and_the_one_before_is_used(tmp_path, harm, word):
    single_file.save(state(1), tmp_path, 1)
    harm(single_file.save(state(2), tmp_path, 2))
    said = []
    step, found = single_file.load_newest(tmp_path, said.append)
    assert step == 1 and found["weights"][0] == 1
    assert len(said) == 1 and word in said[0] and "step_00000002" in said[0]


def test_only_bad_ones_do_not_start_from_nothing(tmp_path):
    cut(single_file.save(state(1), tmp_path, 1))
    with pytest.raises(CheckpointError, match="none of the 1 checkpoints"):
        single_file.load_newest(tmp_path, lambda text: None)


def test_an_empty_folder_is_none(tmp_path):
    assert single_file.load_newest(tmp_path) is None
    assert single_file.load_newest(tmp_path / "not there") is None


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "own.pt"
    path.write_text("not a checkpoint")
    with pytest.raises(CheckpointError, match="own.pt is not a checkpoint"):
        single_file.load(path)
    torch.save({"model": nn.Linear(2, 2)}, path)  # would need to run code to be read
    with pytest.raises(CheckpointError, match="plain values"):
        single_file.load(path)
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        single_file.load(tmp_path / "absent.pt")


def test_a_full_disk_leaves_the_earlier_one(tmp_path):
    """The limit on file size stands for a full disk: writing fails in the same place."""
    single_file.save(state(1), tmp_path, 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
        with pytest.raises(OSError):
            single_file.save(state(2), tmp_path, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert not list(tmp_path.glob("*.part")), "the space is given back"
    assert single_file.load_newest(tmp_path)[0] == 1


KILLED = """
    import sys, torch
    from course_lib.checkpoints import single_file
    from course_lib.runs.random_states import random_states, restore_random_states
    from course_lib.checkpoints.saved_state import plain_names
    step = 0
    while True:
        step += 1
        single_file.save({"w": torch.full((300_000,), float(step))}, sys.argv[1], step, keep=2)
        print(step, flush=True)
"""


@campaign
def test_a_kill_at_any_moment_leaves_a_good_one(tmp_path):
    """Kills while it does nothing but save."""
    for number in range(times(4, 100)):
        folder = tmp_path / str(number)
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(KILLED), str(folder)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2):
            done = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGSTOP)  # wherever it is
        torch.rand(1 + 1000 * number)
        process.kill()
        done = [done, *map(int, process.communicate()[0].split())][-1]
        said = []
        step, found = single_file.load_newest(folder, said.append)
        assert step >= done and not said
        assert (found["w"] == step).all()


class Killed(BaseException):
    """In place of a kill, at one line of `single_file`."""


def save_until(line: int, *arguments, **settings) -> bool:
    """Whether the save came to its end before so many lines were run."""
    left = line

    def trace(frame, event, argument):
        nonlocal left
        if frame.f_code.co_filename != single_file.__file__:
            return None
        left -= event == "line"
        if left < 0:
            raise Killed
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        single_file.save(*arguments, **settings)
    except (Killed, RuntimeError):  # torch.save ends in an error of its own
        assert left < 0
        return False
    finally:
        sys.settrace(before)
    return True


def test_a_step_that_is_saved_again_is_never_without_a_good_file(tmp_path):
    """A stop right after a save may save its step once more; each kill is followed by another."""
    single_file.save(state(1), tmp_path, 5, keep=1)
    line, found = 0, set()
    while not save_until(line, state(2), tmp_path, 5, keep=1):
        said = []
        step, kept = single_file.load_newest(tmp_path, said.append)
        assert step == 5 and not said, line
        found.add(kept["weights"][0].item())
        line += 1
    assert line > 10 and found == {1, 2}
    assert "before" not in json.loads((tmp_path / "step_00000005.json").read_text())


@pytest.mark.parametrize(
    "wrap",
    [
        lambda m: {f"module.{k}": v for k, v in m.items()},
        lambda m: {f"_orig_mod.{k}": v for k, v in m.items()},
        lambda m: {f"module._orig_mod.{k}": v for k, v in m.items()},
        lambda m: {f"_orig_mod.module.{k}": v for k, v in m.items()},
        lambda m: {k.replace("0.", "0._checkpoint_wrapped_module."): v for k, v in m.items()},
        lambda m: {f"_fsdp_wrapped_module.{k}": v for k, v in m.items()},
    ],
)
def test_wrappers_leave_no_trace(wrap):
    plain = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2)).state_dict()
    assert plain_names(wrap(plain)).keys() == plain.keys()


def test_a_part_called_module_keeps_its_name():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.module, self.head = nn.Linear(2, 2), nn.Linear(2, 2)

    names = Model().state_dict().keys()
    assert plain_names(Model().state_dict()).keys() == names


def test_random_states_return(tmp_path):
    random.random(), np.random.rand(), torch.rand(3)
    path = single_file.save({"ranks": [random_states()]}, tmp_path, 1)
    first = random.random(), np.random.rand(), np.random.randn(), torch.rand(2).tolist()
    restore_random_states(single_file.load(path)["ranks"][0])
    assert (random.random(), np.random.rand(), np.random.randn(), torch.rand(2).tolist()) == first


def test_the_record_is_json_and_says_what_it_checks(tmp_path):
    path = single_file.save(state(1), tmp_path, 12)
    record = json.loads(path.with_suffix(".json").read_text())
    assert record["step"] == 12 and record["bytes"] == path.stat().st_size
    assert len(record["sha256"]) == 64


def test_a_folder_in_memory_behaves_as_one_on_the_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = "memory:test/checkpoints"
    assert single_file.load_newest(folder) is None
    for step in (1, 2, 3):
        path = single_file.save(state(step), folder, step, keep=2)
    assert single_file.steps(folder) == [3, 2]
    assert single_file.load_newest(folder)[1]["weights"][0] == 3
    assert single_file.load(path)["list"] == [1, "two", None]
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        single_file.load(f"{folder}/step_00000001.pt")
    single_file.save({"model": nn.Linear(2, 2)}, folder, 4)
    with pytest.raises(CheckpointError, match="plain values"):
        single_file.load(f"{folder}/step_00000004.pt")
    assert not list(tmp_path.iterdir())


def test_memory_holds_the_last_few_folders():
    for number in range(single_file.MEMORY_FOLDERS + 1):
        single_file.save(state(number), f"memory:{number}", 1)
    assert single_file.steps("memory:0") == [] and single_file.steps("memory:1") == [1]
