"""What a notebook uses: `check`, `hint`, `solution`, `predict`, `reveal`, `figure`, and `mine`.

Each name is imported when it is first asked for, so that `course lab` and `course doctor`, which
need none of them, do not wait for torch.
"""

import sys
from importlib import import_module

_HOME = {
    "check": "checking",
    "figure": "figures",
    "hint": "hinting",
    "predict": "prediction",
    "reveal": "prediction",
    "solution": "hinting",
}

__all__ = ["check", "figure", "hint", "mine", "predict", "reveal", "solution"]


def __getattr__(name: str):
    if name == "mine":
        return import_module("course_lib.lab.mine")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"course_lib.lab.{_HOME[name]}"), name)


def _journal(line: str) -> None:
    """`%journal SUBJECT` opens today's entry; `%journal --help` names the rest."""
    import_module("course_lib.lab.journal.magic").journal(line)


def _register() -> None:
    """Make `%journal` known where this runs in IPython, which is not imported for it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        shell.register_magic_function(_journal, magic_name="journal")


_register()
