"""The ledger as one HTML page: everything in the file, no script, light, dark and in print."""

from html import escape
from pathlib import Path

from course_lib.lab.ledger import concepts, graph, reviews
from course_lib.lab.ledger.levels import NAMES
from course_lib.lab.ledger.state import State, next_exercise, passed_exercises
from course_lib.lab.ledger.summary import count

MADE_HERE = '<meta name="generator" content="course ledger">'
NO_ICON = '<link rel="icon" href="data:,">'  # else a browser asks for /favicon.ico
STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --line: #57606a }
@media (prefers-color-scheme: dark) { :root { --ink: #f0f3f6; --paper: #14181d; --line: #9aa4ae } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 0 auto; padding: 1rem }
table { border-collapse: collapse } caption { text-align: left; padding: .3rem 0 }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left;
  vertical-align: top }
blockquote { border-left: 3px solid var(--line); margin: .5rem 0; padding-left: 1rem;
  white-space: pre-wrap; overflow-wrap: anywhere }
li, p, summary { overflow-wrap: anywhere }
summary { padding: .3rem 0; min-height: 24px; cursor: pointer }
.scroll { overflow-x: auto } .scroll svg { min-width: 52rem }
@media print { details > *:not(summary) { display: block } }
"""


def write(state: State, file: Path) -> None:
    """Write the page; ValueError when the file exists and is not such a page."""
    if file.exists() and MADE_HERE not in file.read_text(encoding="utf-8", errors="replace"):
        raise ValueError(f"{file} exists and is no page of this command; name another file")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(html(state), encoding="utf-8")


def html(state: State) -> str:
    """The page's text."""
    parts = [
        _progress(state), _blind_spots(state), _queue(state), _levels(state), _picture(state),
        _sessions(state), _insights(state),
    ]  # fmt: skip
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{MADE_HERE}{NO_ICON}\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="description" content="What was learned, what is due, what is not seen yet">\n'
        f"<title>Learning ledger</title><style>{STYLE}</style></head>\n"
        f"<body><main><h1>Learning ledger</h1>\n<p>As of {state.now:%Y-%m-%d}.</p>\n"
        + "\n".join(parts)
        + "\n</main></body></html>\n"
    )


def _progress(state: State) -> str:
    rows = [
        (
            goal.title,
            f"{goal.passed} of {goal.total}",
            f"{goal.reached:%Y-%m-%d}" if goal.reached else "not yet",
        )
        for goal in state.milestones
    ]
    card = next_exercise(state)
    following = f"<p>Next: {escape(f'{card.number} {card.title}')}.</p>" if card else ""
    caption = f"{count(len(passed_exercises(state)), 'exercise')} passed"
    return _section(
        "Goals", _table("Goals", caption, ("Goal", "Exercises passed", "Reached"), rows) + following
    )


def _blind_spots(state: State) -> str:
    rows = [(spot.name, spot.kind, spot.why, spot.remedy) for spot in state.blind_spots]
    head = ("Blind spot", "Kind", "Why", "In five minutes")
    return _section(
        "Blind spots", _table("Blind spots", "", head, rows) if rows else "<p>None known.</p>"
    )


def _queue(state: State) -> str:
    rows = [
        (name, f"{when.due:%Y-%m-%d}", reviews.question(when.item))
        for name, queued in reviews.horizons(state.schedule, state.now).items()
        for when in queued
    ]
    body = (
        _table("Review queue", "", ("When", "Due", "Question"), rows) if rows else "<p>Empty.</p>"
    )
    return _section("Review queue", body)


def _levels(state: State) -> str:
    lines = []
    for slug, level in state.levels.items():
        head = escape(f"{concepts.title(slug)}: level {level}, {NAMES[level]}")
        evidence = "".join(f"<li>{escape(line)}</li>" for line in state.evidence.get(slug, ()))
        lines.append(
            f"<details><summary>{head}</summary><ul>{evidence}</ul></details>"
            if evidence
            else f"<p>{head}</p>"
        )
    return _section("Levels and their evidence", "\n".join(lines))


def _picture(state: State) -> str:
    drawn = graph.svg(state.levels)
    return _section("Concepts", _wrap_scrolling("Picture of the concepts", drawn))


def _sessions(state: State) -> str:
    rows = [
        (
            f"{s.started:%Y-%m-%d}",
            s.number,
            s.minutes,
            ", ".join(s.passed_exercises()),
            ", ".join(s.open()),
        )
        for s in reversed(state.sessions)
    ]
    head = ("Date", "Session", "Minutes", "Passed", "Open")
    body = _table("Sessions", "Newest first", head, rows) if rows else "<p>None yet.</p>"
    return _section("Sessions", body)


def _insights(state: State) -> str:
    notes = [
        f'<h3>{s.started:%Y-%m-%d}, session {s.number}</h3><blockquote dir="auto">{escape(note)}'
        "</blockquote>"
        for s in state.sessions
        for note in s.notes
    ]
    return _section("Insights", "\n".join(notes) or "<p>None yet.</p>")


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>\n{body}</section>"


def _wrap_scrolling(name: str, body: str) -> str:
    """What is wider than a phone scrolls by itself, with the keyboard too."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">{body}</div>'


def _table(name: str, caption: str, head: tuple[str, ...], rows: list[tuple]) -> str:
    """Rows whose first cell names them."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{escape(str(row[0]))}</th>'
        + "".join(f"<td>{escape(str(cell))}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    shown = f"<caption>{escape(caption)}</caption>" if caption else ""
    table = f"<table>{shown}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    return _wrap_scrolling(f"Table: {name}", table)
