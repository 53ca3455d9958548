"""`course review`: the questions in a terminal, or in a pipe, one line each.

?  shows the answer and counts as not known
s  leaves the question for another time
Ctrl-C, or the end of the input, stops; what was answered is kept
"""

import os
import textwrap
from argparse import Namespace
from datetime import UTC, datetime

from course_lib.lab import events
from course_lib.lab.reviews.answers import LETTERS, Unreadable
from course_lib.lab.reviews.listing import listing, notes
from course_lib.lab.reviews.sitting import (
    AGAIN,
    EASY,
    GOOD,
    HARD,
    Outcome,
    Question,
    Sitting,
    levels_of,
)

WIDTH = 88
PATIENCE = 3
"""Lines that cannot be read before a question is left alone: a pipe never gives up by itself."""
GRADES = {"n": AGAIN, "h": HARD, "y": GOOD, "e": EASY}


def run(args: Namespace) -> int:
    """`course review [--list] [--limit N]`: 0, or 130 after Ctrl-C."""
    if "NBGRADER_EXECUTION" in os.environ:
        return 0
    if args.list:
        now = datetime.now(UTC)
        found = events.read()
        for line in listing(found, now, levels_of(found, now)):
            print(line if line.startswith(" ") else _wrap_text(line))
        return 0
    return ask(Sitting(args.limit))


def ask(sitting: Sitting) -> int:
    """Ask what is due and say what comes next; 0, or 130 after Ctrl-C."""
    for note in notes(sitting.events, sitting.now, sitting.levels):
        print(textwrap.fill(note, WIDTH))
    code = 0
    if sitting.due:
        count = len(sitting.due)
        print(
            f"{count} review{'s' * (count > 1)}, 90 seconds each at most. "
            "? shows the answer, s leaves it for later, Ctrl-C stops."
        )
    try:
        while question := sitting.question():
            _ask_question(sitting, question)
    except KeyboardInterrupt:
        print("\nStopped. What you answered is kept.")
        code = 130
    except EOFError:
        print("\nThe input has ended. What you answered is kept.")
    print(sitting.summary())
    return code


def _ask_question(sitting: Sitting, question: Question) -> None:
    print(f"\n{question.title}\n{_wrap_text(question.variant.question)}")
    accept = question.variant.accept
    for place, option in enumerate(accept.options if accept else ()):
        print(f"  {LETTERS[place]}) {option}")
    outcome = _check_answer(sitting, question) if accept else _grade_answer(sitting, question)
    if outcome is None:
        print("Left for later.")
        return
    print(outcome.coming)


def _check_answer(sitting: Sitting, question: Question) -> Outcome | None:
    """A typed answer, compared by machine; None when it was left for later."""
    accept = question.variant.accept
    for _ in range(PATIENCE):
        typed = input(f"your answer ({accept.format}): ").strip()
        if typed.lower() == "s":
            break
        try:
            passed = typed != "?" and accept.holds(typed)
        except Unreadable as problem:
            print(_wrap_text(f"{problem}. ? shows the answer, s leaves it for later."))
            continue
        secs = sitting.elapsed_seconds()
        sure = _ask_confidence() if typed != "?" else None
        word = "Right." if passed else "The answer:" if typed == "?" else "Not this time."
        print(_wrap_text(f"{word} {question.variant.answer}"))
        return sitting.answer(question, passed=passed, secs=secs, confidence=sure)
    sitting.skip()
    return None


def _grade_answer(sitting: Sitting, question: Question) -> Outcome | None:
    """An answer in the learner's words, which she compares herself."""
    typed = input("say your answer or write it, then press Enter: ").strip().lower()
    if typed == "s":
        sitting.skip()
        return None
    secs = sitting.elapsed_seconds()
    sure = _ask_confidence() if typed != "?" else None
    print(_wrap_text(question.variant.answer))
    rating = AGAIN if typed == "?" else _ask_grade()
    if rating is None:
        sitting.skip()
        return None
    return sitting.answer(question, rating=rating, secs=secs, confidence=sure)


def _ask_grade() -> int | None:
    for _ in range(PATIENCE):
        typed = input("did you have it? n no, h with effort, y yes, e at once: ").strip().lower()
        if typed[:1] in GRADES and typed in ("n", "no", "h", "y", "yes", "e"):
            return GRADES[typed[0]]
        if typed == "s":
            return None
        print(f"expected n, h, y or e, got {typed!r}")
    return None


def _ask_confidence() -> int | None:
    """1 to 5, or None: it is never asked for twice."""
    typed = input("how sure are you, 1 to 5 (Enter skips): ").strip()
    if typed in ("1", "2", "3", "4", "5"):
        return int(typed)
    if typed:
        print(f"expected 1 to 5, got {typed!r}: left out")
    return None


def _wrap_text(text: str) -> str:
    return "\n".join(textwrap.fill(line, WIDTH) for line in text.splitlines())
