"""What the course knows about a subject, as Markdown for the sections of a new entry.

Everything in the record may have been edited by hand: values are taken as text and made harmless.
"""

import re
from collections import Counter

from course_lib.lab.journal.entry import Entry, slug
from course_lib.lab.journal.subject import Subject, definition, lessons, own_definition


def facts(about: Subject, events: list[dict], others: list[Entry]) -> dict[str, str]:
    """Section key -> Markdown; sections about which nothing is known are left out."""
    found = {
        "context": "\n\n".join(
            filter(None, [_context(about, events), _predictions(about, events)])
        ),
        "code": _code(about),
        "related": _related_entries(about, others),
        "tags": " ".join(f"#{tag}" for tag in tags(about)),
    }
    return {key: text for key, text in found.items() if text}


def tags(about: Subject) -> list[str]:
    """Its concepts and its lesson; a subject of the learner's own is its own tag."""
    lesson = [f"lesson-{about.lesson[:2]}"] if about.lesson else []
    return [*about.concepts, *lesson] or [about.slug]


def flatten_value(value, length: int = 120) -> str:
    """A value from the record as one short line that cannot be mistaken for Markdown of ours."""
    text = " ".join(re.sub(r"[^\S ]|[\x00-\x1f]", " ", str(value)).split())
    text = text if len(text) <= length else text[: length - 3] + "..."
    return text.replace("<", "&lt;").replace("|", "\\|").replace("`", "'")


def _context(about: Subject, events: list[dict]) -> str:
    lines = []
    if lesson := lessons().get(about.lesson or ""):
        lines.append(f"Lesson {lesson['title']}: {lesson['about']}")
    lines += [_tries(card.id, events) for card in about.exercises]
    if lesson and lesson["journal"]:
        lines.append(f"The lesson asks: {lesson['journal']}")
    return "\n".join(f"- {line}" for line in lines)


def _tries(item: str, events: list[dict]) -> str:
    """One line: checks, their codes, hints, solution."""
    mine = [e for e in events if e.get("item") == item]
    checks = [e for e in mine if e["kind"] == "check"]
    if not checks:
        return f"Exercise `{item}`: not checked yet."
    passed = sum(e.get("result") == "pass" for e in checks)
    codes = Counter(
        flatten_value(e.get("code", "?"), 40) for e in checks if e.get("result") != "pass"
    )
    said = [f"Exercise `{item}`: {_times(len(checks), 'check')}, {passed} passed."]
    if codes:
        listed = ", ".join(f"`{c}`" + (f" {n} times" if n > 1 else "") for c, n in codes.items())
        said.append(f"What came up: {listed}.")
    hints = {str(e.get("hint")) for e in mine if e["kind"] == "hint"}
    if hints:
        said.append(f"{_times(len(hints), 'hint')} opened.")
    if any(e["kind"] == "solution" for e in mine):
        said.append("The solution was opened.")
    return " ".join(said)


def _times(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("s" if count != 1 else "")


def _predictions(about: Subject, events: list[dict]) -> str:
    """The last prediction of each question of the lesson, beside what came out."""
    rows = []
    for name in lessons().get(about.lesson or "", {}).get("predictions", ()):
        guesses = [e for e in events if e["kind"] == "predict" and e.get("item") == name]
        found = [e for e in events if e["kind"] == "reveal" and e.get("item") == name]
        if guesses:
            unit = f" {flatten_value(guesses[-1]['unit'], 20)}" if guesses[-1].get("unit") else ""
            guess = flatten_value(guesses[-1].get("guess", "?")) + unit
            measured = _number(found[-1].get("measured", "?")) + unit if found else "not yet"
            rows.append(f"| {name} | {guess} | {measured} |")
    head = ["| asked | I predicted | what came out |", "| --- | --- | --- |"]
    return "\n".join(head + rows) if rows else ""


def _number(value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else flatten_value(value)


def _code(about: Subject) -> str:
    lines = []
    for card in about.exercises:
        lines.append(f"- `{definition(card)}` is {card.path} of the course")
        if own := own_definition(card):
            lines.append(f"- `{own}` is your own, as it passed")
    return "\n".join(lines)


def _related_entries(about: Subject, others: list[Entry]) -> str:
    """Entries that share a concept, then entries about what these exercises need."""
    needed = {n for e in about.exercises for n in (*e.needs, *e.uses)} - {about.slug}
    shared = {slug(c) for c in about.concepts}
    lines = []
    for entry in reversed(others):
        common = sorted(shared & set(entry.tags))
        if common:
            lines.append(
                f"- [{flatten_value(entry.name)}]({entry.path.name}) also has {', '.join(common)}"
            )
        elif needed & {*entry.tags, str(entry.front.get("item", ""))}:
            lines.append(f"- [{flatten_value(entry.name)}]({entry.path.name}) comes before it")
    return "\n".join(lines[:8])
