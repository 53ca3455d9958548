"""`course doctor` reports a broken part as a line, never as a traceback, and says what to do."""

import json
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest

from course_lib.lab import doctor

ROOT = Path(__file__).parents[1]
CPU = {"version": "2.13.0+cpu", "threads": 2, "gloo": True, "nccl": False, "gpus": []}
GPU = {"name": "GPU X", "gib": 79.6, "bf16": True}


class Torch:
    """Stands in for the process that is asked about torch."""

    answer, complaint, returncode = json.dumps(CPU), "", 0

    def __init__(self, *args, **kwargs):
        pass

    def communicate(self, timeout=None):
        return self.answer, self.complaint

    def kill(self):
        pass


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setenv("COURSE_HOME", str(ROOT))
    monkeypatch.setattr(doctor.subprocess, "Popen", Torch)
    monkeypatch.setattr(Torch, "answer", json.dumps(CPU))


def report(capsys, **more):
    status = doctor.run(Namespace(json=True))
    return status, json.loads(capsys.readouterr().out)


def states(found):
    return {f["name"]: f["state"] for f in found["findings"]}


def test_this_machine_is_described(capsys):
    status, found = report(capsys)
    names = ["machine", "python", "torch", "gpu", "backends", "tokenizer", "corpus", "jupyter"]
    assert [f["name"] for f in found["findings"]] == [*names, "nbgrader", "notebooks"]
    assert set(states(found).values()) <= {"ok", "warn"} and status == 0
    assert "several ranks on the CPU (gloo)" in found["runs"]
    assert any("NCCL" in line for line in found["does_not_run"])


def test_the_text_ends_with_two_lists(capsys):
    assert doctor.run(Namespace(json=False)) == 0
    lines = capsys.readouterr().out.splitlines()
    starts = [line for line in lines if line.startswith("Will ")]
    assert starts == ["Will run here", "Will not run here"]
    assert all(line.split()[0] in ("ok", "warn", "missing", "->") for line in lines[:10])
    assert max(map(len, lines)) < 160


def test_gpus_open_the_gpu_lessons(monkeypatch, capsys):
    monkeypatch.setattr(Torch, "answer", json.dumps(CPU | {"nccl": True, "gpus": [GPU, GPU]}))
    _, found = report(capsys)
    assert "2 ranks on GPUs (NCCL)" in found["runs"] and found["does_not_run"] == []
    assert "GPU X (80 GiB, bf16)" in found["findings"][3]["text"]


@pytest.mark.parametrize(
    "version,state", [("2.10.1", "warn"), ("2.11.0", "ok"), ("2.14.0", "warn")]
)
def test_the_range_of_torch(monkeypatch, capsys, version, state):
    monkeypatch.setattr(Torch, "answer", json.dumps(CPU | {"version": version}))
    _, found = report(capsys)
    assert states(found)["torch"] == state


@pytest.mark.parametrize("answer", ["", "Segmentation fault", "[", "\n"])
def test_a_torch_that_does_not_start_is_a_line(monkeypatch, capsys, answer):
    monkeypatch.setattr(Torch, "answer", answer)
    monkeypatch.setattr(Torch, "complaint", "Traceback ...\nImportError: libtorch.so not found\n")
    status, found = report(capsys)
    torch = found["findings"][2]
    assert status == 1 and torch["state"] == "missing" and "pip install" in torch["todo"]
    assert torch["text"] == "ImportError: libtorch.so not found"
    assert found["does_not_run"][0].startswith("every lesson")


def test_a_torch_that_hangs_is_a_line(monkeypatch, capsys):
    def communicate(self, timeout=None):
        if timeout:
            raise subprocess.TimeoutExpired("python", timeout)
        return "", ""

    monkeypatch.setattr(Torch, "communicate", communicate)
    _, found = report(capsys)
    assert "more than" in found["findings"][2]["text"]


def test_a_broken_part_does_not_hide_the_others(monkeypatch, capsys):
    from course_lib.data import tokenizer

    def broken():
        raise RuntimeError("ranks differ\nfrom their sha256")

    monkeypatch.setattr(tokenizer.Tokenizer, "course", broken)
    status, found = report(capsys)
    assert status == 1 and states(found)["tokenizer"] == "missing"
    assert "ranks differ" in [f["text"] for f in found["findings"]]
    assert states(found)["corpus"] == "ok"


def test_a_package_that_is_not_installed(monkeypatch, capsys):
    def version(name):
        raise doctor.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.importlib.metadata, "version", version)
    _, found = report(capsys)
    assert states(found)["jupyter"] == states(found)["nbgrader"] == "missing"
    assert any(line.startswith("course lab") for line in found["does_not_run"])


def test_no_alembic_is_a_warning(monkeypatch, capsys):
    monkeypatch.setattr(doctor.shutil, "which", lambda name, path=None: None)
    _, found = report(capsys)
    assert states(found)["nbgrader"] == "warn"


def test_outside_the_course_folder(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "nowhere"))
    status, found = report(capsys)
    assert status == 1 and states(found)["notebooks"] == "missing"


def test_missing_notebooks_say_how_to_get_them(monkeypatch, capsys, tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "01_rmsnorm.md").touch()
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    _, found = report(capsys)
    assert found["findings"][-1]["todo"] == "run `course update`"


def test_the_report_itself_is_quick(capsys):
    before = time.process_time()
    report(capsys)
    assert time.process_time() - before < 2


def test_the_command_works_where_torch_is_broken(tmp_path, monkeypatch):
    monkeypatch.undo()
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('half installed')")
    command = [sys.executable, "-m", "grader.cli", "doctor"]
    environment = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert "ImportError: half installed" in done.stdout, done.stderr
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
