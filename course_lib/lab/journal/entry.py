"""One entry of the journal, read: front matter, title, sections, and which lines are whose.

Read with patience, since a learner edits it by hand: whatever is missing or broken is noted, and
the rest is still understood. Nothing here changes an entry.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import yaml

from course_lib.lab.home import home
from course_lib.lab.journal.sections import reduce_title

NAME = re.compile(r"(\d{4}-\d\d-\d\d)-(.+)")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*$")
UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
KEY = re.compile(r"<!--\s*section:\s*([\w-]+)\s*-->")
BEGIN, END = re.compile(r"<!--\s*journal:begin\b"), re.compile(r"<!--\s*journal:end\b")
PROMPT = "> [ ] "
NOT_ENTRIES = ("index.md", "readme.md")


def folder() -> Path:
    """Where the entries are, whether or not there are any."""
    return home() / "learning" / "journal"


def files() -> list[Path]:
    """The entries' files, oldest first."""
    return sorted(
        p for p in folder().glob("*.md") if p.name.casefold() not in NOT_ENTRIES and p.is_file()
    )


def slug(text: str) -> str:
    """A name for a file, in any script: "KV cache" -> "kv-cache". ValueError when none is left."""
    words = re.sub(r"[\W_]+", "-", unicodedata.normalize("NFKC", text).casefold()).strip("-")
    short = words.encode()[:120].decode(errors="ignore").strip("-")  # file names end at 255 bytes
    if not short:
        raise ValueError(f"{text!r} has no letter or digit to name a file by")
    return short


@dataclass
class Part:
    """A section as it stands in an entry; lines count from 1."""

    key: str | None
    title: str
    level: int
    line: int
    end: int = 0
    """The last line of its body."""


@dataclass
class Entry:
    """An entry and what is known of each line."""

    path: Path
    text: str
    names: dict[str, str] = field(repr=False)
    """Reduced title -> section key."""
    prompts: Iterable[str] = field(default=(), repr=False)
    undecodable: int = 0
    """Bytes that are no UTF-8."""

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def slug(self) -> str:
        return self.path.stem

    @cached_property
    def _front(self) -> tuple[dict, int, str | None]:
        """The front matter, its last line, and what is wrong with it."""
        if self.lines[0].rstrip() != "---":
            return {}, 0, "there is none"
        ends = [i for i, line in enumerate(self.lines[1:], 2) if line.rstrip() in ("---", "...")]
        if not ends:
            return {}, 1, "it begins and does not end"
        try:
            data = yaml.load("\n".join(self.lines[1 : ends[0] - 1]), Loader=yaml.BaseLoader)
        except (yaml.YAMLError, RecursionError) as problem:
            return {}, ends[0], f"it is not YAML: {getattr(problem, 'problem', None) or problem}"
        if not isinstance(data or {}, dict):
            return {}, ends[0], "it is not a table of `name: value` lines"
        return data or {}, ends[0], None

    @property
    def front(self) -> dict:
        return self._front[0]

    @property
    def front_problem(self) -> str | None:
        return self._front[2]

    @property
    def body(self) -> int:
        """The first line after the front matter."""
        return self._front[1] + 1

    def front_line(self, key: str) -> int:
        """The line of the front matter that sets `key`, else its first."""
        for number, line in enumerate(self.lines[: self.body - 1], 1):
            if line.startswith(f"{key}:"):
                return number
        return 1

    @cached_property
    def kinds(self) -> list[str]:
        """Of each line: front, heading, fence, code, comment, machine, prompt, blank or text."""
        kinds, fence, machine, comment = ["front"] * (self.body - 1), "", False, False
        for line in self.lines[self.body - 1 :]:
            opened = FENCE.match(line)
            if fence:
                closed = opened and opened[1].startswith(fence) and not opened[2].strip()
                kinds.append("fence" if closed else "code")
                fence = "" if closed else fence
            elif comment:
                kinds.append("comment")
                comment = "-->" not in line
            elif machine and not HEADING.match(line) and not line.startswith(PROMPT):
                kinds.append("machine")  # a part without its end goes no further than that
                machine = not END.search(line)
            elif BEGIN.search(line):
                kinds.append("machine")
                machine = True
            else:
                machine = False
                kinds.append(self._kind(line, opened))
                fence = opened[1] if opened else ""
                comment = kinds[-1] == "comment" and "-->" not in line
        return self._underlined_heading(kinds)

    def _kind(self, line: str, opened) -> str:
        if not line.strip():
            return "blank"
        if opened:
            return "fence"
        if HEADING.match(line):
            return "heading"
        if line.lstrip().startswith("<!--") and not line.partition("-->")[2].strip():
            return "comment"
        if line.startswith(PROMPT.rstrip()):
            return "text" if self._continues_prompt(line) else "prompt"
        return "text"

    def _continues_prompt(self, line: str) -> bool:
        """Somebody wrote on behind the prompt, on its own line."""
        said = line.removeprefix(PROMPT.rstrip()).strip()
        return said not in self.prompts and any(said.startswith(p) for p in self.prompts if p)

    def _underlined_heading(self, kinds: list[str]) -> list[str]:
        """The other way to write a heading: a line of text over a line of - or =."""
        for i in range(1, len(kinds)):
            if kinds[i] == kinds[i - 1] == "text" and UNDERLINE.match(self.lines[i]):
                alone = i < 2 or kinds[i - 2] != "text"
                if alone and not self.lines[i - 1].lstrip().startswith(("|", "-", "*", ">")):
                    kinds[i - 1], kinds[i] = "heading", "comment"
        return kinds

    @cached_property
    def headings(self) -> list[Part]:
        """All headings, with the section each begins, if any."""
        found = []
        for number, (line, kind) in enumerate(zip(self.lines, self.kinds, strict=True), 1):
            if kind != "heading":
                continue
            match = HEADING.match(line)
            level = len(match[1]) if match else 1 if "=" in self.lines[number] else 2
            title = KEY.sub("", match[2] if match else line).strip()
            found.append(Part(self._marked_key(number), title, level, number))
        self._name(found)
        return found

    def _marked_key(self, number: int) -> str | None:
        """The key in a comment on the heading's line or on the next that is not blank."""
        after = next((line for line in self.lines[number : number + 3] if line.strip()), "")
        marked = KEY.search(self.lines[number - 1]) or KEY.search(after)
        return marked[1] if marked else None

    def _name(self, headings: list[Part]) -> None:
        """Sections known by their title, at the level where most are: deeper ones are details.

        "Example" under "Mathematics" is a part of it, not the section of that name.
        """
        named = {h.line: self.names.get(reduce_title(h.title)) for h in headings if h.level > 1}
        levels = [h.level for h in headings if h.key or named.get(h.line)]
        usual = max(levels, key=lambda level: (levels.count(level), level), default=0)
        for heading in headings:
            if heading.key is None and heading.level <= usual:
                heading.key = named.get(heading.line)

    @cached_property
    def parts(self) -> list[Part]:
        """The sections in their order; each ends at the next one, or at a heading of its level."""
        found = [part for part in self.headings if part.key]
        for part in found:
            after = [
                h.line
                for h in self.headings
                if h.line > part.line and (h.key or h.level <= part.level)
            ]
            part.end = (after[0] - 1) if after else len(self.lines)
        return found

    @cached_property
    def title(self) -> Part | None:
        return next((part for part in self.headings if part.level == 1), None)

    def own_lines(self, part: Part | None = None) -> list[tuple[int, str]]:
        """(line, text) of what the learner wrote, in one section or in all of the entry."""
        first, last = (part.line + 1, part.end) if part else (self.body, len(self.lines))
        kinds = ("text", "code", "fence") if part else ("text", "code", "fence", "heading")
        return [
            (n, self.lines[n - 1]) for n in range(first, last + 1) if self.kinds[n - 1] in kinds
        ]

    def is_answered(self, part: Part) -> bool:
        """The learner wrote something under it; an empty code block is nothing."""
        return any(self.kinds[n - 1] != "fence" for n, line in self.own_lines(part) if line.strip())

    @property
    def day(self) -> str:
        """The date in the front matter, else the one in the file's name, as text."""
        match = NAME.fullmatch(self.slug)
        return str(self.front.get("date", match[1] if match else ""))

    @property
    def name(self) -> str:
        """What it is about: its heading, else its file's name."""
        return str(self.front.get("title") or (self.title.title if self.title else self.slug))

    @property
    def tags(self) -> list[str]:
        return [tag.lstrip("#") for tag in self._list_names("tags")]

    @property
    def concepts(self) -> list[str]:
        return self._list_names("concepts")

    def _list_names(self, key: str) -> list[str]:
        """A list of the front matter; one value alone counts as a list of it."""
        found = self.front.get(key, [])
        return [str(one) for one in (found if isinstance(found, list) else [found])]


def read(path: Path, template) -> Entry:
    """The entry in a file; bytes that are no UTF-8 are shown as a replacement, never written."""
    raw = path.read_bytes()
    try:
        text, bad = raw.decode("utf-8-sig"), 0
    except UnicodeDecodeError:
        text = raw.decode("utf-8-sig", errors="replace")
        bad = text.count("\ufffd")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return Entry(path, text, template.names, template.prompts, bad)


def entries(template) -> list[Entry]:
    """All entries, oldest first."""
    return [read(path, template) for path in files()]
