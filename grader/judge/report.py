"""`course report`: one page on a class's results, for reading, printing and talking about.

The page holds everything it needs, runs no script and asks nothing of the network. Messages,
paths and free text come from submissions: the template escapes them all.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from course_lib.lab.registry import Exercise, exercises
from grader.judge.grade import UNGRADABLE, ExerciseResult, Result
from grader.judge.store import read_results

UNTRIED = {"STUB", "NO-ANSWER"}  # nothing to learn about a misconception from


@dataclass
class LessonPart:
    """How the class scored in one lesson."""

    name: str
    max_score: float = 0.0
    scores: Counter = field(default_factory=Counter)
    """Notebooks by score."""

    @property
    def count(self) -> int:
        return self.scores.total()

    @property
    def median(self) -> float:
        return median(self.scores.elements())

    def bars(self) -> list[tuple[str, int, float]]:
        """Score, notebooks, and percent of the longest bar; whole scores none has are shown too."""
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

    count: int = 0
    lessons: dict[str, LessonPart] = field(default_factory=dict)
    exercises: dict[str, ExercisePart] = field(default_factory=dict)
    ungradable: list[Result] = field(default_factory=list)
    people: list[tuple[str, str, str]] = field(default_factory=list)
    """Notebook, exercise, why a person must look."""
    texts: list[tuple[str, str, str]] = field(default_factory=list)
    """Notebook, cell, what was written there."""
    flags: list[tuple[str, str, str]] = field(default_factory=list)
    """Notebook, flags with their exercises, what was found."""
    tiers: Counter = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        """Take one notebook in; only what the page shows of it is kept."""
        self.count += 1
        if result.tier:
            self.tiers[result.tier] += 1
        if result.status == UNGRADABLE:
            self.ungradable.append(result)
            return
        lesson = self.lessons.setdefault(result.lesson, LessonPart(result.lesson))
        lesson.max_score = max(lesson.max_score, result.max_score)
        lesson.scores[result.score] += 1
        known, flagged = exercises(), []
        for name, row in result.exercises.items():
            if name in known:  # a results file may be older than the course
                part = self.exercises.setdefault(name, ExercisePart(known[name]))
                part.add(row)
            if row.person:
                self.people.append((result.notebook, name, row.person))
            if row.flags:
                flagged.append(f"{name}: {', '.join(row.flags)}")
        if flagged or result.notes:
            self.flags.append((result.notebook, "; ".join(flagged), "; ".join(result.notes)))
        self.texts += [(result.notebook, text.id, text.text) for text in result.texts]

    def ordered_exercises(self) -> list[ExercisePart]:
        """The exercises as the course has them."""
        return [self.exercises[name] for name in exercises() if name in self.exercises]


def run(args: argparse.Namespace) -> int:
    """The subcommand: reads `args.results`, writes `args.html`."""
    found = collect_results(read_results(args.results))
    if not found.count:
        raise ValueError(f"{args.results} holds no results yet; run `course grade PATH...` first")
    args.html.write_text(render_page(found, str(args.results)), encoding="utf-8")
    print(f"{args.html}: {found.count} notebooks, {len(found.ungradable)} ungradable")
    return 0


def collect_results(found: Iterable[Result]) -> ClassResults:
    """The figures of a class; goes through the results once."""
    total = ClassResults()
    for result in found:
        total.add(result)
    return total


def render_page(found: ClassResults, source: str) -> str:
    """The page as HTML."""
    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = pages.get_template("report.html.j2").render(it=found, source=source)
    return text.encode("utf-8", "replace").decode()  # a file's name need not be UTF-8
