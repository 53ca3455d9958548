"""Running what a learner wrote: the lesson's imports, their other definitions, then the answer.

Every text is run statement by statement, as a notebook's cell but for one thing: a statement that
raises does not keep those below it from running.
"""

import __future__

import ast
import asyncio
import importlib
import inspect
import itertools
import linecache
import sys
from types import ModuleType
from typing import Any

from grader.judge.magics import blank_magics

ANSWER, CONTEXT, IMPORTS = "<answer>", "<notebook>", "<imports>"
Failure = tuple[ast.stmt, BaseException]


class InertShell:
    """Stands for IPython's shell: whatever it is asked for does nothing."""

    def __getattr__(self, name: str) -> "InertShell":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args, **kwargs) -> None: ...


def prepare_scope(card: dict) -> dict[str, Any]:
    """The scope in which the answer will run: what a notebook has, imports, earlier exercises."""
    home = ModuleType("__main__")
    scope = home.__dict__
    sys.modules["__main__"] = home  # what classes defined here say of where they come from
    shell = InertShell()
    scope |= {"display": lambda *things, **options: None, "get_ipython": lambda: shell}
    _run_statements(card["setup"], IMPORTS, scope)
    for target in card["needs"]:  # defined in an earlier cell of the lesson
        module, _, name = target.partition("::")
        defined = getattr(importlib.import_module(module), name, None)
        if defined is not None:
            scope.setdefault(name, defined)
    return scope


def run_context(scope: dict[str, Any], card: dict, context: str) -> None:
    """Run the learner's other definitions; what raises is left out."""
    _run_statements(context, CONTEXT, scope)
    scope.pop(card["name"], None)


def run_answer(scope: dict[str, Any], source: str, kind: str, name: str) -> BaseException | None:
    """Run the answer; None, or the exception that says why `name` is not defined in it.

    That is the one of the statement that should define it, else the first. Of a script nothing is
    run below a statement that raises.
    """
    script = kind == "script"
    if script:
        scope["__name__"] = "script"  # its main part is not the answer
    failures = _run_statements(source, ANSWER, scope, stop=script)
    own = [error for statement, error in failures if _binds_name(statement, name)]
    return (own or [error for _, error in failures] or [None])[0]


def _run_statements(
    text: str, where: str, scope: dict[str, Any], *, stop: bool = False
) -> list[Failure]:
    """Run each top-level statement and return those that raised; with `stop`, none below one."""
    linecache.cache[where] = (len(text), None, text.splitlines(keepends=True), where)
    failures: list[Failure] = []
    try:
        body = ast.parse(blank_magics(text), where).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [(ast.Pass(), error)]
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for statement in itertools.chain.from_iterable(map(_split_import, body)):
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            for feature in statement.names:  # holds for all that is below it
                flags |= getattr(getattr(__future__, feature.name, None), "compiler_flag", 0)
        try:
            module = ast.Module([statement], type_ignores=[])
            awaited = eval(compile(module, where, "exec", flags, dont_inherit=True), scope)  # noqa: S307
            if inspect.iscoroutine(awaited):
                asyncio.run(awaited)
        except BaseException as error:
            failures.append((statement, error))
            if stop:
                break
    return failures


def _split_import(statement: ast.stmt) -> list[ast.stmt]:
    """One statement for each name: what cannot be imported, as the definition that is asked for,
    which the worker's library lacks, does not take the others with it."""
    if not isinstance(statement, ast.ImportFrom):
        return [statement]
    whole = vars(statement)
    return [ast.ImportFrom(**(whole | {"names": [name]})) for name in statement.names]


def _binds_name(statement: ast.stmt, name: str) -> bool:
    """Whether a statement defines `name`, imports it, or gives it a value."""
    return any(
        name in (getattr(part, "name", None), getattr(part, "asname", None))
        or (isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Store))
        for part in ast.walk(statement)
    )
