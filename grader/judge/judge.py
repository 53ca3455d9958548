"""The judge: decides on answers without ever running one.

It holds the suites and a torch that no answer has touched. An answer's code runs in a confined,
throw-away worker, a fresh one per exercise; what comes back are values, and the suite that learners
run in their notebook compares them here.

    with Judge() as judge:
        decision = judge.grade("rmsnorm", Answer(source), seed=7)
"""

import ast
import functools
import math
from dataclasses import replace

import torch

from course_lib import checks
from course_lib.checks.report import Verdict
from course_lib.checks.subject import AnswerError, OutOfTime
from course_lib.checks.suite import LIMIT_S, Suite
from course_lib.lab.registry import Exercise, exercise, exercises
from course_lib.ranks.local_ranks import PATIENCE
from grader.judge import zygote_client
from grader.judge.confine import Limits
from grader.judge.decision import CLOCK, Decision
from grader.judge.prints import read_solution
from grader.judge.remote import RemoteSubject, WorkerLost
from grader.judge.submission import Answer
from grader.judge.touched import find_touches
from grader.judge.verdict import (
    decide_by_error,
    decide_by_loss,
    decide_by_verdict,
    is_out_of_time,
    refuse_answer,
    report_broken_check,
)

SOURCE_CHARS = 500_000
TRAFFIC_SHARE = 0.25
"""Of the solution's traffic, what an answer's may differ. Right answers kept in tests/answers differ
by 0.21 at most; most by less than 0.01."""
MOST_NOTES = 8  # sentences about one answer


class Judge:
    """Grades one answer at a time. ValueError for an exercise that does not exist.

    `ZygoteError` when this machine cannot confine answers and `unsafe` is not set.
    """

    def __init__(
        self, *, unsafe: bool = False, memory_bytes: int = 2 << 30, budget_s: float = 10.0
    ):
        limits = Limits(memory_bytes=memory_bytes)
        self.budget_s = budget_s
        self._client = zygote_client.ZygoteClient(unsafe=unsafe, limits=limits)
        self._sent: dict[tuple[str, int], int | None] = {}
        """Bytes that the solution's ranks send, by exercise and seed."""
        self._use_one_thread()
        for name in exercises():  # imported now, not on the first answer's time
            checks.suite(name)

    @classmethod
    def with_client(cls, workers: zygote_client.ZygoteClient, *, budget_s: float = 10.0) -> "Judge":
        """A judge whose workers come from a client that the caller made."""
        judge = cls.__new__(cls)
        judge.budget_s, judge._client, judge._sent = budget_s, workers, {}
        judge._use_one_thread()
        return judge

    def _use_one_thread(self) -> None:
        """Let torch use one thread in this process until `close`.

        Inputs are small, and while the judge waits, idle threads of torch would spin on the core
        that the worker needs (measured: twice as slow).
        """
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)

    @property
    def tier(self) -> str:
        """How answers are confined: "namespaces", "landlock", or "none"."""
        return self._client.tier

    def __enter__(self) -> "Judge":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        """End the zygote and every worker."""
        torch.set_num_threads(self._threads)
        self._client.close()

    def grade(self, name: str, answer: Answer, *, seed: int) -> Decision:
        """The decision for `answer` to the exercise `name`, with inputs drawn from `seed`."""
        card, suite = exercise(name), checks.suite(name)
        if len(answer.source) + len(answer.context) > SOURCE_CHARS:
            return Decision(
                "UNGRADABLE",
                "TOO-LONG",
                "the answer is too long to be graded",
                flags=answer.flags,
                person="too long to be graded",
            )
        budget_s = self.budget_s * suite.limit_s / LIMIT_S  # a suite may ask for more than others
        try:
            subject, fault, hurried = self._prepare_subject(card, answer, budget_s, suite)
        except zygote_client.ZygoteError as problem:
            if suite.ranks <= 1:
                raise
            return Decision(
                "UNGRADABLE",
                "NO-RANKS",
                "several ranks cannot be run where this is graded",
                flags=answer.flags,
                person=f"needs {suite.ranks} ranks, and "
                f"the tier {self.tier} cannot run them ({problem})",
            )
        try:
            if fault:
                found = report_broken_check(fault)
            else:
                found = _run_suite(card, suite, subject, answer, seed)
            seen, sent = subject.read_witness(), subject.worker.count_loopback_bytes()
        finally:
            status = subject.worker.close()
        if subject.lost:
            decision = decide_by_loss(subject, status, budget_s)
        elif isinstance(found, Decision):
            decision = found
        elif found.status == "broken" and self._passes_reference(card, suite, budget_s, seed):
            decision = refuse_answer(card, "ODD-RESULT")
        else:
            decision = decide_by_verdict(found, subject, answer)
        if decision.passed and sent and suite.sends_much:
            seen["sent"] = self._compare_traffic(card, suite, seed, sent)
        flags, notes = _find_marks(card, answer, seen if decision.passed else {})
        if hurried or decision.verdict == "TIMEOUT" or (subject.stuck and not decision.passed):
            flags += (CLOCK,)
        return replace(decision, flags=answer.flags + flags, notes=notes, seconds=subject.seconds)

    def _compare_traffic(self, card: Exercise, suite: Suite, seed: int, sent: int) -> list[str]:
        """A sentence when the ranks of an answer sent much less or more than those of the solution."""
        due = self._sent.get((card.id, seed)) or self._measure_solution(card, suite, seed)
        if due is None or abs(sent - due) <= TRAFFIC_SHARE * due:
            return []
        return [
            f"sent {sent:,} bytes between its ranks by the kernel's count, the solution {due:,}"
        ]

    def _measure_solution(self, card: Exercise, suite: Suite, seed: int) -> int | None:
        """The bytes that the solution's ranks send; once for an exercise and its inputs."""
        answer = Answer(read_solution(card))
        subject, fault, _ = self._prepare_subject(card, answer, PATIENCE * suite.limit_s, suite)
        try:
            found = None if fault else _run_suite(card, suite, subject, answer, seed)
            if isinstance(found, Verdict) and found.passed:
                self._sent[card.id, seed] = subject.worker.count_loopback_bytes()
        finally:
            subject.worker.close()
        return self._sent.get((card.id, seed))

    def _passes_reference(self, card: Exercise, suite: Suite, budget_s: float, seed: int) -> bool:
        """Whether the suite passes the library's own definition with these inputs: then a check that
        failed on an answer failed by what the answer returned."""
        own = Answer(f"from {card.module} import {card.name}")
        subject, _, _ = self._prepare_subject(card, own, budget_s, suite, erase=False)
        try:
            subject.start(own.source)
            return suite.run(subject, seed=seed).passed
        except (WorkerLost, OutOfTime, AnswerError):
            return False
        finally:
            subject.worker.close()

    def _prepare_subject(
        self,
        card: Exercise,
        answer: Answer,
        budget_s: float,
        suite: Suite,
        *,
        erase: bool = True,
    ) -> tuple:
        """A subject whose worker waits for the answer; "" or what is wrong with the course; whether
        a clock took part.

        When the context kills its worker or never ends, a second worker starts without it: it
        comes from other cells, and a crash there must not cost this exercise.
        """
        ready_made = (name.rpartition(".")[0] for name in card.ready_made)
        modules = tuple(dict.fromkeys((*_imported_modules(card.setup), *suite.loads, *ready_made)))
        hurried = False
        for context in (answer.context, ""):
            worker = self._client.spawn_worker(
                ranks=suite.ranks, modules=modules, cpu_s=math.ceil(budget_s) + 1
            )
            # what computes ends by the limit of its processor time; this one is for what waits
            longest = PATIENCE * budget_s
            subject = RemoteSubject(worker, budget_s=longest, call_s=longest / 2)
            try:
                fault = subject.prepare(worker_card(card, erase=erase), context)
                subject.call_s = longest
                return subject, fault, hurried
            except (WorkerLost, OutOfTime):
                if not context:
                    return subject, "", hurried
                hurried = is_out_of_time(subject, subject.worker.close(), budget_s)
            except BaseException:
                subject.worker.close()
                raise
        raise AssertionError("the empty context returns")


def _find_marks(
    card: Exercise, answer: Answer, seen: dict[str, list[str]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Flags of an answer that a person should look at, and a sentence for each reason.

    `seen` is what the worker saw while an answer ran that passed.
    """
    touches = [*find_touches(answer.source, f"{card.setup}\n{answer.context}")]
    touches += [f"another cell, {what}" for what in find_touches(answer.context, card.setup)]
    touches += seen.get("sent", ())
    touches += [f"replaced {name} when it ran" for name in seen.get("replaced", ())]
    made = [name for name in seen.get("called", ()) if name in card.ready_made]
    flags = ("READY-MADE",) * bool(made) + ("TOUCHED",) * bool(touches)
    notes = [f"{card.id}: calls {', '.join(made)}"] * bool(made)
    return flags, (*notes, *(f"{card.id}: {what}" for what in touches[:MOST_NOTES]))


def _run_suite(
    card: Exercise, suite: Suite, subject: RemoteSubject, answer: Answer, seed: int
) -> Decision | Verdict | None:
    """The suite's verdict; a Decision when there is no answer to run; None when the worker is lost."""
    if subject.lost:
        return None
    try:
        said = subject.start(answer.source, answer.kind)
    except (WorkerLost, OutOfTime):
        return None
    except AnswerError:  # it took the place of what runs it
        return decide_by_error(subject.error, answer)
    if not said["defined"]:
        if said["error"]:
            return decide_by_error(said["error"], answer)
        return refuse_answer(card, "UNDEFINED")
    if said["reference"]:
        return refuse_answer(card, "REFERENCE")
    return suite.run(subject, seed=seed, number=card.number, title=card.title)


@functools.cache
def _imported_modules(setup: str) -> tuple[str, ...]:
    """Modules that a lesson's setup cell imports."""
    found: dict[str, None] = {}
    for node in ast.walk(ast.parse(setup)):
        if isinstance(node, ast.Import):
            found |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= dict.fromkeys([node.module, *(f"{node.module}.{a.name}" for a in node.names)])
    return tuple(found)


def worker_card(card: Exercise, *, erase: bool = True) -> dict:
    """What a worker must know of an exercise: names and the lesson's imports, no solution.

    With `erase` the library's own definition goes.
    """
    earlier = [e for e in (exercises().get(n) for n in card.needs) if e]
    return {
        "target": card.target,
        "blank": list(card.blank),
        "ready_made": list(card.ready_made),
        "name": card.name,
        "setup": card.setup,
        "needs": [f"{e.module}::{e.name}" for e in earlier],
        "erase": erase,
    }
