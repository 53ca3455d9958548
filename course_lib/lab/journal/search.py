"""Words over all entries, the best first.

A word counts where it occurs inside another, so "norm" finds RMSNorm, and Chinese needs no blanks.
A Chinese query that occurs nowhere as a whole counts by the pairs of characters that do.
"""

import re
import unicodedata
from dataclasses import dataclass

from course_lib.lab.journal.entry import Entry

TITLE, TAGS, HEADING, BODY = 8.0, 4.0, 2.0, 1.0
WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{3,}")


@dataclass(frozen=True)
class Hit:
    """An entry that was found, and the line that says so best."""

    entry: Entry
    score: float
    line: int
    text: str


def search(words: str, entries: list[Entry]) -> list[Hit]:
    """Entries that hold any of the words: first by how many of them, then by where and how often.

    Latest first among equals. ValueError without a word.
    """
    terms = _fold_case(words).split()
    if not terms:
        raise ValueError("search for what? Give a word or more")
    hits = [_hit(entry, terms) for entry in reversed(entries)]
    return sorted((hit for hit in hits if hit.score > 0), key=lambda hit: -hit.score)


def _hit(entry: Entry, terms: list[str]) -> Hit:
    fields = _fields(entry)
    score = sum(_score(term, fields) for term in terms)
    ranked = [
        (sum(_share(term, _fold_case(line)) for term in terms), -number, line)
        for number, line in _lines(entry)
    ]
    _, number, line = max(ranked, default=(0, -1, ""))
    return Hit(entry, round(score, 6), -number, line.strip())


def _fields(entry: Entry) -> list[tuple[float, str]]:
    headings = " ".join(part.title for part in entry.headings)
    body = "\n".join(line for _, line in _lines(entry))
    named = [(TITLE, f"{entry.name} {entry.slug}"), (TAGS, " ".join(entry.tags))]
    return [(w, _fold_case(text)) for w, text in [*named, (HEADING, headings), (BODY, body)]]


def _lines(entry: Entry) -> list[tuple[int, str]]:
    """What the learner and the course wrote; prompts hold every word and say nothing."""
    kinds = ("text", "code", "machine", "heading")
    return [
        (n, line)
        for n, (line, kind) in enumerate(zip(entry.lines, entry.kinds, strict=True), 1)
        if kind in kinds and not line.startswith("<!--")
    ]


def _score(term: str, fields: list[tuple[float, str]]) -> float:
    """100 for a word that is there at all, so that two words found beat one found often."""
    best = max(_share(term, text) for _, text in fields)
    weighed = sum(weight * _share(term, text) for weight, text in fields)
    often = min(fields[-1][1].count(term), 9) / 10
    return best and 100 * best + weighed + often


def _share(term: str, text: str) -> float:
    """1 when the text holds the term, else the share of its pairs of wide characters it holds."""
    if term in text:
        return 1.0
    if not WIDE.fullmatch(term):
        return 0.0
    pairs = [term[i : i + 2] for i in range(len(term) - 1)]
    return sum(pair in text for pair in pairs) / len(pairs) / 2


def _fold_case(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
