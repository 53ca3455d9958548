"""`course launch`: what `%torchrun` does, in a terminal."""

import argparse

from course_lib.lab.launch import magic, plain, plan
from course_lib.lab.launch.run import LaunchFailed, launch
from course_lib.lab.launch.script import Refused


def run(args: argparse.Namespace) -> int:
    """`course launch [-m] SCRIPT [--ranks N] [--limit S] [options of the script]`.

    Exit status 1 when a rank failed, 2 for what was asked wrongly, 130 after Ctrl-C. The options
    of this command stand before the script or right behind it; what follows is the script's, and
    so is one that was given before.
    """
    ranks, limit, rest = _split_own(args)
    words = [f"--nproc_per_node={ranks}", *["-m"] * args.module, args.script, *rest]
    try:
        launch(plan.read(words), plain.Terminal(), limit_s=limit)
    except LaunchFailed:
        return 1  # the report is on the screen
    return 0


def _split_own(args: argparse.Namespace) -> tuple[str, float | None, list[str]]:
    """(ranks, limit, the script's words)."""
    found = {"--ranks": args.ranks, "--limit": args.limit}
    rest = list(args.arguments)
    while rest and found.get(rest[0].partition("=")[0], "") is None:
        name, equals, value = rest.pop(0).partition("=")
        if not equals and not rest:
            raise Refused(f"{name} needs a value")
        found[name] = value if equals else rest.pop(0)
    ranks, limit = found["--ranks"] or "auto", found["--limit"]
    try:
        return ranks, magic.limit_s(True) if limit is None else float(limit), rest
    except ValueError:
        raise Refused(f"--limit takes seconds, got {limit!r}") from None
