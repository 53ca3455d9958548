"""`course bench`: what can be measured here, and the measuring, in a process of its own.

What it is: a list of the programs in `benchmarks`, and a start of one of them, with the time that it
has taken. What it leaves out: the measuring itself; records, which `benchmarks/record.py` writes.
"""

import argparse
import ast
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

NOT_PROGRAMS = ("__init__", "record")


@dataclass(frozen=True)
class Program:
    """One benchmark, as its file describes it; nothing of it is run to know that."""

    name: str
    about: str
    """The docstring of the file."""
    has_options: bool
    """Whether it reads its command line: one that does not would begin to measure at --help."""
    has_bar: bool
    """Whether it shows its own progress."""


def programs(root: Path) -> dict[str, Program]:
    """The benchmarks of the course in `root`, by name; ValueError where there are none."""
    found = {}
    for path in sorted((root / "benchmarks").glob("*.py")):
        if path.stem in NOT_PROGRAMS:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            alias.name
            for node in ast.walk(tree)
            for alias in getattr(node, "names", [])
            if isinstance(node, ast.Import | ast.ImportFrom)
        }
        about = ast.get_docstring(tree) or "(says nothing about itself)"
        found[path.stem] = Program(path.stem, about, "argparse" in imported, "tqdm" in imported)
    if not found:
        raise ValueError(
            f"expected benchmarks in {root / 'benchmarks'}, found none: they come with the course's "
            f"folder, not with an installed package; run this command from there"
        )
    return found


def run(args: argparse.Namespace) -> int:
    """`course bench [NAME [OPTIONS]]`: the list, a program's help, or its run and exit status.

    ValueError for a name that no benchmark has, and for options of one that takes none.
    """
    known = programs(args.root)
    if args.name is None:
        print(listing(known))
        return 0
    if args.name not in known:
        raise ValueError(f"no benchmark {args.name!r}; there are {', '.join(known)}")
    program = known[args.name]
    if not program.has_options and args.options:
        if {"-h", "--help"} & set(args.options):
            print(f"course bench {program.name}: takes no options\n\n{program.about}")
            return 0
        raise ValueError(f"{program.name} takes no options, got {' '.join(args.options)}")
    command = [sys.executable, "-m", f"benchmarks.{program.name}", *args.options]
    asks = {"-h", "--help"} & set(args.options)
    return _run_watched(command, args.root, program.name, bar=not program.has_bar and not asks)


def listing(known: dict[str, Program]) -> str:
    """A line for each benchmark: its name and the first line that it says of itself."""
    width = max(map(len, known))
    lines = [f"  {p.name:<{width}}  {p.about.splitlines()[0]}" for p in known.values()]
    return "\n".join(
        [
            "course bench NAME [OPTIONS]    measures, and writes benchmarks/results/NAME.json",
            "course bench NAME --help       what it measures, and its options",
            "",
            *lines,
        ]
    )


def _run_watched(command: list[str], root: Path, name: str, *, bar: bool) -> int:
    """Run it in the course's folder, with the seconds it has taken; its exit status."""
    with subprocess.Popen(command, cwd=root) as process:
        # how much is left is not known: the bar shows that it goes on, and for how long
        shown = tqdm(desc=name, bar_format="{desc}: {elapsed}", disable=None if bar else True)
        with shown:
            try:
                while process.poll() is None:
                    shown.refresh()
                    time.sleep(0.2)
            except KeyboardInterrupt:  # it got the same signal, and keeps what it has
                process.wait()
    return process.returncode
