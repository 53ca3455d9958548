"""`%journal` in a notebook: `%journal rmsnorm` opens an entry, `%journal check`, `search`, ..."""

import argparse
import shlex
import sys

from course_lib.lab.journal.command import ACTIONS, add_arguments, run


def journal(line: str) -> None:
    """What follows `%journal` is what follows `course journal`; a bare subject means `new`."""
    try:
        words = shlex.split(line)
    except ValueError:  # an apostrophe, as in "what's a norm"
        words = line.split()
    if not words or words[0] not in ACTIONS and not words[0].startswith("-"):
        words = ["new", *words]
    parser = argparse.ArgumentParser(prog="%journal")
    add_arguments(parser)
    try:
        run(parser.parse_args(words))
    except SystemExit:  # --help, or a wrong option: argparse has said so
        return
    except (ValueError, OSError) as problem:
        print(f"%journal: {problem}", file=sys.stderr)
