"""References that must lead somewhere: file:line into code, links to other entries."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from course_lib.lab.journal.entry import NAME, Entry
from course_lib.lab.journal.finding import Finding

SOURCES = "py|pyi|md|ipynb|json|yaml|yml|toml|cfg|ini|txt|sh|c|h|cc|cpp|hpp|cu|cuh|mjs|js|ts|rs|go"
REFERENCE = re.compile(
    rf"(?<![\w/.:\\-])((?:~|[A-Za-z]:)?[\w./\\+-]*[\w+-]\.(?:{SOURCES})):(\d{{1,7}})(?:-(\d{{1,7}}))?(?!\w)"
)
LINK = re.compile(r"(?<!\\)\[[^\]\n]*\]\(\s*(?:<(?P<spaced>[^>\n]+)>|(?P<plain>[^)\s<]+))[^)\n]*\)")
WIKI = re.compile(r"\[\[([^\]|#\n]+)(?:#[^\]|\n]*)?(?:\|[^\]\n]*)?\]\]")
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.IGNORECASE)


def references(entry: Entry, roots: tuple[Path, ...]) -> Iterator[Finding]:
    """Each file:line names a file that exists and a line that it has.

    Paths start from the course, from the entry's folder, or from a folder under `roots:` in the
    front matter: an entry may be about any code on this machine.
    """
    named = entry.front.get("roots", [])
    own = [Path(str(r)).expanduser() for r in (named if isinstance(named, list) else [named])]
    places = [*roots, entry.path.parent, *own]
    for number, line in _searched_lines(entry, code=True):
        for match in REFERENCE.finditer(line):
            file = _find(match[1], places)
            length = _length(file) if file else 0
            if file is None:
                yield Finding(
                    number,
                    "REF",
                    "this file is not there",
                    "a file of the course, or below a folder that `roots:` at the top names",
                    match[0],
                    "correct the path, or add `roots: [folder of that code]`",
                )
            elif not 1 <= int(match[2]) <= int(match[3] or match[2]) <= length:
                yield Finding(
                    number,
                    "REF",
                    "this line is not there",
                    f"1 to {length}",
                    match[0],
                    "look the line up again: the file has changed",
                )


def links(entry: Entry, entries: frozenset[str], concepts: frozenset[str]) -> Iterator[Finding]:
    """Links to other files exist; [[name]] is an entry, with or without its date, or a concept."""
    names = entries | {match[2] for match in map(NAME.fullmatch, entries) if match} | concepts
    for number, line in _searched_lines(entry, code=False):
        for match in LINK.finditer(line):
            target = unquote(match["spaced"] or match["plain"]).partition("#")[0]
            if ADDRESS.match(target) or not target:
                continue
            if not _exists(entry.path.parent / target):
                yield _dangling_link(number, match[0], target)
        for match in WIKI.finditer(line):
            if match[1].strip().removesuffix(".md") not in names:
                yield _dangling_link(number, match[0], match[1])


def _dangling_link(number: int, got: str, target: str) -> Finding:
    return Finding(
        number,
        "LINK",
        "this link leads nowhere",
        "an entry or a file that exists",
        got,
        f"course journal search {Path(target).stem} finds its name; or write the entry",
    )


def _searched_lines(entry: Entry, *, code: bool) -> Iterator[tuple[int, str]]:
    """Lines of the learner and of the course, without code in backticks where that is not meant."""
    kinds = ("text", "machine", "code") if code else ("text", "machine")
    for number, (line, kind) in enumerate(zip(entry.lines, entry.kinds, strict=True), 1):
        if kind in kinds:
            yield number, line if code else re.sub(r"`[^`]*`", " ", line)


def _find(name: str, places: list[Path]) -> Path | None:
    path = Path(name.replace("\\", "/")).expanduser()
    found = [path] if path.is_absolute() else [place / path for place in places]
    return next((file for file in found if _exists(file) and file.is_file()), None)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or with a zero byte
        return False


def _length(file: Path) -> int:
    try:
        return len(file.read_bytes().splitlines())
    except OSError:
        return 0
