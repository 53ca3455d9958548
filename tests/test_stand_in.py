"""Where torch sees a device: ranks, their checks, the judge and the solved lessons work there too.

On a GPU autograd starts a thread at the first backward pass of a process, and each process forked
after that refuses to run one. A stand-in for a device does the same to torch, without a GPU.
"""

import os
import subprocess
import sys

import nbformat
import pytest

from course_lib import checks
from course_lib.lab import registry
from grader.course import ROOT
from tests import stand_in
from tests.course import lessons
from tests.soak import campaign, times
from tests.test_notebooks import run

pytestmark = pytest.mark.skipif(not stand_in.has_compiler(), reason="g++ is not installed")

RANKS = [i for i in registry.exercises() if checks.suite(i).ranks]
MANY = ("_collectives", "_ddp", "_zero", "_fsdp", "_fsdp_checkpoint")  # lessons on many ranks
NAMES = [lesson.name for lesson in lessons() if lesson.name.endswith(MANY)]

TWICE = """
import sys
import torch
from course_lib.ranks import local_ranks

def gradient():
    weight = torch.ones(3, requires_grad=True)
    (2 * weight).sum().backward()
    return weight.grad.tolist()

gradient()
ranks = local_ranks.run(gradient, [()] * 2, fork=sys.argv[1] == "fork")
print([rank.value for rank in ranks])
"""

CHECK = """
import sys
import torch
from course_lib.lab import checking, registry, terminal
from tests.course import solved

weight = torch.ones(3, requires_grad=True)
(2 * weight).sum().backward()
for exercise in sys.argv[1:]:
    card = registry.exercise(exercise)
    verdict = checking.judge(card, terminal.define(card, solved(exercise), f"<{exercise}>"), seed=0)
    print(exercise, verdict.code)
    if not verdict.passed:
        print(verdict.text(), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    """The environment of a process for which torch has a device."""
    folder = tmp_path_factory.mktemp("stand_in")
    site = stand_in.write_site(folder, stand_in.build(folder))
    return {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"}


def python(code: str, *args: str, env: dict) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", code, *args]
    return subprocess.run(command, env=env, capture_output=True, text=True, cwd=ROOT)


def test_ranks_forked_from_a_process_that_ran_backward_refuse_to(device):
    """The stand-in is good for something: what the library does not do fails with it."""
    done = python(TWICE, "fork", env=device)
    assert done.returncode and "autograd's threading" in done.stderr, done.stderr


def test_ranks_run_backward_after_their_caller_has(device):
    done = python(TWICE, "server", env=device)
    assert done.stdout == f"{[[2.0] * 3] * 2}\n", done.stderr


def test_every_check_on_ranks_passes_a_right_answer(device):
    done = python(CHECK, *RANKS, env=device)
    assert done.stdout.splitlines() == [f"{exercise} PASS" for exercise in RANKS], done.stderr


@campaign
@pytest.mark.parametrize("name", times(NAMES[2:3], NAMES))
def test_a_solved_lesson_on_many_ranks_runs(name, device, tmp_path, monkeypatch):
    for variable in ("PYTHONPATH",):
        monkeypatch.setenv(variable, device[variable])
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    notebook = nbformat.read(ROOT / f"solutions/{name}.ipynb", 4)
    run(notebook, tmp_path)
    kept = {path.stem for path in (tmp_path / "mine").glob("*.py")}
    assert len(kept) == sum(cell.source.startswith("check(") for cell in notebook.cells)


def test_the_judge_passes_right_answers_on_ranks(device, tmp_path):
    paths = [str(ROOT / f"solutions/{name}.ipynb") for name in ("20_ddp", "23_fsdp")]
    command = [sys.executable, "-m", "grader.cli", "grade", *paths]
    command += ["--out", str(tmp_path / "grades.jsonl"), "--workers", "1"]
    done = subprocess.run(command, env=device, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in done.stdout.splitlines()[:2]:
        score = line.split()[1]
        assert score.split("/")[0] == score.split("/")[1], done.stdout
