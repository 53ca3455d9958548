"""Seconds to build the static site: cold, with nothing changed, and with one page touched.

Works on a copy of the sources, so the checkout's own build is left alone. "cold" executes every
lesson; the others find its outputs kept.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.record import record
from grader.course import ROOT


def run() -> dict:
    """Three builds in a copy of the course folder."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "course"
        left = shutil.ignore_patterns(".git", "_build", ".venv", "mine", "learning", "__pycache__")
        shutil.copytree(ROOT, root, ignore=left)
        pages = len(list((root / "book").glob("*.md")))
        seconds = {"cold_s": _build(root), "unchanged_s": _build(root)}
        page = root / "book/01_rmsnorm.md"
        page.write_text(
            page.read_text(encoding="utf-8") + "\nOne more sentence.\n", encoding="utf-8"
        )
        seconds["one_page_touched_s"] = _build(root)
    return {"pages": pages, **seconds}


def _build(root: Path) -> float:
    program = (
        "import sys; from pathlib import Path; from grader.book import build; "
        f"sys.exit(build(Path({str(root)!r})))"
    )
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=os.environ | {"COURSE_MINUTE": "8"},
    )
    if done.returncode:
        raise RuntimeError(f"the site did not build:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return round(time.perf_counter() - began, 1)


if __name__ == "__main__":
    print(record("book", run()))
