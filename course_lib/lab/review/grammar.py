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
    vary      names, and what they stand for: rows with | between them, fields with ;
              A line `%   | row` goes on where the one before ended. Several `vary` combine.
    let       a name for an expression
    answer    what a machine can compare (see answers.py); without it the learner grades herself
    within    relative tolerance of the answer, such as 5%
    fixed     why the question cannot vary; otherwise there are at least three variants

`{expression}` in question, answer and the `answer` line is computed (arithmetic.py). The page and
the notebooks show the variant of the first rows.
"""

import re
from collections.abc import Collection

from course_lib.lab.review.arithmetic import Value, evaluate, render, show
from course_lib.lab.review.items import Item

DOT = "\N{MIDDLE DOT}"
BLOCK = re.compile(
    rf"^:::\{{dropdown\}} Review {DOT} (?P<ask>.+)\n:name: review-(?P<id>\S+)\n"
    r"(?P<body>(?:(?!:::).*\n)*):::$",
    re.M,
)
OPENING = re.compile(r"^:::\{dropdown\} *Review\b.*$|^:name: *review-.*$", re.M)
KEYS = ("concepts", "vary", "let", "answer", "within", "fixed")
FEWEST, MOST = 3, 400


class GrammarError(ValueError):
    """An item breaks the grammar; the message names the item and what to write."""


def parse(text: str) -> dict[str, Item]:
    """The items of a lesson's text by id; GrammarError for the first that is malformed."""
    blocks = list(BLOCK.finditer(text))
    for opening in OPENING.finditer(text):
        if not any(block.start() <= opening.start() < block.end() for block in blocks):
            raise GrammarError(
                f"{opening[0]!r} belongs to no whole item: `:::{{dropdown}} Review {DOT} question`,"
                " the line `:name: review-EXERCISE-N`, the rest, and `:::`"
            )
    found: dict[str, Item] = {}
    for block in blocks:
        if block["id"] in found:
            raise GrammarError(f"review-{block['id']} stands here twice")
        found[block["id"]] = _item(block)
    return found


def concrete(text: str) -> str:
    """A lesson's text with its items as the page shows them; each line stays on its line."""

    def shown(block: re.Match) -> str:
        names = _named(block["id"], lambda: _item(block).names(0))
        return "\n".join(
            line if line.startswith(("%", ":name:")) else _head(line, names)
            for line in block[0].splitlines()
        )

    return BLOCK.sub(shown, text)


def validate(item: Item, concepts: Collection[str]) -> None:
    """Compute every variant of an item of an exercise that teaches and uses `concepts`."""

    def check() -> None:
        if unknown := set(item.concepts) - set(concepts):
            raise ValueError(
                f"{item.exercise} neither teaches nor uses {', '.join(sorted(unknown))}; "
                f"it has {', '.join(concepts)}"
            )
        if item.variants > MOST:
            raise ValueError(f"has {item.variants} variants, at most {MOST} can be read by anyone")
        asked = {item.rendered(index).question for index in range(item.variants)}
        if item.fixed and item.vary:
            raise ValueError("says `fixed` and varies")
        if not item.fixed and len(asked) < FEWEST:
            raise ValueError(
                f"asks {len(asked)} different questions, expected {FEWEST} or more; "
                "or a line `% fixed: why it cannot vary`"
            )

    _named(item.id, check)


def _item(block: re.Match) -> Item:
    return _named(block["id"], lambda: _read(block["id"], block["ask"], block["body"]))


def _named(name: str, read):
    try:
        return read()
    except GrammarError:
        raise
    except ValueError as problem:
        raise GrammarError(f"review-{name}: {problem}") from None


def _head(line: str, names: dict[str, Value]) -> str:
    """A line rendered; the braces of a directive are not an expression."""
    opening = ":::{dropdown} "
    start = opening if line.startswith(opening) else ""
    return start + render(line.removeprefix(start), names)


def _read(name: str, ask: str, body: str) -> Item:
    exercise, _, number = name.rpartition("-")
    if not exercise or not number.isdigit():
        raise ValueError("its name must be review-EXERCISE-N, N a number")
    comments, tell = _parts(body)
    keys: dict[str, list[str]] = {key: [] for key in KEYS}
    for key, value in comments:
        keys[key].append(value)
    for key in ("concepts", "answer", "within", "fixed"):
        if len(keys[key]) > 1:
            raise ValueError(f"has {len(keys[key])} lines `% {key}: ...`, one is enough")
    if not keys["concepts"]:
        raise ValueError("lacks a line `% concepts: slug, slug`")
    if not tell:
        raise ValueError("has no answer to show")
    return Item(
        id=name,
        exercise=exercise,
        concepts=tuple(slug.strip() for slug in keys["concepts"][0].split(",")),
        ask=ask.strip(),
        tell=tell,
        vary=tuple(map(_vary, keys["vary"])),
        let=tuple(map(_let, keys["let"])),
        right="".join(keys["answer"]),
        within="".join(keys["within"]),
        fixed="".join(keys["fixed"]),
    )


def _parts(body: str) -> tuple[list[tuple[str, str]], str]:
    """The comment lines as (key, value), continued ones joined; and the answer's text."""
    comments: list[tuple[str, str]] = []
    prose = []
    for line in body.splitlines():
        said = line.removeprefix("%").strip()
        if not line.startswith("%"):
            prose.append(line)
        elif said.startswith("|") and comments:
            comments[-1] = (comments[-1][0], f"{comments[-1][1]} {said}")
        else:
            key, colon, value = said.partition(":")
            if key not in KEYS or not colon or not value.strip():
                raise ValueError(f"`{line}` is none of {', '.join(f'`% {k}: ...`' for k in KEYS)}")
            comments.append((key, value.strip()))
    return comments, "\n".join(prose).strip()


def _vary(line: str) -> tuple[tuple[str, ...], tuple[tuple[Value, ...], ...]]:
    names, equals, rest = line.partition("=")
    columns = tuple(name.strip() for name in names.split(";"))
    if not equals or not all(map(str.isidentifier, columns)):
        raise ValueError(f"`vary: {line}` is not `NAME; NAME = row | row`")
    rows = [tuple(map(_scalar, row.split(";"))) for row in rest.split("|") if row.strip()]
    for row in rows:
        if len(row) != len(columns) or "" in row:
            raise ValueError(f"the row {'; '.join(map(str, row))!r} does not fill {names.strip()}")
    if not rows:
        raise ValueError(f"`vary: {line}` has no rows")
    return columns, tuple(rows)


def _scalar(field: str) -> Value:
    field = field.strip()
    if not re.fullmatch(r"-?\d+(\.\d+)?", field):  # inf and nan are words here
        return field
    value = float(field) if "." in field else int(field)
    if evaluate(show(value).replace(",", "")) != value:
        raise ValueError(f"{field} would be shown as {show(value)}: three digits are enough")
    return value


def _let(line: str) -> tuple[str, str]:
    name, equals, expression = (part.strip() for part in line.partition("="))
    if not equals or not name.isidentifier() or not expression:
        raise ValueError(f"`let: {line}` is not `NAME = expression`")
    return name, expression
