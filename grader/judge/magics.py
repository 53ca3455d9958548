"""IPython's own lines in a cell (`%time f()`, `!ls`, `f?`), which are no Python.

They are told from Python by how they begin and end, which a line of a text in quotes can do as well:
so a cell is changed only when Python refuses it as it is.
"""

import ast
import re
import warnings

from grader.judge.notebook import MAX_SOURCE

# each looks at a character once: a long line of blanks must not hold up a class
WHOLE = re.compile(r"^([ \t]*)(?:(?:[!?]|%(?=[\w%])).*|[\w.]+\?\??[ \t]*)$", re.M)
ASSIGNED = re.compile(r"^([\w,. \t]*=[ \t]*)(?:!|%(?=\w)).*$", re.M)


def parse_text(text: str) -> ast.Module | None:
    """The syntax tree, or None for what Python would refuse."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "invalid escape sequence" is the learner's, not ours
        try:
            return ast.parse(text)
        # a hostile text can nest deeper than the parser or the tree may
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def blank_magics(text: str) -> str:
    """`text` with `pass` and `None` in place of magics, where it is no Python with them.

    No line comes or goes.
    """
    if len(text) > MAX_SOURCE or parse_text(text) is not None:
        return text
    return ASSIGNED.sub(r"\1None", WHOLE.sub(r"\1pass", text))
