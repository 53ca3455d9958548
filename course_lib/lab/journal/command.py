"""`course journal ...` and `%journal ...`: one parser, one function for each subcommand."""

import argparse
import os
import sys
from datetime import UTC, date, datetime
from pathlib import Path

from course_lib.lab.home import home


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommands. Called for every `course --help`, so nothing else is imported for it."""
    parser.set_defaults(action="list")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")

    def action(name: str, text: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=text, description=text)

    made = action("new", "open today's entry about an exercise, a concept, a lesson or your own")
    made.add_argument("subject", nargs="*", help="default: the exercise you last worked on")
    made.add_argument("--own", action="store_true", help="a subject that is not the course's")
    made.add_argument("--again", action="store_true", help="a second entry on the same day")
    checked = action("check", "what is missing or wrong in an entry; exit status 1 with findings")
    checked.add_argument("path", nargs="?", help="an entry's file or name (default: all entries)")
    searched = action("search", "words over all entries, best first")
    searched.add_argument("words", nargs="+")
    action("index", "write learning/journal/INDEX.md")
    exported = action("export", "the journal as a private chapter of the book")
    exported.add_argument("--remove", action="store_true", help="take the chapter away again")
    asked = action("feedback", "four questions after an entry; they adapt the template")
    asked.add_argument("entry", nargs="?", help="an entry's name (default: the latest)")
    for key, text in (
        ("helped", "which sections helped"),
        ("missing", "what was missing"),
        ("change", "what should change"),
        ("suggest", "what to try"),
    ):
        asked.add_argument(f"--{key}", metavar="TEXT", help=text)
    asked.add_argument("--rule", action="append", metavar="NAME", help="a change you want")
    asked.add_argument("--section", metavar="TITLE", help="add a section of your own")
    shown = action("template", "show the template; take a change back")
    one = shown.add_mutually_exclusive_group()
    one.add_argument("--show", action="store_true", help="sections and changes (default)")
    one.add_argument("--undo", action="store_true", help="take the last change back")
    one.add_argument("--reset", action="store_true", help="take all changes back")
    written = action("assistant", "the journal's structure as files for a coding assistant")
    written.add_argument("--into", type=Path, metavar="DIR", help="default: the course folder")
    action("list", "all entries, latest first (default)")


def run(args: argparse.Namespace) -> int:
    """The subcommand; 0, or 1 when `check` found something. ValueError for what cannot be done."""
    if "NBGRADER_EXECUTION" in os.environ:
        print("The journal is closed while a notebook is graded.")
        return 0
    return ACTIONS[args.action or "list"](args)


def _today() -> date:
    """The learner's day: where the date falls is a matter of their clock, not of UTC."""
    return datetime.now().astimezone().date()


def _relative(path: Path) -> str:
    return str(path.relative_to(home())) if path.is_relative_to(home()) else str(path)


def _open_entry(args: argparse.Namespace) -> int:
    from course_lib.lab import events
    from course_lib.lab.journal.new import open_entry
    from course_lib.lab.journal.subject import latest, subject

    happened = events.read()
    about = subject(" ".join(args.subject) or latest(happened), own=args.own)
    opened = open_entry(about, happened, today=_today(), again=args.again)
    events.record(
        "journal",
        item=opened.path.stem,
        action="new" if opened.made else "open",
        concepts=about.concepts,
    )
    print(_relative(opened.path))
    print(
        "A new entry: write below the prompts, in any language. Then: course journal check "
        f"{opened.path.stem}"
        if opened.made
        else "Today's entry about it was there and is as you left it. --again makes a second one."
    )
    return 0


def _check_entries(args: argparse.Namespace) -> int:
    from course_lib.lab import events
    from course_lib.lab.journal import template as templates
    from course_lib.lab.journal.entry import files, folder, read
    from course_lib.lab.journal.index import written_in
    from course_lib.lab.journal.lint import lint

    template = templates.load()
    whole = not args.path or Path(args.path).resolve() == folder().resolve()
    paths = files() if whole else [_entry_file(args.path)]
    desk, count = _desk(template), 0
    for path in paths:
        entry = read(path, template)
        found = lint(entry, desk)
        count += len(found)
        for finding in found:
            print(finding.text(_relative(path)) + "\n")
        total = len(template.on(entry.day))
        print(
            f"{_relative(path)}: {_findings(len(found))}, {len(written_in(entry))} of {total} "
            "sections written"
        )
        if not whole:
            events.record(
                "journal",
                item=path.stem,
                action="check",
                findings=len(found),
                concepts=entry.concepts,
            )
    if not paths:
        print("No entry yet. The first one: course journal new SUBJECT")
    if not whole and not count:
        _offer_feedback(paths[0].stem)
    return 1 if count else 0


def _findings(count: int) -> str:
    return "no findings" if not count else f"{count} finding" + ("s" if count > 1 else "")


def _desk(template):
    import course_lib
    from course_lib.lab.journal.entry import files
    from course_lib.lab.journal.lint import Desk
    from course_lib.lab.registry import exercises

    cards = exercises().values()
    return Desk(
        template=template,
        now=datetime.now(UTC),
        entries=frozenset(path.stem for path in files()),
        concepts=frozenset(c for card in cards for c in (card.id, *card.teaches, *card.uses)),
        roots=(home(), Path(course_lib.__file__).parents[1]),
    )


def _entry_file(text: str) -> Path:
    from course_lib.lab.journal.entry import NAME, files

    if Path(text).is_file():
        return Path(text).absolute()
    stem = Path(text).name.removesuffix(".md")
    found = [path for path in files() if path.stem == stem]
    found = found or [p for p in files() if (m := NAME.fullmatch(p.stem)) and m[2] == stem][-1:]
    if not found:
        names = ", ".join(path.stem for path in files()[-5:]) or "none yet"
        raise ValueError(f"no entry is called {text!r}; the latest are: {names}")
    return found[0]


def _offer_feedback(slug: str) -> None:
    """After an entry without findings: the four questions, once, and only where one can answer."""
    from course_lib.lab import events

    asked = any(
        e["kind"] == "journal" and e.get("action") == "feedback" and e.get("item") == slug
        for e in events.read()
    )
    if asked:
        return
    if sys.stdin is not None and sys.stdin.isatty():
        _feedback(
            argparse.Namespace(
                entry=slug,
                helped=None,
                missing=None,
                change=None,
                suggest=None,
                rule=None,
                section=None,
            )
        )
    else:
        print(f"Four questions about it: course journal feedback {slug}")


def _search(args: argparse.Namespace) -> int:
    from course_lib.lab import events
    from course_lib.lab.journal import template as templates
    from course_lib.lab.journal.entry import entries
    from course_lib.lab.journal.search import search

    words = " ".join(args.words)
    hits = search(words, entries(templates.load()))
    events.record(
        "journal", item=hits[0].entry.slug if hits else None, action="search", found=len(hits)
    )
    for hit in hits[:20]:
        print(f"{_relative(hit.entry.path)}:{hit.line}  {hit.entry.name}\n    {hit.text[:100]}")
    print(f"{len(hits)} of your entries" if hits else f"no entry holds {words!r}")
    return 0


def _index(args: argparse.Namespace) -> int:
    from course_lib.lab import events
    from course_lib.lab.journal import index
    from course_lib.lab.journal import template as templates
    from course_lib.lab.journal.entry import entries

    template = templates.load()
    print(_relative(index.write(entries(template), events.read(), template, datetime.now(UTC))))
    return 0


def _export(args: argparse.Namespace) -> int:
    from course_lib.lab.journal import export
    from course_lib.lab.journal import template as templates
    from course_lib.lab.journal.entry import entries

    if args.remove:
        print("The chapter is gone." if export.remove() else "There was no chapter.")
        return 0
    pages = export.export(entries(templates.load()))
    print(f"{_relative(export.target())}: {len(pages)} pages, ignored by git.")
    if (home() / "_toc.yml").is_file():
        print(
            "`course book` now builds a private site with them, apart from the public one. "
            "`course journal export --remove` ends that."
        )
    return 0


def _feedback(args: argparse.Namespace) -> int:
    from course_lib.lab import events
    from course_lib.lab.journal import feedback
    from course_lib.lab.journal import template as templates
    from course_lib.lab.journal.entry import files, read

    given = {key: feedback.clean(getattr(args, key) or "") for key in feedback.QUESTIONS}
    silent = any(given.values()) or args.rule or args.section
    path = _entry_file(args.entry) if args.entry else next(reversed(files()), None)
    chosen = feedback.find_rules(args.rule or [])
    template = templates.load()
    answers = given if silent else feedback.ask()
    said = {key: text for key, text in answers.items() if text}
    about = {"item": path.stem, "concepts": read(path, template).concepts} if path else {}
    events.record("journal", **about, action="feedback", **said)
    found = feedback.propose_rules(answers, template.sections)
    chosen += [rule for rule in (found if silent else feedback.choose(found)) if rule not in chosen]
    changes = feedback.adapt(answers, chosen, today=_today())
    if args.section:
        changes.append(feedback.add_section(args.section, today=_today()))
    for line in changes:
        print(f"template  {line}")
    print(
        f"written to {_relative(templates.file())}; `course journal template --undo` takes the "
        "last change back"
        if changes
        else "Noted. The template stays as it is."
    )
    return 0


def _template(args: argparse.Namespace) -> int:
    from course_lib.lab.journal import template as templates

    current = templates.load()
    if args.undo or args.reset:
        if not current.undoable() or (args.reset and current.sections == current.base):
            raise ValueError("there is no change to take back")
        before = current.sections
        current = templates.add({"rule": "undo" if args.undo else "reset"}, today=_today())
        done = "is as before" if current.sections == before else "was changed back"
        print(f"The template {done}; {_relative(templates.file())} keeps the history.")
    for section in current.sections:
        print(
            f"  {'required' if section.required else '        '}  {section.key:<12} "
            f"{section.mark} {section.title}"
        )
    for change in current.changes:
        print(f"  {change.get('on', '')}  {change.get('rule', '')}  {change.get('said', '')}")
    return 0


def _assistant(args: argparse.Namespace) -> int:
    from course_lib.lab.journal import assistant

    for path in assistant.write((args.into or home()).expanduser().absolute()):
        print(f"wrote {_relative(path)}")
    return 0


def _list(args: argparse.Namespace) -> int:
    from course_lib.lab.journal import template as templates
    from course_lib.lab.journal.entry import entries
    from course_lib.lab.journal.index import written_in

    found = entries(templates.load())
    for entry in reversed(found):
        print(f"{entry.slug}  {entry.name}, {len(written_in(entry))} sections written")
    print(
        f"{len(found)} of your entries. The next: course journal new SUBJECT; "
        "all commands: course journal --help"
    )
    return 0


ACTIONS = {"new": _open_entry, "check": _check_entries, "search": _search, "index": _index, "export": _export,
           "feedback": _feedback, "template": _template, "assistant": _assistant,
           "list": _list}  # fmt: skip
