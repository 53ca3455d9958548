"""Seconds from `course lab` to a lesson that answers: python -m benchmarks.lab [--runs 3]

Median of several starts in headless Chromium: server ready, notebook visible, first cell done.
"""

import argparse
import json
import statistics
import subprocess
import sys

from benchmarks.record import record
from grader.course import ROOT


def main() -> None:
    """Start JupyterLab `--runs` times, one after the other, and record the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    runs = [start() for _ in range(parser.parse_args().runs)]
    figures = {name: round(statistics.median(run[name] for run in runs), 2) for name in runs[0]}
    print(record("lab", figures | {"runs": len(runs)}))


def start() -> dict[str, float]:
    """The seconds of one start, in a process and a course home of its own."""
    command = [sys.executable, str(ROOT / "tests/browser/lab.py"), "01_rmsnorm"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    seconds = json.loads(done.stdout.splitlines()[-1])
    print(", ".join(f"{name} {value:.1f}" for name, value in seconds.items()), flush=True)
    return seconds


if __name__ == "__main__":
    main()
