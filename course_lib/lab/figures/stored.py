"""Measured tables inside figures: the same lines in NAME.py and NAME.mjs."""

import re
from pathlib import Path

IN_PYTHON = re.compile(r'^TABLE = """\\\n[^"]*"""$', re.MULTILINE)
IN_JAVASCRIPT = re.compile(r"^const TABLE = `[^`]*`;$", re.MULTILINE)


def write(lines: list[str], source: str) -> None:
    """Put `lines` into TABLE of the Python file `source` and of the .mjs beside it."""
    text = "\n".join(lines)
    for suffix, place, block in (
        (".py", IN_PYTHON, f'TABLE = """\\\n{text}\n"""'),
        (".mjs", IN_JAVASCRIPT, f"const TABLE = `{text}`;"),
    ):
        path = Path(source).with_suffix(suffix)
        old = path.read_text(encoding="utf-8")
        if len(place.findall(old)) != 1:
            raise ValueError(f"{path.name} must hold one TABLE, got {len(place.findall(old))}")
        path.write_text(place.sub(lambda _, new=block: new, old), encoding="utf-8")
