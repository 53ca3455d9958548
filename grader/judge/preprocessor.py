"""nbgrader asks the judge: what stands in for `Execute` when `nbgrader autograde` runs.

nbgrader keeps its folders, its gradebook, its pages. Four parts take the place of its own:

    SubmissionReader  reads any file that was submitted; one that is no notebook becomes an empty one
    TakeAnswers       (first pass) the notebook as it goes on: the learner's answers and prose, the
                      gradebook's checks and settings, nothing executable in prose
    AskJudge          (second pass) the verdict becomes the check cell's output; no kernel is started
    SaveVerdicts      as nbgrader's, and marks for a person what the judge could not decide

A judge runs in a process of its own, which is kept for the next submission and ends with nbgrader.
"""

import atexit
import json
import os
import secrets
from dataclasses import replace
from pathlib import Path

from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook, new_output
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor, SaveAutoGrades

from course_lib.lab.registry import exercises
from grader.judge import notebook
from grader.judge.grade import Result, Row, of_json
from grader.judge.hand import Hand, HandDied, Options
from grader.judge.prose import harmless, one_line
from grader.judge.release import Release
from grader.judge.submission import take

NOTE = "judged"
"""Where the first pass leaves, in the notebook's metadata, what the second must know."""
TAKEN = {"DUP", "MATCHED", "TAMPERED"}  # said of the submitted notebook, not of the one we write
OPTIONS = Options()


class SubmissionReader(NotebookExporter):
    """Reads a submission as the judge does, in the first pass; no file makes it fail."""

    def __init__(self, **kw):
        super().__init__(**kw)
        if course := getattr(self.parent, "coursedir", None):
            course.get_existing_timestamp = _forgiving(course.get_existing_timestamp, self.log)

    def from_filename(self, filename, resources=None, **kw):
        """As NotebookExporter's; the cells of a submission are in `resources`, not in the notebook."""
        if not getattr(self.parent, "_sanitizing", False):  # the second pass reads our own file
            return super().from_filename(filename, resources, **kw)
        about = resources["nbgrader"]
        copied = self.parent._format_dest(about["assignment"], about["student"])
        _forget_links(Path(filename).parent, Path(copied))
        problem, cells = "", []
        try:
            cells = notebook.cells(notebook.load(Path(filename)))
        except notebook.Unreadable as found:
            problem = str(found)
        resources = {**resources, NOTE: {"cells": cells, "problem": problem}}
        return self.from_notebook_node(new_notebook(), resources, **kw)


def _forgiving(read, log):
    """`read`, the time in a folder's timestamp.txt, but None for one that holds no time: nbgrader
    fails on it, and the student would have no row."""

    def timestamp(folder):
        try:
            return read(folder)
        except (AttributeError, ValueError, OverflowError, OSError):  # 0.9.6 calls what it lacks
            log.warning("%s: its timestamp.txt holds no time and is not used", one_line(folder))
            return None

    return timestamp


def _forget_links(submitted: Path, copied: Path) -> None:
    """nbgrader copies what lies beside a notebook, what a link points at included: `feedback` would
    hand it to the learner."""
    for folder, _, files in os.walk(submitted):
        for path in (Path(folder) / file for file in files):
            if path.is_symlink():
                (copied / path.relative_to(submitted)).unlink(missing_ok=True)


class TakeAnswers(NbGraderPreprocessor):
    """The gradebook's cells with the learner's answers in them, among the learner's own cells."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """The notebook that is graded and that graders see."""
        about, read = resources["nbgrader"], resources.pop(NOTE)
        with Gradebook(about["db_url"]) as book:
            release = Release(book, about["notebook"], about["assignment"])
        found = take(read["cells"], lesson(about["notebook"]))
        nb.cells = release.cells(read["cells"], found)
        if read["problem"]:
            text = f"**This submission cannot be graded: {harmless(read['problem'])}.**"
            nb.cells.insert(0, new_markdown_cell(text))
        note = {"problem": read["problem"], "missing": found.missing, "flags": found.flags,
                "notes": found.notes}  # fmt: skip
        nb.metadata[NOTE] = json.loads(json.dumps(note))
        for line in (read["problem"], *found.notes):
            if line:
                self.log.warning("%s: %s", about["student"], one_line(line))
        return nb, resources


class AskJudge(NbGraderPreprocessor):
    """Every check cell gets its verdict as output; nothing of the notebook is run."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """The same notebook with the verdicts in it."""
        note = nb.metadata.get(NOTE, {})
        rows = {} if note.get("problem") else _rows(nb, resources["nbgrader"], note)
        for cell in nb.cells:
            meta = cell.metadata.get("nbgrader", {})
            if cell.cell_type == "code" and meta.get("grade") and not meta.get("solution"):
                row = rows.get(meta["grade_id"].removesuffix("-check"))
                cell.outputs = [_output(row, note.get("problem", ""))]
        return nb, resources


class SaveVerdicts(SaveAutoGrades):
    """As nbgrader's; what has no verdict, and every free text, waits for a person."""

    def _add_score(self, cell: NotebookNode, resources: dict) -> None:
        super()._add_score(cell, resources)
        meta = cell.metadata.nbgrader
        free = meta.get("solution") or meta.get("task") or cell.cell_type != "code"
        undecided = not free and any(o.get("ename") == "UNGRADABLE" for o in cell.outputs)
        if not free and not undecided:
            return
        grade = self.gradebook.find_grade(
            meta["grade_id"], self.notebook_id, self.assignment_id, self.student_id
        )
        if free:
            grade.auto_score = None  # nbgrader gives 0 to a text that was left as it was
        grade.needs_manual_grade = grade.manual_score is None or undecided
        self.gradebook.db.commit()


def lesson(name: str) -> str:
    """The lesson that a notebook of an assignment is; ValueError when it is none of the course's."""
    known = sorted({card.lesson for card in exercises().values()})
    if name not in known:
        raise ValueError(
            f"the judge knows no lesson {name!r}, only {', '.join(known)}: set JUDGE = False in "
            "nbgrader_config.py to grade this assignment in nbgrader's own way"
        )
    return name


def _rows(nb: NotebookNode, about: dict, note: dict) -> dict[str, Row]:
    """The judge's verdicts on a notebook of ours, with the flags of the one that was submitted."""
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": nb.cells}
    name = f"{about['student']}/{about['assignment']}/{about['notebook']}"
    result = _judged(json.dumps(book).encode(), name=name, lesson=lesson(about["notebook"]))
    rows = {}
    for exercise, row in result.exercises.items():
        flags = {*note["flags"].get(exercise, ()), *(set(row.flags) - TAKEN)}
        rows[exercise] = replace(row, flags=tuple(sorted(flags)))
        if reason := note["missing"].get(exercise):  # what stands in its cell is the release's
            rows[exercise] = replace(
                rows[exercise],
                verdict="UNGRADABLE",
                code="NO-ANSWER",
                points=0,
                message=f"no answer found: {reason}",
                person=reason,
            )
    return rows


_HANDS: list[Hand] = []
_REFUSED: list[str] = []  # said once by the judge: the rest of the class need not wait for it


def _judged(data: bytes, *, name: str, lesson: str) -> Result:
    """Through the one judge of this process; a second one is tried when the first has died."""
    for _ in range(2):
        if not _HANDS:
            _start()
        try:
            return of_json(_HANDS[0].grade(data, name=name, lesson=lesson, seed=_seed()))
        except HandDied:
            _end()
    return Result(name, "ungradable", failed=True)


def _start() -> None:
    """ValueError where the judge refuses to work: no student is graded then."""
    if _REFUSED:
        raise ValueError(_REFUSED[0])
    _HANDS.append(Hand(OPTIONS))
    atexit.register(_end)
    try:
        _HANDS[0].ready()
    except ValueError as refusal:
        _end()
        _REFUSED.append(str(refusal))
        raise
    except HandDied as death:
        _end()
        raise ValueError(f"the judge cannot be started: {death}") from None


def _end() -> None:
    while _HANDS:
        _HANDS.pop().close()


def _seed() -> int:
    return secrets.randbelow(2**31 - 1) + 1


def _output(row: Row | None, problem: str) -> NotebookNode:
    """A verdict as nbgrader reads it: an error output is 0 points, ordinary text all of them."""
    if row is None:
        reason = problem or "the judge has no verdict on this cell; a person must grade it"
        return new_output("error", ename="UNGRADABLE", evalue="", traceback=[one_line(reason)])
    lines = [f"{row.verdict} [{row.code}]", *row.message.splitlines()]
    if row.flags:
        lines.append(f"Noted, costs nothing: {', '.join(row.flags)}")
    text = "\n".join(one_line(line) for line in lines)
    if row.verdict == "PASS":
        return new_output("stream", name="stdout", text=text + "\n")
    name = "UNGRADABLE" if row.person else row.verdict
    return new_output("error", ename=name, evalue=row.code, traceback=text.splitlines())
