"""`review()`: the questions in a notebook, as a form; as text where no form can be shown."""

import os
import sys
from pathlib import Path
from typing import Any

from course_lib.lab.reviews.answers import Unreadable
from course_lib.lab.reviews.asking import ask
from course_lib.lab.reviews.listing import listing, notes
from course_lib.lab.reviews.sitting import AGAIN, EASY, Question, Sitting

MODULE = Path(__file__).with_name("form.mjs")


def review(limit: int | None = None) -> None:
    """Ask what is due, at most `limit` questions. In a plain Python or IPython it asks by line; a
    notebook run without its reader (nbconvert, the book) shows what is due. Nothing while grading.
    """
    if "NBGRADER_EXECUTION" in os.environ:
        return
    sitting = Sitting(limit)
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or not hasattr(shell, "kernel"):
        ask(sitting)
        return
    from IPython.display import display

    text = "\n".join(listing(sitting.events, sitting.now, sitting.levels))
    display(_bundle(sitting, text), raw=True)


def _bundle(sitting: Sitting, text: str) -> dict[str, Any]:
    shown: dict[str, Any] = {"text/plain": text}
    if os.environ.get("COURSE_FIGURES") == "static":
        return shown
    try:
        form = Form(sitting).widget
    except ImportError:
        return {"text/plain": f"{text}\nAsk them in a terminal: course review"}
    made = form._repr_mimebundle_()
    return {**(made[0] if isinstance(made, tuple) else made or {}), **shown}


class Form:
    """A sitting as a widget: Python chooses and judges, the page shows and sends what is typed."""

    def __init__(self, sitting: Sitting):
        self.sitting = sitting
        self.secs: float | None = None
        self.sure: int | None = None
        self.notes = notes(sitting.events, sitting.now, sitting.levels)
        self.widget = _widget_class()()
        self.widget.on_msg(lambda _, message, __: self.receive(message))
        self.ask()

    def ask(self) -> None:
        """Show the next question, or the end."""
        self.question = self.sitting.question()
        self.secs = self.sure = None
        if self.question is None:
            self._show_card(phase="end", text=self.sitting.summary())
        else:
            self._show_card(phase="ask", **_describe_question(self.question))

    def receive(self, message: dict) -> None:
        """One message of the page: {"do": answer, unknown, reveal, grade, later or next, ...}.

        One that does not fit what is shown (a second click, another window) is passed over.
        """
        do, phase = message.get("do"), self.widget.card.get("phase")
        if do == "next" and phase == "told":
            self.ask()
        elif self.question is None or phase not in ("ask", "grade"):
            return
        elif do == "later":
            self.sitting.skip()
            self.ask()
        elif do == "grade" and phase == "grade":
            self._take_grade(message.get("rating"))
        elif phase == "ask":
            self.secs = self.sitting.elapsed_seconds()
            self.sure = _read_scale(message.get("confidence"), 1, 5)
            {
                "answer": self._take_answer,
                "unknown": self._take_unknown,
                "reveal": self._reveal_answer,
            }.get(do, lambda message: None)(message)

    def _take_answer(self, message: dict) -> None:
        accept = self.question.variant.accept
        if accept is None:
            return
        try:
            passed = accept.holds(str(message.get("typed", "")))
        except Unreadable as problem:
            self._change_card(problem=f"{problem}.")
            return
        self._tell_verdict("Right." if passed else "Not this time.", passed=passed)

    def _take_unknown(self, message: dict) -> None:
        self.sure = None
        self._tell_verdict("The answer:", rating=AGAIN)

    def _reveal_answer(self, message: dict) -> None:
        self._change_card(phase="grade", problem="", answer=self.question.variant.answer)

    def _take_grade(self, rating: Any) -> None:
        if (rating := _read_scale(rating, AGAIN, EASY)) is not None:
            self._tell_verdict("", rating=rating)

    def _tell_verdict(self, verdict: str, **how: Any) -> None:
        outcome = self.sitting.answer(self.question, secs=self.secs, confidence=self.sure, **how)
        answer = self.question.variant.answer
        self._change_card(
            phase="told", problem="", verdict=verdict, answer=answer, coming=outcome.coming
        )

    def _change_card(self, **parts: Any) -> None:
        self._show_card(**{**self.widget.card, **parts})

    def _show_card(self, **card: Any) -> None:
        self.widget.card = {**card, "notes": self.notes}


def _describe_question(question: Question) -> dict[str, Any]:
    accept = question.variant.accept
    choices = list(accept.options) if accept else []
    if accept and accept.kind == "yes-no":
        choices = ["yes", "no"]
    return {
        "title": question.title,
        "question": question.variant.question,
        "choices": choices,
        "format": accept.format if accept else "",
        "problem": "",
    }


def _read_scale(value: Any, low: int, high: int) -> int | None:
    return value if isinstance(value, int) and low <= value <= high else None


def _widget_class() -> type:
    import anywidget  # late: text must work where the widget stack is missing
    import traitlets

    traits = {"_esm": MODULE.read_text(encoding="utf-8"), "card": traitlets.Dict().tag(sync=True)}
    return type("ReviewForm", (anywidget.AnyWidget,), traits)
