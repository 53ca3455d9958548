"""Definitions that stand in the library in place of its own, such as a learner's.

What it is: who replaces a definition does it here, so that processes which are started later can be
given it too. What it leaves out: where the definitions come from.
"""

import importlib
import sys
from typing import Any

REPLACED: dict[tuple[str, str], Any] = {}
"""Definitions that stand in the library in place of its own, by (module, "Name" or "Class.method")."""


def replace_definition(module: str, name: str, value: Any) -> None:
    """Put `value` in place of the library's "Name" or "Class.method", here and on later ranks.

    A function is replaced in every module of the library that has imported it by name.
    """
    REPLACED[module, name] = value
    library = importlib.import_module(module)
    owner, _, method = name.rpartition(".")
    if owner:
        setattr(getattr(library, owner), method, value)
        return
    old = getattr(library, name)
    for found, other in list(sys.modules.items()):
        if found.startswith("course_lib.") and getattr(other, name, None) is old:
            setattr(other, name, value)
