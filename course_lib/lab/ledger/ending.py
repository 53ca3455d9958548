"""The end of a session: its summary, the learner's sentence, the page brought up to date."""

import argparse
import os
import sys
from datetime import UTC, datetime

from course_lib.lab import events
from course_lib.lab.home import home
from course_lib.lab.ledger import page
from course_lib.lab.ledger.sessions import Session
from course_lib.lab.ledger.state import State, derive
from course_lib.lab.ledger.summary import BLANK, head, in_your_words, summary


def end_session(note: str = "") -> None:
    """Print what this session came to, and end it. `note` is your own sentence about it.

    The sentence is kept as written, in any language, in the record and on your ledger page.
    """
    _end_session(note, asks=False)


def run(args: argparse.Namespace) -> int:
    """`course end-session [--note TEXT]`; asks for the sentence when a person is there to answer."""
    return _end_session(args.note or "", asks=args.note is None and sys.stdin.isatty())


def _end_session(note: str, *, asks: bool) -> int:
    if "NBGRADER_EXECUTION" in os.environ:  # an author's cell, not a learner at work
        return 0
    state = now_state()
    if not state.sessions:
        print("Nothing is recorded yet. A check, a hint or a prediction begins a session.")
        return 0
    session = state.sessions[-1]
    if session.is_closed and not note:
        print(f"{head(session)}: it has ended, and nothing was done since.")
        return _refresh_page(state)
    print(summary(state, session))
    note = _ask_note(session) if asks else _show_note(session, note)
    if not _record_end(session, note, state.now) and note:
        print("Your sentence could not be kept. Copy it from above.", file=sys.stderr)
    return _refresh_page(now_state())


def now_state() -> State:
    """The state of this moment, from the record on this machine."""
    return derive(events.read(), datetime.now(UTC))


def _ask_note(session: Session) -> str:
    try:
        note = input(f"{in_your_words(session)} ")
    except EOFError:  # Ctrl-D: an empty answer is an answer
        print()
        note = ""
    return note if note.strip() else ""


def _show_note(session: Session, note: str) -> str:
    print(f"{in_your_words(session)} {note or BLANK}")
    return note


def _record_end(session: Session, note: str, now: datetime) -> bool:
    return events.record(
        "session",
        number=session.number,
        started=events.stamp(session.started),
        ended=events.stamp(max(session.ended, now)),
        note=note or None,
    )


def _refresh_page(state: State) -> int:
    """The page; a page that cannot be written costs the session nothing."""
    try:
        written = page.write(state)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        print(f"{page.path().name} is as it was: {reason}", file=sys.stderr)
        return 1
    print(f"\nwritten to {written.relative_to(home())}")
    return 0
