"""The learner's template, `learning/journal/template.yaml`: which sections, in which order.

The upper part of the file is the learner's: other titles, prompts, an order. The course only adds
lines at the end, one per change, and never edits one. The template is the default sections, then
what the learner wrote, then every change in turn; `undo` and `reset` are changes too. So the file
is its own history, and two machines' files merge line by line.
"""

import json
import os
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from pathlib import Path

import yaml

from course_lib.lab.journal import rules
from course_lib.lab.journal.entry import folder, slug
from course_lib.lab.journal.sections import SECTIONS, Section, reduce_title
from course_lib.runs.atomic import write_whole

VERSION = 1
HEAD = """\
# The template of your journal. `course journal template` shows what comes of it.
#
# Under `sections` is what you change by hand, such as a title in your language:
#
#     sections:
#       context: {title: Kontext, prompt: Was hast du gerade getan?}
#       analogy: {required: true}
#       proof: {title: Proof, prompt: The argument in five lines.}     a section of your own
#
# `order: [context, code]` puts those first. Under `changes` the course adds a line when you ask for
# one after an entry; `course journal template --undo` takes the last one back.
v: 1
sections: {}
changes:
"""


@dataclass(frozen=True)
class Template:
    """What the file says: the sections before any change, and the changes."""

    base: tuple[Section, ...]
    changes: tuple[dict, ...] = ()

    @cached_property
    def states(self) -> list[tuple[str, tuple[Section, ...]]]:
        """Day and sections after each change, the first without any."""
        stack, found = [self.base], [("", self.base)]
        for change in self.changes:
            rule = str(change.get("rule", ""))
            if rule == "undo":
                stack = stack[:-1] or [self.base]
            elif rule == "reset":
                stack.append(self.base)
            else:
                stack.append(rules.apply(change, stack[-1]))
            found.append((str(change.get("on", "")), stack[-1]))
        return found

    @property
    def sections(self) -> tuple[Section, ...]:
        """As of now."""
        return self.states[-1][1]

    def on(self, day: str) -> tuple[Section, ...]:
        """As of the end of a day: an entry is not held to what was asked for later."""
        return [sections for changed, sections in self.states if changed <= day][-1]

    @cached_property
    def known(self) -> dict[str, Section]:
        """Every section there ever was in this template, by key."""
        return {s.key: s for s in SECTIONS} | {
            s.key: s for _, sections in self.states for s in sections
        }

    @cached_property
    def names(self) -> dict[str, str]:
        """Reduced title -> key: the default titles, their variants, and the learner's own."""
        found = {}
        for section in (*SECTIONS, *self.known.values()):
            for name in (section.title, section.key, *section.aliases):
                found[reduce_title(name)] = section.key
        return found

    @cached_property
    def prompts(self) -> frozenset[str]:
        every = [SECTIONS, *(sections for _, sections in self.states)]
        return frozenset(section.prompt for sections in every for section in sections)

    def undoable(self) -> bool:
        """Whether an undo would take something back."""
        depth = 0
        for change in self.changes:
            depth = max(depth - 1, 0) if change.get("rule") == "undo" else depth + 1
        return depth > 0


def file() -> Path:
    """Where the template is, whether or not the learner has one."""
    return folder() / "template.yaml"


def load() -> Template:
    """The learner's template, the default one without a file; ValueError when it is unreadable."""
    try:
        return parse(_read())
    except FileNotFoundError:
        return Template(SECTIONS)


def _read() -> str:
    """The file as it is, line ends included."""
    try:
        with open(file(), encoding="utf-8", newline="") as handle:
            return handle.read()
    except UnicodeDecodeError:
        raise ValueError(f"{file()} is not UTF-8 text; save it as UTF-8") from None


def parse(text: str) -> Template:
    """The template that a file's text describes; ValueError says what in it can't be read."""
    data = _data(text)
    sections, changes = data.get("sections") or {}, data.get("changes") or []
    if not isinstance(sections, dict) or not isinstance(changes, list):
        raise ValueError(f"{file()}: `sections` must be a table and `changes` a list")
    if not all(isinstance(change, dict) for change in changes):
        raise ValueError(f"{file()}: each of `changes` must read {{on: 2026-11-20, rule: ...}}")
    return Template(
        _order_sections(_override_sections(sections), data.get("order")), tuple(changes)
    )


def _data(text: str) -> dict:
    if line := _conflict(text):
        raise ValueError(
            f"{file()}, line {line}: git left conflict markers; keep the lines of "
            "both sides, delete the three markers, run this again"
        )
    try:
        data = yaml.load(text, Loader=yaml.BaseLoader) or {}  # every value is text
    except (yaml.YAMLError, RecursionError) as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise ValueError(
            f"{file()}{where}: {getattr(problem, 'problem', problem)}; correct it, "
            "or rename the file to begin with the default one"
        ) from None
    if not isinstance(data, dict):
        raise ValueError(f"{file()} must begin with `v: {VERSION}`, as a table of YAML")
    if data.get("v", str(VERSION)) != str(VERSION):
        raise ValueError(
            f"{file()} is of version {data['v']}, this course reads {VERSION}: update the course"
        )
    return data


def _conflict(text: str) -> int | None:
    return next(
        (
            number
            for number, line in enumerate(text.splitlines(), 1)
            if line.startswith(("<<<<<<< ", ">>>>>>> "))
        ),
        None,
    )


def _override_sections(chosen: dict) -> tuple[Section, ...]:
    found = {section.key: section for section in SECTIONS}
    for key, fields in chosen.items():
        if not isinstance(fields, dict):
            raise ValueError(f"{file()}: write `{key}: {{title: ...}}`, got {fields!r}")
        old = found.get(key) or Section(key=_read_name(key), title=str(key), prompt="")
        title, prompt = str(fields.get("title", old.title)), str(fields.get("prompt", old.prompt))
        required = str(fields.get("required", old.required)).lower() in ("true", "yes", "on")
        found[key] = replace(
            old, title=" ".join(title.split()), prompt=" ".join(prompt.split()), required=required
        )
    return tuple(found.values())


def _read_name(key) -> str:
    try:
        return slug(str(key))
    except ValueError as problem:
        raise ValueError(f"{file()}: {problem}") from None


def _order_sections(sections: tuple[Section, ...], order) -> tuple[Section, ...]:
    if order is None:
        return sections
    if not isinstance(order, list):
        raise ValueError(f"{file()}: `order` must be a list of sections, got {order!r}")
    unknown = [key for key in order if key not in {s.key for s in sections}]
    if unknown:
        known = ", ".join(section.key for section in sections)
        raise ValueError(f"{file()}: `order` names {unknown[0]!r}; the sections are {known}")
    return tuple(sorted(sections, key=lambda s: order.index(s.key) if s.key in order else 99))


def add(change: dict, *, today: date) -> Template:
    """Append one change and return the template that follows; the lines above stay as they are.

    ValueError, and nothing is written, for a file that takes no line at its end.
    """
    current = load()
    change = {"on": today.isoformat(), **change}
    before = _read() if file().exists() else HEAD
    line = f"- {json.dumps(change, ensure_ascii=False)}\n"
    text = before.removesuffix("\n") + "\n" + line
    try:
        changed = parse(text)
    except ValueError:
        changed = None
    if changed is None or changed.changes != (*current.changes, change):
        raise ValueError(
            f"{file()}: no line can be added at its end; make `changes:` the last of "
            f"the file, with one line per change, or add there: {line}"
        )
    os.makedirs(folder(), exist_ok=True)
    write_whole(file(), text, sync=True)
    return changed
