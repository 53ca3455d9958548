"""Numbers inside live figures that come from training, and what measures them anew.

`python -m benchmarks.figures.NAME` trains and writes one constant into the figure's module in
course_lib/lab/figures; then `course build`. tests/test_figure_values.py measures a part of each.
"""

import re

from course_lib.lab.figures import HERE


def read_constant(figure: str, name: str) -> str:
    """The JavaScript of the value of `const NAME = ...;` in the module of `figure`.

    ValueError unless the module has that constant once, at the beginning of a line.
    """
    text = (HERE / f"{figure}.mjs").read_text(encoding="utf-8")
    found = re.findall(rf"^const {name} = ([^;]*);$", text, re.MULTILINE)
    if len(found) != 1:
        raise ValueError(f"{figure}.mjs must hold `const {name} = ...;` once, got {len(found)}")
    return found[0]


def store_constant(figure: str, name: str, value: str) -> None:
    """Put the JavaScript `value` in place of what `read_constant` gives."""
    path, old = HERE / f"{figure}.mjs", read_constant(figure, name)
    text = path.read_text(encoding="utf-8")
    text = text.replace(f"const {name} = {old};", f"const {name} = {value};")
    path.write_text(text, encoding="utf-8")
    print(f"wrote {name} into {path.name}; now run: course build")


def store_table(figure: str, lines: list[str]) -> None:
    """Make `lines` the text TABLE of the module of `figure`."""
    store_constant(figure, "TABLE", "`" + "\n".join(lines) + "`")
