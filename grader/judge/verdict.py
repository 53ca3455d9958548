"""From a suite's verdict, or from the lack of one, to a `Decision`.

A learner's message says what was found and where to look. It never repeats what the answer's code
says of itself, nor the numbers of this run: the inputs are hidden, and an exception's text or a
printed line could carry them out.
"""

import builtins
import errno
import re
import signal

from course_lib.checks.report import Verdict
from course_lib.lab.registry import Exercise
from grader.judge.decision import Decision
from grader.judge.remote import RemoteSubject

SAFE_ROWS = ("Fits", "Hides", "Look at")
"""Rows that are the course's own words. The others show inputs, expected or returned values."""
NO_MEMORY = re.compile(
    r"can't allocate memory|not enough memory|Cannot allocate memory|std::bad_alloc"
)
FULL = {errno.ENOMEM: "memory", errno.EAGAIN: "processes", errno.ENOSPC: "disk",
        errno.EFBIG: "disk", errno.EMFILE: "open files", errno.EMSGSIZE: "output"}  # fmt: skip


def decide_by_verdict(verdict: Verdict, subject: RemoteSubject, answer) -> Decision:
    """The decision for a suite that ran to its end or to its first failure."""
    if verdict.passed:
        return Decision("PASS", "PASS", f"all {verdict.total} checks passed")
    if verdict.status == "broken":
        return report_broken_check(f"{verdict.rows[0][1]} ({verdict.rows[1][1]})")
    if verdict.code == "STUB":
        return Decision("ERROR", "STUB", "not attempted: the code still raises NotImplementedError")
    if verdict.code == "RAISED":
        return decide_by_error(subject.error, answer)
    if verdict.code == "TIMEOUT":
        return Decision("TIMEOUT", "TIMEOUT", _timeout_message(verdict.seconds))
    return Decision("WRONG", verdict.code, _verdict_message(verdict))


def _verdict_message(verdict: Verdict) -> str:
    head = f"check {verdict.reached} of {verdict.total}: {verdict.finding} [{verdict.code}]"
    rows = [f"{label}: {text}" for label, text in verdict.rows if label in SAFE_ROWS and text]
    return "\n".join([head, *rows])


def decide_by_error(error: dict, answer) -> Decision:
    """The decision for an answer whose own code raised: ERROR, or LIMIT or DENIED."""
    kind, text = error.get("kind", "Exception"), error.get("text", "")
    if kind == "NotImplementedError":
        return Decision("ERROR", "STUB", "not attempted: the code still raises NotImplementedError")
    if allowance := _exhausted_allowance(kind, text, error.get("errno")):
        return _refuse_allowance(allowance)
    if kind == "PermissionError":
        return Decision(
            "DENIED",
            "DENIED",
            "the code asked for files, the network, other programs "
            "or other processes, which answers do not get",
        )
    kind = kind if hasattr(builtins, kind) else "an exception"
    return Decision("ERROR", "RAISED", f"the code raised {kind}{_quote_line(error, answer)}")


def _refuse_allowance(allowance: str) -> Decision:
    code = f"LIMIT-{allowance.upper().replace(' ', '-')}"
    return Decision("LIMIT", code, f"the code used more {allowance} than an answer may")


def _exhausted_allowance(kind: str, text: str, number: int | None) -> str:
    """The name of the allowance that an exception says is used up, or an empty string."""
    if kind == "MemoryError" or NO_MEMORY.search(text):
        return "memory"
    if number in FULL:
        return FULL[number]
    return "processes" if kind == "RuntimeError" and "start new thread" in text else ""


def _quote_line(error: dict, answer) -> str:
    """The learner's own line, quoted from the submission, not from the worker."""
    lines = answer.source.splitlines()
    number = error.get("line")
    if not isinstance(number, int) or not 1 <= number <= len(lines):
        return ""
    return f"\nLook at: line {number} of the cell: {lines[number - 1].strip()[:120]}"


def decide_by_loss(subject: RemoteSubject, status: int, budget_s: float) -> Decision:
    """The decision when the worker ended, ran out of time or broke the protocol."""
    if subject.worker.greedy:
        return _refuse_allowance("memory")
    if is_out_of_time(subject, status, budget_s):
        return Decision("TIMEOUT", "TIMEOUT", _timeout_message(budget_s))
    if subject.lost == "protocol":
        return Decision(
            "CRASHED",
            "PROTOCOL",
            "the code disturbed the process it ran in",
            person=f"the worker broke the protocol: {subject.why}",
        )
    how = f"by {signal.Signals(-status).name}" if -status in list(signal.Signals) else "by itself"
    return Decision("CRASHED", "CRASHED", f"the process that ran the code ended {how}")


def is_out_of_time(subject: RemoteSubject, status: int, budget_s: float) -> bool:
    """Whether a worker that was lost was ended for its time: on the wall, or of the processor."""
    spent = status == -signal.SIGKILL and subject.seconds >= budget_s
    return subject.lost == "timeout" or status == -signal.SIGXCPU or spent


def _timeout_message(seconds: float) -> str:
    return (
        f"stopped after {seconds:.3g} seconds; these inputs need well under one\n"
        "Fits: a loop or a recursion without end, or Python loops over every element."
    )


def refuse_answer(card: Exercise, code: str) -> Decision:
    """The decision when there is nothing to check; `code` is UNDEFINED, REFERENCE or ODD-RESULT."""
    text = {
        "UNDEFINED": f"nothing called {card.name} is defined in the answer",
        "REFERENCE": f"{card.path} is the library's own code, not an answer",
        "ODD-RESULT": f"what {card.name} returns, or is, cannot be checked; the exercise says what "
        "is asked for",
    }[code]
    return Decision("ERROR", code, text)


def report_broken_check(why: str) -> Decision:
    """The decision when a check itself failed: the course's fault, for a person to look at."""
    return Decision(
        "ERROR",
        "CHECK-BROKE",
        "the check itself failed; a person will look at it",
        person=f"the check itself failed: {why}",
    )
