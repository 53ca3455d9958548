"""What stands for an answer when answers are compared: a few hashes of how it is written.

An answer is read as a row of words from its syntax tree: names of its own become one word, and
comments, spacing, docstrings and annotations are gone. Runs of `GRAM` words are hashed, and of each
`WINDOW` runs in a row the smallest hash is kept (winnowing: Schleimer, Wilkerson and Aiken 2003), but
none that the handed-out cell has too. Two answers share what they share of these. Short answers have
too few to say anything: honest people write the same line.
"""

import ast
import functools
import hashlib
import textwrap
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path

from course_lib.lab.registry import Exercise
from grader.judge.magics import blank_magics, parse_text
from grader.judge.notebook import MAX_SOURCE

GRAM, WINDOW = 10, 4
FEWEST = 30
"""Hashes that both answers must have; below, nothing is said. It leaves out what is three lines long."""
SHARE = 0.85
"""Of all hashes of two answers, those of both, from which on they are nearly the same. Of the right
answers kept in tests/answers, two that were written apart share 0.77 at most."""
MOST_HASHES = 2_000


def find_prints(source: str, stub: str = "") -> tuple[int, ...]:
    """The hashes that stand for an answer, sorted; () for what is no Python or too long."""
    given = set(_hash_grams(_find_words(stub)))
    hashes = _hash_grams(_find_words(source))
    kept = {
        min(some)
        for i in range(max(len(hashes) - WINDOW + 1, min(1, len(hashes))))
        if (some := [h for h in hashes[i : i + WINDOW] if h not in given])
    }
    return tuple(sorted(kept)[:MOST_HASHES])


def _find_words(source: str) -> list[str]:
    """The words of a syntax tree in the order of the text."""
    tree = parse_text(blank_magics(source)) if len(source) <= MAX_SOURCE else None
    if tree is None:
        return []
    own = {node.id for node in ast.walk(tree) if _is_stored_name(node)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    words, stack = [], list(reversed(tree.body))
    while stack:
        node = stack.pop()
        words.append(type(node).__name__)
        if isinstance(node, ast.Name):
            words[-1] = "own" if node.id in own else node.id
        elif isinstance(node, ast.Attribute):
            words.append(node.attr)
        elif isinstance(node, ast.Constant):
            words[-1] = repr(node.value)[:40]
        elif isinstance(node, ast.keyword):
            words.append(node.arg or "**")
        stack += reversed(_find_parts(node))
    return words


def _is_stored_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _find_parts(node: ast.AST) -> list[ast.AST]:
    """What a node is made of that says what happens: no docstring, annotation, or way of access."""
    parts = []
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "ctx", "type_comment", "type_params"):
            continue
        some = value if isinstance(value, list) else [value]
        if field == "body" and isinstance(value, list) and some and _is_text(some[0]):
            some = some[1:]
        parts += [part for part in some if isinstance(part, ast.AST)]
    return parts


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _hash_grams(words: list[str]) -> list[int]:
    coded = [word.encode("utf-8", "replace") for word in words]
    return [
        int.from_bytes(hashlib.blake2b(b"\0".join(coded[i : i + GRAM]), digest_size=6).digest())
        for i in range(len(coded) - GRAM + 1)
    ]


def compute_share(one: Collection[int], other: Collection[int]) -> float:
    """Of all hashes of two answers the share of those that both have; 0 for answers too short."""
    if min(len(one), len(other)) < FEWEST:
        return 0.0
    both = len(set(one) & set(other))
    return both / (len(one) + len(other) - both)


@functools.lru_cache(None)
def read_solution(card: Exercise) -> str:
    """The published solution as a cell, from the library's text."""
    node = ast.parse(Path(find_spec(card.module).origin).read_text(encoding="utf-8"))
    for name in card.path.split("."):
        node = next(part for part in node.body if getattr(part, "name", None) == name)
    text = ast.unparse(node)
    if "." in card.path:  # the cell is a class with this method in it
        text = card.stub.partition("\n")[0] + "\n" + textwrap.indent(text, "    ")
    return text


@functools.lru_cache(None)
def _solution_prints(card: Exercise) -> tuple[int, ...]:
    return find_prints(read_solution(card), card.stub)


def is_published(card: Exercise, prints: Collection[int]) -> bool:
    """Whether an answer is the course's solution, or nearly."""
    return compute_share(prints, _solution_prints(card)) >= SHARE
