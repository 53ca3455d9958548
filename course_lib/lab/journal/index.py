"""`learning/journal/INDEX.md`: every entry by date and by tag, and how the journal is used.

Only the part between the markers is the course's, as in the ledger's page.
"""

from collections import Counter
from datetime import datetime
from pathlib import Path

from course_lib.lab.journal.entry import Entry, folder
from course_lib.lab.journal.facts import flatten_value
from course_lib.lab.journal.template import Template
from course_lib.lab.ledger import parts
from course_lib.runs.atomic import write_whole

HEAD = "# My journal\n\nWrite here what you like.\n"


def write(entries: list[Entry], events: list[dict], template: Template, now: datetime) -> Path:
    """Write the index and return its path; ValueError when the file there is no text."""
    file = folder() / "INDEX.md"
    text = HEAD
    if file.exists():
        try:
            with open(file, encoding="utf-8", newline="") as handle:  # line ends stay as they are
                text = handle.read()
        except UnicodeDecodeError:
            raise ValueError(f"{file} is not UTF-8 text; save it as UTF-8") from None
    changed = parts.put(text, "index", table(entries, events, template), heading="", now=now)
    folder().mkdir(parents=True, exist_ok=True)
    if changed != text or not file.exists():
        write_whole(file, changed, sync=True)
    return file


def table(entries: list[Entry], events: list[dict], template: Template) -> str:
    """The course's part of the index."""
    count, total = uses(events), len(template.sections)
    rows = [
        "| date | entry | sections written | came back to | found |",
        "| --- | --- | --- | --- | --- |",
    ]
    for entry in reversed(entries):
        name = flatten_value(entry.name).replace("[", "(").replace("]", ")")
        written = f"{len(written_in(entry))} of {total}"
        again, found = count["open", entry.slug], count["search", entry.slug]
        rows.append(
            f"| {flatten_value(entry.day, 10)} | [{name}](<{entry.path.name}>) | {written} "
            f"| {again} | {found} |"
        )
    found = ["## Entries", "\n".join(rows) if entries else "None yet: `course journal new`."]
    if tags := _tags(entries):
        found += ["## Tags", tags]
    if entries:
        found += ["## How I write", habits(entries, template)]
    return "\n\n".join(found)


def uses(events: list[dict]) -> Counter:
    """How often each entry was opened again, and how often a search found it first."""
    found: Counter = Counter()
    for event in events:
        if event["kind"] == "journal" and event.get("action") in ("open", "search"):
            found[event["action"], str(event.get("item"))] += 1
    return found


def written_in(entry: Entry) -> list[str]:
    """The sections that the learner has written."""
    return list(dict.fromkeys(part.key for part in entry.parts if entry.is_answered(part)))


def habits(entries: list[Entry], template: Template) -> str:
    """Which sections are written most and least: what a template could ask for."""
    count = Counter(key for entry in entries for key in written_in(entry))
    titles = {section.key: section.title for section in template.sections}
    rows = [f"- {titles[key]}: {count[key]} of {len(entries)}" for key in titles]
    rows.sort(key=lambda row: -int(row.rsplit(": ", 1)[1].split()[0]))
    return "\n".join(rows)


def _tags(entries: list[Entry]) -> str:
    by_tag: dict[str, list[Entry]] = {}
    for entry in entries:
        for tag in entry.tags:
            by_tag.setdefault(flatten_value(tag, 60), []).append(entry)
    return "\n".join(
        f"- {tag}: " + ", ".join(f"[{flatten_value(e.slug)}](<{e.path.name}>)" for e in by_tag[tag])
        for tag in sorted(by_tag)
    )
