"""The judge: decides on answers without ever running one.

It holds the suites and a torch that no answer has touched. An answer's code runs in a confined,
throw-away worker, a fresh one per exercise; what comes back are values, and the suite that learners
run in their notebook compares them here.

    with Judge() as judge:
        outcome = judge.grade("rmsnorm", Answer(source), seed=7)
"""

import ast
import functools
import math
from dataclasses import replace
from typing import Protocol

import torch

from course_lib import checks
from course_lib.checks.report import Verdict
from course_lib.checks.subject import OutOfTime
from course_lib.checks.suite import Suite
from course_lib.lab.registry import Exercise, exercise, exercises
from course_lib.ranks.local_ranks import PATIENCE
from grader.judge import nursery, policy
from grader.judge.confine import Limits
from grader.judge.outcome import Outcome
from grader.judge.remote import Lost, RemoteSubject
from grader.judge.verdict import broken, lost, of_verdict, raised, refused

SOURCE_CHARS = 500_000


class Answer(Protocol):
    """What is graded: see `grader.judge.submission.Answer`."""

    source: str
    context: str
    kind: str
    flags: tuple[str, ...]


class Judge:
    """Grades one answer at a time. ValueError for an exercise that does not exist.

    `NurseryError` when answers cannot be confined here and `unsafe` does not allow to do without.
    """

    def __init__(
        self, *, unsafe: bool = False, memory_bytes: int = 2 << 30, budget_s: float = 10.0
    ):
        limits = Limits(memory_bytes=memory_bytes, cpu_s=math.ceil(budget_s) + 1)
        self.budget_s = budget_s
        self._nursery = nursery.Nursery(unsafe=unsafe, limits=limits)
        self._keep_threads()
        for name in exercises():  # imported now, not on the first answer's time
            checks.suite(name)

    @classmethod
    def over(cls, workers: nursery.Nursery, *, budget_s: float = 10.0) -> "Judge":
        """A judge over a nursery of one's own."""
        judge = cls.__new__(cls)
        judge.budget_s, judge._nursery = budget_s, workers
        judge._keep_threads()
        return judge

    def _keep_threads(self) -> None:
        """One thread here until `close`: inputs are small, and while the judge waits for a worker
        idle threads of torch spin on the core that the worker needs (measured: twice as slow)."""
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)

    @property
    def tier(self) -> str:
        """How answers are confined: "namespaces", "landlock", or "none"."""
        return self._nursery.tier

    def __enter__(self) -> "Judge":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        """End the nest and every worker."""
        torch.set_num_threads(self._threads)
        self._nursery.close()

    def grade(self, name: str, answer: Answer, *, seed: int) -> Outcome:
        """The outcome for `answer` to the exercise `name`, with inputs drawn from `seed`."""
        card, suite = exercise(name), checks.suite(name)
        if len(answer.source) + len(answer.context) > SOURCE_CHARS:
            return Outcome(
                "UNGRADABLE",
                "TOO-LONG",
                "the answer is too long to be graded",
                flags=answer.flags,
                person="too long to be graded",
            )
        budget_s = min(self.budget_s, suite.limit_s)
        try:
            subject, fault = self._prepared(card, answer, budget_s, suite)
        except nursery.NurseryError as problem:
            if suite.ranks == 1:
                raise
            return Outcome(
                "UNGRADABLE",
                "NO-RANKS",
                "several ranks cannot be run where this is graded",
                flags=answer.flags,
                person=f"needs {suite.ranks} ranks, and "
                f"the tier {self.tier} cannot run them ({problem})",
            )
        try:
            found = broken(fault) if fault else _decide(card, suite, subject, answer, seed)
        finally:
            status = subject.worker.close()
        if subject.lost:
            outcome = lost(subject, status, budget_s)
        else:
            outcome = found if isinstance(found, Outcome) else of_verdict(found, subject, answer)
        flags = (*answer.flags, *(policy.flags(name, answer.source) if outcome.passed else ()))
        return replace(outcome, flags=flags, seconds=subject.seconds)

    def _prepared(self, card: Exercise, answer: Answer, budget_s: float, suite: Suite) -> tuple:
        """A subject whose worker waits for the answer, and what is wrong with the course if it is.

        Context that kills its worker, or has no end, is left out: it comes from other cells, and a
        crash there must not cost this exercise.
        """
        modules = (*_imports(card.setup), *suite.loads)
        for context in (answer.context, ""):
            worker = self._nursery.spawn(ranks=suite.ranks, modules=modules)
            # what computes ends by the limit of its processor time; this one is for what waits
            longest = PATIENCE * budget_s
            subject = RemoteSubject(worker, budget_s=longest, call_s=longest / 2)
            try:
                fault = subject.prepare(_card(card), context)
                subject.call_s = longest
                return subject, fault
            except (Lost, OutOfTime):
                if not context:
                    return subject, ""
                subject.worker.close()
            except BaseException:
                subject.worker.close()
                raise
        raise AssertionError("the empty context returns")


def _decide(
    card: Exercise, suite: Suite, subject: RemoteSubject, answer: Answer, seed: int
) -> Outcome | Verdict | None:
    """The suite's verdict; an Outcome when there is nothing to run it on; None when lost."""
    if subject.lost:
        return None
    try:
        said = subject.start(answer.source, answer.kind)
    except (Lost, OutOfTime):
        return None
    if not said.get("defined"):
        return raised(said["error"], answer) if said.get("error") else refused(card, "UNDEFINED")
    if said.get("reference"):
        return refused(card, "REFERENCE")
    return suite.run(subject, seed=seed, number=card.number, title=card.title)


@functools.cache
def _imports(setup: str) -> tuple[str, ...]:
    """Modules that a lesson's setup cell imports."""
    found: dict[str, None] = {}
    for node in ast.walk(ast.parse(setup)):
        if isinstance(node, ast.Import):
            found |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= dict.fromkeys([node.module, *(f"{node.module}.{a.name}" for a in node.names)])
    return tuple(found)


def _card(card: Exercise) -> dict:
    """What a worker must know of an exercise: the lesson's imports and names, no solution."""
    earlier = [e for e in (exercises().get(n) for n in card.needs) if e]
    return {
        "target": card.target,
        "blank": list(card.blank),
        "name": card.name,
        "setup": card.setup,
        "needs": [f"{e.module}::{e.name}" for e in earlier],
    }
