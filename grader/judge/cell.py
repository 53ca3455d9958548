"""Running what a learner wrote: the lesson's imports, their other definitions, then the answer."""

import ast
import importlib
import linecache
import re
import sys
from types import ModuleType
from typing import Any

ANSWER, CONTEXT, IMPORTS = "<answer>", "<notebook>", "<imports>"
MAGIC = re.compile(r"^([ \t]*)[%!?].*$", re.M)


def prepare_scope(card: dict, context: str) -> dict[str, Any]:
    """The scope in which the answer will run: imports, earlier exercises, the context.

    They run statement by statement; one that raises is left out.
    """
    home = ModuleType("__main__")
    scope = home.__dict__
    sys.modules["__main__"] = home  # what classes defined here say of where they come from
    _run_statements(card["setup"], IMPORTS, scope)
    for target in card["needs"]:  # defined in an earlier cell of the lesson
        module, _, name = target.partition("::")
        defined = getattr(importlib.import_module(module), name, None)
        if defined is not None:
            scope.setdefault(name, defined)
    _run_statements(context, CONTEXT, scope)
    scope.pop(card["name"], None)
    return scope


def run_answer(scope: dict[str, Any], source: str, kind: str) -> BaseException | None:
    """Run the answer and return the exception that its top level raised, or None.

    What the answer defined before the exception stays: a trial call below a good definition may
    fail.
    """
    if kind == "script":
        scope["__name__"] = "script"  # its main part is not the answer
    try:
        exec(_compile_text(source, ANSWER), scope)  # noqa: S102
    except BaseException as error:
        return error
    return None


def _run_statements(text: str, where: str, scope: dict[str, Any]) -> None:
    """Run each top-level statement; one that raises is passed over."""
    try:
        body = ast.parse(blank_magics(text)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    linecache.cache[where] = (len(text), None, text.splitlines(keepends=True), where)
    for statement in body:
        try:
            module = ast.Module([statement], type_ignores=[])
            exec(compile(module, where, "exec"), scope)  # noqa: S102
        except BaseException:  # noqa: S112
            continue


def _compile_text(text: str, where: str):
    linecache.cache[where] = (len(text), None, text.splitlines(keepends=True), where)
    try:
        return compile(text, where, "exec")
    except SyntaxError:
        if blank_magics(text) == text:
            raise
        return compile(blank_magics(text), where, "exec")


def blank_magics(text: str) -> str:
    """`text` with `pass` in place of IPython's own lines (`%time`, `!ls`): line numbers stay."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return MAGIC.sub(r"\1pass", text)
    return text
