"""`check("rmsnorm")`: the learner's own definition through its suite, in this kernel."""

import ast
import importlib
import os
import random
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from course_lib import checks
from course_lib.checks.report import Verdict
from course_lib.checks.subject import LocalSubject
from course_lib.lab import events, mine, source
from course_lib.lab.registry import Exercise, exercise
from course_lib.runs.own_folder import own_folder


class CheckFailed(Exception):
    """Ends the cell of a failed check; shows the message, not a traceback."""

    def __init__(self, verdict: Verdict, shown: bool):
        super().__init__(verdict.text())
        self.verdict, self._shown = verdict, shown

    def _render_traceback_(self) -> list[str]:  # IPython asks for this instead of its own
        return [f"{self.verdict.code}: see the message above"] if self._shown else [str(self)]


def check(
    name: str, answer: Any = None, *, confidence: int | None = None, fresh: bool = False
) -> None:
    """Run the checks of exercise `name` on what this notebook defines, and say what was found.

    `answer` is the object to check when it is not the one the exercise names. `fresh` draws a new
    seed: other numbers and sizes, the same specification. A pass is saved to `mine/`; a failure
    raises `CheckFailed`, so the cell fails too. `confidence`, 1 (a guess) to 5 (certain), may be
    given: the ledger compares it with the result. ValueError when no exercise has that name.
    """
    events.sureness(confidence)
    card = exercise(name)
    scope = sys._getframe(1).f_globals
    seed = random.randrange(1, 2**31) if fresh else 0
    verdict = _refuse_broken_cell(card, scope.get("In", ())) if answer is None else None
    verdict = verdict or judge(card, scope.get(card.name) if answer is None else answer, seed=seed)
    grading = "NBGRADER_EXECUTION" in os.environ
    text = source.find_cell(card, scope.get(card.name) if answer is None else answer)
    if not grading:
        record(card, verdict, text, confidence)
        verdict = keep_answer(card, verdict, text, scope)
    shown = _show_verdict(verdict)
    if not verdict.passed:
        raise CheckFailed(verdict, shown) from None


def judge(card: Exercise, answer: Any, *, seed: int = 0) -> Verdict:
    """The verdict on one object; nothing is shown, saved or recorded."""
    refusal = _refuse_cell(card, answer)
    if refusal:
        return refusal
    suite = checks.suite(card.id)
    with own_folder():
        return suite.run(LocalSubject(answer), seed=seed, number=card.number, title=card.title)


def _refuse_cell(card: Exercise, answer: Any) -> Verdict | None:
    base = dict(exercise=card.id, number=card.number, title=card.title)
    if answer is None:
        return Verdict(
            **base,
            code="UNDEFINED",
            finding=f"{card.name} is not defined here",
            rows=(
                ("Expected", f"a cell above that defines {card.name}, and that has been run"),
                (
                    "Next",
                    "run the cells from the top; a restarted kernel has forgotten all of them.",
                ),
            ),
        )
    library = importlib.import_module(card.module)
    if _resolve_method(answer, card) is None:
        method = card.path.partition(".")[2]
        return Verdict(
            **base,
            code="UNDEFINED",
            finding=f"{card.name} has no `{method}`",
            rows=(
                ("Expected", f"a class with the method `{method}`"),
                ("Got", f"{type(answer).__name__} {getattr(answer, '__name__', '')}".strip()),
                ("Next", "define it in the exercise's cell, run that, then this one."),
            ),
        )
    if _resolve_method(answer, card) is _resolve_method(getattr(library, card.name), card):
        return Verdict(
            **base,
            code="REFERENCE",
            finding="this is the library's own code",
            rows=(
                ("Expected", f"your own {card.path}"),
                ("Got", f"{card.path} as course_lib has it: imported, or the cell has not run"),
                (
                    "Next",
                    "run the exercise's cell, then this one; remove an import of the same name.",
                ),
            ),
        )
    return None


def _refuse_broken_cell(card: Exercise, cells: Sequence[str]) -> Verdict | None:
    """A refusal where the newest of the cells that define the answer could not be run for an error
    of syntax: what is defined then is older than what is on the screen, and is not judged."""
    defines = re.compile(rf"^(async\s+def|def|class)\s+{card.name}\b", re.MULTILINE)
    newest = next((text for text in reversed(cells) if defines.search(text)), "")
    try:
        ast.parse(newest)
    except SyntaxError as error:
        return Verdict(
            exercise=card.id,
            number=card.number,
            title=card.title,
            code="SYNTAX",
            finding=f"the newest cell that defines {card.name} did not run",
            rows=(
                ("Expected", "a cell that Python can read; an older definition is not judged"),
                ("Got", f"{error.msg}, line {error.lineno}: {(error.text or '').strip()}"),
                ("Next", "repair that line, run the exercise's cell, then this one."),
            ),
        )
    return None


def _resolve_method(obj: Any, card: Exercise) -> Any:
    """The object itself, or for "Class.method" exercises the method it would use."""
    method = card.path.partition(".")[2]
    return getattr(obj, method, None) if method else obj


def record(
    card: Exercise, verdict: Verdict, text: str | None, confidence: int | None = None
) -> None:
    """Note a verdict in the learner's record; of the answer's `text`, only a fingerprint."""
    events.record(
        "check",
        item=card.id,
        concepts=list(card.teaches),
        result="pass" if verdict.passed else "fail",
        code=verdict.code,
        attempt=1 + _count_tries(card.id),
        secs=round(verdict.seconds, 3),
        src=events.digest(text) if text else None,
        confidence=confidence,
        preset=verdict.preset or None,
    )


def _count_tries(item: str) -> int:
    return sum(e["kind"] == "check" and e.get("item") == item for e in events.read())


def keep_answer(card: Exercise, verdict: Verdict, text: str | None, scope: dict) -> Verdict:
    """After a pass, the answer goes to mine/; the verdict says where, or why it could not."""
    if not verdict.passed:
        return verdict
    try:
        kept = mine.save(card, text, scope)
    except (OSError, ValueError) as problem:
        kept = f"not kept: {problem}"
    return replace(verdict, rows=(*verdict.rows, ("Kept", kept)))


def _show_verdict(verdict: Verdict) -> bool:
    """Print the verdict, as HTML where that can be shown; True when a failure is on screen."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    live = shell is not None and hasattr(shell, "kernel") and "NBGRADER_EXECUTION" not in os.environ
    if live:
        from IPython.display import display

        display({"text/plain": verdict.text(), "text/html": verdict.html()}, raw=True)
    elif verdict.passed:
        print(verdict.text())
    return live
