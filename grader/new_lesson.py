"""`course new-lesson`: every file that a lesson needs, with TODO lines that `course build` names.

The page and the function come from new_lesson_files; every other line is what `grader.places` finds
missing then, so a lesson begun by hand is told to add the very same lines.
"""

import argparse
import re
from pathlib import Path
from string import Template

from grader import places
from grader.lesson import LessonSource, lessons


def run(args: argparse.Namespace) -> int:
    """Write the lesson, then say which files there are and what to run next."""
    lesson = write_lesson(args.root, args.name, args.exercise, args.module, args.after)
    print(f"{lesson} is begun, in these files:")
    todos = places.find_todos(args.root)
    for path in dict.fromkeys(line.partition(":")[0] for line in todos):
        print(f"  {path}")
    print(f"`course build` names the {len(todos)} lines that are to do, and fails until none is")
    print(f"left; `course check {args.exercise}` checks what the notebook holds.")
    return 0


def write_lesson(root: Path, name: str, exercise: str, module: str = "", after: str = "") -> str:
    """Write all files of a new lesson with one exercise and return the lesson's name, NN_name.

    `module` is the library's new module, by default course_lib.training.NAME. The lesson gets the
    number after that of the lesson `after`, by default of the last one. ValueError, before anything
    is written, for a name, an id, a module or a number that cannot be had.
    """
    found = lessons(root)
    module = module or f"course_lib.training.{name}"
    number = _choose_number(found, after)
    _refuse(root, found, name, exercise, module)
    page = root / f"book/{number:02}_{name}.md"
    words = dict(
        number=f"{number:02}",
        title=name.replace("_", " ").capitalize(),
        exercise=exercise,
        module=module,
        function=exercise.replace("-", "_"),
    )
    for path, file in ((page, "page"), (_path(root, module), "library")):
        text = (places.FILES / f"{file}.txt").read_text(encoding="utf-8")
        path.write_text(Template(text).substitute(words), encoding="utf-8")
    places.add_missing(root, lessons(root))
    return page.stem


def _path(root: Path, module: str) -> Path:
    return root / (module.replace(".", "/") + ".py")


def _choose_number(found: list[LessonSource], after: str) -> int:
    names = {lesson.name: lesson for lesson in found}
    if after and after not in names:
        raise ValueError(f"no lesson {after!r}; the lessons are {', '.join(names)}")
    number = (names[after] if after else found[-1]).number + 1
    taken = [lesson.name for lesson in found if lesson.number == number]
    if taken:
        raise ValueError(
            f"number {number:02} is that of {taken[0]}. Give the lessons from it on a higher number "
            "first, in their files' names and wherever they are linked, or leave out --after: "
            f"the new lesson then comes after {found[-1].name}"
        )
    return number


def _refuse(root: Path, found: list[LessonSource], name: str, exercise: str, module: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(
            f"the name {name!r} is not lower-case letters, digits and _, as in grad_norm"
        )
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", exercise):
        raise ValueError(f"the id {exercise!r} is not words with hyphens between, as in grad-norm")
    for lesson in found:
        if exercise in lesson.exercises:
            raise ValueError(f"the exercise {exercise!r} is in {lesson.name}: choose another id")
    rooms = sorted(path.parent.name for path in (root / "course_lib").glob("*/__init__.py"))
    top, _, rest = module.partition(".")
    if top != "course_lib" or rest.count(".") != 1 or rest.partition(".")[0] not in rooms:
        raise ValueError(
            f"--module {module!r} is not course_lib.ROOM.NAME; the rooms are {', '.join(rooms)}"
        )
    if _path(root, module).exists():
        raise ValueError(f"{module} exists: name a new module, the function can move later")
