"""Python imports a module of this name as it starts; in a run of `%torchrun` it finds this one.

That is how torchrun and its ranks are watched although the command is the plain one and the script
asks for nothing. The folder is put first on PYTHONPATH for them alone; a module of the same name
that the machine has of its own is run afterwards.
"""

import importlib.machinery
import importlib.util
import os
import sys
from sys import path as places

if os.environ.get("COURSE_RUN"):
    try:
        from course_lib.lab.launch import rank

        rank.begin()
    except Exception as problem:  # a script must run, watched or not
        print(f"course: this process runs unwatched: {problem!r}", file=sys.stderr)

_others = [place for place in places if place != os.path.dirname(os.path.abspath(__file__))]
if _hidden := importlib.machinery.PathFinder.find_spec("sitecustomize", _others):
    _hidden.loader.exec_module(importlib.util.module_from_spec(_hidden))
