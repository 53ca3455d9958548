"""`course check` and `course hint`: the same checks and hints without a notebook."""

import argparse
import json
import linecache
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from course_lib.checks.report import Verdict
from course_lib.lab import checking, events, hinting, moved, registry
from course_lib.lab.home import home
from course_lib.lab.registry import Exercise


def check(args: argparse.Namespace) -> int:
    """Print the verdict on the answer in `--file`, or in the learner's notebook; 1 when it fails.

    As in a notebook, the verdict goes into the learner's record, and an answer that passes to
    `mine/`. ValueError when there is no answer to read.
    """
    card = registry.exercise(args.id)
    text, where = _find_answer(card, args.file)
    events.sureness(args.confidence)
    scope = run_answer(card, text, where)
    verdict = checking.judge(card, scope.get(card.name))
    checking.record(card, verdict, text, args.confidence)
    print(_say_in_terminal(checking.keep_answer(card, verdict, text, scope), where).text())
    return 0 if verdict.passed else 1


def _say_in_terminal(verdict: Verdict, where: str) -> Verdict:
    """The same verdict; what to do next is a command here, and no cell."""
    if verdict.passed:
        return verdict
    again = f"course check {verdict.exercise}"
    steps = f"{again} after the change \N{MIDDLE DOT} course hint {verdict.exercise}"
    if verdict.code in ("UNDEFINED", "REFERENCE"):
        return replace(verdict, rows=(("Expected", f"your own, in {where}"), ("Next", again)))
    kept = [(label, said) for label, said in verdict.rows if label != "Next"]
    return replace(verdict, rows=(*kept, ("Next", steps)))


def hint(args: argparse.Namespace) -> int:
    """Print the next hint, the one of that level, or the solution."""
    if args.solution:
        hinting.solution(args.id)
    else:
        hinting.hint(args.id, args.level, in_terminal=True)
    return 0


def define(card: Exercise, text: str, where: str):
    """Run the lesson's imports and the answer's text; the object the exercise names, or None."""
    return run_answer(card, text, where).get(card.name)


def run_answer(card: Exercise, text: str, where: str) -> dict:
    """Run the lesson's imports and the answer's text; every name that is defined then.

    ValueError, with the place, for a text that cannot be run.
    """
    scope = {"__name__": "__main__"}
    exec(compile(card.setup, f"<imports of {card.lesson}>", "exec"), scope)  # noqa: S102
    for needed in filter(registry.exercises().get, card.needs):  # defined in an earlier cell
        earlier = registry.exercise(needed)
        scope.setdefault(earlier.name, getattr(import_module(earlier.module), earlier.name))
    scope.pop(card.name, None)
    linecache.cache[where] = (len(text), None, text.splitlines(keepends=True), where)
    try:
        exec(compile(text, where, "exec"), scope)  # noqa: S102
    except SyntaxError as error:
        raise ValueError(
            f"{where}, line {error.lineno}: {error.msg}: {(error.text or '').strip()}"
        ) from None
    except Exception as error:
        raise ValueError(f"{where} raised {type(error).__name__}: {error}") from error
    return scope


def _find_answer(card: Exercise, file: Path | None) -> tuple[str, str]:
    if file is not None:
        if not file.is_file():
            raise ValueError(f"no file {file}; give the one that defines {card.name}")
        return moved.rewrite(file.read_text(encoding="utf-8")), str(file)
    notebook = home() / "notebooks" / f"{card.lesson}.ipynb"
    if not notebook.is_file():
        raise ValueError(f"no notebook {notebook}; run this in the course folder or give --file")
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    texts = {
        cell["metadata"].get("nbgrader", {}).get("grade_id", f"cell {number}"): "".join(
            cell["source"]
        )
        for number, cell in enumerate(cells)
        if cell["cell_type"] == "code"
    }
    if card.id in texts:
        text = moved.rewrite(texts.pop(card.id), list(texts.values()))
        return text, f"<{card.lesson}, cell {card.id}>"
    raise ValueError(
        f"{notebook.name} has no cell for {card.id}; `course reset {card.lesson}` restores it"
    )
