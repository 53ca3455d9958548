"""Right and wrong answers to every exercise: test data, one file per exercise id.

A file is a row of cells. `# %% right NAME` is a whole answer that must pass, `# %% wrong CODE NAME`
one that must be refused with that code. A wrong cell is whole, or it is an edit of the right cell
last above it (`# %% wrong CODE NAME | of: RIGHT NAME` for another one):

    # %% wrong RMS-NO-ROOT divides by the mean square
      mean = x.pow(2).mean(-1, keepdim=True)
    - return y * torch.rsqrt(mean + self.eps)
    + return y / (mean + self.eps)

Lines that go begin with `- `, lines that come with `+ `, lines that only show the place with two
spaces. Blank lines part edits at several places. Each must fit one place of the right answer, and
one only; how far the lines are indented as a whole does not matter.
"""

import re
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

HEAD = re.compile(r"^# %% (right|wrong) ?(.*)$", re.M)
INHERITS = re.compile(r"^class (\w+)\(\1\):", re.M)
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Answer:
    """One whole answer. `code` is the message it must trigger; None when it must pass."""

    exercise: str
    name: str
    code: str | None
    text: str


def answers(exercise: str) -> list[Answer]:
    """All answers to one exercise, edits applied.

    A cell with `class X(X):` inherits its constructor from the first right cell's class.
    Raises ValueError, with file, line and cell, for an edit that does not fit exactly once.
    """
    path = FOLDER / f"{exercise.replace('-', '_')}.py"
    source = path.read_text(encoding="utf-8")
    heads = list(HEAD.finditer(source))
    found, right = [], {}
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        text = source[head.end() : following.start() if following else None].strip("\n") + "\n"
        title, _, base = head[2].partition(" | of: ")
        code, _, name = title.partition(" ") if head[1] == "wrong" else (None, "", title)
        if code is None:
            right[name] = text
        elif re.search(r"^[-+] ", text, re.M):
            line = source.count("\n", 0, head.start()) + 1
            where = f"{path.name}:{line}: {title}"
            if base and base not in right:
                raise ValueError(f"{where}: expected the name of a right answer above, got {base}")
            text = apply_edits(text, right[base or [*right][-1]], where)
        found.append(Answer(exercise, name, code, text))
    first = next(a.text for a in found if a.code is None)
    return [
        replace(a, text=first + "\n\n" + a.text) if INHERITS.search(a.text) else a for a in found
    ]


def apply_edits(edits: str, text: str, where: str) -> str:
    """`text` with the edits made; `where` begins the message of one that does not fit."""
    lines = text.splitlines()
    for edit in edits.strip("\n").split("\n\n"):
        rows = [(row[0], row[2:]) for row in edit.splitlines() if row]
        old, new = ([row for sign, row in rows if sign != other] for other in "+-")
        spans = [slice(at, at + len(old)) for at in range(len(lines) - len(old) + 1)]
        fits = [span for span in spans if old and dedent_lines(lines[span]) == dedent_lines(old)]
        if len(fits) != 1:
            raise ValueError(
                f"{where}: expected one place in the right answer for these lines, found "
                f"{len(fits)}; write more lines around the change, or new ones:\n{edit}"
            )
        shift = margin(lines[fits[0]]) - margin(old)
        lines[fits[0]] = [(" " * shift + row)[max(-shift, 0) :].rstrip() for row in new]
    return "\n".join(lines) + "\n"


def margin(lines: list[str]) -> int:
    """The spaces that all lines begin with; empty ones do not count."""
    return min((len(x) - len(x.lstrip()) for x in lines if x.strip()), default=0)


def dedent_lines(lines: list[str]) -> list[str]:
    """The lines without their common indentation."""
    return textwrap.dedent("\n".join(lines)).splitlines()
