"""What can be said of a script before any rank has started: is it there, does it parse, what is
it missing.

A rank needs seconds to import torch, and a mistake costs them on every rank. These looks cost
milliseconds and run nothing of the script.
"""

import builtins
import difflib
import importlib.util
import symtable
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

BUILTINS = {*dir(builtins), "__file__", "__name__", "__doc__", "__spec__", "__builtins__"}


class Refused(ValueError):
    """The launch was not begun; the text says why and what to do."""

    def _render_traceback_(self) -> list[str]:  # IPython asks for this instead of its own
        return [f"not started: {self}"]


@dataclass(frozen=True)
class Script:
    """The program that every rank runs."""

    name: str
    """As it was given: "train.py", or with `module` "course_lib.training.ddp_trainer"."""
    module: bool
    path: Path
    text: str
    """Its source."""


def read(name: str, *, module: bool = False) -> Script:
    """The script of that name. Refused when it is not there or is not Python."""
    path = _module_file(name) if module else Path(name)
    if not path.is_file():
        raise Refused(_missing_file(name))
    try:
        text = path.read_text(encoding="utf-8")
        compile(text, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        line = (error.text or "").rstrip()
        raise Refused(f"{path.name}, line {error.lineno}: {error.msg}\n  {line}") from None
    except (ValueError, OSError) as error:  # not text, or not readable
        raise Refused(f"{name} cannot be read as Python: {error}") from None
    return Script(name, module, path, text)


def find_undefined_names(script: Script) -> list[str]:
    """Names that the script uses and nowhere defines, in alphabetical order.

    Only what is sure: nothing for a script with a star import, or one that fills its namespace.
    """
    text = script.text
    if "import *" in text or "globals()" in text or "exec(" in text:
        return []
    top = symtable.symtable(text, script.name, "exec")
    defined = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
    tables = list(_all_tables(top))
    for table in tables[1:]:  # `global x` inside a function defines it too
        defined |= {
            s.get_name() for s in table.get_symbols() if s.is_declared_global() and s.is_assigned()
        }
        defined |= {table.get_name()}
    used = {
        s.get_name()
        for table in tables
        for s in table.get_symbols()
        if s.is_referenced() and (s.is_global() or table is top)
    }
    return sorted(name for name in used - defined - BUILTINS if not name.startswith("__"))


def _all_tables(table: symtable.SymbolTable) -> Iterable[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _all_tables(child)


def _module_file(name: str) -> Path:
    """The file of `python -m name`, found without importing its package."""
    first, *rest = name.split(".")
    spec = importlib.util.find_spec(first) if first.isidentifier() else None
    places = [Path.cwd() / first]  # `python -m` looks here first, a notebook's kernel may not
    if spec is not None:
        places += map(Path, spec.submodule_search_locations or [])
        if not rest and spec.origin:
            places.append(Path(spec.origin).with_suffix(""))
    for place in places:
        file = place.joinpath(*rest)
        for found in (file.with_suffix(".py"), file / "__main__.py"):
            if found.is_file():
                return found
    raise Refused(
        f"there is no module {name} that can be run: `-m` takes a module's name, such as "
        "course_lib.training.ddp_trainer; a file is given without it"
    )


def _missing_file(name: str) -> str:
    """The sentence about a file that is not there."""
    folder = Path(name).parent
    known = [p.name for p in folder.glob("*.py")] if folder.is_dir() else []
    close = difflib.get_close_matches(Path(name).name, known, n=2, cutoff=0.7)
    if close:
        return f"{name} is not there. Did you mean {' or '.join(close)}?"
    return (
        f"{name} is not there. A cell that begins with %%writefile {name} writes it, once that "
        f"cell has been run; files are looked for in {Path.cwd()}"
    )
