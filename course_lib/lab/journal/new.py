"""A new entry: the sections of the template, with what the course knows, for the learner to write.

The file is made once and only where there is none.
"""

import json
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from course_lib.lab.journal import template as templates
from course_lib.lab.journal.entry import PROMPT, entries, folder
from course_lib.lab.journal.facts import facts, tags
from course_lib.lab.journal.sections import Section
from course_lib.lab.journal.subject import Subject
from course_lib.lab.journal.template import Template

VERSION = 1


@dataclass(frozen=True)
class Opened:
    """Where the entry is, and whether it was made now or was there."""

    path: Path
    made: bool


def open_entry(about: Subject, events: list[dict], *, today: date, again: bool = False) -> Opened:
    """Make today's entry about a subject, or find it; `again` makes another one beside it.

    An existing file is never written to. OSError when the disk does not take the new one; then
    nothing of it is left.
    """
    template = templates.load()
    path = folder() / f"{today.isoformat()}-{about.slug}.md"
    number = 1
    while again and path.exists():
        number += 1
        path = folder() / f"{today.isoformat()}-{about.slug}-{number}.md"
    if path.exists():
        return Opened(path, made=False)
    text = page(about, template, facts(about, events, entries(template)), today=today)
    path.parent.mkdir(parents=True, exist_ok=True)
    return Opened(path, made=_create(path, text))


def page(about: Subject, template: Template, known: dict[str, str], *, today: date) -> str:
    """The text of a new entry."""
    front = {
        "v": VERSION,
        "type": "journal",
        "date": today.isoformat(),
        "title": about.title,
        "item": about.slug,
        "lesson": about.lesson,
        "concepts": about.concepts,
        "tags": tags(about),
    }
    head = [f"{key}: {_yaml(value)}" for key, value in front.items() if value not in (None, [])]
    parts = [_part(section, known.get(section.key)) for section in template.sections]
    title = f"# {about.title} \N{MIDDLE DOT} {today.isoformat()}"
    return "\n".join(["---", *head, "---", "", title, "", *parts])


def _yaml(value) -> str:
    """Dates and names stand bare; text that YAML could misread is quoted. JSON is YAML."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    text = str(value)
    bare = text.replace("-", "").replace("_", "")
    return text if bare.isascii() and bare.isalnum() else json.dumps(text, ensure_ascii=False)


def _part(section: Section, known: str | None) -> str:
    lines = [section.heading, f"<!-- section: {section.key} -->", ""]
    if known:
        begin, end = (f"<!-- journal:{edge} {section.key} -->" for edge in ("begin", "end"))
        lines += [begin, known, end, ""]
    return "\n".join([*lines, PROMPT + section.prompt, ""])


def _create(path: Path, text: str) -> bool:
    """Write a file that must not exist. A file written in part holds only our text: it goes."""
    try:
        handle = open(path, "x", encoding="utf-8", newline="")
    except FileExistsError:  # made by another window in this moment
        return False
    try:
        with handle:
            handle.write(text)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return True
