"""What a check says: one verdict, at most 12 lines of 88 columns, complete as plain text.

The grammar of a failing message, in this order:

    x 1.1 RMSNorm.forward . check 3 of 6 . the finding in plain words      [CODE]
      Tried     what was put in
      Expected  what a right answer gives
      Got       what this one gave
      Fits      the pattern the numbers match, only when they match
      Look at   the argument, line or function, not the fix
      Next      one thing to do

Codes are stable: mutants in the tests and the learner's record refer to them.
"""

import html
import math
import re
import textwrap
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

from torch import Tensor

WIDTH = 88
MAX_LINES = 12
DIGITS = ContextVar("digits", default=4)
"""Significant digits of numbers; a suite asks for more where two numbers would look the same."""
LABELS = ("Tried", "Expected", "Got", "Fits", "Hides", "Look at", "Next")

NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?(e[-+]\d+)?")


class Wrong(Exception):
    """Raised inside a check: the answer breaks the stated property.

    `code` is stable, `finding` finishes the first line; the others become the labeled rows.
    `preset` names a state of the lesson's figure that shows this very case, as "figure:preset".
    """

    def __init__(
        self,
        code: str,
        finding: str,
        *,
        tried: str = "",
        expected: str = "",
        got: str = "",
        fits: str = "",
        hides: str = "",
        look: str = "",
        preset: str = "",
    ):
        super().__init__(f"{finding} [{code}]")
        self.code, self.finding, self.preset = code, finding, preset
        texts = dict(zip(LABELS, (tried, expected, got, fits, hides, look), strict=False))
        self.rows = tuple((label, text) for label, text in texts.items() if text)

    def looks_the_same(self) -> bool:
        """Whether Expected and Got begin with the same number, so that nobody sees a difference."""
        rows = dict(self.rows)
        found = [NUMBER.search(rows.get(label, "")) for label in ("Expected", "Got")]
        return all(found) and found[0][0] == found[1][0]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Result of one suite on one answer."""

    exercise: str
    number: str = ""
    title: str = ""
    status: str = "wrong"
    """"passed", "wrong" (the answer), or "broken" (the check itself, to be reported)."""
    code: str = "PASS"
    finding: str = ""
    reached: int = 0
    """Checks begun; on a failure the failing one is the last of them."""
    total: int = 0
    rows: tuple[tuple[str, str], ...] = ()
    preset: str = ""
    seed: int = 0
    seconds: float = 0.0
    own_seconds: float = field(default=0.0, compare=False)
    """Seconds spent inside the answer's own code; the rest is the check's."""

    @property
    def passed(self) -> bool:
        return self.status == "passed"

    def text(self) -> str:
        """The whole message as plain text."""
        lines = _head(self)
        for label, content in self.rows:
            lines += _row(label, content)
        return "\n".join(_cap(lines))

    def html(self) -> str:
        """The same message as HTML: a live region with a first line and a table of rows."""
        color = "#0a7a3d" if self.passed else "#b3261e"
        rows = "".join(
            f"<tr><th scope='row' style='text-align:left;vertical-align:top;padding:2px 14px 2px 0;"
            f"font-weight:600'>{html.escape(label)}</th><td style='text-align:left;padding:2px 0;"
            f"white-space:pre-wrap{';font-family:monospace' * _has_columns(content)}'>"
            f"{_mark_up(content)}</td></tr>"
            for label, content in self.rows
        )
        return (
            f"<div role='status' class='course-check' data-code='{html.escape(self.code)}' "
            f"style='border-left:4px solid {color};padding:8px 14px;margin:4px 0'>"
            f"<div style='font-weight:600'>{_mark_up(_first_line(self))} "
            f"<code>[{html.escape(self.code)}]</code></div>"
            f"<table style='border:0;margin:6px 0 0 0'><tbody>{rows}</tbody></table></div>"
        )


def _has_columns(content: str) -> bool:
    """Whether spaces line up what stands in its lines."""
    return "\n" in content and "  " in content


def _mark_up(content: str) -> str:
    """The text as HTML, with what stands between backticks as code."""
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", html.escape(content))


def _first_line(verdict: Verdict) -> str:
    mark = "\N{CHECK MARK}" if verdict.passed else "\N{BALLOT X}"
    name = f"{verdict.number} {verdict.title}".strip() or verdict.exercise
    if verdict.passed:
        where = f"{verdict.total} of {verdict.total} checks"
    elif verdict.total:
        where = f"check {verdict.reached} of {verdict.total}"
    else:
        where = "not run"
    return " \N{MIDDLE DOT} ".join(filter(None, (f"{mark} {name}", where, verdict.finding)))


def _head(verdict: Verdict) -> list[str]:
    code = f"[{verdict.code}]"
    lines = textwrap.wrap(_first_line(verdict), WIDTH, subsequent_indent="  ") or [""]
    if len(lines[-1]) + 1 + len(code) <= WIDTH:
        lines[-1] = lines[-1].ljust(WIDTH - len(code)) + code
    else:
        lines.append(code.rjust(WIDTH))
    return lines


def _row(label: str, content: str) -> list[str]:
    lines = []
    for part in content.split("\n"):
        # a row of numbers keeps its own spacing; prose is wrapped
        lines += [part] if len(part) <= WIDTH - 12 else textwrap.wrap(part, WIDTH - 12)
    return [f"  {label if i == 0 else '':<10}{line}".rstrip() for i, line in enumerate(lines)]


def _cap(lines: list[str]) -> list[str]:
    if len(lines) <= MAX_LINES:
        return lines
    return [*lines[: MAX_LINES - 2], "            (shortened)", lines[-1]]


def number(value: float) -> str:
    """A number as a person reads it: `DIGITS` significant digits, no trailing zeros."""
    return f"{as_float(value):.{DIGITS.get()}g}"


def as_float(value: float) -> float:
    """The same number; infinity for an int that no float can hold."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def vector(values: Sequence[float] | Tensor, limit: int = 6) -> str:
    """At most `limit` numbers in brackets, then a count of the others, which nobody looks at."""
    shown = ", ".join(number(v) for v in values[:limit])
    return f"[{shown}{f', ... {len(values) - limit} more' if len(values) > limit else ''}]"
