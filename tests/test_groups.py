"""How tests are shared out among workers."""

import re
import subprocess
import sys

from grader.course import ROOT
from tests.conftest import find_group


def test_a_group_is_an_exercise_a_walk_a_file_or_a_test():
    assert find_group("tests/test_exercises.py::test_answers[get-lr: TIMEOUT: a - b]") == "get-lr"
    assert find_group("tests/test_exercises.py::test_the_stub[zero1-step]") == "zero1-step"
    assert find_group("tests/test_judge_worker.py::test_x[rmsnorm-12345]") == "rmsnorm"
    assert (
        find_group("tests/test_judge_worker.py::test_x[landlock]") == "tests/test_judge_worker.py"
    )
    assert (
        find_group("tests/browser/test_site.py::test_x[mode1]")
        == "tests/browser/test_site.py mode1]"
    )
    assert find_group("tests/test_readme.py::test_x") == "tests/test_readme.py::test_x"


def test_one_worker_takes_a_group(tmp_path):
    """Two files about the same four exercises: each exercise has one worker."""
    names = ("rmsnorm", "swiglu", "bytes", "get-lr")
    tests = f"import pytest\n\n@pytest.mark.parametrize('name', {names})\ndef test_it(name): pass\n"
    for file in ("test_exercises.py", "test_judge_worker.py"):
        (tmp_path / file).write_text(tests)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadscope", "-vvv"]
    settings = ["--rootdir", str(tmp_path), "-p", "tests.conftest", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *settings, str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    ran = re.findall(r"^\[(gw\d)\] .*test_\w+\.py::test_it\[([\w-]+)\]", done.stdout, re.M)
    assert len(ran) == 8, done.stdout + done.stderr
    assert len(set(ran)) == 4, "an exercise's tests ran on two workers"
