"""One submission through the judge: a row of verdicts and points, ready to be printed or stored."""

import dataclasses
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from course_lib.lab.registry import exercise
from grader.judge.decision import CLOCK, Decision, is_undecided
from grader.judge.prints import find_prints, is_published
from grader.judge.submission import Answer, Submission, Text

if TYPE_CHECKING:  # the process that only keeps results needs no torch
    from grader.judge.judge import Judge

GRADED, UNGRADABLE = "graded", "ungradable"
MISSING, FILLED = "missing", "filled"


@dataclass(frozen=True)
class ExerciseResult:
    """The verdict on one exercise."""

    verdict: str
    points: float | None
    """None for what is not decided: a person, or another machine, says what it is worth."""
    max_points: float
    code: str
    message: str
    flags: tuple[str, ...] = ()
    person: str = ""
    """Why a person must look; empty when none must."""
    seconds: float = 0.0
    prints: tuple[int, ...] = ()
    """What stands for the answer when the answers of a class are compared; nothing, once they are."""

    @property
    def is_open(self) -> bool:
        """Whether it has no points yet; a results file of an earlier version says 0 of some."""
        return self.points is None or is_undecided(self.verdict, self.code)


@dataclass(frozen=True)
class Result:
    """The verdicts on one notebook."""

    notebook: str
    status: str
    lesson: str = ""
    reason: str = ""
    """Why the notebook is ungradable."""
    exercises: dict[str, ExerciseResult] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What was found changed in the notebook, one sentence each; nothing of it costs points."""
    texts: tuple[Text, ...] = ()
    """Free text for a person to read; no points are given or taken for it here."""
    tier: str = ""
    seed: int = 0
    seconds: float = 0.0
    failed: bool = False
    """The judge broke, not the answer: grade it again before believing the row."""
    student: str = ""
    """Whose notebook it is, by the folder it lies in."""
    student_id: str = ""
    """The student's number in Canvas, where the file's name tells it."""
    gone: str = ""
    """Why it counts no longer: MISSING from the folder, or a folder that is FILLED by now."""

    @property
    def timed(self) -> bool:
        """Whether a clock took part in a verdict: another try could end otherwise."""
        return any(CLOCK in row.flags for row in self.exercises.values())

    @property
    def undecided(self) -> int:
        """Exercises without points: they are to be graded on another machine, or by a person."""
        return sum(row.is_open for row in self.exercises.values())

    @property
    def score(self) -> float:
        return sum(row.points or 0 for row in self.exercises.values() if not row.is_open)

    @property
    def max_score(self) -> float:
        return sum(row.max_points for row in self.exercises.values())

    def json(self) -> dict:
        """Plain values, the score included; `result_from_json` is its inverse."""
        more = {"score": self.score, "max_score": self.max_score, "undecided": self.undecided}
        return dataclasses.asdict(self) | more


def result_from_json(values: dict) -> Result:
    """The result that `json` wrote; KeyError or TypeError when it is not one."""
    known = {f.name for f in dataclasses.fields(Result)}
    made = {key: value for key, value in values.items() if key in known}
    rows = {
        i: ExerciseResult(
            **{**row, "flags": tuple(row["flags"]), "prints": tuple(row.get("prints", ()))}
        )
        for i, row in values["exercises"].items()
    }
    texts = tuple(Text(**text) for text in values["texts"])
    return Result(**(made | {"exercises": rows, "texts": texts, "notes": tuple(values["notes"])}))


def grade_submission(submission: Submission, judge: "Judge", seed: int) -> Result:
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
    failed, rows, notes = False, {}, [*submission.notes]
    for name in submission.flags:  # in the lesson's order
        if name in submission.missing:
            decision = Decision(
                "UNGRADABLE",
                "NO-ANSWER",
                f"No answer found: {submission.missing[name]}.",
                person=submission.missing[name],
            )
        else:
            decision, broke = _ask_judge(judge, name, submission.answers[name], seed)
            if decision.verdict != "PASS" and name in submission.alone:
                alone, _ = _ask_judge(judge, name, submission.alone[name], seed)
                decision = _choose_decision(decision, alone)
            failed = failed or broke
        notes += decision.notes
        rows[name] = _make_exercise_result(name, decision, submission.flags[name])
        if name in submission.answers:
            rows[name], published = _compare_with_solution(
                rows[name], submission.answers[name], name
            )
            notes += published
    return Result(
        submission.name,
        GRADED,
        submission.lesson,
        exercises=rows,
        notes=tuple(notes),
        texts=submission.texts,
        tier=judge.tier,
        seed=seed,
        failed=failed,
        seconds=round(time.perf_counter() - began, 4),
    )


def _compare_with_solution(
    row: ExerciseResult, answer: Answer, name: str
) -> tuple[ExerciseResult, list[str]]:
    """The row with what stands for the answer, flagged when that is the published solution."""
    card = exercise(name)
    row = replace(row, prints=find_prints(answer.source, card.stub))
    if not is_published(card, row.prints):
        return row, []
    flags = tuple(sorted({*row.flags, "SAME"}))
    return replace(row, flags=flags), [f"{name}: as in the published solution"]


def _ask_judge(judge: "Judge", name: str, answer: Answer, seed: int) -> tuple[Decision, bool]:
    try:
        return judge.grade(name, answer, seed=seed), False
    except Exception as error:  # ours: one broken exercise must not take the class along
        text = f"the judge failed with {type(error).__name__}: {str(error)[:200]}"
        return Decision(
            "UNGRADABLE",
            "JUDGE-FAILED",
            "The judge could not decide; this is not the answer's fault.",
            person=text,
        ), True


def _choose_decision(together: Decision, alone: Decision) -> Decision:
    """The decision on an answer that fails when it runs with the learner's earlier answers.

    `together` is that failure; `alone` is the decision with the course's own earlier solutions,
    and so about this answer and no other.
    """
    if alone.verdict != "PASS":
        return together if alone.verdict in ("ERROR", "UNGRADABLE") else alone
    clock = {CLOCK} & {*together.flags}  # with more time it might have passed as it is
    return replace(alone, flags=(*alone.flags, "ALONE", *clock))


def _make_exercise_result(name: str, decision: Decision, flags: tuple[str, ...]) -> ExerciseResult:
    points = exercise(name).points
    undecided = is_undecided(decision.verdict, decision.code)
    got = None if undecided else points * decision.passed
    return ExerciseResult(
        verdict=decision.verdict,
        points=got,
        max_points=points,
        code=decision.code,
        message=decision.message,
        flags=tuple(sorted({*flags, *decision.flags})),
        person=decision.person,
        seconds=round(decision.seconds, 4),
    )
