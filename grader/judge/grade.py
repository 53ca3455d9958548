"""One submission through the judge: a row of verdicts and points, ready to be printed or stored."""

import dataclasses
import time
from dataclasses import dataclass, field, replace
from typing import Protocol

from course_lib.lab.registry import exercise
from grader.judge.outcome import Outcome
from grader.judge.submission import Answer, Submission, Text

GRADED, UNGRADABLE = "graded", "ungradable"


class Judge(Protocol):
    """What is asked of a judge; `grader.judge.judge.Judge` is the one that is meant."""

    tier: str

    def grade(self, exercise: str, answer: Answer, *, seed: int) -> Outcome: ...


@dataclass(frozen=True)
class Row:
    """The verdict on one exercise."""

    verdict: str
    points: float
    max_points: float
    code: str
    message: str
    flags: tuple[str, ...] = ()
    person: str = ""
    """Why a person must look; empty when none must."""
    seconds: float = 0.0


@dataclass(frozen=True)
class Result:
    """The verdicts on one notebook."""

    notebook: str
    status: str
    lesson: str = ""
    reason: str = ""
    """Why the notebook is ungradable."""
    exercises: dict[str, Row] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What was found changed in the notebook, one sentence each; nothing of it costs points."""
    texts: tuple[Text, ...] = ()
    """Free text for a person to read; no points are given or taken for it here."""
    tier: str = ""
    seed: int = 0
    seconds: float = 0.0
    failed: bool = False
    """The judge broke, not the answer: grade it again before believing the row."""

    @property
    def score(self) -> float:
        return sum(row.points for row in self.exercises.values())

    @property
    def max_score(self) -> float:
        return sum(row.max_points for row in self.exercises.values())

    def json(self) -> dict:
        """Plain values, the score included; `of_json` is its inverse."""
        return dataclasses.asdict(self) | {"score": self.score, "max_score": self.max_score}


def of_json(values: dict) -> Result:
    """The result that `json` wrote; KeyError or TypeError when it is not one."""
    known = {f.name for f in dataclasses.fields(Result)}
    made = {key: value for key, value in values.items() if key in known}
    rows = {
        i: Row(**{**row, "flags": tuple(row["flags"])}) for i, row in values["exercises"].items()
    }
    texts = tuple(Text(**text) for text in values["texts"])
    return Result(**(made | {"exercises": rows, "texts": texts, "notes": tuple(values["notes"])}))


def grade(submission: Submission, judge: Judge, seed: int) -> Result:
    """The judge's verdicts on every exercise of the lesson; never raises for a bad submission."""
    began = time.perf_counter()
    if submission.problem:
        return Result(
            submission.name,
            UNGRADABLE,
            submission.lesson,
            submission.problem,
            tier=judge.tier,
            seed=seed,
        )
    failed, rows = False, {}
    for name in submission.flags:  # in the lesson's order
        if name in submission.missing:
            outcome = Outcome(
                "UNGRADABLE",
                "NO-ANSWER",
                f"No answer found: {submission.missing[name]}.",
                person=submission.missing[name],
            )
        else:
            outcome, broke = _ask(judge, name, submission.answers[name], seed)
            if outcome.verdict != "PASS" and name in submission.alone:
                outcome = _better(outcome, _ask(judge, name, submission.alone[name], seed)[0])
            failed = failed or broke
        rows[name] = _row(name, outcome, submission.flags[name])
    return Result(
        submission.name,
        GRADED,
        submission.lesson,
        exercises=rows,
        notes=submission.notes,
        texts=submission.texts,
        tier=judge.tier,
        seed=seed,
        failed=failed,
        seconds=round(time.perf_counter() - began, 4),
    )


def _ask(judge: Judge, name: str, answer: Answer, seed: int) -> tuple[Outcome, bool]:
    try:
        return judge.grade(name, answer, seed=seed), False
    except Exception as error:  # ours: one broken exercise must not take the class along
        text = f"the judge failed with {type(error).__name__}: {str(error)[:200]}"
        return Outcome(
            "UNGRADABLE",
            "JUDGE-FAILED",
            "The judge could not decide; this is not the answer's fault.",
            person=text,
        ), True


def _better(together: Outcome, alone: Outcome) -> Outcome:
    """What is said of an answer that fails with the learner's earlier answers in place.

    Alone it is run with the course's own; then what it says is about this answer and no other.
    """
    if alone.verdict == "PASS":
        return replace(alone, flags=(*alone.flags, "ALONE"))
    return together if alone.verdict in ("ERROR", "UNGRADABLE") else alone


def _row(name: str, outcome: Outcome, flags: tuple[str, ...]) -> Row:
    points = exercise(name).points
    return Row(
        verdict=outcome.verdict,
        points=points if outcome.verdict == "PASS" else 0,
        max_points=points,
        code=outcome.code,
        message=outcome.message,
        flags=tuple(sorted({*flags, *outcome.flags})),
        person=outcome.person,
        seconds=round(outcome.seconds, 4),
    )
