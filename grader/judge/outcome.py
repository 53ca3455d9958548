"""What a run of `course grade` came to: the lines that a terminal shows, and the exit status.

Whatever has no points in `grades.csv` because nobody has decided it is counted and named here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from grader.judge.grade import UNGRADABLE, Result
from grader.judge.prose import make_one_line


@dataclass
class RunOutcome:
    """The figures of a run."""

    count: int = 0
    ungradable: int = 0
    people: int = 0
    late: int = 0
    undecided: int = 0
    tiers: set[str] = field(default_factory=set)
    open: list[str] = field(default_factory=list)
    """A line for each notebook in which something has no points yet."""
    waiting: int = 0
    """Notebooks that were not graded, because the run was ended."""

    def add(self, result: Result) -> None:
        """Count one notebook."""
        self.count += 1
        self.ungradable += result.status == UNGRADABLE
        rows = result.exercises.items()
        self.people += any(row.person for _, row in rows) or bool(result.texts)
        self.late += result.timed
        self.undecided += result.undecided
        self.tiers |= {result.tier} - {""}
        why = [f"{name}: {row.person or row.code}" for name, row in rows if row.is_open]
        if result.status == UNGRADABLE:
            why = [result.reason]
        if why:
            self.open.append(f"  {show_name(result.notebook)}: {make_one_line('; '.join(why))}")

    @property
    def status(self) -> int:
        """0 when all is decided, 1 when an exercise is not, 2 when a whole notebook is not."""
        return 2 if self.ungradable else 1 if self.undecided or self.waiting else 0

    def make_summary(self, path: Path) -> str:
        """The figures in one line; `path` is the results file."""
        return (
            f"{self.count} notebooks, {self.ungradable} ungradable, "
            f"{self.people} with something for a person to read, "
            f"{self.late} stopped by a clock twice, {self.undecided} exercises without a decision; "
            f"sandbox tier {', '.join(sorted(self.tiers)) or 'not used'}; results in {path}"
        )

    def list_open(self) -> list[str]:
        """What has no points yet, a notebook in a line, under a line that says so."""
        more = [f"not graded yet: {self.waiting} notebooks"] * bool(self.waiting)
        return [*["without points until a person decides:"] * bool(self.open), *self.open, *more]


def format_result(result: Result) -> str:
    """The row of one notebook."""
    name = show_name(result.notebook)
    if result.status == UNGRADABLE:
        return f"{name:<44} ungradable: {result.reason}"
    rows = result.exercises.items()
    lost = [f"{i} {row.verdict} {row.code}" for i, row in rows if row.verdict != "PASS"]
    flags = sorted({flag for _, row in rows for flag in row.flags})
    got = ["?"] * bool(result.undecided)
    got = [f"{result.score:g}", *got] if result.score or not got else got
    score = f"{'+'.join(got)}/{result.max_score:g}"
    return f"{name:<44} {score:>6}  {'; '.join([*lost, *flags])}".rstrip()


def show_name(notebook: str) -> str:
    """A file's name as a terminal may be sent it: one line, that acts on nothing."""
    return make_one_line(notebook.encode(errors="backslashreplace").decode())


def describe_gone(gone: Iterable[str], path: Path) -> str:
    """What a run found missing, in one line; empty when nothing is."""
    names = ", ".join(map(show_name, gone))
    return f"no longer in the folder, so not counted, and kept in {path}: {names}" if names else ""
