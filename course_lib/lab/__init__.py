"""What a notebook uses: `check`, `hint`, `solution`, `predict`, `reveal`, `figure`, `review`,
`end_session`, and `mine`.

What is not here: what a right answer does (checks/). Begin with `checking`, which judges a cell,
and `mine`, which keeps what has passed. Each name is imported when it is first asked for, so that
`course lab` and `course doctor`, which need none of them, do not wait for torch.
"""

import sys
from importlib import import_module

_HOME = {
    "check": "checking",
    "end_session": "ledger.ending",
    "figure": "figures",
    "hint": "hinting",
    "predict": "prediction",
    "reveal": "prediction",
    "review": "reviews.notebook",
    "solution": "hinting",
}

__all__ = [
    "check",
    "end_session",
    "figure",
    "hint",
    "mine",
    "predict",
    "reveal",
    "review",
    "solution",
]


def __getattr__(name: str):
    if name == "mine":
        return import_module("course_lib.lab.mine")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"course_lib.lab.{_HOME[name]}"), name)


def _journal(line: str) -> None:
    """`%journal SUBJECT` opens today's entry; `%journal --help` names the rest."""
    import_module("course_lib.lab.journal.magic").journal(line)


def _torchrun(line: str):
    """`%torchrun --nproc_per_node=auto train.py`: a script on several ranks, watched."""
    return import_module("course_lib.lab.launch.magic").torchrun(line)


def _register() -> None:
    """Make the magics known where this runs in IPython, which is not imported for it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        shell.register_magic_function(_journal, magic_name="journal")
        shell.register_magic_function(_torchrun, magic_name="torchrun")


_register()
