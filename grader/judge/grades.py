"""A class as students by lessons, and the file that is handed on: `grades.csv`.

Of several notebooks that a student handed in for one lesson the one with the most points counts. A
lesson that is not decided has no points here, neither some nor none: a person gives them.
"""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from grader.judge.grade import UNGRADABLE, Result
from grader.judge.prose import make_one_line
from grader.judge.student import find_lesson, find_student

ABOUT = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
"""Canvas wants these columns, in this order, before the first assignment. It looks for a student by
ID, then by login, then by name; in Moodle the login is mapped to the username."""
TOTAL = "Final Points"
"""Canvas' own name for the total, which it leaves out of an import: it adds up by itself."""
FORMULA = re.compile(r"(^|[;\t\r\n])(?=\s*[=+\-@＝＋－＠])")


def is_decided(result: Result) -> bool:
    """Whether a notebook's points are known: it was graded, and none of its exercises is open."""
    return result.status != UNGRADABLE and not result.failed and not result.undecided


@dataclass
class StudentGrades:
    """What one student handed in."""

    name: str
    number: str = ""
    """In Canvas, where the names of files tell it."""
    lessons: dict[str, Result] = field(default_factory=dict)
    """The notebook of each lesson that counts."""
    set_aside: list[Result] = field(default_factory=list)
    """Notebooks of a lesson of which a better one was handed in."""
    unplaced: list[Result] = field(default_factory=list)
    """Files of which nothing says which lesson they are."""

    def add(self, result: Result) -> None:
        """Take in one notebook."""
        lesson = name_lesson(result)
        if not lesson:
            self.unplaced.append(result)
            return
        both = [result, *([self.lessons[lesson]] if lesson in self.lessons else [])]
        both.sort(key=lambda one: (one.status == UNGRADABLE, -one.score, one.notebook))
        self.lessons[lesson] = both[0]
        self.set_aside += both[1:]

    def points(self, lesson: str) -> float | None:
        """Points in a lesson; None when nothing was handed in or nothing is decided."""
        result = self.lessons.get(lesson)
        return result.score if result and is_decided(result) else None

    @property
    def total(self) -> float | None:
        """Points in all lessons; None while one of them is not decided."""
        if not self.lessons or not all(map(is_decided, self.lessons.values())):
            return None
        return sum(result.score for result in self.lessons.values())


def name_student(result: Result) -> str:
    """Whose notebook it is; a results file of an earlier version says only where it lay."""
    return result.student or find_student(result.notebook)


def name_lesson(result: Result) -> str:
    """The lesson of a notebook, by what is in it or else by its name; empty when neither says."""
    return result.lesson or find_lesson(result.notebook)


def collect_students(results: Iterable[Result]) -> list[StudentGrades]:
    """The students in the order of their names, each with all that is theirs.

    Two of one name are told apart by their numbers in Canvas, which the names then end with. What
    several names share is no student's number.
    """
    results = list(results)
    names, numbers = defaultdict(set), defaultdict(set)
    for result in results:
        names[result.student_id].add(name_student(result))
    for number, sharing in names.items():
        for name in sharing:
            numbers[name].add(number if len(sharing) == 1 else "")
    found: dict[str, StudentGrades] = {}
    for result in results:
        name, number = name_student(result), result.student_id
        number = number if len(names[number]) == 1 else ""
        shown = f"{name}_{number}" if number and len(numbers[name]) > 1 else name
        found.setdefault(shown, StudentGrades(shown, number)).add(result)
    return sorted(found.values(), key=lambda one: (one.name.casefold(), one.name))


def list_lessons(students: Iterable[StudentGrades]) -> list[str]:
    """The lessons of which somebody handed in a notebook, in the order of the course."""
    return sorted({lesson for student in students for lesson in student.lessons})


def format_students(students: Sequence[StudentGrades]) -> bytes:
    """The class as `format_csv` has it: an empty cell was not handed in, or is not decided."""
    lessons = list_lessons(students)
    rows = [(one.name, one.number, [*map(one.points, lessons), one.total]) for one in students]
    return format_csv(lessons, rows)


def format_csv(lessons: Sequence[str], rows: Iterable[tuple[str, str, list]]) -> bytes:
    """A file for Canvas, Moodle and spreadsheets, of a name, its number in Canvas or nothing, and its
    points in a row; None is empty.

    The last of the points are the total. Who has a number has no login here: a name out of Canvas is
    none, and might be somebody's. UTF-8 with a byte order mark, without which Excel takes a file for
    its own old encoding; Canvas, Moodle and pandas read past it. A name that a spreadsheet would
    compute has an apostrophe before it.
    """
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow([*ABOUT, *lessons, TOTAL])
    for name, number, points in rows:
        shown = ["" if one is None else f"{one:g}" for one in points]
        login = "" if number else make_inert(name)
        table.writerow([make_inert(name), number, "", login, "", *shown])
    return text.getvalue().encode("utf-8-sig", "replace")


def make_inert(text: str) -> str:
    """`text` as a cell that no spreadsheet computes, where semicolons part cells too."""
    return FORMULA.sub(r"\1'", make_one_line(text))
