"""`mine/`: the definitions that passed, and `install()`, which puts them into the library.

Each passed exercise is one file, a module that stands alone: the learner's cell under the imports
it needs. `install()` replaces the library's definitions by these, so that a model, a script under
torchrun or a later lesson runs on the learner's own code wherever there is any.
"""

import builtins
import importlib
import linecache
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from course_lib.lab import moved, source
from course_lib.lab.home import home
from course_lib.lab.registry import Exercise, exercises
from course_lib.runs.atomic import write_whole
from course_lib.runs.replaced import replace_definition

NUM_NAMES = 8  # of exercises that a line lists one by one


def folder() -> Path:
    """Where passed answers are kept."""
    return home() / "mine"


def file_of(card: Exercise) -> Path:
    """The file of one exercise, whether or not it exists yet."""
    return folder() / f"{card.id.replace('-', '_')}.py"


def save(card: Exercise, text: str | None, scope: dict) -> str:
    """Write the answer as a module of its own; returns where, relative to the course home.

    ValueError when the cell is unknown or uses something that only another cell defines.
    """
    if text is None:
        raise ValueError("its source is not in a cell of this notebook")
    imports, unknown = _imports(card, text, scope)
    if unknown:
        raise ValueError(
            f"it uses {', '.join(unknown)} from another cell; define that in the same cell"
        )
    file_of(card).parent.mkdir(parents=True, exist_ok=True)
    body = "\n".join(imports) + "\n\n\n" + text.strip() + "\n"
    write_whole(file_of(card), f'"""{card.number} {card.title}, your own."""\n\n' + body, sync=True)
    return f"mine/{file_of(card).name}"


def _imports(card: Exercise, text: str, scope: dict) -> tuple[list[str], list[str]]:
    """Import lines for the names the cell takes from the notebook, and the names without one."""
    library = importlib.import_module(card.module)
    lines, unknown = set(), []
    for name in sorted(source.free_names(text) - {"__name__", "__file__", "__class__"}):
        if name not in scope:
            if not hasattr(builtins, name):
                unknown.append(name)
            continue
        value = scope[name]
        home_of = getattr(value, "__module__", None)
        if isinstance(value, ModuleType):
            parent, _, last = value.__name__.rpartition(".")
            plain = (
                f"import {name}" if name == value.__name__ else f"import {value.__name__} as {name}"
            )
            lines.add(f"from {parent} import {last}" if parent and last == name else plain)
        elif home_of != "__main__" and hasattr(sys.modules.get(home_of), name):
            lines.add(f"from {home_of} import {name}")
        elif hasattr(
            library, name
        ):  # an earlier exercise: the library's, or the learner's installed
            lines.add(f"from {card.module} import {name}")
        else:
            unknown.append(name)
    return sorted(lines), unknown


def load(card: Exercise) -> Any:
    """The saved definition: the function, or the class that holds the method.

    Names of the library that have changed since it was saved are brought up to date; the file stays
    as it is. ValueError says in one line what is wrong with a file that cannot be used.
    """
    file = file_of(card)
    try:
        text = moved.rewrite(file.read_text(encoding="utf-8"))
        module = ModuleType(f"mine.{file.stem}")
        module.__file__ = str(file)
        linecache.cache[str(file)] = (len(text), None, text.splitlines(keepends=True), str(file))
        exec(compile(text, str(file), "exec"), module.__dict__)  # noqa: S102
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())
        raise ValueError(f"{type(error).__name__}: {said}"[:200]) from error
    answer = getattr(module, card.name, None)
    if answer is None:
        raise ValueError(f"it does not define {card.name}")
    lost = [m for m in card.blank if m not in vars(answer)] if _has_methods(card) else []
    if lost:
        raise ValueError(f"its {card.name} does not define {', '.join(lost)}")
    return answer


def install(*, quiet: bool = False) -> dict[str, str]:
    """Put every saved definition into course_lib; what is where by exercise id:

    "yours" is the saved one, "reference" the library's own where nothing is saved. "broken" is a
    saved file that cannot be used: the library's own definition stays. Unless `quiet`, prints these
    lists, and one line for each broken file.
    """
    whose, problems = {}, []
    for card in exercises().values():
        whose[card.id] = "reference"
        if not file_of(card).exists():
            continue  # ranks do not wait for modules that they may never use
        try:
            _put(importlib.import_module(card.module), card, load(card))
            whose[card.id] = "yours"
        except ValueError as problem:
            whose[card.id] = "broken"
            problems.append(_tell(card, problem))
    if not quiet:
        print("\n".join([describe(whose), *problems]))
    return whose


def describe(whose: dict[str, str]) -> str:
    """One line per kind: "yours: rmsnorm, ..."; many that are not yours by number and first one."""
    kinds = ("yours", "reference", "broken")
    lists = {kind: [i for i, k in whose.items() if k == kind] for kind in kinds}
    return "\n".join(f"{kind:<9} {_name_some(kind, ids)}" for kind, ids in lists.items() if ids)


def _name_some(kind: str, ids: list[str]) -> str:
    if len(ids) <= NUM_NAMES or kind in ("yours", "broken"):
        return ", ".join(ids)
    first = exercises()[ids[0]]
    return f"{len(ids)} exercises, the first of them {first.number} {first.id} in {first.lesson}"


def _tell(card: Exercise, problem: ValueError) -> str:
    """What is wrong with a saved file, and what to do."""
    return (
        f"{card.id}: mine/{file_of(card).name} cannot be used ({problem}), so the course's own is "
        f'in its place; run check("{card.id}") again in {card.lesson} to keep a good one'
    )


def _has_methods(card: Exercise) -> bool:
    """Whether the hole is methods of a class, not a name of the module."""
    return card.blank != (card.name,)


def _put(library: ModuleType, card: Exercise, answer: Any) -> None:
    """Methods go into the library's class, so that what already imported the class sees them."""
    if _has_methods(card):
        for name in card.blank:
            replace_definition(library.__name__, f"{card.name}.{name}", vars(answer)[name])
    else:
        replace_definition(library.__name__, card.name, answer)
