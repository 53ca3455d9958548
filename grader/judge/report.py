"""`course report`: one page on a class's results, for reading, printing and talking about.

Beside it `grades.csv`, to be handed on, and with `--feedback` a page for each student. The page
holds everything it needs, runs no script and asks nothing of the network. Messages, paths and free
text come from submissions: the template escapes them all.
"""

import argparse
import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from course_lib.lab.registry import Exercise, exercises
from course_lib.runs.atomic import write_whole
from grader.judge import feedback
from grader.judge.flags import FLAGS, sort_key
from grader.judge.grade import MISSING, UNGRADABLE, ExerciseResult, Result
from grader.judge.grades import (
    StudentGrades,
    collect_students,
    format_students,
    is_decided,
    list_lessons,
    name_lesson,
    name_student,
)
from grader.judge.pages import render_template
from grader.judge.store import read_results

UNTRIED = {"STUB", "NO-ANSWER"}  # nothing to learn about a misconception from


@dataclass
class LessonPart:
    """How the students scored in one lesson, by the notebook of each that counts."""

    name: str
    max_score: float = 0.0
    scores: Counter = field(default_factory=Counter)
    """Students by score."""
    undecided: int = 0
    """Students whose notebook waits for a person."""
    absent: int = 0
    """Students with other lessons and without this one."""

    @property
    def count(self) -> int:
        return self.scores.total()

    @property
    def median(self) -> float:
        return median(self.scores.elements())

    @property
    def left_out(self) -> str:
        """Whom the median leaves out, in words."""
        waits = f"{self.undecided} whose notebook waits for a person" if self.undecided else ""
        absent = f"{self.absent} who handed none in" if self.absent else ""
        return " and ".join(filter(None, [waits, absent]))

    def bars(self) -> list[tuple[str, int, float]]:
        """Score, students, and percent of the longest bar; whole scores none has are shown too."""
        shown = sorted({*self.scores, *range(int(self.max_score) + 1)})
        longest = max(self.scores.values())
        return [(f"{s:g}", self.scores[s], 100 * self.scores[s] / longest) for s in shown]


@dataclass
class ExercisePart:
    """How the class did in one exercise, and where it went wrong."""

    card: Exercise
    verdicts: Counter = field(default_factory=Counter)
    untried: int = 0
    codes: dict[tuple[str, str], Counter] = field(default_factory=lambda: defaultdict(Counter))
    """Messages by verdict and code: a code can say more than one thing."""

    @property
    def count(self) -> int:
        return self.verdicts.total()

    @property
    def pass_count(self) -> int:
        return self.verdicts["PASS"]

    @property
    def rate(self) -> float:
        return 100 * self.pass_count / self.count

    def add(self, row: ExerciseResult) -> None:
        """Count one verdict."""
        self.verdicts[row.verdict] += 1
        if row.code in UNTRIED:
            self.untried += 1
        elif row.verdict != "PASS":
            self.codes[row.verdict, row.code][row.message] += 1

    def mistakes(self) -> list[tuple[str, str, int, str]]:
        """Verdict, code, how many, and the message most of them got; most common first."""
        found = [
            (verdict, code, messages.total(), messages.most_common(1)[0][0])
            for (verdict, code), messages in self.codes.items()
        ]
        return sorted(found, key=lambda mistake: (-mistake[2], mistake[1]))


@dataclass
class ClassResults:
    """Everything the page says."""

    results: list[Result] = field(default_factory=list)
    exercises: dict[str, ExercisePart] = field(default_factory=dict)
    students: list[StudentGrades] = field(default_factory=list)
    lessons: dict[str, LessonPart] = field(default_factory=dict)
    ungradable: list[Result] = field(default_factory=list)
    people: list[tuple[Result, str, str]] = field(default_factory=list)
    """Notebook, exercise, why a person must look."""
    texts: list[tuple[Result, str, str]] = field(default_factory=list)
    """Notebook, cell, what was written there."""
    flags: dict[str, list[tuple[Result, str]]] = field(default_factory=dict)
    """Notebook and exercises by flag, the most serious flag first."""
    noted: list[Result] = field(default_factory=list)
    """Notebooks in which something was found changed."""
    gone: list[Result] = field(default_factory=list)
    """Notebooks that are in no graded folder any more, which count for nothing."""
    labels: dict[str, str] = field(default_factory=dict)
    """Students' names by notebook."""
    tiers: Counter = field(default_factory=Counter)

    @property
    def count(self) -> int:
        return len(self.results)

    @property
    def legend(self) -> dict[str, str]:
        """What each flag that is on the page means."""
        return {
            flag: FLAGS.get(flag, "this course has no explanation of it") for flag in self.flags
        }

    @property
    def set_aside(self) -> list[tuple[str, str, Result, Result]]:
        """Student, lesson, the notebook that counts, one that does not."""
        return [
            (student.name, name_lesson(one), student.lessons[name_lesson(one)], one)
            for student in self.students
            for one in student.set_aside
        ]

    def name(self, result: Result) -> str:
        """The student's name, as the table of points has it."""
        return self.labels.get(result.notebook) or name_student(result)

    def add(self, result: Result) -> None:
        """Take one notebook in."""
        if result.gone:
            self.gone += [result] * (result.gone == MISSING)
            return
        self.results.append(result)
        if result.tier:
            self.tiers[result.tier] += 1
        if result.status == UNGRADABLE:
            self.ungradable.append(result)
            return
        known = exercises()
        flagged: dict[str, list[str]] = {}
        for name, row in result.exercises.items():
            if name in known:  # a results file may be older than the course
                part = self.exercises.setdefault(name, ExercisePart(known[name]))
                part.add(row)
            if row.person:
                self.people.append((result, name, row.person))
            for flag in row.flags:
                flagged.setdefault(flag, []).append(name)
        for flag, names in flagged.items():
            self.flags.setdefault(flag, []).append((result, ", ".join(names)))
        if result.notes:
            self.noted.append(result)
        self.texts += [(result, text.id, text.text) for text in result.texts]

    def sum_up(self) -> None:
        """Put the notebooks together by student and by lesson, and the flags in their order."""
        self.flags = {flag: self.flags[flag] for flag in sorted(self.flags, key=sort_key)}
        self.students = collect_students(self.results)
        for student in self.students:
            for one in (*student.lessons.values(), *student.set_aside, *student.unplaced):
                self.labels[one.notebook] = student.name
        for lesson in list_lessons(self.students):
            part = self.lessons[lesson] = LessonPart(lesson)
            for student in self.students:
                result = student.lessons.get(lesson)
                part.absent += result is None
                part.undecided += result is not None and not is_decided(result)
                part.max_score = max(part.max_score, result.max_score if result else 0)
                if (points := student.points(lesson)) is not None:
                    part.scores[points] += 1

    def ordered_exercises(self) -> list[ExercisePart]:
        """The exercises as the course has them."""
        return [self.exercises[name] for name in exercises() if name in self.exercises]


def run(args: argparse.Namespace) -> int:
    """The subcommand: reads `args.results`, writes `args.html`, the CSV, `args.feedback`."""
    found = collect_results(read_results(args.results))
    if not found.count and not found.gone:
        raise ValueError(f"{args.results} holds no results yet; run `course grade PATH...` first")
    write_whole(args.html, render_page(found, str(args.results)), sync=False)
    table = args.csv or choose_csv()
    write_whole(table, format_students(found.students), sync=False)
    print(f"{args.html}: {found.count} notebooks, {len(found.ungradable)} ungradable")
    print(f"{table}: {len(found.students)} students, {len(found.lessons)} lessons")
    if args.feedback:
        pages = feedback.write_pages(found.students, args.feedback)
        print(f"{args.feedback}: {len(pages)} pages of feedback")
    return 0


def choose_csv() -> Path:
    """The file for Canvas when none is named: in nbgrader's folder `grades.csv` is the name of its
    export, which has points by hand that no report knows."""
    of_nbgrader = any(map(os.path.exists, ("nbgrader_config.py", "gradebook.db")))
    return Path("class.csv" if of_nbgrader else "grades.csv")


def collect_results(found: Iterable[Result]) -> ClassResults:
    """The figures of a class; goes through the results once."""
    total = ClassResults()
    for result in found:
        total.add(result)
    total.sum_up()
    return total


def render_page(found: ClassResults, source: str) -> str:
    """The page as HTML."""
    return render_template("report.html.j2", it=found, source=source)
