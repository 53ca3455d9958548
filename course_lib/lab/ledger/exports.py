"""The record in the forms of other programs: Anki and spreadsheets.

Each function is pure and returns the file's text. What goes out is what was asked for; nothing is
sent anywhere.
"""

import argparse
import csv
import html
import io
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from course_lib.lab.home import home
from course_lib.lab.ledger import reviews
from course_lib.lab.ledger.ending import now_state
from course_lib.lab.ledger.state import State
from course_lib.lab.reviews.items import Item

DECK = "GPT training by hand"
COLUMNS = (
    "t", "kind", "item", "exercise", "concepts", "result", "code", "attempt", "hint", "rating",
    "confidence", "secs", "guess", "measured", "unit", "number", "started", "ended", "note", "text",
)  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """`course ledger export FORMAT [FILE]`: writes a new file, never over an old one.

    ValueError when the file exists, or when there is nothing to export yet.
    """
    make, ending = FORMATS[args.format]
    state = now_state()
    file = args.file or _free_name(args.format, ending, state.now)
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
    for item in _scheduled_items(state):
        tags = " ".join([item.lesson, *item.concepts])
        fields = (f"course-{item.id}", _html(item.question), _html(item.answer), tags)
        lines.append("\t".join(fields))
    return "\n".join(lines) + "\n"


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


FORMATS: dict[str, tuple[Callable[[State], str], str]] = {
    "anki": (anki, ".txt"),
    "csv": (table, ".csv"),
}


def _free_name(name: str, ending: str, now: datetime) -> Path:
    """A name in learning/export that is not taken."""
    folder = home() / "learning" / "export"
    stem = f"{name}-{now:%Y-%m-%d}"
    taken = {path.name for path in folder.glob(f"{stem}*")}
    count = 1
    while (file := f"{stem}{f'-{count}' if count > 1 else ''}{ending}") in taken:
        count += 1
    return folder / file


def _scheduled_items(state: State) -> list[Item]:
    """The review items in the learner's schedule, in the course's order."""
    if not state.schedule:
        raise ValueError("there is nothing to export yet: a passed exercise brings its reviews")
    return [item for name, item in reviews.items().items() if name in state.schedule]


def _html(text: str) -> str:
    return html.escape(text.strip()).replace("\t", "    ").replace("\n", "<br>")
