"""What a session came to, in six lines."""

import textwrap

from course_lib.lab import registry
from course_lib.lab.ledger import concepts, reviews
from course_lib.lab.ledger.blind_spots import SURE
from course_lib.lab.ledger.levels import Change
from course_lib.lab.ledger.sessions import Session
from course_lib.lab.ledger.state import State, next_exercise

WIDTH = 88
INDENT = 13
DOT, ARROW, BLANK = "\N{MIDDLE DOT}", "\N{RIGHTWARDS ARROW}", "______"
CLOSE = 0.1
"""A predicted number is right within 10 %."""


def summary(state: State, session: Session) -> str:
    """The lines before the learner's own: head, Moved up, Returned, Calibration, Next time."""
    rows = (
        ("Moved up", describe_moves(state, session, up=True) or "nothing this time"),
        ("Returned", describe_setbacks(state, session) or "nothing"),
        ("Calibration", calibration(session)),
        ("Next time", next_time(state)),
    )
    return "\n".join([head(session), *(_row(label, text) for label, text in rows)])


def head(session: Session) -> str:
    """ "Session 17 . 52 min . 6 checks passed, 2 open" with middle dots."""
    checks = f"{count(len(session.passed_exercises()), 'check')} passed, {len(session.open())} open"
    return f"Session {session.number} {DOT} {session.minutes} min {DOT} {checks}"


def count(number: int, noun: str) -> str:
    """ "1 review", "2 reviews"."""
    return f"{number} {noun}" + ("s" if number != 1 else "")


def in_your_words(session: Session) -> str:
    """The last line, up to the blank."""
    return f"  In your words: {question(session)}"


def question(session: Session) -> str:
    """What the lesson of the last exercise in the session leaves the learner with."""
    known, found = registry.exercises(), concepts.lessons()
    items = [e.get("exercise") or e.get("item") for e in session.events]
    lesson = next((known[item].lesson for item in reversed(items) if item in known), None)
    return (found[lesson].question if lesson in found else "") or "what was the hardest step today?"


def describe_moves(state: State, session: Session, *, up: bool) -> str:
    """Concepts whose level the session raised (or lowered), with the reason for the last step."""
    inside: dict[str, list[Change]] = {}
    for change in state.changes:
        if session.started <= change.time <= session.ended:
            inside.setdefault(change.concept, []).append(change)
    steps = [(slug, steps[0].before, steps[-1].after, steps[-1]) for slug, steps in inside.items()]
    return f" {DOT} ".join(
        f"{concepts.title(slug)} {before}{ARROW}{after} ({_explain_step(last)})"
        for slug, before, after, last in steps
        if (after > before if up else after < before)
    )


def _explain_step(change: Change) -> str:
    return "review failed" if change.why == "failed" else change.why


def describe_setbacks(state: State, session: Session) -> str:
    """Mistakes seen again in this session, and concepts that fell."""
    fails = [e for e in session.events if e.get("result") == "fail"]
    codes = {e.get("code") for e in fails}
    items = {e.get("exercise") or e.get("item") for e in fails if e.get("confidence", 0) >= SURE}
    said = [
        f"{spot.name}, {spot.why.partition(' with ')[0]} {ARROW} blind spot; "
        f"5-min remedy: {spot.remedy}"
        for spot in state.blind_spots
        if spot.kind == "misconception" and spot.name in codes
    ]
    said += [
        f"{spot.why} {ARROW} blind spot; 5-min remedy: {spot.remedy}"
        for spot in state.blind_spots
        if spot.kind == "overconfident" and spot.name in items
    ]
    return f" {DOT} ".join(filter(None, [*said, describe_moves(state, session, up=False)]))


def calibration(session: Session) -> str:
    """ "sure 5 times, right 3": of what the learner gave a confidence of 4 or 5."""
    sure = [right for confidence, right in _judged_answers(session) if confidence >= SURE]
    if not sure:
        return "not asked; check(..., confidence=4) notes how sure you are, 1 to 5"
    times = "once" if len(sure) == 1 else f"{len(sure)} times"
    return f"sure {times}, right {sum(sure)}"


def _judged_answers(session: Session) -> list[tuple[int, bool]]:
    """(confidence, whether right) of checks, reviews, and predictions that were measured."""
    found, guesses = [], {}
    for event in session.events:
        if event["kind"] == "predict" and "confidence" in event:
            guesses[event.get("item")] = event
        elif event["kind"] == "reveal" and event.get("item") in guesses:
            guess = guesses.pop(event["item"])
            found.append((guess["confidence"], _is_near(guess.get("guess"), event.get("measured"))))
        elif event["kind"] in ("check", "review") and "confidence" in event:
            found.append((event["confidence"], event.get("result") == "pass"))
    return found


def _is_near(guess, measured) -> bool:
    try:
        return abs(float(guess) - float(measured)) <= CLOSE * abs(float(measured))
    except (TypeError, ValueError):
        return str(guess).strip().lower() == str(measured).strip().lower()


def next_time(state: State) -> str:
    """The next reviews, with their day and minutes, then the next exercise."""
    parts = []
    if day := reviews.next_day(state.schedule, state.now):
        first, due = day
        name = "now" if first <= state.now else f"{first.day} {first:%b}"
        parts.append(f"{count(due, 'review')} due {name} ({reviews.minutes(due)} min)")
    if card := next_exercise(state):
        parts.append(f"{card.number} {card.title}")
    return ", then ".join(parts) or "every exercise is passed"


def _row(label: str, text: str) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=f"  {label:<{INDENT - 3}} ",
        subsequent_indent=" " * INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
