"""One awkward or hostile submission of lesson 02_rope, and what the judge must say of it.

In texts, @BOOK@ and the other names of `filled` stand for what an attack aims at; they are put in
when the class is written, since a test's folders have no name before.
"""

import copy
import functools
import json
import textwrap
from dataclasses import dataclass, field

from grader.course import ROOT
from tests.answers import answers

LESSON = "02_rope"
TABLES, HALF, TURN = "rope-tables", "rotate-half", "apply-rope"
POINTS = {TABLES: 2, HALF: 1, TURN: 2}

HOLDERS = {
    5: "a notebook's tags are not read",
    6: "checks and points are the course's, whatever the notebook holds",
    7: "checks and points are the course's, whatever the notebook holds",
    8: "metadata is looked at for ids alone, and none of it is believed",
    9: "an answer is found by its grading id, its cell's id, the name that it defines",
    10: "values are compared in a process that no answer has run in",
    11: "what comes back is plain numbers, compared on inputs drawn anew",
    12: "no kernel and no IPython runs an answer",
    13: "values are compared in a process that no answer has run in",
    14: "a worker's memory holds neither suites nor seeds nor other answers",
    15: "erasure of the reference; Landlock, for its files",
    16: "Landlock",
    17: "the protocol: plain values, each for the question that was asked, unpickled never",
    18: "a worker of its own for each exercise",
    19: "every exception of an answer is caught, those that end Python too",
    20: "a limit on processor time, and one on the clock",
    21: "seccomp: no other process, no other program",
    22: "a limit on addresses; sizes are looked at before anything is sent",
    23: "a small folder in memory; standard output leads nowhere",
    24: "seccomp: no socket, where ranks are several only those of a network of their own",
    25: "the reader of notebooks believes nothing, and has limits",
}
"""What holds the attacks of each row of the acceptance list; rows 1 to 4 are none."""


@dataclass(frozen=True, eq=False)
class Case:
    """A student's notebook. `half` and `turn` are the verdicts on the two exercises, "VERDICT" or
    "VERDICT CODE", with "|" between those that are equally right."""

    row: int
    """Of the acceptance list that the numbers in the tests' names are from."""
    name: str
    data: bytes
    half: str = "WRONG"
    turn: str = "PASS"
    flags: dict[str, set[str]] = field(default_factory=dict)
    """By exercise; none where nothing is said."""
    touched: tuple[str, ...] = ()
    """Exercises whose code changes what is not its own."""
    reason: str = ""
    """A part of the reason why the whole file is ungradable; then there are no verdicts."""
    beside: dict[str, str] = field(default_factory=dict)
    """Files handed in with the notebook."""
    link: str = ""
    """Where the notebook points, when it is a symbolic link."""
    held: str = ""
    """What holds it, where that is not what holds the others of its row."""

    @property
    def student(self) -> str:
        """A name that mixes the class: hostile students come between the honest ones."""
        return f"h{self.row:02}-{self.name}"

    @property
    def holder(self) -> str:
        """What keeps this attack from working; empty for who means no harm."""
        return self.held or HOLDERS.get(self.row, "")

    def wanted_flags(self, exercise: str) -> set[str]:
        """The right flags, but for what depends on the rest of the class."""
        return self.flags.get(exercise, set()) | (
            {"TOUCHED"} if exercise in self.touched else set()
        )

    def wanted(self, exercise: str) -> set[tuple[str, str]]:
        """The right pairs of a verdict and a code, "" for any."""
        said = self.half if exercise == HALF else self.turn
        return {(v, c) for v, _, c in (one.partition(" ") for one in said.split("|"))}


def filled(text: bytes, outside: dict[str, str]) -> bytes:
    """`text` with the names of `outside`, such as @BOOK@, replaced by what they stand for."""
    for name, value in outside.items():
        text = text.replace(f"@{name}@".encode(), value.encode())
    return text


def right(exercise: str, beginning: str) -> str:
    """A right answer that shares no line with the solution, by the start of its name."""
    return next(
        a.text for a in answers(exercise) if a.code is None and a.name.startswith(beginning)
    )


RIGHT_TABLES = right(TABLES, "step by step")
RIGHT_HALF = right(HALF, "slices")
RIGHT_TURN = right(TURN, "complex")
READING_TURN = right(TURN, "a loop")  # calls the learner's rotate_half
WRONG_HALF = "def rotate_half(x):\n    return x\n"


@functools.cache
def _view(view: str) -> dict:
    return json.loads((ROOT / view / f"{LESSON}.ipynb").read_text(encoding="utf-8"))


def book(half: str = RIGHT_HALF, turn: str = RIGHT_TURN) -> dict:
    """The solved notebook with these answers in it; the first exercise is right, and nobody's target."""
    nb = copy.deepcopy(_view("solutions"))
    cell(nb, TABLES)["source"] = RIGHT_TABLES
    cell(nb, HALF)["source"], cell(nb, TURN)["source"] = half, turn
    return nb


def untouched() -> dict:
    """The notebook as it is handed out."""
    return copy.deepcopy(_view("notebooks"))


def solution() -> list[str]:
    """The lines that only the solved notebook has: none may come out."""
    cells = [cell(_view("solutions"), name)["source"] for name in POINTS]
    stubs = "".join("".join(cell(_view("notebooks"), name)["source"]) for name in POINTS)
    lines = {line.strip() for text in cells for line in "".join(text).splitlines()}
    return sorted(line for line in lines if len(line) > 20 and line not in stubs)


def at(nb: dict, name: str) -> int:
    return next(i for i, one in enumerate(nb["cells"]) if one.get("id") == name)


def cell(nb: dict, name: str) -> dict:
    return nb["cells"][at(nb, name)]


def packed(nb: dict) -> bytes:
    return json.dumps(nb).encode()


def half(body: str, top: str = "") -> str:
    """An answer to rotate-half with this body, below the statements `top`."""
    text = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return f"{textwrap.dedent(top).strip()}\n\n\ndef rotate_half(x):\n{text}\n"


def attack(
    row: int,
    name: str,
    body: str,
    half_: str = "WRONG",
    *,
    top: str = "",
    turn: str = RIGHT_TURN,
    **more,
) -> Case:
    """The attack is made by rotate_half; the other exercise is right and must stay so."""
    return Case(row, name, packed(book(half(body, top), turn)), half_, **more)


def changed(row: int, name: str, change, *answers_: str, **more) -> Case:
    """A notebook that `change` has worked on."""
    nb = book(*answers_)
    change(nb)
    return Case(row, name, packed(nb), **more)
