"""`course report --feedback FOLDER`: one page for each student, to be handed back.

It says what was asked, what was right, and of a failing check what the learner's own notebook would
say. There is nothing on it of any other student, nothing that is meant for the grader alone, no
script, and no address outside.
"""

import ast
import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.lab.journal.subject import lessons
from course_lib.lab.registry import Exercise, exercises
from course_lib.runs.atomic import write_whole
from grader.judge.flags import FLAGS, TOLD
from grader.judge.grade import ExerciseResult, Result
from grader.judge.grades import StudentGrades, is_decided, name_lesson
from grader.judge.pages import render_template

LONGEST = 80  # characters of a file's name: far below what any file system allows
RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")  # names of devices on Windows


@dataclass
class ExerciseFeedback:
    """One exercise as its learner reads of it."""

    card: Exercise
    row: ExerciseResult

    @property
    def asked(self) -> str:
        """The signature and the contract, as they were handed out."""
        return remove_hole(self.card.stub)

    @property
    def outcome(self) -> str:
        """One of "right", "wrong" and "open", when a person has still to look at it."""
        if self.row.is_open:
            return "open"
        return "right" if self.row.verdict == "PASS" else "wrong"

    @property
    def told(self) -> list[str]:
        """What was noticed about the cell, which costs nothing."""
        return [FLAGS[flag] for flag in self.row.flags if flag in TOLD & set(FLAGS)]


@dataclass
class LessonFeedback:
    """One lesson as its learner reads of it."""

    name: str
    result: Result
    set_aside: int
    """Further notebooks of it that do not count."""

    @property
    def title(self) -> str:
        return lessons().get(self.name, {}).get("title", self.name)

    @property
    def file(self) -> str:
        return Path(self.result.notebook).name

    @property
    def is_decided(self) -> bool:
        return is_decided(self.result)

    @property
    def exercises(self) -> list[ExerciseFeedback]:
        known, rows = exercises(), self.result.exercises.items()
        return [ExerciseFeedback(known[name], row) for name, row in rows if name in known]


def write_pages(students: Sequence[StudentGrades], folder: Path) -> list[Path]:
    """Write each student's page into `folder`; other files there stay as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    names = name_files([student.name for student in students])
    paths = []
    for student in students:
        paths.append(folder / names[student.name])
        write_whole(paths[-1], render_feedback(student), sync=False)
    return paths


def render_feedback(student: StudentGrades) -> str:
    """The page of one student as HTML."""
    aside = Counter(name_lesson(one) for one in student.set_aside)
    found = [
        LessonFeedback(name, student.lessons[name], aside[name]) for name in sorted(student.lessons)
    ]
    files = [Path(one.notebook).name for one in student.unplaced]
    return render_template("feedback.html.j2", student=student, lessons=found, unplaced=files)


def name_files(students: Sequence[str]) -> dict[str, str]:
    """A file's name for each student: safe on every system, and never the same for two of them.

    Letters and digits of any script stay, and a space becomes an underscore. A name that had to
    change more, or that comes too near to another, gets eight characters of its digest.
    """
    plain = {student: _make_plain(student) for student in students}
    shared = Counter(name.casefold() for name in plain.values())
    made = {}
    for student, name in plain.items():
        if name != student.replace(" ", "_") or shared[name.casefold()] > 1:
            digest = hashlib.sha256(student.encode("utf-8", "surrogateescape")).hexdigest()[:8]
            name = f"{name}-{digest}"
        made[student] = f"{name}.html"
    return made


def _make_plain(student: str) -> str:
    text = unicodedata.normalize("NFC", student.encode("utf-8", "replace").decode())
    text = re.sub(r"[^\w.-]+", "_", text)
    while len(text.encode()) > LONGEST:
        text = text[:-1]
    text = text.strip("._-")
    return f"student_{text}" if RESERVED.fullmatch(text) or not text else text


def remove_hole(stub: str) -> str:
    """The stub without the lines that raise NotImplementedError, which say nothing to a reader."""
    lines = stub.splitlines()
    for node in ast.walk(ast.parse(stub)):
        if isinstance(node, ast.Raise) and "NotImplementedError" in ast.unparse(node):
            for number in range(node.lineno - 1, node.end_lineno):
                lines[number] = "\0"
    return "\n".join(line for line in lines if line != "\0").strip()
