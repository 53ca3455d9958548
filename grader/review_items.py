"""How a review item is written in a lesson, and what is made of it.

    :::{dropdown} Review · A vector of RMS {r} enters RMSNorm with gain 1. Which RMS leaves?
    :name: review-rmsnorm-1
    % concepts: rms-normalization
    % vary: r = 7 | 0.5 | 40
    % answer: number 1
    1, up to `eps`: each vector is divided by its own RMS.
    :::

The name is `review-`, the exercise, and a number that is never used again for another question.
The comment lines, in any order:

    concepts  slugs from the exercise's `teaches` and `uses`; needed
    exercise  the one it asks about, for an item that has moved there and keeps its name
    vary      names, and what they stand for: rows with | between them, fields with ;
              A line `%   | row` goes on where the one before ended. Several `vary` combine.
    let       a name for an expression
    answer    what a machine can compare (see answers.py); without it the learner grades herself
    within    relative tolerance of the answer, such as 5%
    fixed     why the question cannot vary; otherwise there are at least three variants

`{expression}` and `{expression:format}` in question, answer and the `answer` line are Python's, with
the functions of `FUNCTIONS` and nothing else. `course build` computes all variants and stores them;
the page and the notebooks show the variant of the first rows.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

from course_lib.lab.reviews.items import Item

Value = int | float | str
FUNCTIONS = {
    "ceil": math.ceil,
    "exp": math.exp,
    "floor": math.floor,
    "log": math.log,
    "max": max,
    "min": min,
    "round": round,
    "sqrt": math.sqrt,
    "capital": lambda text: text[:1].upper() + text[1:],
}
HOLE = re.compile(r"\{([^{}]+?)(?::([,.\d]*[dfg]))?\}")
DOT = "\N{MIDDLE DOT}"
BLOCK = re.compile(
    rf"^:::\{{dropdown\}} Review {DOT} (?P<ask>.+)\n:name: review-(?P<id>\S+)\n"
    r"(?P<body>(?:(?!:::).*\n)*):::$",
    re.M,
)
OPENING = re.compile(r"^:::\{dropdown\} *Review\b.*$|^:name: *review-.*$", re.M)
KEYS = ("concepts", "exercise", "vary", "let", "answer", "within", "fixed")
FEWEST = 3


@dataclass(frozen=True)
class Written:
    """One item as its lesson writes it, every variant computed."""

    item: Item
    names: list[dict[str, Value]]
    """What the names in braces stand for, variant by variant."""
    fixed: str
    """Why there is one variant only."""


def parse(lesson: str, text: str) -> dict[str, Written]:
    """The items of a lesson's text by id; ValueError, with its name, for one that is malformed."""
    blocks = list(BLOCK.finditer(text))
    for opening in OPENING.finditer(text):
        if not any(block.start() <= opening.start() < block.end() for block in blocks):
            raise ValueError(
                f"{opening[0]!r} belongs to no whole item: `:::{{dropdown}} Review {DOT} question`,"
                " the line `:name: review-EXERCISE-N`, the rest, and `:::`"
            )
    found: dict[str, Written] = {}
    for block in blocks:
        if block["id"] in found:
            raise ValueError(f"review-{block['id']} stands here twice")
        found[block["id"]] = _read_block(lesson, block)
    return found


def concrete(text: str) -> str:
    """A lesson's text with its items as the page shows them; each line stays on its line."""

    def show_first(block: re.Match) -> str:
        names = _read_block("", block).names[0]
        return "\n".join(
            line if line.startswith(("%", ":name:")) else _render_line(line, names)
            for line in block[0].splitlines()
        )

    return BLOCK.sub(show_first, text)


def validate(written: Written, concepts: Collection[str]) -> None:
    """ValueError for an item that varies too little, or asks about none of its `concepts`.

    Those are what its exercise teaches and uses.
    """
    item = written.item
    with _errors_name(item.id):
        if unknown := set(item.concepts) - set(concepts):
            raise ValueError(
                f"{item.exercise} neither teaches nor uses {', '.join(sorted(unknown))}; "
                f"it has {', '.join(concepts)}"
            )
        if written.fixed and item.variants > 1:
            raise ValueError("says `fixed` and varies")
        asked = {question for question, _, _ in item.rows}
        if not written.fixed and len(asked) < FEWEST:
            raise ValueError(
                f"asks {len(asked)} different questions, expected {FEWEST} or more; "
                "or a line `% fixed: why it cannot vary`"
            )


def evaluate(expression: str, names: Mapping[str, Value]) -> Value:
    """The value of an author's expression; ValueError when it has none that can be shown."""
    try:
        found = eval(expression.strip(), {"__builtins__": {}}, {**FUNCTIONS, **names})
    except SyntaxError:
        raise ValueError(f"{expression.strip()!r} is not an expression") from None
    except Exception as problem:
        raise ValueError(f"{expression.strip()!r} has no value: {problem}") from None
    if not isinstance(found, str | int | float) or found in (math.inf, -math.inf) or found != found:
        raise ValueError(f"{expression.strip()!r} is {found}, expected a finite number or a text")
    return found


def render(template: str, names: Mapping[str, Value]) -> str:
    """`template` with each `{expression}` or `{expression:format}` replaced by its value."""
    return HOLE.sub(lambda hole: show(evaluate(hole[1], names), hole[2]), template)


def show(value: Value, form: str | None = None) -> str:
    """As the lessons write numbers: 12,288, and otherwise three digits; or by a format of Python's.

    >>> show(4718592), show(11.3137), show(0.00002), show(3.0)
    ('4,718,592', '11.3', '0.00002', '3')
    """
    if form:
        return format(value, form)
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int):
        return f"{value:,}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    shown = f"{value:,.{digits}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


@contextmanager
def _errors_name(item: str) -> Iterator[None]:
    """A ValueError inside goes on with the item's name."""
    try:
        yield
    except ValueError as problem:
        raise ValueError(f"review-{item}: {problem}") from None


def _render_line(line: str, names: dict[str, Value]) -> str:
    """A line rendered; the braces of a directive are not an expression."""
    opening = ":::{dropdown} "
    start = opening if line.startswith(opening) else ""
    return start + render(line.removeprefix(start), names)


def _read_block(lesson: str, block: re.Match) -> Written:
    with _errors_name(block["id"]):
        exercise, _, number = block["id"].rpartition("-")
        if not exercise or not number.isdigit():
            raise ValueError("its name must be review-EXERCISE-N, N a number")
        keys, tell = _split_body(block["body"])
        for key in ("concepts", "exercise", "answer", "within", "fixed"):
            if len(keys[key]) > 1:
                raise ValueError(f"has {len(keys[key])} lines `% {key}: ...`, one is enough")
        if not keys["concepts"]:
            raise ValueError("lacks a line `% concepts: slug, slug`")
        if not tell:
            raise ValueError("has no answer to show")
        names = _combine(list(map(_read_vary, keys["vary"])), list(map(_read_let, keys["let"])))
        texts = (block["ask"].strip(), tell, "".join(keys["answer"]))
        item = Item(
            id=block["id"],
            exercise="".join(keys["exercise"]) or exercise,
            lesson=lesson,
            concepts=tuple(slug.strip() for slug in keys["concepts"][0].split(",")),
            rows=tuple(tuple(render(text, values) for text in texts) for values in names),
            within="".join(keys["within"]),
        )
        for index in range(item.variants):
            item.variant_at(index)  # its answer accepts itself
        return Written(item, names, "".join(keys["fixed"]))


def _combine(vary: list[tuple], let: list[tuple[str, str]]) -> list[dict[str, Value]]:
    """What the names stand for, for each combination of rows, the last `vary` turning fastest."""
    found = []
    for rows in product(
        *([tuple(zip(columns, row, strict=True)) for row in rows] for columns, rows in vary)
    ):
        names = {name: value for row in rows for name, value in row}
        for name, expression in let:
            names[name] = evaluate(expression, names)
        found.append(names)
    return found


def _split_body(body: str) -> tuple[dict[str, list[str]], str]:
    """The comment lines by key, continued ones joined; and the answer's text."""
    comments: dict[str, list[str]] = {key: [] for key in KEYS}
    key, prose = "", []
    for line in body.splitlines():
        said = line.removeprefix("%").strip()
        if not line.startswith("%"):
            prose.append(line)
        elif said.startswith("|") and key:
            comments[key][-1] += f" {said}"
        else:
            key, _, value = said.partition(":")
            if key not in KEYS or not value.strip():
                raise ValueError(f"`{line}` is none of {', '.join(f'`% {k}: ...`' for k in KEYS)}")
            comments[key].append(value.strip())
    return comments, "\n".join(prose).strip()


def _read_vary(line: str) -> tuple[tuple[str, ...], tuple[tuple[Value, ...], ...]]:
    names, equals, rest = line.partition("=")
    columns = tuple(name.strip() for name in names.split(";"))
    if not equals or not all(map(str.isidentifier, columns)):
        raise ValueError(f"`vary: {line}` is not `NAME; NAME = row | row`")
    rows = [tuple(map(_read_value, row.split(";"))) for row in rest.split("|") if row.strip()]
    for row in rows:
        if len(row) != len(columns) or "" in row:
            raise ValueError(f"the row {'; '.join(map(str, row))!r} does not fill {names.strip()}")
    if not rows:
        raise ValueError(f"`vary: {line}` has no rows")
    return columns, tuple(rows)


def _read_value(field: str) -> Value:
    field = field.strip()
    if not re.fullmatch(r"-?\d+(\.\d+)?", field):  # inf and nan are words here
        return field
    value = float(field) if "." in field else int(field)
    if float(show(value).replace(",", "")) != value:
        raise ValueError(f"{field} would be shown as {show(value)}: three digits are enough")
    return value


def _read_let(line: str) -> tuple[str, str]:
    name, equals, expression = (part.strip() for part in line.partition("="))
    if not equals or not name.isidentifier() or not expression:
        raise ValueError(f"`let: {line}` is not `NAME = expression`")
    return name, expression
