"""Where an entry speaks of tensors, it says of which shape."""

import re
from collections.abc import Iterator

from course_lib.lab.journal.entry import Entry, Part
from course_lib.lab.journal.finding import Finding, shorten_text

TECHNICAL = ("math", "code", "example", "diagrams", "flow", "cost")
"""Elsewhere a tensor may be a word in a story."""
TENSOR = re.compile(
    r"\btens(?:or|eur|ore)s?\b(?![ -](?:parallel|core|paral))|\btensor(?:en|es)\b"
    r"|(?:\u5f20\u91cf|\u5f35\u91cf)(?!\u5e76\u884c|\u4e26\u884c)|\u30c6\u30f3\u30bd\u30eb|\ud150\uc11c|\u0442\u0435\u043d\u0437\u043e\u0440",
    re.IGNORECASE,
)
TUPLE = re.compile(r"[(\[\uff08]\s*([^()\[\]\uff08\uff09]{1,60}?)[,\uff0c]?\s*[)\]\uff09]")
OTHER = re.compile(
    r"\b\w+_[A-Z]{2,}\b"  # q_BHTK
    r"|\b(?:\d+|[A-Z])(?:\s*(?:x|\u00d7|\\times)\s*(?:\d+|[A-Z]\w?))+"  # 8 x 256, B \times T
    r"|\\mathbb\{R\}\^|\u211d"  # a space that the symbol lives in
    r"|\b(?:scalar|skalar|0-d)\b",
)
SYMBOL = r"(?:\d+|[A-Za-z](?:_\w{1,6}|\d{0,2}))"
AXIS = re.compile(rf"-?\d+|[A-Z]{{1,4}}|{SYMBOL}(?:(?:\s*[*/+\u00d7\u00b7-]\s*|\s+){SYMBOL})*")
"""A number, a symbol, or an expression of those: 768, T, n_heads, T/2, 4 D, H * K."""


def dimensions(entry: Entry) -> Iterator[Finding]:
    """One finding for each technical section that says "tensor" before any shape was given.

    A shape given further up counts: an entry is read from its top. Code is searched for shapes,
    but not for the word: there it is a name.
    """
    for part, lines in _stretches(entry):
        if has_shape("\n".join(line for _, line in lines)):
            return
        if part is None or part.key not in TECHNICAL:
            continue
        for number, line in lines:
            word = TENSOR.search(_strip_markup(line)) if entry.kinds[number - 1] == "text" else None
            if word:
                yield Finding(
                    number,
                    "DIMS",
                    f"{word[0]!r} without its dimensions",
                    "its shape in this section or above, such as (B, T, 768)",
                    shorten_text(line),
                    "write what each dimension is and how long",
                )
                break


def _stretches(entry: Entry) -> Iterator[tuple[Part | None, list[tuple[int, str]]]]:
    """The learner's lines, cut where a section begins; those before the first have none."""
    starts = [None, *(h for h in entry.headings if h.level <= 2 or h.key)]
    own = entry.own_lines()
    for part, after in zip(starts, [*starts[1:], None], strict=True):
        first, last = part.line if part else 0, after.line if after else len(entry.lines) + 1
        yield part, [(number, line) for number, line in own if first <= number < last]


def _strip_markup(line: str) -> str:
    """Without names in backticks, such as `torch.Tensor`, and without links."""
    return re.sub(r"`[^`]*`|\]\([^)]*\)|\[\[[^\]]*\]\]", " ", line)


def has_shape(text: str) -> bool:
    """Whether a shape stands somewhere in a text."""
    return bool(OTHER.search(text)) or any(_shape(match[1]) for match in TUPLE.finditer(text))


def _shape(inner: str) -> bool:
    """(B, T, 768), (batch, seq, 64) or (768,): axes of which one is a number or a symbol."""
    axes = [axis.strip(" `$*") for axis in re.split("[,\uff0c]", inner)]
    if any(not axis or len(axis.split()) > 3 for axis in axes):
        return False
    years = [axis for axis in axes if re.fullmatch(r"(?:19|20)\d\d[a-z]?", axis)]
    named = [axis for axis in axes if re.fullmatch(r"[A-Z][a-z]+(?: et al\.?)?", axis)]
    if len(years) == 1 and named:  # (Zhang, 2019) is a citation
        return False
    sized = [axis for axis in axes if AXIS.fullmatch(axis)]
    return len(axes) > 1 and bool(sized)
