"""What an answer reads from the rest of its notebook: the other definitions it needs, and no more.

The learner's own helpers, imports and constants belong to an answer; the training run three cells
above does not. So only top-level statements that bind a name the answer reads, directly or through
another such statement, are taken. The text is parsed here and never run: that is the worker's job.

A class's notebooks share most of their cells, so what was found in a cell is kept, as plain text: a
syntax tree would take 200 times the cell's.
"""

import ast
import functools
import symtable
from typing import NamedTuple

from course_lib.lab.source import free_names
from grader.judge.magics import blank_magics, parse_text
from grader.judge.notebook import MAX_SOURCE

MAX_TOTAL = 400_000  # characters parsed for one answer
KEPT, KEPT_CHARS = 500, 20_000  # cells whose statements are kept, and the longest of them


class Statement(NamedTuple):
    """One top-level statement."""

    binds: frozenset[str]
    source: str


def find_context(answer: str, others: list[str]) -> str:
    """The statements of the cells `others`, in order, on which `answer` depends."""
    statements = _find_statements(others)
    binders: dict[str, list[int]] = {}
    for number, statement in enumerate(statements):
        for name in statement.binds:
            binders.setdefault(name, []).append(number)
    taken: set[int] = set()
    queue, seen = ["*", *sorted(_read_names(answer))], set()  # a star import may bind anything
    while queue:
        name = queue.pop()
        if name in seen:
            continue
        seen.add(name)
        for number in binders.get(name, ()):
            if number not in taken:
                taken.add(number)
                queue += _read_names(statements[number].source)
    return "\n".join(found for i in sorted(taken) if (found := statements[i].source))


def _find_statements(cells: list[str]) -> list[Statement]:
    found, total = [], 0
    for text in cells:
        total += len(text)
        if len(text) > MAX_SOURCE or total > MAX_TOTAL:
            continue
        parse = _cell_statements if len(text) <= KEPT_CHARS else _cell_statements.__wrapped__
        found += parse(text)
    return found


@functools.lru_cache(KEPT)
def _cell_statements(text: str) -> tuple[Statement, ...]:
    tree = parse_text(blank_magics(text))
    body = tree.body if tree else ()
    return tuple(Statement(_bound_names(node), _statement_source(node)) for node in body)


def _bound_names(node: ast.stmt) -> frozenset[str]:
    """Names to which a top-level statement gives a value, or whose attributes or items it sets."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return frozenset({node.name})
    if isinstance(node, ast.Expr):  # a call is run for its effect; no name depends on it
        return frozenset()
    names: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Import | ast.ImportFrom):
            names |= {a.asname or a.name.partition(".")[0] for a in part.names}
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(part.name)
        elif isinstance(getattr(part, "ctx", None), ast.Store):
            while isinstance(part, ast.Attribute | ast.Subscript | ast.Starred):
                part = part.value
            if isinstance(part, ast.Name):
                names.add(part.id)
    return frozenset(names)


def _read_names(text: str) -> frozenset[str]:
    """Names that `text` reads from outside, and those it binds and reads (`class A(A)`, `n += 1`)."""
    return _find_read_names(text) if len(text) <= KEPT_CHARS else _find_read_names.__wrapped__(text)


@functools.lru_cache(2 * KEPT)
def _find_read_names(text: str) -> frozenset[str]:
    try:
        top = symtable.symtable(text, "answer", "exec").get_symbols()
        own = {s.get_name() for s in top if s.is_referenced() and s.is_assigned()}
        return frozenset(free_names(text) | own)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()


def _statement_source(node: ast.stmt) -> str:
    try:
        return ast.unparse(node)
    except (RecursionError, ValueError, MemoryError):
        return ""
