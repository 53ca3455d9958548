"""Right and wrong answers to every exercise: test data, one file per exercise id."""

import re
from dataclasses import dataclass
from pathlib import Path

HEAD = re.compile(r"^# %% (right|wrong) ?(.*)$", re.M)
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Answer:
    """One whole answer. `code` is the message it must trigger; None when it must pass."""

    exercise: str
    name: str
    code: str | None
    text: str


def answers(exercise: str) -> list[Answer]:
    """All answers to one exercise.

    In a wrong cell `class X(X):` inherits its constructor from the first right cell's class.
    """
    source = (FOLDER / f"{exercise.replace('-', '_')}.py").read_text(encoding="utf-8")
    heads = list(HEAD.finditer(source))
    found = []
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        text = source[head.end() : following.start() if following else None].strip() + "\n"
        code, _, name = head[2].partition(" ") if head[1] == "wrong" else (None, "", head[2])
        found.append(Answer(exercise, name, code, text))
    base = next(a.text for a in found if a.code is None)
    return [
        Answer(a.exercise, a.name, a.code, base + "\n\n" + a.text)
        if re.search(r"^class (\w+)\(\1\):", a.text, re.M) else a
        for a in found
    ]
