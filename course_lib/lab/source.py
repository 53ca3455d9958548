"""The learner's source text: the cell or file in which an object was defined."""

import ast
import inspect
import linecache
from typing import Any

from course_lib.lab.registry import Exercise


def find_cell(card: Exercise, answer: Any) -> str | None:
    """The whole cell that defines the answer, or None when it cannot be found."""
    function = inspect.unwrap(
        _find_function(card, answer)
    )  # a decorator's file is not the answer's
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    text = "".join(linecache.getlines(code.co_filename))
    return text if text and card.name in definitions(text) else None


def _find_function(card: Exercise, answer: Any) -> Any:
    """The function whose body is the hole: the answer, or the blanked method of the class."""
    if not isinstance(answer, type):
        return answer
    return answer.__dict__.get(card.blank[0])


def definitions(text: str) -> set[str]:
    """Names of the functions and classes, and of the variables, that `text` defines at its top."""
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return set()
    names = {
        n.name for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))
    }
    for node in body:
        if isinstance(node, ast.Assign):
            names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    return names


def free_names(text: str) -> set[str]:
    """Names that the code in `text` reads from outside of itself, builtins included."""
    import symtable

    tables, free = [symtable.symtable(text, "answer", "exec")], set()
    top = {s.get_name() for s in tables[0].get_symbols() if s.is_assigned() or s.is_imported()}
    while tables:
        table = tables.pop()
        tables += table.get_children()
        everywhere = table.get_type() == "module"
        free |= {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_global() or (everywhere and symbol.is_referenced())
        }
    return free - top
