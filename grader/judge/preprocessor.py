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
from grader.judge.grade import ExerciseResult, Result, result_from_json
from grader.judge.job import TRIES
from grader.judge.judge_process import JudgeDied, JudgeProcess, Options
from grader.judge.prose import make_harmless, make_one_line
from grader.judge.release import Release
from grader.judge.submission import take_answers

NOTE = "judged"
"""Where the first pass leaves, in the notebook's metadata, what the second must know."""
TAKEN = {"DUP", "MATCHED", "TAMPERED"}  # said of the submitted notebook, not of the one we write
OPTIONS = Options()


class SubmissionReader(NotebookExporter):
    """Reads a submission as the judge does, in the first pass; no file makes it fail."""

    def __init__(self, **kw):
        super().__init__(**kw)
        if course := getattr(self.parent, "coursedir", None):
            course.get_existing_timestamp = _make_forgiving(course.get_existing_timestamp, self.log)

    def from_filename(self, filename, resources=None, **kw):
        """As NotebookExporter's; the cells of a submission are in `resources`, not in the notebook."""
        if not getattr(self.parent, "_sanitizing", False):  # the second pass reads our own file
            return super().from_filename(filename, resources, **kw)
        about = resources["nbgrader"]
        copied = self.parent._format_dest(about["assignment"], about["student"])
        _remove_links(Path(filename).parent, Path(copied))
        problem, cells = "", []
        try:
            data = notebook.read_file(Path(filename))
            with notebook.limit_reading():
                cells = notebook.parse_cells(data)
        except notebook.NotebookError as found:
            problem = str(found)
        resources = {**resources, NOTE: {"cells": cells, "problem": problem}}
        return self.from_notebook_node(new_notebook(), resources, **kw)


def _make_forgiving(read, log):
    """`read`, which reads a folder's timestamp.txt, with None in place of an exception.

    nbgrader's own reader fails on a file that holds no time, and the student would have no row.
    """

    def read_timestamp(folder):
        try:
            return read(folder)
        except (AttributeError, ValueError, OverflowError, OSError):  # 0.9.6 calls what it lacks
            log.warning(
                "%s: its timestamp.txt holds no time and is not used", make_one_line(folder)
            )
            return None

    return read_timestamp


def _remove_links(submitted: Path, copied: Path) -> None:
    """Remove the copies that nbgrader made through links in a submission.

    It copies what lies beside a notebook, and `feedback` would hand the learner whatever file the
    link points at.
    """
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
        lesson = check_lesson(about["notebook"])
        try:
            with notebook.limit_reading():
                found = take_answers(read["cells"], lesson)
                nb.cells = release.cells(read["cells"], found)
        except notebook.NotebookError as slow:
            read = {"cells": [], "problem": str(slow)}
            found = take_answers([], lesson)
            nb.cells = release.cells([], found)
        if read["problem"]:
            text = f"**This submission cannot be graded: {make_harmless(read['problem'])}.**"
            nb.cells.insert(0, new_markdown_cell(text))
        note = {"problem": read["problem"], "missing": found.missing, "flags": found.flags,
                "notes": found.notes}  # fmt: skip
        nb.metadata[NOTE] = json.loads(json.dumps(note))
        for line in (read["problem"], *found.notes):
            if line:
                self.log.warning("%s: %s", about["student"], make_one_line(line))
        return nb, resources


class AskJudge(NbGraderPreprocessor):
    """Every check cell gets its verdict as output; nothing of the notebook is run."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """The same notebook with the verdicts in it."""
        note = nb.metadata.get(NOTE, {})
        rows = {} if note.get("problem") else _judge_notebook(nb, resources["nbgrader"], note)
        for cell in nb.cells:
            meta = cell.metadata.get("nbgrader", {})
            if cell.cell_type == "code" and meta.get("grade") and not meta.get("solution"):
                row = rows.get(meta["grade_id"].removesuffix("-check"))
                cell.outputs = [_make_output(row, note.get("problem", ""))]
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


def check_lesson(name: str) -> str:
    """The lesson that a notebook of an assignment is; ValueError when it is none of the course's."""
    known = sorted({card.lesson for card in exercises().values()})
    if name not in known:
        raise ValueError(
            f"the judge knows no lesson {name!r}, only {', '.join(known)}: set JUDGE = False in "
            "nbgrader_config.py to grade this assignment in nbgrader's own way"
        )
    return name


def _judge_notebook(nb: NotebookNode, about: dict, note: dict) -> dict[str, ExerciseResult]:
    """The judge's verdicts on a notebook of ours, with the flags of the one that was submitted."""
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": nb.cells}
    name = f"{about['student']}/{about['assignment']}/{about['notebook']}"
    result = _ask_judge(
        json.dumps(book).encode(), name=name, lesson=check_lesson(about["notebook"])
    )
    rows = {}
    for exercise, row in result.exercises.items():
        flags = {*note["flags"].get(exercise, ()), *(set(row.flags) - TAKEN)}
        rows[exercise] = replace(row, flags=tuple(sorted(flags)))
        if reason := note["missing"].get(exercise):  # what stands in its cell is the release's
            rows[exercise] = replace(
                rows[exercise],
                verdict="UNGRADABLE",
                code="NO-ANSWER",
                points=None,
                message=f"no answer found: {reason}",
                person=reason,
            )
    return rows


_JUDGES: list[JudgeProcess] = []
_REFUSED: list[
    str
] = []  # why a judge refused to start: the next student need not wait for the same


def _ask_judge(data: bytes, *, name: str, lesson: str) -> Result:
    """Grade with the one judge of this process; once more when it dies, or a clock took part."""
    found = Result(name, "ungradable", failed=True)
    for _ in range(TRIES):
        if not _JUDGES:
            _start_judge()
        try:
            values = _JUDGES[0].grade(data, name=name, lesson=lesson, seed=_draw_seed())
        except JudgeDied:
            _end_judge()
            continue
        found = result_from_json(values)
        if not found.timed:
            break
    return found


def _start_judge() -> None:
    """Start the judge. ValueError where it refuses to work: then no student is graded."""
    if _REFUSED:
        raise ValueError(_REFUSED[0])
    _JUDGES.append(JudgeProcess(OPTIONS))
    atexit.register(_end_judge)
    try:
        _JUDGES[0].wait_until_ready()
    except ValueError as refusal:
        _end_judge()
        _REFUSED.append(str(refusal))
        raise
    except JudgeDied as death:
        _end_judge()
        raise ValueError(f"the judge cannot be started: {death}") from None


def _end_judge() -> None:
    while _JUDGES:
        _JUDGES.pop().close()


def _draw_seed() -> int:
    return secrets.randbelow(2**31 - 1) + 1


def _make_output(row: ExerciseResult | None, problem: str) -> NotebookNode:
    """A verdict as nbgrader reads it: an error output is 0 points, ordinary text all of them."""
    if row is None:
        reason = problem or "the judge has no verdict on this cell; a person must grade it"
        return new_output("error", ename="UNGRADABLE", evalue="", traceback=[make_one_line(reason)])
    lines = [f"{row.verdict} [{row.code}]", *row.message.splitlines()]
    if row.flags:
        lines.append(f"Noted, costs nothing: {', '.join(row.flags)}")
    text = "\n".join(make_one_line(line) for line in lines)
    if row.verdict == "PASS":
        return new_output("stream", name="stdout", text=text + "\n")
    name = "UNGRADABLE" if row.person else row.verdict
    return new_output("error", ename=name, evalue=row.code, traceback=text.splitlines())
