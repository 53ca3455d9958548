"""`course ledger forget`: the record removed, the learner's own words kept, unless told otherwise."""

import argparse
import shutil
import sys
from pathlib import Path

from course_lib.lab import events
from course_lib.lab.home import home
from course_lib.lab.ledger import page
from course_lib.lab.ledger.ending import now_state
from course_lib.lab.ledger.summary import count


def run(args: argparse.Namespace) -> int:
    """Ask, remove, and say what was removed; 1 when the answer was not yes.

    Raises ValueError when nobody is there to ask and `--yes` is missing, OSError when the disk
    refuses; then everything is as it was.
    """
    found = sorted(folder().iterdir()) if args.everything and folder().is_dir() else []
    number = sum(1 for event in events.read() if _prose(event) is None)
    if not found and not number:
        print("There is nothing to forget.")
        return 0
    if not args.yes and not _ask_consent(_question(found, number, everything=args.everything)):
        print("Nothing was removed.")
        return 1
    return _remove_all(found) if args.everything else _remove_record()


def folder() -> Path:
    """What belongs to the learner's record and notes."""
    return home() / "learning"


def _question(found: list[Path], number: int, *, everything: bool) -> str:
    if everything:
        names = ", ".join(path.name for path in found)
        return f"Remove all of {folder().name}/ with what you wrote in it ({names})?"
    return (
        f"Remove {count(number, 'event')} (checks, hints, reviews, sessions), and with them all levels and "
        "due dates? Your sentences, your page and your journal stay."
    )


def _ask_consent(question: str) -> bool:
    if not sys.stdin.isatty():
        raise ValueError("forgetting asks first; without a terminal, say so with --yes")
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _remove_record() -> int:
    gone = events.prune(_prose)
    events.record("forget", what="record")
    kept = sum(1 for event in events.read() if event["kind"] == "note")
    print(
        f"Removed {count(gone, 'event')} from {events.path().relative_to(home())}; "
        f"{count(kept, 'sentence')} of yours kept in it."
    )
    if any(folder().glob("export/*")):
        print("Copies that you exported are still in learning/export.")
    if page.path().exists():
        page.write(now_state())
        print(f"{page.path().name} is rebuilt from what is left; your own lines stand.")
    return 0


def _remove_all(found: list[Path]) -> int:
    for path in found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
        print(f"Removed {folder().name}/{path.name}")
    return 0


def _prose(event: dict) -> dict | None:
    """What stays of an event: the learner's sentence, with its time; None when it holds none.

    That something was forgotten, and when, stays too.
    """
    if event["kind"] == "forget":
        return event
    text = event.get("text") if event["kind"] == "note" else None
    text = text or (event.get("note") if event["kind"] == "session" else None)
    if not isinstance(text, str) or not text.strip():
        return None
    return {"v": event.get("v", 1), "t": event.get("t"), "kind": "note", "text": text}
