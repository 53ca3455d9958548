"""The course home: the folder that holds the learner's `learning/`, `mine/` and `notebooks/`."""

import os
import re
from pathlib import Path

LESSON = re.compile(r"\d\d_\w+")


def home() -> Path:
    """The absolute folder for everything that belongs to the learner; it need not exist yet.

    `COURSE_HOME` when set, else the nearest folder at or above the working directory that holds
    `_toc.yml` and `course_lib/`, else the working directory.
    """
    chosen = os.environ.get("COURSE_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "_toc.yml").is_file() and (folder / "course_lib").is_dir():
            return folder
    return here


def lessons() -> list[str]:
    """The names of the lessons in the course home ("01_rmsnorm"), from its pages and notebooks."""
    files = [*home().glob("book/*.md"), *home().glob("notebooks/*.ipynb")]
    return sorted({file.stem for file in files if LESSON.fullmatch(file.stem)})


def find_lesson(text: str) -> str:
    """The full name of the lesson called "01", "1", "rmsnorm", "01_rmsnorm" or by its file's path.

    Raises ValueError, with the names to choose from, when no lesson or more than one is meant.
    """
    known = lessons()
    wanted = Path(text).stem.lower()
    number = f"{int(wanted):02d}_" if wanted.isascii() and wanted.isdigit() else None
    found = [name for name in known if wanted in (name.lower(), name[3:].lower())]
    found = found or [name for name in known if number and name.startswith(number)]
    if len(found) == 1:
        return found[0]
    choice = ", ".join(known) or f"none found in {home()}: run this in the course folder"
    raise ValueError(f"no lesson is called {text!r}. Lessons: {choice}.")
