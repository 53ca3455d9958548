"""A copy of the course in another folder, for tests that change it."""

import shutil
import subprocess
from pathlib import Path

from grader.course import ROOT

LEFT_OUT = ("benchmarks/", "tests/browser/", "book/web/")
BESIDE = ("_toc.yml", "book/", "course_lib/checks/", "tests/answers/", "tests/reviews/")
"""Where the lessons are named."""


def copy_course(into: Path, only: tuple[str, ...] = ("",)) -> None:
    """What git tracks, and what it would, or the parts of it that begin with one of `only`."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if name.startswith(only) and not name.startswith(LEFT_OUT) and (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, into / name)
