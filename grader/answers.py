"""`course reset` and `course update`: a lesson back to its stub, answers into a newer release.

Both keep the notebook they replace in `mine/kept/` before anything is written, and never overwrite
what is kept there.
"""

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course_lib.lab.home import LESSON, find_lesson, home
from course_lib.runs.atomic import write_whole
from grader import carry, views
from grader.carry import LOOSE, CarryCounts, OldNotebook
from grader.course import ROOT


def run_reset(args) -> int:
    """`course reset LESSON`. ValueError for an unknown lesson."""
    name = find_lesson(args.lesson)
    kept = reset(name)
    said = f"; the old one is {_path_in_home(kept)}" if kept else ", as it was already"
    print(f"notebooks/{name}.ipynb is the untouched lesson{said}")
    return 0


def run_update(args) -> int:
    """`course update [--from FOLDER]`; exit status 1 when a notebook could not be read."""
    folder = getattr(args, "source", None)
    rows, problems = update(Path(folder).expanduser() if folder else None)
    print(table(rows))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def reset(lesson: str) -> Path | None:
    """Put the notebook of `lesson` ("01_rmsnorm") back to its stubs; returns the kept old one."""
    text = views.dumps(_release_notebooks()[lesson])
    path = home() / "notebooks" / f"{lesson}.ipynb"
    if path.exists() and path.read_bytes() == text.encode():
        return None
    kept = keep_copy(path) if path.exists() else None
    _write(path, text)
    return kept


def update(source: Path | None = None) -> tuple[dict[str, CarryCounts], list[str]]:
    """Bring the course home's notebooks to the installed release, with the learner's work in them.

    `source` is a folder with older notebooks (or with a `notebooks/` that has them), whose work is
    carried as well. Returns counts by lesson and one sentence for each file that was left alone.
    """
    release, here = _release_notebooks(), home() / "notebooks"
    loose, problems = None, []
    olds, broken = _read_notebooks(here, problems, own=True)
    for name in broken:
        release.pop(name, None)  # its file stays as it is, so there is no new one to fill
    if (here / f"{LOOSE}.ipynb").exists() and LOOSE not in broken:
        loose = read_notebook(here / f"{LOOSE}.ipynb")
    if source is not None:
        folder = _find_notebooks(source)
        if folder.resolve() == here.resolve():
            raise ValueError(f"{source} is this course itself: update without --from")
        olds += _read_notebooks(folder, problems, own=False)[0]
        _bring_own_notebooks(folder, here)
    renumbered = [old.lesson for old in olds if old.own and _new_name(old.lesson, release)]
    olds = [_with_new_name(old, release, here) for old in olds]
    done = carry.carry(release, olds, loose)
    if LOOSE in broken and LOOSE in done.books:
        raise ValueError(f"notebooks/{LOOSE}.ipynb cannot be read: rename it, then update again")
    before = {old.lesson: old.book for old in olds if old.own} | {LOOSE: loose}
    gone = [here / f"{name}.ipynb" for name in renumbered]
    changed = {
        name: book
        for name, book in done.books.items()
        if before.get(name) != book or not (here / f"{name}.ipynb").exists()
    }
    for path in gone:
        keep_copy(path)
    _replace_notebooks(changed, here)
    for path in gone:
        path.unlink()
    return done.rows, problems


def keep_copy(path: Path) -> Path:
    """Copy a notebook to `mine/kept/NAME-YYYYmmdd-HHMMSS.ipynb`, or with a number when taken."""
    folder = home() / "mine" / "kept"
    stem = f"{path.stem}-{datetime.now():%Y%m%d-%H%M%S}"
    for number in range(1, 10_000):
        target = folder / f"{stem}{f'-{number}' if number > 1 else ''}.ipynb"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                file.write(path.read_bytes())
            return target
        except FileExistsError:
            continue
        except OSError as error:
            raise ValueError(
                f"no copy of {path.name} can be kept in {folder} ({error.strerror}), so "
                "nothing was changed: make room or give write permission, then run it again"
            ) from None
    raise ValueError(f"{folder} holds 10,000 copies of this second; move some of them away")


def has_work(path: Path) -> bool:
    """Whether a notebook holds more than a release wrote: outputs, an answer, or it is broken."""
    try:
        book = read_notebook(path)
    except ValueError:
        return True
    for cell in book.cells:
        stub = cell.metadata.get("course", {}).get("stub")
        if cell.get("outputs") or (stub is not None and carry.answer_digest(cell.source) != stub):
            return True
    return False


def read_notebook(path: Path) -> NotebookNode:
    """A notebook of format 4, ids not required; ValueError says what is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        raw = json.loads(text)
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{path.name} is not a notebook: its text is not JSON") from None
    if not isinstance(raw, dict) or not isinstance(raw.get("nbformat"), int):
        raise ValueError(f"{path.name} is not a notebook: no format number in it")
    if raw["nbformat"] != 4:
        raise ValueError(
            f"{path.name} has format {raw['nbformat']}, expected 4: open and save it in JupyterLab"
        )
    try:
        book = nbformat.v4.reads(text)
        nbformat.validate(_add_ids(book))
    except nbformat.ValidationError as error:
        raise ValueError(f"{path.name} is damaged: {error.message[:120]}") from None
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ValueError(f"{path.name} is damaged: its cells are not as they should be") from None
    return book


def table(rows: dict[str, CarryCounts]) -> str:
    """One line per lesson."""
    lines = [f"{'lesson':<24} carried  new exercises  set aside"]
    for name, row in sorted(rows.items()):
        lines.append(f"{name:<24} {row.carried:>7}  {row.new:>13}  {row.aside:>9}")
    return "\n".join(lines)


def _release_notebooks() -> dict[str, NotebookNode]:
    root = home() if any((home() / "book").glob("[0-9][0-9]_*.md")) else ROOT
    found = {lesson.name: views.notebook(lesson, "notebooks") for lesson in views.lessons(root)}
    if not found:
        raise ValueError(f"no lessons in {root / 'book'}: run this in the course folder")
    return found


def _read_notebooks(
    folder: Path, problems: list[str], *, own: bool
) -> tuple[list[OldNotebook], set[str]]:
    """The lessons' notebooks in a folder and the names of those that cannot be read."""
    olds, broken = [], set()
    for path in sorted(folder.glob("*.ipynb")):
        try:
            book = read_notebook(path)
        except ValueError as error:
            if LESSON.fullmatch(path.stem) or path.stem == LOOSE:
                broken.add(path.stem)
                problems.append(f"{error}. It was left as it is, in {path.parent}.")
        else:
            if _is_of_course(path, book):
                origin = f"notebooks/{path.name}" if own else str(path)
                olds.append(OldNotebook(path.stem, origin, book, own))
    return olds, broken


def _new_name(lesson: str, release: Iterable[str]) -> str | None:
    """Today's name of a lesson that has another number now; None for any other."""
    if lesson in release or not LESSON.fullmatch(lesson):
        return None
    return next((name for name in release if name[3:] == lesson[3:]), None)


def _with_new_name(old: OldNotebook, release: Iterable[str], here: Path) -> OldNotebook:
    """The notebook as one of today's lesson; a copy where the learner has today's file as well."""
    name = _new_name(old.lesson, release)
    if name is None:
        return old
    return replace(old, lesson=name, own=old.own and not (here / f"{name}.ipynb").exists())


def _add_ids(book: NotebookNode) -> NotebookNode:
    """A copy that the format's rules can be applied to, whatever its cells' ids are."""
    cells = [NotebookNode({**cell, "id": f"cell-{n}"}) for n, cell in enumerate(book.cells)]
    return NotebookNode({**book, "cells": cells, "nbformat_minor": 5})


def _is_of_course(path: Path, book: NotebookNode) -> bool:
    graded = any("nbgrader" in cell.metadata for cell in book.cells)
    return path.stem != LOOSE and (bool(LESSON.fullmatch(path.stem)) or graded)


def _find_notebooks(source: Path) -> Path:
    for folder in (source / "notebooks", source):
        if any(folder.glob("*.ipynb")):
            return folder
    raise ValueError(f"no notebooks in {source}: give the folder of the older copy of the course")


def _bring_own_notebooks(folder: Path, here: Path) -> None:
    """Copy notebooks that were never a lesson, under a free name."""
    for path in sorted(folder.glob("*.ipynb")):
        try:
            if _is_of_course(path, read_notebook(path)):
                continue
        except ValueError:
            continue
        for number in range(1, 10_000):
            target = here / f"{path.stem}{f'-{number}' if number > 1 else ''}.ipynb"
            if target.exists() and target.read_bytes() == path.read_bytes():
                break
            if not target.exists():
                here.mkdir(parents=True, exist_ok=True)
                target.write_bytes(path.read_bytes())
                break


def _replace_notebooks(books: dict[str, NotebookNode], here: Path) -> None:
    """Keep a copy of every notebook that will change, then write the new ones."""
    for book in books.values():
        book.nbformat_minor = 5
    texts = {here / f"{name}.ipynb": views.dumps(book) for name, book in books.items()}
    for path in texts:
        if path.exists():
            keep_copy(path)
    for path, text in texts.items():
        _write(path, text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        data = text.encode()
    except UnicodeEncodeError:  # half a surrogate pair in an answer: written as an escape
        data = json.dumps(json.loads(text), indent=1, sort_keys=True).encode() + b"\n"
    write_whole(path, data, sync=True)


def _path_in_home(path: Path) -> str:
    return str(path.relative_to(home()))
