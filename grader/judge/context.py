"""What an answer reads from the rest of its notebook: the other definitions it needs, and no more.

The learner's own helpers, imports and constants belong to an answer; the training run three cells
above does not. So only top-level statements that bind a name the answer reads, directly or through
another such statement, are taken. The text is parsed here and never run: that is the worker's job.
"""

import ast
import re
import symtable
import warnings

from course_lib.lab.source import free_names
from grader.judge.notebook import MAX_SOURCE

MAX_TOTAL = 400_000  # characters parsed for one answer: a syntax tree takes 200 times its text
MAGIC = re.compile(r"^\s*[%!?].*$|^.*\?\s*$", re.M)


def parse(text: str) -> ast.Module | None:
    """The syntax tree, or None for what Python would refuse."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "invalid escape sequence" is the learner's, not ours
        try:
            return ast.parse(text)
        # a hostile text can nest deeper than the parser or the tree may
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def plain(text: str) -> str:
    """`text` without IPython's magics, when it is not Python with them and is without."""
    if len(text) > MAX_SOURCE or parse(text) is not None:
        return text
    bare = MAGIC.sub("", text)
    return bare if parse(bare) is not None else text


def context(answer: str, others: list[str]) -> str:
    """The statements of the cells `others`, in order, on which `answer` depends."""
    statements = _statements(others)
    binders: dict[str, list[int]] = {}
    for number, node in enumerate(statements):
        for name in _binds(node):
            binders.setdefault(name, []).append(number)
    taken: dict[int, str] = {}
    queue, seen = ["*", *sorted(_reads(answer))], set()  # a star import may bind anything
    while queue:
        name = queue.pop()
        if name in seen:
            continue
        seen.add(name)
        for number in binders.get(name, ()):
            if number not in taken:
                taken[number] = _source(statements[number])
                queue += _reads(taken[number])
    return "\n".join(taken[number] for number in sorted(taken) if taken[number])


def _statements(cells: list[str]) -> list[ast.stmt]:
    found, total = [], 0
    for text in cells:
        total += len(text)
        if len(text) > MAX_SOURCE or total > MAX_TOTAL:
            continue
        tree = parse(plain(text))
        found += tree.body if tree else ()
    return found


def _binds(node: ast.stmt) -> frozenset[str]:
    """Names that a top-level statement gives a value, or whose attributes or items it sets."""
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


def _reads(text: str) -> set[str]:
    """Names from outside; also those that `text` itself binds and reads: `class A(A)`, `n += 1`."""
    try:
        top = symtable.symtable(text, "answer", "exec").get_symbols()
        own = {s.get_name() for s in top if s.is_referenced() and s.is_assigned()}
        return free_names(text) | own
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()


def _source(node: ast.stmt) -> str:
    try:
        return ast.unparse(node)
    except (RecursionError, ValueError, MemoryError):
        return ""
