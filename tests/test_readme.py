"""Every command in the README is run here, or by the test named beside it."""

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from course_lib.lab import checking, registry, terminal
from grader.course import ROOT
from grader.site import count_hours
from tests.answers import answers
from tests.course import lessons, solved
from tests.test_house import FLOORS

README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
COMMANDS = [
    line.partition("#")[0].strip()
    for block in re.findall(r"^```bash\n(.*?)^```", README, re.M | re.S)
    for line in block.splitlines()
    if line.partition("#")[0].strip()
]
ELSEWHERE = {
    "course lab 02_rope": "test_make_lab_serves_the_first_lesson, tests/browser/test_lab.py",
    "course book": "tests/browser/test_site.py",
    "make test": "this very run",
    "make train-demo": "tests/test_demo.py, for seconds instead of minutes",
    "course grade submissions": "tests/test_judge_batch.py, tests/test_judge_class.py",
    "course report": "tests/test_judge_report.py",
}
EXPECTED = {
    "course check rmsnorm": (1, "[STUB]"),
    "course hint rmsnorm": (0, "hint 1 of 3"),
    "course ledger": (0, "exercises passed"),
    "course end-session": (0, "RMS normalization 0"),
    "course launch -m course_lib.training.ddp_trainer --ranks 2 --max_steps 5 --out runs/two": (
        0,
        "2 ranks done in",
    ),
    "course bench": (0, "  ladder  "),
    "course review": (0, "Reviews come with the exercises"),
    "python -m course_lib.gpt --mine": (0, "reference"),
    "course doctor": (0, "torch"),
    "course journal new 02_rope": (0, "02-rope.md"),
    "course reset 01_rmsnorm": (0, "01_rmsnorm"),
    "course update": (0, ""),
    "python -m course_lib.training.ddp_trainer --model_size tiny --max_steps 50 --out runs/one": (
        0,
        "step 50: loss",
    ),
}


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A learner's folder: the notebooks and nothing else."""
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    return tmp_path


def test_the_table_covers_every_command():
    assert set(COMMANDS) - {"make lab"} == set(ELSEWHERE) | set(EXPECTED)


def test_the_commands_in_the_readmes_order_in_one_fresh_folder(home):
    """A command finds what the ones before it have left there."""
    for command in (command for command in COMMANDS if command in EXPECTED):
        code, words = EXPECTED[command]
        done = subprocess.run(
            command.split(),
            cwd=home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        said = f"{command}\n{done.stdout}{done.stderr}"
        assert done.returncode == code and words in said and "Traceback" not in said, said


def test_make_test_is_the_whole_suite():
    shown = subprocess.run(
        ["make", "-n", "-o", ".venv/.ready", "test"], cwd=ROOT, capture_output=True, text=True
    )
    assert "python -m pytest" in shown.stdout and "-k" not in shown.stdout


def test_ci_runs_the_readmes_command():
    assert "make test" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def when_it_listens(address: str, server: subprocess.Popen, seconds: float = 120) -> bytes:
    """The page; the address is printed before the server answers, so the first tries may fail."""
    ends = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(address, timeout=60) as page:
                assert page.status == 200
                return page.read()
        except urllib.error.URLError:
            if server.poll() is not None or time.monotonic() > ends:
                raise
            time.sleep(0.2)


def test_make_lab_serves_the_first_lesson(home):
    """The real command: its recipe, its server; ended as Ctrl-C ends it."""
    venv = Path(sys.prefix)
    ready = venv / ".ready"
    env = os.environ | {
        "BROWSER": "true",
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
    }
    command = ["make", "-o", str(ready), f"VENV={venv}", "lab"]
    server = subprocess.Popen(
        command,
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        address, said, ends = None, "", time.monotonic() + 120
        while address is None and time.monotonic() < ends and (line := server.stdout.readline()):
            said += line
            address = re.search(r"http://\S+", line)
        assert address, said
        assert "00_start.ipynb" in address[0], said
        page = when_it_listens(address[0], server)
        assert b"jupyter" in page.lower()
    finally:
        os.killpg(server.pid, signal.SIGINT)
        assert server.wait(timeout=60) is not None


def test_the_picture_is_there_and_has_words():
    words, path = re.search(r"!\[([^\]]+)\]\(([^)]+)\)", README).groups()
    assert len(words) > 40 and (ROOT / path).is_file()


def test_the_message_is_the_checks():
    wrong = {a.name: a.text for a in answers("attention")}["begins one diagonal too late"]
    card = registry.exercise("attention")
    message = checking.judge(card, terminal.define(card, wrong, "<attention>"), seed=0).text()
    assert f"```text\n{message.rstrip()}\n```" in README, message
    right = terminal.define(card, solved("attention"), "<attention>")
    first = checking.judge(card, right, seed=0).text().splitlines()[0]
    assert f"```python\n{wrong.strip()}\n```" in README and f"```text\n{first}\n```" in README, (
        first
    )


def test_what_the_model_wrote_is_what_it_wrote():
    stored = json.loads((ROOT / "benchmarks/results/minutes.json").read_text(encoding="utf-8"))
    first = stored["figures"]["samples"][0]
    lines = re.search(r"   ```text\n(.*?)   ```", README, re.S)[1]
    assert textwrap.indent(textwrap.dedent(lines), "    ").rstrip() in first["text"]


def test_lessons_exercises_and_hours_are_counted():
    words = f"{len(lessons())} lessons with {len(registry.exercises())} exercises"
    said = re.search(rf"{words}, about (\d+) hours", README)
    assert said, words
    assert abs(int(said[1]) - sum(count_hours(ROOT))) <= 1


def test_links_and_folders_exist():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
    where = CONTRIBUTING.partition("## What is where")[2].partition("\n## ")[0]
    prose = "\n".join(line for line in where.splitlines() if line[:1] != "|")
    folders = re.findall(r"`(\w+)/`", prose)
    assert len(folders) >= 6 and not [name for name in folders if not (ROOT / name).is_dir()]


def read_first_sentence(path: Path) -> str:
    text = " ".join(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).split())
    return re.match(r".*?[.](?= |$)", text)[0]


def test_the_list_of_packages_is_what_they_say_of_themselves():
    rows = []
    for name in (name for name in FLOORS if name != "grader"):
        package = ROOT / "course_lib" / name
        path = package / "__init__.py" if package.is_dir() else package.with_suffix(".py")
        shown = f"{name}/" if package.is_dir() else f"{name}.py"
        rows.append(f"| `{shown}` | {read_first_sentence(path)} |")
    table = "\n".join(["| | |", "| --- | --- |", *rows])
    assert f"\n\n{table}\n\n" in CONTRIBUTING, f"write into CONTRIBUTING, What is where:\n\n{table}"


def test_the_pythons_that_are_named_are_allowed():
    first = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text())[1]
    assert f"All tests run with Python {first}" in README
