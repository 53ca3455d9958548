"""Write the numbers both languages must agree on.

`python -m course_lib.lab.figures.fixtures [--check]` writes one file per figure,
tests/fixtures/figures/NAME.json: a list of {"state", "expect"}, from the Python reference at each
preset and each of its CASES. JSON has no NaN: non-finite numbers are written as "NaN", "Infinity",
"-Infinity".
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

from course_lib.lab.figures import HERE, figures, reference

FOLDER = HERE.parents[2] / "tests" / "fixtures" / "figures"


def encode(value: Any) -> Any:
    """The same value with non-finite numbers as text."""
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def cases(name: str) -> list[dict[str, Any]]:
    """All presets, then CASES, each state complete and listed once."""
    module = reference(name)
    states: list[dict[str, Any]] = []
    for change in [*module.PRESETS.values(), *module.CASES]:
        state = {**module.DEFAULTS, **change}
        if state not in states:
            states.append(state)
    return [{"state": state, "expect": encode(module.compute(state))} for state in states]


def path(name: str) -> Path:
    """Where the cases of figure `name` are."""
    return FOLDER / f"{name}.json"


def render(name: str) -> str:
    """Text of the fixture file: one case a line."""
    lines = (json.dumps(case, allow_nan=False) for case in cases(name))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def main(argv: list[str] | None = None) -> int:
    """Write every fixture that differs; with `--check` only say so. 1 when one is stale."""
    parser = argparse.ArgumentParser(prog="python -m course_lib.lab.figures.fixtures")
    parser.add_argument(
        "--check", action="store_true", help="write nothing, fail when a file is stale"
    )
    args = parser.parse_args(argv)
    stale = []
    for name in figures():
        file = path(name)
        if file.exists() and file.read_text(encoding="utf-8") == render(name):
            continue
        stale.append(name)
        if not args.check:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(render(name), encoding="utf-8")
    print(f"{'stale' if args.check else 'written'}: {', '.join(stale) or 'none'}")
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
