"""The journal as a chapter of the book: pages under `learning/journal/book/`, for this reader only.

Pages hold what was written; open prompts stay out. `course book` takes the chapter up and then
builds into a folder of its own, so that the public site can never hold it. Code is shown, not run.
"""

import re
from pathlib import Path

from course_lib.lab.journal.entry import NAME, Entry, folder
from course_lib.lab.journal.facts import flatten_value
from course_lib.lab.journal.references import ADDRESS, LINK, WIKI
from course_lib.lab.ledger.parts import digest
from course_lib.runs.atomic import write_whole

MARK = "<!-- written by `course journal export` {0}; change the entry, not this page -->"
MARKED = re.compile(r"\n<!-- written by `course journal export` (\w+);.*-->\s*$")
CELL = re.compile(r"^([ \t>]*(?:`{3,}|~{3,}|:{3,}))\s*\{code(?:-cell)?\}.*$", re.M)


def target() -> Path:
    """Where the chapter is, whether or not there is one."""
    return folder() / "book"


def export(entries: list[Entry]) -> list[Path]:
    """Write the chapter anew, its first page first; ValueError when a page there was edited."""
    _refuse_foreign()
    wanted = {"index.md": _contents(entries)} | {e.path.name: page(e, entries) for e in entries}
    target().mkdir(parents=True, exist_ok=True)
    write_whole(target() / ".gitignore", "*\n", sync=False)
    for name, text in wanted.items():
        marked = f"{text.rstrip()}\n\n{MARK.format(digest(text))}\n"
        path = target() / name
        if not path.exists() or path.read_text(encoding="utf-8") != marked:
            write_whole(path, marked, sync=False)
    for file in target().glob("*.md"):
        if file.name not in wanted:
            file.unlink()
    return [target() / name for name in wanted]


def remove() -> bool:
    """Take the chapter away again; False when there was none. ValueError as in `export`."""
    if not target().is_dir():
        return False
    _refuse_foreign()
    for file in (*target().glob("*.md"), target() / ".gitignore"):
        file.unlink(missing_ok=True)
    if not any(target().iterdir()):
        target().rmdir()
    return True


def page(entry: Entry, entries: list[Entry]) -> str:
    """One entry as a page: title, date, the sections that were written."""
    open_parts = {
        n
        for part in entry.parts
        if not _is_shown(entry, part)
        for n in range(part.line, part.end + 1)
    }
    title = entry.title.line if entry.title else 0
    lines = []
    for number, (line, kind) in enumerate(zip(entry.lines, entry.kinds, strict=True), 1):
        if kind in ("front", "prompt", "comment") or number in open_parts or number == title:
            continue
        if kind == "machine" and line.startswith("<!--"):
            continue
        lines.append(line if kind in ("code", "fence") else _rewrite_links(line, entries))
    body = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    heading = entry.title.title if entry.title else entry.name
    return f"# {heading}\n\n{CELL.sub(_shown_only, body)}\n"


def _is_shown(entry: Entry, part) -> bool:
    return entry.is_answered(part) or "machine" in entry.kinds[part.line : part.end]


def _shown_only(match: re.Match) -> str:
    return match[1].replace(":", "`") + "python"


def _rewrite_links(line: str, entries: list[Entry]) -> str:
    """Links as they are seen from one folder further down; [[name]] as a link to the entry."""
    own = {e.path.name for e in entries}

    def move_target(match: re.Match) -> str:
        target = match["spaced"] or match["plain"]
        if ADDRESS.match(target) or target.partition("#")[0] in own:
            return match[0]
        at = match.start("spaced" if match["spaced"] else "plain") - match.start()
        return f"{match[0][:at]}../{match[0][at:]}"

    return WIKI.sub(lambda match: _wiki(match[1].strip(), entries), LINK.sub(move_target, line))


def _wiki(name: str, entries: list[Entry]) -> str:
    for entry in reversed(entries):
        dated = NAME.fullmatch(entry.slug)
        if name in (entry.slug, entry.path.name) or dated and name == dated[2]:
            return f"[{flatten_value(entry.name)}](<{entry.path.name}>)"
    return name


def _contents(entries: list[Entry]) -> str:
    rows = [
        f"- {flatten_value(e.day, 10)} [{flatten_value(e.name)}](<{e.path.name}>)"
        for e in reversed(entries)
    ]
    note = "Private pages, built from `learning/journal` on this machine."
    return "\n".join(["# My journal", "", note, "", *(rows or ["No entry yet."])]) + "\n"


def _refuse_foreign() -> None:
    """Every page there must be as the export wrote it, or it holds something of the learner's."""
    for file in sorted(target().glob("*.md")):
        text = file.read_text(encoding="utf-8", errors="replace")
        mark = MARKED.search(text)
        if mark is None or mark[1] != digest(text[: mark.start()]):
            raise ValueError(
                f"{file} was edited or is your own: move it out of that folder, then "
                "export again; nothing was written"
            )
