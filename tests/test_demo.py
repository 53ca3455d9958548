"""`make train-demo` in its short form: a few seconds instead of five minutes."""

import re
import subprocess
import sys

from grader.course import ROOT


def test_the_demo_trains_and_compares(tmp_path):
    (tmp_path / "text").mkdir()
    for name in ("argparse", "ast", "bisect", "calendar", "copy"):
        source = __import__(name).__file__
        (tmp_path / "text" / f"{name}.py").write_bytes(open(source, "rb").read())
    command = [sys.executable, "-m", "course_lib.training.demo", "--minutes", "0.05", "--model_size", "tiny",
               "--data", "text", "--cache", "tokens", "--out", "run"]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    losses = {
        name: float(value)
        for name, value in re.findall(r"^  (unigram|bigram|model) +([\d.]+)", done.stdout, re.M)
    }
    assert losses["bigram"] < losses["unigram"] < 9.1
    assert losses["model"] < 8.5, "an untrained model has ln 8192 = 9.01"
    assert "before training:\ndef " in done.stdout and "after training:\ndef " in done.stdout
    assert (tmp_path / "run/curves.png").is_file()


def test_make_has_the_target():
    shown = subprocess.run(
        ["make", "-n", "-o", ".venv/.ready", "train-demo"], cwd=ROOT, capture_output=True, text=True
    )
    assert "python -m course_lib.training.demo" in shown.stdout
