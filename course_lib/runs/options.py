"""A command line made from a frozen dataclass: one field is one option.

What it is: types, defaults and help texts are read from the class itself, so that the command line
and the Python constructor can't disagree. What it leaves out: sub-commands, files of settings.
"""

import argparse
import ast
import dataclasses
import inspect
import textwrap
import types
import typing
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Config = TypeVar("Config", bound="DataclassInstance")


def parse(cls: type[Config], argv: Sequence[str] | None = None, *, prog: str = "") -> Config:
    """An instance of the dataclass `cls` from `argv` (default: the process's own arguments).

    Fields are int, float, str, bool, or one of these with None. A bool `x` becomes `--x` and
    `--no-x`. Wrong options, and a ValueError of the class itself, end the process with status 2 and
    one line that says why.
    """
    parser = argparse.ArgumentParser(
        prog=prog or None,
        description=inspect.getdoc(cls),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # or a later option would change what an old command means
    )
    kinds, words = typing.get_type_hints(cls), field_words(cls)
    for field in dataclasses.fields(cls):
        _add(parser, field, kinds[field.name], words.get(field.name, ""))
    given = parser.parse_args(argv)
    try:
        return cls(**vars(given))
    except ValueError as error:
        parser.error(str(error))


def field_words(cls: type) -> dict[str, str]:
    """The string literal below each field of a class, its parents' included, by the field's name."""
    words = {}
    for part in reversed([c for c in cls.__mro__ if dataclasses.is_dataclass(c)]):
        tree = ast.parse(textwrap.dedent(inspect.getsource(part))).body[0]
        assert isinstance(tree, ast.ClassDef)
        for field, below in zip(tree.body, tree.body[1:], strict=False):
            if not isinstance(field, ast.AnnAssign) or not isinstance(below, ast.Expr):
                continue
            if isinstance(field.target, ast.Name):
                words[field.target.id] = inspect.cleandoc(ast.literal_eval(below.value))
    return words


def _add(parser: argparse.ArgumentParser, field: dataclasses.Field, kind, words: str) -> None:
    help_text = f"{words} [default: {_show_default(field.default)}]".replace("%", "%%").replace(
        "\n", " "
    )
    name = f"--{field.name}"
    if kind is bool:
        parser.add_argument(
            name, action=argparse.BooleanOptionalAction, default=field.default, help=help_text
        )
        return
    parser.add_argument(
        name,
        type=_without_none(kind),
        default=field.default,
        help=help_text,
        metavar=_without_none(kind).__name__.upper(),
    )


def _without_none(kind) -> type:
    """int | None is read as int."""
    if isinstance(kind, types.UnionType):
        (kind,) = (k for k in typing.get_args(kind) if k is not type(None))
    return kind


def _show_default(default) -> str:
    return "none" if default is None else str(default)
