"""Running what a learner wrote: the lesson's imports, their other definitions, then the answer."""

import ast
import importlib
import linecache
import re
import sys
from types import ModuleType
from typing import Any

ANSWER, CONTEXT, IMPORTS = "<answer>", "<notebook>", "<imports>"
MAGIC = re.compile(r"^(\s*)[%!?].*$", re.M)


def run(card: dict, answer: dict) -> tuple[dict, BaseException | None]:
    """The scope after everything ran, and what the answer's own code raised at its top, if it did.

    Imports and context count statement by statement: one that fails is left out. So does the
    answer: a trial call below a good definition may fail, the definition stands all the same.
    """
    home = ModuleType("__main__")
    scope = home.__dict__
    sys.modules["__main__"] = home  # what classes defined here say of where they come from
    _leniently(card["setup"], IMPORTS, scope)
    for target in card["needs"]:  # defined in an earlier cell of the lesson
        module, _, name = target.partition("::")
        defined = getattr(importlib.import_module(module), name, None)
        if defined is not None:
            scope.setdefault(name, defined)
    scope.pop(card["name"], None)
    _leniently(answer["context"], CONTEXT, scope)
    scope.pop(card["name"], None)
    if answer["kind"] == "script":
        home.__name__ = scope["__name__"] = "script"  # its main part is not the answer
    try:
        exec(_compiled(answer["source"], ANSWER), scope)  # noqa: S102
    except BaseException as error:
        return scope, error
    return scope, None


def _leniently(text: str, where: str, scope: dict[str, Any]) -> None:
    try:
        body = ast.parse(plain(text)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    linecache.cache[where] = (len(text), None, text.splitlines(keepends=True), where)
    for statement in body:
        try:
            module = ast.Module([statement], type_ignores=[])
            exec(compile(module, where, "exec"), scope)  # noqa: S102
        except BaseException:  # noqa: S112
            continue


def _compiled(text: str, where: str):
    linecache.cache[where] = (len(text), None, text.splitlines(keepends=True), where)
    try:
        return compile(text, where, "exec")
    except SyntaxError:
        if plain(text) == text:
            raise
        return compile(plain(text), where, "exec")


def plain(text: str) -> str:
    """`text` without IPython's own lines (`%time`, `!ls`), line numbers kept."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return MAGIC.sub(r"\1pass", text)
    return text
