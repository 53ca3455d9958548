"""The views of a lesson: one source, one way.

    notebooks/NN_name.ipynb              what a learner opens: stubs
    solutions/NN_name.ipynb              the same, solved from the library
    grader/source/NN_name/NN_name.ipynb  what nbgrader reads: markers kept, a hidden check
    course_lib/lab/exercises.json        cards, hints and stubs, for the checks outside a notebook
    course_lib/lab/lessons.json          titles, prompts and predictions, for the journal
    course_lib/lab/reviews.json          the review items, in all variants
    course_lib/lab/figures/figures.json  what the live figures say where nothing moves
    course_lib/lab/concepts.json         what is taught and what it stands on, for the ledger
    the book page                        `book_view`, called by Jupyter Book

The same source gives the same bytes: cell ids come from content, keys are sorted.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course_lib.lab.reviews import items
from grader import concepts, review_items
from grader.carry import answer_digest
from grader.figures import render_figures
from grader.lesson import ExerciseSource, LessonSource, lessons
from grader.notes import notes
from grader.plain import plain_markdown

VIEWS = ("notebooks", "solutions", "source")
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
HIDDEN = "### BEGIN HIDDEN TESTS\ncheck({0!r}, fresh=True)\n### END HIDDEN TESTS"


def notebook(lesson: LessonSource, view: str) -> NotebookNode:
    """The lesson as a notebook in one of `VIEWS`; no outputs, ids from content."""
    if view not in VIEWS:
        raise ValueError(f"no view {view!r}; the views are {', '.join(VIEWS)}")
    taken: dict[str, int] = {}
    cells = []
    for cell in lesson.source.cells:
        if cell.cell_type == "code":
            if exercise := lesson.exercises.get(cell.metadata.get("exercise")):
                stuck = f'Stuck? Run `hint("{exercise.id}")` in a new cell.'
                cells.append(new_markdown_cell(f"{_card_facts(exercise)}\n\n{stuck}"))
            cells.append(_code_cell(lesson, cell, view))
        elif source := plain_markdown(cell.source):
            cells.append(new_markdown_cell(source))
    if way := _way_on(lesson):
        cells.append(new_markdown_cell(way))
    for cell in cells:
        cell.id = cell.metadata.get("nbgrader", {}).get("grade_id") or _content_id(
            cell.source, taken
        )
    note = {"source": f"Generated from book/{lesson.path.name} by `course build`."}
    return new_notebook(cells=cells, metadata={**KERNEL, "course": note})


def _way_on(lesson: LessonSource) -> str:
    """Links to the notebooks after and before this one; empty where it has no neighbor."""
    pages = sorted(lesson.path.parent.glob("[0-9][0-9]_*.md"))
    around = {
        label: pages[place]
        for label, step in (("Next", 1), ("Back", -1))
        if lesson.path in pages and 0 <= (place := pages.index(lesson.path) + step) < len(pages)
    }
    return " \N{MIDDLE DOT} ".join(
        f"{label}: [{LessonSource(page, page.read_text(encoding='utf-8')).title}]({page.stem}.ipynb)"
        for label, page in around.items()
    )


def _code_cell(lesson: LessonSource, cell: NotebookNode, view: str) -> NotebookNode:
    if exercise := lesson.exercises.get(cell.metadata.get("exercise")):
        sources = {
            "notebooks": exercise.stub,
            "solutions": exercise.solution,
            "source": exercise.marked_solution,
        }
        meta = {"nbgrader": _grading_metadata(exercise.id, solution=True)}
        if view == "notebooks":  # so that a later release can tell a stub from an answer
            meta["course"] = {"stub": answer_digest(exercise.stub)}
        return new_code_cell(sources[view], metadata=meta)
    if checked := cell.metadata.get("check"):
        source = f'check("{checked}")'
        if view == "source":
            source += "\n" + HIDDEN.format(checked)
        meta = _grading_metadata(
            f"{checked}-check", grade=True, locked=True, points=lesson.points[checked]
        )
        return new_code_cell(source, metadata={"nbgrader": meta})
    tags = list(cell.metadata.get("tags", ()))
    meta = {"jupyter": {"source_hidden": True}} if "setup" in tags else {}
    if shown := [t for t in tags if t != "setup"]:
        meta["tags"] = shown
    return new_code_cell(cell.source, metadata=meta)


def _grading_metadata(
    grade_id: str, *, solution=False, grade=False, locked=False, points=None
) -> dict:
    meta = dict(
        grade_id=grade_id,
        solution=solution,
        grade=grade,
        locked=locked,
        task=False,
        schema_version=3,
    )
    return meta if points is None else meta | {"points": points}


def _content_id(source: str, taken: dict[str, int]) -> str:
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    taken[digest] = taken.get(digest, 0) + 1
    return digest if taken[digest] == 1 else f"{digest}-{taken[digest]}"


def dumps(nb: NotebookNode) -> str:
    """The notebook's text: keys sorted, one trailing newline."""
    nbformat.validate(nb)
    return json.dumps(nb, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def cards(found: list[LessonSource]) -> dict:
    """What the lab needs to know of every exercise, by id."""
    return {
        e.id: {
            "lesson": lesson.name,
            "number": e.number,
            "points": lesson.points[e.id],
            "target": e.target,
            "setup": lesson.setup,
            "stub": e.stub,
            "ready_made": e.ready_made,
            **{k: v for k, v in e.card.items() if k not in ("exercise", "from", "not")},
        }
        for lesson in found
        for e in lesson.exercises.values()
    }


def outputs(root: Path) -> Iterator[tuple[Path, str]]:
    """Every generated file under `root` and the text it must have."""
    found = lessons(root)
    for lesson in found:
        yield root / "notebooks" / f"{lesson.name}.ipynb", dumps(notebook(lesson, "notebooks"))
        yield root / "solutions" / f"{lesson.name}.ipynb", dumps(notebook(lesson, "solutions"))
        yield (
            root / "grader/source" / lesson.name / f"{lesson.name}.ipynb",
            dumps(notebook(lesson, "source")),
        )
    text = json.dumps(cards(found), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    yield root / "course_lib/lab/exercises.json", text
    text = json.dumps(notes(found), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    yield root / "course_lib/lab/lessons.json", text
    reviews = [item for lesson in found for item in lesson.reviews.values()]
    yield root / "course_lib/lab/reviews.json", items.dumps(reviews)
    if (folder := root / "course_lib/lab/figures").exists():
        yield folder / "figures.json", render_figures(folder)
    if (root / "book" / concepts.NAME).exists():
        # in the course's order, which is the ledger's: keys are not sorted
        text = json.dumps(concepts.graph(root, found), indent=1, ensure_ascii=False) + "\n"
        yield root / "course_lib/lab/concepts.json", text


def build(root: Path, *, check: bool = False) -> list[Path]:
    """Write what differs and return it; with `check`, write nothing and return what is stale."""
    wanted = dict(outputs(root))
    stale = [
        p for p, text in wanted.items() if not p.exists() or p.read_text(encoding="utf-8") != text
    ]
    patterns = ("notebooks/[0-9][0-9]_*.ipynb", "solutions/*.ipynb", "grader/source/*/*.ipynb")
    orphans = [p for pattern in patterns for p in sorted(root.glob(pattern)) if p not in wanted]
    if not check:
        for path in stale:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
        for path in orphans:
            path.unlink()
    return stale + orphans


def book_view(text: str) -> NotebookNode:
    """Jupyter Book's reader: the stub in view, the solution folded and executed, lines kept."""
    # imported here: it needs Sphinx, which the lab does not
    from myst_nb.core.read import read_myst_markdown_notebook

    text = review_items.concrete(text)
    nb = read_myst_markdown_notebook(text, add_source_map=True)
    if not any(cell.cell_type == "code" for cell in nb.cells):
        return nb
    # Jupyter Book hands a reader the text and not the file's name, so any name will do
    lesson = LessonSource(Path("00_page.md"), text)
    cells, lines = [], []
    for cell, line in zip(nb.cells, nb.metadata["source_map"], strict=True):
        for shown in _page_cells(lesson, cell):
            cells.append(shown)
            lines.append(line)
    nb.cells, nb.metadata["source_map"] = cells, lines
    return nb


def _page_cells(lesson: LessonSource, cell: NotebookNode) -> list[NotebookNode]:
    if exercise := lesson.exercises.get(cell.metadata.get("exercise")):
        cell.source = exercise.solution
        prompts = {
            "code_prompt_show": "Show the solution",
            "code_prompt_hide": "Hide the solution",
        }
        cell.metadata = {"tags": ["hide-input"], "mystnb": prompts}
        return [new_markdown_cell(_card_markdown(exercise)), cell]
    if checked := cell.metadata.get("check"):
        cell.source, cell.metadata = f'check("{checked}")', {}
    elif re.fullmatch(r'figure\(".+"\)', cell.source.strip()):
        cell.metadata = {"tags": ["remove-input"]}
    elif "setup" in cell.metadata.get("tags", ()):
        prompts = {"code_prompt_show": "Show the imports", "code_prompt_hide": "Hide the imports"}
        cell.metadata = {"tags": ["hide-input", "setup"], "mystnb": prompts}
    return [cell]


def _card_facts(exercise: ExerciseSource) -> str:
    """The exercise's name, and how hard, how important and how long it is."""
    card = exercise.card
    facts = [
        f"Difficulty {card['difficulty']}/5",
        f"Importance {card['importance']}/5",
        f"up to {card['minutes']} min",
    ]
    if card.get("core"):
        facts.insert(0, f"Core exercise {card['core']} of 15")
    if card["needs"]:
        facts.append("needs " + ", ".join(card["needs"]))
    return f"**{card['title']}** (`{exercise.id}`)\n\n" + " \N{MIDDLE DOT} ".join(facts)


def _card_markdown(exercise: ExerciseSource) -> str:
    """What a reader of the page sees of an exercise: its facts, the stub, three folded hints."""
    title = exercise.card["title"]
    hints = "\n\n".join(
        f":::{{dropdown}} Hint {level} for {title}\n{hint}\n:::"
        for level, hint in enumerate(exercise.card["hints"], start=1)
    )
    return f"{_card_facts(exercise)}\n\n```python\n{exercise.stub}\n```\n\n{hints}"
