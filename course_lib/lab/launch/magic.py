"""`%torchrun`: the line of a terminal, in a notebook.

    %torchrun --nproc_per_node=auto train.py --max_steps 50

starts the real torchrun in a process of its own and prints the command that does the same in a
terminal. The magic is there once anything of course_lib.lab was imported. Its value is the Run.
"""

import os
import shlex
import sys

from course_lib.lab.launch import plain, plan
from course_lib.lab.launch.folder import Run
from course_lib.lab.launch.run import View, launch
from course_lib.lab.launch.script import Refused

LIMIT = "COURSE_LAUNCH_LIMIT_S"
UNATTENDED_S = 150.0  # less than the seconds that grading gives a cell


def torchrun(line: str) -> Run:
    """Run a script on several ranks: %torchrun --nproc_per_node=2 train.py [options of the script]

    The options are torchrun's own; without --nproc_per_node there is one rank, with "auto" one per
    GPU, or some on the CPU. A rank that fails, fails the cell. Refused for a line that can't be read.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise Refused(f"the line cannot be read: {error}") from None
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    watched = is_watched(shell)
    names = getattr(shell, "user_ns", {})
    return launch(plan.read(words), view(shell), names=names, limit_s=limit_s(watched))


def is_watched(shell) -> bool:
    """Whether a person sits before this; nbconvert and nbgrader take no input, a browser does."""
    kernel = getattr(shell, "kernel", None)
    if "NBGRADER_EXECUTION" in os.environ or os.environ.get("COURSE_FIGURES") == "static":
        return False
    return kernel is None or bool(getattr(kernel, "_allow_stdin", False))


def view(shell) -> View:
    """A panel in a browser, lines in a terminal, a page where nobody watches."""
    if not is_watched(shell):
        return plain.Page()
    if getattr(shell, "kernel", None) is None:
        return plain.Terminal()
    try:
        import anywidget  # noqa: F401
    except ImportError:
        return plain.Terminal()
    from course_lib.lab.launch.panel import Panel

    return Panel()


def limit_s(watched: bool) -> float | None:
    """Seconds that a run may take: COURSE_LAUNCH_LIMIT_S, else as long as a person lets it.

    Refused when that is no number.
    """
    text = os.environ.get(LIMIT, "")
    try:
        return float(text) if text else None if watched else UNATTENDED_S
    except ValueError:
        raise Refused(f"{LIMIT} must be a number of seconds, got {text!r}") from None
