"""Whose notebook a file is, by where it lies.

A student is the first folder below the one that was graded. Folders with the name of a lesson do
not count, so a student's lessons may lie side by side or in a folder each, as nbgrader has them.
A file that lies in the graded folder itself is a student's whose name is the file's, without the
lesson's; where nothing is left of it, the graded folder is the student. In the names of Canvas's bulk
download, as in `adalovelace_LATE_4711_98765_01_rmsnorm-2.ipynb`, the student is what comes first, and
the first number is the student's in Canvas.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from course_lib.lab.journal.subject import lessons

COPY = re.compile(r"(?i)(copy)?[-_ ]?\(?\d{0,3}\)?")
"""What browsers, JupyterLab and Canvas add to the name of a second copy."""

CANVAS = re.compile(r"(?P<student>.+?)(_LATE)?_(?P<number>[1-9]\d*)_(?P<file>[1-9]\d*_.+)")


def find_student(notebook: str, folders: Sequence[Path] = ()) -> str:
    """The student whose notebook this is; `folders` are those that were graded."""
    return identify_student(notebook, folders)[0]


def identify_student(notebook: str, folders: Sequence[Path] = ()) -> tuple[str, str]:
    """The student whose notebook this is, and the student's number in Canvas, empty if not told."""
    path = Path(notebook)
    name = path.stem if path.suffix.casefold() == ".ipynb" else path.name  # a folder has a row too
    above = [folder for folder in folders if folder != path and path.is_relative_to(folder)]
    if not above:  # it was named by itself
        if found := _split_canvas(name):
            return found
        own = _leave_out_lessons(path.parts[:-1])
        return own[-1] if own else _remove_lesson(name) or name, ""
    folder = max(above, key=lambda one: len(one.parts))
    if own := _leave_out_lessons(path.relative_to(folder).parts[:-1]):
        return own[0], ""
    if found := _split_canvas(name):
        return found
    here = _leave_out_lessons(folder.absolute().parts)[-1:]
    of_a_class = len(folders) == 1 or folder.name in lessons()
    rest = _remove_lesson(name) if of_a_class else ""
    return rest or (here[0] if here else name), ""


def find_lesson(notebook: str) -> str:
    """The lesson that a file's name says, else one of its folders; empty when none does."""
    path = Path(notebook)
    for text in (path.stem, *reversed(path.parts[:-1])):
        if named := [lesson for lesson in lessons() if lesson in text]:
            return named[0]
    return ""


def _split_canvas(stem: str) -> tuple[str, str] | None:
    """Student and number of a name that Canvas made; `ada_4711_10_schedule` is none."""
    found = CANVAS.fullmatch(stem)
    if not found or found["file"].startswith(tuple(lessons())):
        return None
    return found["student"], found["number"]


def _leave_out_lessons(parts: Sequence[str]) -> list[str]:
    return [part for part in parts if part not in lessons() and part not in ("/", "..")]


def _remove_lesson(stem: str) -> str:
    for lesson in lessons():
        if lesson in stem:
            before, _, after = stem.partition(lesson)
            stem = before.strip(" -_.") or after.strip(" -_.")
    return "" if COPY.fullmatch(stem) else stem
