"""`course journal check`: what in an entry is missing, wrong, or does not add up.

It looks at form and arithmetic, in any language; what the learner thinks is not its business.
Sections are known by the line `<!-- section: key -->` below a heading, or by a title of the
template; a section of another name is the learner's own and never a fault.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from course_lib.lab.journal.dimensions import dimensions
from course_lib.lab.journal.entry import BEGIN, END, NAME, Entry
from course_lib.lab.journal.finding import Finding, shorten_text
from course_lib.lab.journal.new import VERSION
from course_lib.lab.journal.references import links, references
from course_lib.lab.journal.sums import sums
from course_lib.lab.journal.template import Template

DAY = re.compile(r"\d{4}-\d\d-\d\d")
TAG = re.compile(r"#?(?=[\w/.+-]*[^\W\d_])\w[\w/.+-]*")
AHEAD = timedelta(hours=14)
"""An entry may come from a machine further east: no clock on earth is more ahead of UTC."""


@dataclass(frozen=True)
class Desk:
    """What an entry is held against."""

    template: Template
    now: datetime
    entries: frozenset[str] = frozenset()
    """Names of all entries, without `.md`."""
    concepts: frozenset[str] = frozenset()
    roots: tuple[Path, ...] = field(default=())
    """Folders that references may start from."""


def lint(entry: Entry, desk: Desk) -> list[Finding]:
    """All findings, in the order of the lines. After a merge, or by a later course: only that."""
    for stopper in (_merge_marks, _future):
        if found := list(stopper(entry, desk)):
            return found
    checks: tuple[Callable, ...] = (
        _text,
        _front,
        _date,
        _markers,
        _sections,
        _order,
        _tags,
        lambda entry, desk: references(entry, desk.roots),
        lambda entry, desk: links(entry, desk.entries, desk.concepts),
        lambda entry, desk: sums(entry),
        lambda entry, desk: dimensions(entry),
    )
    return sorted(finding for check in checks for finding in check(entry, desk))


def _merge_marks(entry: Entry, desk: Desk) -> Iterator[Finding]:
    for number, line in enumerate(entry.lines, 1):
        if line.startswith(("<<<<<<< ", ">>>>>>> ")):
            yield Finding(
                number,
                "CONFLICT",
                "git could not merge two versions of this entry",
                "one text",
                shorten_text(line),
                "keep what you want of both sides, delete the lines <<<<<<<, ======= and >>>>>>>",
            )
            return


def _future(entry: Entry, desk: Desk) -> Iterator[Finding]:
    version = str(entry.front.get("v", VERSION))
    if not (version.isdigit() and int(version) <= VERSION):
        yield Finding(
            entry.front_line("v"),
            "VERSION",
            "this entry was made by another course",
            f"v: {VERSION}",
            f"v: {shorten_text(version)}",
            "update the course; nothing else was checked",
        )


def _text(entry: Entry, desk: Desk) -> Iterator[Finding]:
    if entry.undecodable:
        bad = next(n for n, line in enumerate(entry.lines, 1) if "\ufffd" in line)
        yield Finding(
            bad,
            "ENCODING",
            "some bytes are no UTF-8 text",
            "a file saved as UTF-8",
            f"{entry.undecodable} unreadable places, the first on this line",
            "save the file as UTF-8 in your editor; the words are still there",
        )
    fences = [n for n, kind in enumerate(entry.kinds, 1) if kind == "fence"]
    last_code = entry.kinds and entry.kinds[-1] in ("code", "fence") and len(fences) % 2
    if last_code:
        yield Finding(
            fences[-1],
            "FENCE",
            "a block of code begins here and never ends",
            "a line that closes it",
            f"code down to line {len(entry.lines)}",
            f"write {entry.lines[fences[-1] - 1].strip()[:3]} on a line below the code",
        )


def _front(entry: Entry, desk: Desk) -> Iterator[Finding]:
    if entry.front_problem:
        yield Finding(
            1,
            "FRONT",
            "the front matter cannot be read",
            "`---`, lines such as `date: 2026-11-20` and `tags: [a, b]`, `---`",
            entry.front_problem,
            "compare with a new entry: course journal new SUBJECT",
        )
    if entry.title is None:
        yield Finding(
            entry.body,
            "TITLE",
            "the entry has no title",
            "one line `# Title`",
            "none",
            "write it as the first line below the front matter",
        )


def _date(entry: Entry, desk: Desk) -> Iterator[Finding]:
    line, name = entry.front_line("date"), NAME.fullmatch(entry.slug)
    if name is None or not _day(name[1]):
        yield Finding(
            1,
            "NAME",
            "the file's name is not that of an entry",
            "YYYY-MM-DD-slug.md",
            entry.path.name,
            "rename the file, and links to it",
        )
    if entry.front_problem:
        return
    written = str(entry.front.get("date", "none"))
    if not _day(written):
        yield Finding(
            line,
            "DATE",
            "there is no such date",
            "a day, as YYYY-MM-DD",
            shorten_text(written),
            "correct the line `date:`",
        )
        return
    if _day(written) > (desk.now.astimezone(UTC) + AHEAD).date():
        yield Finding(
            line,
            "DATE",
            "the date lies in the future",
            f"{desk.now.date()} or before",
            written,
            "correct it, or the clock of this machine",
        )
    if name and _day(name[1]) and name[1] != written:
        yield Finding(
            line,
            "DATE",
            "date and file name differ",
            f"{name[1]}, as in the name",
            written,
            "correct the date, or rename the file",
        )
    titled = DAY.search(entry.title.title) if entry.title else None
    if titled and titled[0] != written:
        yield Finding(
            entry.title.line,
            "DATE",
            "date and title differ",
            written,
            titled[0],
            "correct the title or the line `date:`",
        )


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if DAY.fullmatch(text) else None
    except ValueError:
        return None


def _markers(entry: Entry, desk: Desk) -> Iterator[Finding]:
    """The course's facts begin and end; without an end they reach to the next heading."""
    begun = None
    for number, (line, kind) in enumerate(zip(entry.lines, entry.kinds, strict=True), 1):
        if kind in ("code", "fence"):
            continue
        if BEGIN.search(line) and begun is None:
            begun = number
        elif END.search(line) and begun is not None:
            begun = None
        elif kind == "heading" and begun is not None:
            break
        elif END.search(line):
            yield _marker(number, "begin")
    if begun is not None:
        yield _marker(begun, "end")


def _marker(line: int, missing: str) -> Finding:
    return Finding(
        line,
        "MARKER",
        f"the `journal:{missing}` that belongs to this line is missing",
        "a pair of them around what the course filled in",
        f"no `journal:{missing}`",
        "delete this line: what stands there is then yours",
    )


def _sections(entry: Entry, desk: Desk) -> Iterator[Finding]:
    """Required sections are there, once, and written."""
    seen: dict[str, int] = {}
    for part in entry.parts:
        if part.key in seen:
            yield Finding(
                part.line,
                "TWICE",
                f"the section {part.title!r} stands here again",
                f"once, on line {seen[part.key]}",
                "a second one",
                "join the two, or give this one another title",
            )
        seen.setdefault(part.key, part.line)
    for section in desk.template.on(entry.day):
        parts = [part for part in entry.parts if part.key == section.key]
        if not section.required or any(map(entry.is_answered, parts)):
            continue
        if not parts:
            yield Finding(
                len(entry.lines),
                "MISSING",
                f"the section {section.title!r} is missing",
                f"{section.heading}",
                "no such heading",
                f"write it; under another title, put <!-- section: {section.key} --> "
                "below the heading",
            )
        else:
            yield Finding(
                parts[0].line,
                "EMPTY",
                f"{section.title!r} is not written yet",
                shorten_text(section.prompt, 200),
                "the prompt, and nothing below it" if _has_prompt(entry, parts[0]) else "nothing",
                "write below the heading, or make the section optional in the template: "
                "`required: false`",
            )


def _has_prompt(entry: Entry, part) -> bool:
    return "prompt" in entry.kinds[part.line : part.end]


def _order(entry: Entry, desk: Desk) -> Iterator[Finding]:
    """In the order of the template, as it is or as it once was."""
    parts = list({part.key: part for part in reversed(entry.parts)}.values())
    parts.sort(key=lambda part: part.line)
    found = None
    for _, sections in reversed(desk.template.states):
        place = {section.key: i for i, section in enumerate(sections)}
        placed = [part for part in parts if part.key in place]
        wrong = [
            (a, b) for a, b in zip(placed, placed[1:], strict=False) if place[a.key] > place[b.key]
        ]
        if not wrong:
            return
        found = found or wrong[0]
    before, after = found
    yield Finding(
        after.line,
        "ORDER",
        f"{after.title!r} comes too late",
        f"{after.title!r} in front of {before.title!r}",
        f"behind it, line {before.line}",
        "move the section, or set `order:` in template.yaml",
    )


def _tags(entry: Entry, desk: Desk) -> Iterator[Finding]:
    part = next((part for part in entry.parts if part.key == "tags"), None)
    below = (
        []
        if part is None
        else re.findall(
            r"(?<![\w&/#])#([\w][\w/.+-]*)",
            " ".join(
                entry.lines[i]
                for i in range(part.line, part.end)
                if entry.kinds[i] in ("text", "machine")
            ),
        )
    )
    front, line = [tag for tag in entry.tags if tag], entry.front_line("tags")
    if not front and not below:
        yield Finding(
            part.line if part else line,
            "TAGS",
            "nothing to search this entry by",
            "at least one tag, such as #attention",
            "none",
            "add one to `tags:` at the top, or under Tags",
        )
    for tag in front:
        if not TAG.fullmatch(tag):
            yield Finding(
                line,
                "TAGS",
                "this is no tag",
                "letters, digits and - without blanks",
                shorten_text(tag),
                "write kv-cache for KV cache",
            )
    differing = {t.casefold() for t in front} ^ {t.casefold() for t in below}
    if front and below and differing:
        yield Finding(
            part.line,
            "TAGS",
            "the tags at the top and the tags here differ",
            "the same in both places",
            f"only in one: {', '.join(sorted(differing))}",
            "add it to the other place, or delete it",
        )
