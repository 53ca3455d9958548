"""Where the course lies: the folder that holds `book/`, `course_lib/` and `grader/`."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
