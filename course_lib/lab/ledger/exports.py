"""The record in the forms of other programs: Anki, Obsidian, CSV, xAPI.

Each function is pure and returns the file's text. What goes out is what was asked for; nothing is
sent anywhere.
"""

import argparse
import csv
import html
import io
import json
import uuid
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from course_lib.lab.home import home
from course_lib.lab.ledger import reviews
from course_lib.lab.ledger.ending import now_state
from course_lib.lab.ledger.state import State
from course_lib.lab.reviews.items import Item
from course_lib.lab.reviews.schedule import Scheduled

DECK = "GPT training by hand"
EASE = 250
"""Obsidian's spaced-repetition plugin starts every card at 2.5."""
COLUMNS = (
    "t", "kind", "item", "exercise", "concepts", "result", "code", "attempt", "hint", "rating",
    "confidence", "secs", "guess", "measured", "unit", "number", "started", "ended", "note", "text",
)  # fmt: skip
VERBS = {"check": "attempted", "review": "answered", "predict": "answered", "hint": "experienced",
         "solution": "experienced", "reveal": "experienced", "session": "terminated",
         "note": "commented", "journal": "commented"}  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """`course ledger export FORMAT [FILE]`: writes a new file, never over an old one.

    ValueError when the file exists, or when there is nothing to export yet.
    """
    make, ending = FORMATS[args.format]
    state = now_state()
    file = args.file or _free(args.format, ending, state.now)
    text = make(state)
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("x", encoding="utf-8", newline="") as opened:
            opened.write(text)
    except FileExistsError:
        raise ValueError(f"{file} exists and is left as it is; name another file") from None
    print(f"written to {file}")
    return 0


def anki(state: State) -> str:
    """A text file for Anki's import. The note's id is the item's, so a second import updates."""
    lines = ["#separator:tab", "#html:true", f"#deck:{DECK}", "#guid column:1", "#tags column:4"]
    for item in _asked(state):
        tags = " ".join([item.lesson, *item.concepts])
        fields = (f"course-{item.id}", _html(item.question), _html(item.answer), tags)
        lines.append("\t".join(fields))
    return "\n".join(lines) + "\n"


def obsidian(state: State) -> str:
    """A note of flashcards, with the dates that its spaced-repetition plugin reads."""
    lines = ["---", "type: reviews", f"date: {state.now:%Y-%m-%d}", "tags: [flashcards]", "---", ""]
    concept = None
    for item in sorted(_asked(state), key=lambda item: item.concepts[:1]):
        if item.concepts[:1] != concept:
            concept = item.concepts[:1]
            lines += [f"## [[{slug}]]" for slug in concept] + [""]
        lines += [*_card(item.question, item.answer), *_date(state.schedule[item.id]), ""]
    return "\n".join(lines)


def table(state: State) -> str:
    """All events as CSV, a row each. The mark at the start tells spreadsheets that it is UTF-8."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([*COLUMNS, "other"])
    for event in state.events:
        cells = event | {"concepts": " ".join(event.get("concepts", ()))}
        other = {k: v for k, v in event.items() if k not in COLUMNS}
        writer.writerow([*(cells.get(name, "") for name in COLUMNS), json.dumps(other)])
    return "\ufeff" + text.getvalue()


def xapi(state: State) -> str:
    """xAPI statements. Their ids come from the events, so a second import adds nothing."""
    seen: dict[str, int] = {}
    found = []
    for event in state.events:
        line = json.dumps(event, sort_keys=True)
        seen[line] = seen.get(line, 0) + 1
        found.append(_statement(event, str(uuid.uuid5(uuid.NAMESPACE_URL, f"{line}{seen[line]}"))))
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


FORMATS: dict[str, tuple[Callable[[State], str], str]] = {
    "anki": (anki, ".txt"),
    "obsidian": (obsidian, ".md"),
    "csv": (table, ".csv"),
    "xapi": (xapi, ".json"),
}


def _free(name: str, ending: str, now: datetime) -> Path:
    """A name in learning/export that is not taken."""
    folder = home() / "learning" / "export"
    stem = f"{name}-{now:%Y-%m-%d}"
    taken = {path.name for path in folder.glob(f"{stem}*")}
    count = 1
    while (file := f"{stem}{f'-{count}' if count > 1 else ''}{ending}") in taken:
        count += 1
    return folder / file


def _asked(state: State) -> list[Item]:
    """The review items in the learner's schedule, in the course's order."""
    if not state.schedule:
        raise ValueError("there is nothing to export yet: a passed exercise brings its reviews")
    return [item for name, item in reviews.items().items() if name in state.schedule]


def _html(text: str) -> str:
    return html.escape(text.strip()).replace("\t", "    ").replace("\n", "<br>")


def _card(question: str, answer: str) -> list[str]:
    """One line when nothing in it could be taken for the separator, else the form over lines."""
    question, answer = question.strip(), answer.strip()
    if "\n" in question + answer or "::" in question + answer:
        # an empty line would end the card
        return [line for line in f"{question}\n?\n{answer}".split("\n") if line.strip()]
    return [f"{question}::{answer}"]


def _date(when: Scheduled) -> list[str]:
    days = max(1, (when.due.date() - when.last.date()).days)
    return [f"<!--SR:!{when.due:%Y-%m-%d},{days},{EASE}-->"]


def _statement(event: dict, name: str) -> dict:
    kind, item = event["kind"], event.get("item") or event["kind"]
    verb = VERBS.get(kind, "interacted")
    if kind == "check":
        verb = "passed" if event.get("result") == "pass" else "failed"
    result = {"success": event["result"] == "pass"} if event.get("result") else {}
    if type(event.get("secs")) in (int, float):
        result["duration"] = f"PT{event['secs']:g}S"
    return {
        "id": name,
        "timestamp": event["t"],
        "actor": {
            "objectType": "Agent",
            "account": {"homePage": "http://localhost/course", "name": "learner"},
        },
        "verb": {"id": f"http://adlnet.gov/expapi/verbs/{verb}", "display": {"en": verb}},
        "object": {
            "id": f"urn:course:{quote(kind, safe='')}:{quote(item, safe='')}",
            "definition": {"name": {"en": item}},
        },
        **({"result": result} if result else {}),
        "context": {"extensions": {"urn:course:event": event}},
    }
