"""`learning/learning_ledger.md`: the learner's page, with parts that are rebuilt from the record."""

import codecs
from datetime import datetime
from pathlib import Path

from course_lib.lab.home import home
from course_lib.lab.ledger import concepts, graph, parts, reviews
from course_lib.lab.ledger.levels import NAMES
from course_lib.lab.ledger.sessions import Session
from course_lib.lab.ledger.state import State, passed_exercises
from course_lib.lab.ledger.summary import count
from course_lib.runs.atomic import write_whole

PICTURE = "concepts.svg"
START = """# Learning ledger

This page is yours. Write wherever you like, in any language, between the sections too.
What stands between two `ledger` marks is rebuilt from `events.jsonl`; the rest is never touched.
"""


def path() -> Path:
    """Where the page is, whether or not it exists yet."""
    return home() / "learning" / "learning_ledger.md"


def write(state: State) -> Path:
    """Bring the page and its picture up to date; returns the page's path.

    Raises OSError on a full or read-only disk, ValueError for a page that is not UTF-8 text; both
    leave the old page as it was.
    """
    old = path().read_bytes() if path().exists() else b""
    if old.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(f"{path().name} is saved as UTF-16; save it as UTF-8, then try again")
    text = update_page(old.decode("utf-8", "surrogateescape"), state)
    path().parent.mkdir(parents=True, exist_ok=True)
    _replace(path().with_name(PICTURE), graph.svg(state.levels).encode())
    if old and path().read_bytes() != old:  # saved in an editor just now: begin again with that
        return write(state)
    _replace(path(), text.encode("utf-8", "surrogateescape"))
    return path()


def update_page(text: str, state: State) -> str:
    """The page's text with every part current."""
    text = text or START
    for name, heading, body in sections(state):
        text = parts.put(text, name, body, heading=heading, now=state.now)
    return text


def sections(state: State) -> list[tuple[str, str, str]]:
    """Name, heading and Markdown of every part, in order."""
    return [
        ("now", "## Now", _now(state)),
        ("mastered", "## Mastered", _topics(state, (4, 5)) or "Nothing yet: level 4 takes a week."),
        ("developing", "## Developing", _topics(state, (1, 2, 3)) or "Nothing yet."),
        ("blind-spots", "## Blind spots", _blind_spots(state) or "None known."),
        ("queue", "## Review queue", _queue(state) or "Empty: a passed exercise fills it."),
        ("sessions", "## Session history", _history(state.sessions) or "None yet."),
        ("insights", "## Insights", _insights(state.sessions) or "None yet: they are yours."),
        ("goals", "## Goals", _goals(state)),
        ("concepts", "## Concepts", _concepts(state)),
    ]


def _now(state: State) -> str:
    due = len(reviews.horizons(state.schedule, state.now)["Today"])
    return (
        f"Updated {state.now:%Y-%m-%d}. {count(len(passed_exercises(state)), 'exercise')} passed, "
        f"{sum(level >= 3 for level in state.levels.values())} of {len(state.levels)} concepts at "
        f"level 3 or more, {count(due, 'review')} due today."
    )


def _topics(state: State, wanted: tuple[int, ...]) -> str:
    lines = []
    for slug, level in sorted(state.levels.items(), key=lambda known: -known[1]):
        if level in wanted:
            lines.append(f"- **{concepts.title(slug)}**: level {level}, {NAMES[level]}")
            lines += [f"  - {parts.inert(line)}" for line in state.evidence.get(slug, ())]
    return "\n".join(lines)


def _blind_spots(state: State) -> str:
    return "\n".join(
        f"- **{parts.inert(spot.name)}** ({spot.kind}): {parts.inert(spot.why)}. "
        f"Five minutes: {parts.inert(spot.remedy)}."
        for spot in state.blind_spots
    )


def _queue(state: State) -> str:
    lines = []
    for name, queued in reviews.horizons(state.schedule, state.now).items():
        lines += ([""] if lines else []) + [f"### {name}", ""]
        lines += [
            f"- [ ] {_day(when.due, state.now)}: {parts.inert(reviews.question(when.item))}"
            for when in queued
        ] or ["Nothing."]
    return "\n".join(lines) if state.schedule else ""


def _day(due: datetime, now: datetime) -> str:
    return "due" if due <= now else f"{due:%Y-%m-%d}"


def _history(found: list[Session]) -> str:
    if not found:
        return ""
    rows = ["| Date | Session | Minutes | Passed | Open |", "| --- | --- | --- | --- | --- |"]
    for session in found:
        cells = (
            f"{session.started:%Y-%m-%d}", session.number, session.minutes,
            ", ".join(session.passed_exercises()) or "-", ", ".join(session.open()) or "-",
        )  # fmt: skip
        cells = [parts.inert(str(cell)).replace("|", "\\|").replace("\n", " ") for cell in cells]
        if session is found[-1]:
            cells = [f"**{cell}**" for cell in cells]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _insights(found: list[Session]) -> str:
    """The learner's sentences, as written, each quoted under its date."""
    quoted = []
    for session in found:
        for note in session.notes:
            lines = parts.inert(note).split("\n")
            quoted.append(
                f"**{session.started:%Y-%m-%d}**, session {session.number}\n\n"
                + "\n".join(f"> {line}" for line in lines)
            )
    return "\n\n".join(quoted)


def _goals(state: State) -> str:
    lines = []
    for goal in state.milestones:
        reached = f", reached {goal.reached:%Y-%m-%d}" if goal.reached else ""
        mark = "x" if goal.reached else " "
        lines.append(f"- [{mark}] {goal.title}: {goal.passed} of {goal.total} exercises{reached}")
    return "\n".join(lines)


def _concepts(state: State) -> str:
    lines = "\n".join(f"- {line}" for line in graph.text_list(state.levels))
    return f"![A row of concepts for each lesson, with their levels]({PICTURE})\n\n{lines}"


def _replace(file: Path, data: bytes) -> None:
    """Write a file that would differ."""
    if not file.exists() or file.read_bytes() != data:
        write_whole(file, data, sync=True)
