"""A learner's work moved into the notebooks of another release; nothing of it is ever dropped.

What is the learner's and what was the release's is told apart without the older release at hand:

    exercise cell  its grade_id names it; still the stub when it equals the new one, or the digest
                   that the release left in its metadata
    other cell     the release's id is the hash of the release's text, so a cell whose text no
                   longer has that hash was edited, and a cell with another kind of id was added

An answer goes to the exercise of its id, wherever that is now. An edited cell goes to the cell it
was, an added cell behind the cell it followed. What has no place left is set aside at the end,
under a heading that says where it came from.
"""

import ast
import copy
import hashlib
import re
from dataclasses import dataclass, field

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from course_lib.lab.moved import rewrite_all

RELEASE_ID = re.compile(r"([0-9a-f]{12})(-\d+)?")
CELL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CHECK = re.compile(r"check\(\s*[\"'][\w-]+[\"']\s*\)")
LOOSE = "carried_over"
"""Name of the notebook for what belonged to a lesson that is no more."""


@dataclass(frozen=True, eq=False)
class OldNotebook:
    """A notebook that the learner has."""

    lesson: str
    origin: str
    """Its file, as headings name it."""
    book: NotebookNode
    own: bool = True
    """It is the file that the new notebook replaces; else a copy from elsewhere: comes second."""


@dataclass
class CarryCounts:
    """What happened to one lesson, in cells."""

    carried: int = 0
    new: int = 0
    """Exercises that none of the learner's notebooks had."""
    aside: int = 0


@dataclass
class CarriedNotebooks:
    """The new notebooks by name, `LOOSE` among them only when something is in it."""

    books: dict[str, NotebookNode]
    rows: dict[str, CarryCounts]


def carry(
    release: dict[str, NotebookNode], olds: list[OldNotebook], loose: NotebookNode | None = None
) -> CarriedNotebooks:
    """The release's notebooks with the learner's work in them; `loose` is the LOOSE that exists.

    Own notebooks win over copies where both answer an exercise; the other answer is set aside.
    """
    mover = _Mover(copy.deepcopy(release), copy.deepcopy(loose))
    olds = sorted(copy.deepcopy(olds), key=lambda old: not old.own)
    for book in [old.book for old in olds] + ([mover.loose] if mover.loose else []):
        _rename_old_names(book)
    mover.choose_answers(olds)
    for old in olds:
        mover.move_work(old)
    return mover.finish_notebooks(olds)


def grade_id(cell: NotebookNode) -> str | None:
    """The id under which nbgrader knows the cell."""
    meta = cell.metadata.get("nbgrader")
    return meta.get("grade_id") if isinstance(meta, dict) else None


def answer_digest(source: str) -> str:
    """The first 12 hex digits of the text's sha256, trailing white space aside."""
    text = "\n".join(line.rstrip() for line in source.strip().splitlines())
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


@dataclass
class _Mover:
    books: dict[str, NotebookNode]
    loose: NotebookNode | None
    rows: dict[str, CarryCounts] = field(default_factory=dict)
    answers: dict[str, NotebookNode] = field(default_factory=dict)
    ids: dict[int, str] = field(default_factory=dict)
    """Exercise id by id() of the old cell."""

    def __post_init__(self):
        self.slots = {
            name: {grade_id(cell) or cell.id: cell for cell in book.cells}
            for name, book in self.books.items()
        }
        self.texts = {
            name: {key: cell.source for key, cell in slots.items()}
            for name, slots in self.slots.items()
        }
        self.where = {
            key: name
            for name, slots in self.slots.items()
            for key, cell in slots.items()
            if _is_exercise(cell)
        }
        self.stubs = {key: self.slots[name][key].source for key, name in self.where.items()}
        self.rows = {name: CarryCounts() for name in self.books}

    def choose_answers(self, olds: list[OldNotebook]) -> None:
        """Find the cells that answer an exercise and put the best of each into its slot."""
        found: dict[str, list[tuple]] = {}
        for rank, old in enumerate(olds):
            for key, cell in self._exercise_cells(old):
                self.ids[id(cell)] = key
                elsewhere = self.where.get(key) != old.lesson
                order = (not old.own, elsewhere, rank, cell.get("id") != key)
                if not self._is_untouched(cell, key):
                    found.setdefault(key, []).append((order, cell))
        for key, cells in found.items():
            if key in self.where:
                self.answers[key] = min(cells, key=lambda pair: pair[0])[1]
                self._fill_slot(self.slots[self.where[key]][key], self.answers[key])
                self.rows[self.where[key]].carried += 1

    def _exercise_cells(self, old: OldNotebook):
        """(exercise id, cell): by metadata; where that was lost, by the names the cell defines."""
        cells = [cell for cell in old.book.cells if cell.cell_type == "code"]
        named = {grade_id(cell) for cell in cells}
        lost = {
            k: v for k, v in self.stubs.items() if self.where[k] == old.lesson and k not in named
        }
        found = {}
        for cell in cells:
            if _is_exercise(cell):
                yield grade_id(cell), cell
            elif grade_id(cell) is None and not _is_pristine(cell):
                for key, stub in lost.items():
                    if cell.get("id") == key or _defines_stub(cell, stub):
                        found[key] = cell  # the last one: what the notebook ends up with
        yield from found.items()

    def _is_untouched(self, cell: NotebookNode, key: str) -> bool:
        known = {answer_digest(self.stubs.get(key, "")), _stub_digest(cell)}
        return not cell.source.strip() or answer_digest(cell.source) in known

    def move_work(self, old: OldNotebook) -> None:
        """Move what the learner wrote in one notebook, except the answers that are in place."""
        if old.lesson not in self.books:
            self._move_orphans(old)
            return
        cells, slots = self.books[old.lesson].cells, self.slots[old.lesson]
        position = 0
        for cell in old.book.cells:
            slot = slots.get(self._slot_key(cell, self.texts[old.lesson]))
            if slot is not None:
                position = next(i for i, c in enumerate(cells) if c is slot) + 1
            if self._needs_no_cell(cell, slot, old):
                continue
            if id(cell) in self.ids and not (old.own and slot is not None):
                self._set_cell_aside(cell, old)
            elif old.own or not _has_text(cells, cell.source):
                cells.insert(position, _copy_cell(cell, cells))
                position += 1
                self.rows[old.lesson].carried += bool(cell.source.strip())

    def _slot_key(self, cell: NotebookNode, texts: dict[str, str]) -> str | None:
        """The key of the released cell that this one is; without an id, that of the same text."""
        key = self.ids.get(id(cell)) or grade_id(cell) or cell.get("id")
        if key in texts or not cell.source.strip():
            return key
        return next((k for k, text in texts.items() if text == cell.source), None)

    def _needs_no_cell(
        self, cell: NotebookNode, slot: NotebookNode | None, old: OldNotebook
    ) -> bool:
        """Whether the cell needs no cell of its own in the new notebook."""
        same = slot is not None and slot.source == cell.source
        if same and old.own and self.ids.get(id(cell)) not in self.answers:
            self._fill_slot(slot, cell)  # for its outputs
        if key := self.ids.get(id(cell)):
            answer = self.answers.get(key)
            return self._is_untouched(cell, key) or bool(answer and answer.source == cell.source)
        if same or _is_pristine(cell) or (grade_id(cell) and CHECK.fullmatch(cell.source.strip())):
            return True
        if not cell.source.strip():
            return slot is not None or not old.own
        if slot is None or slot.cell_type != cell.cell_type or not _is_pristine(slot):
            return False
        self._fill_slot(slot, cell)
        self.rows[old.lesson].carried += 1
        return True

    @staticmethod
    def _fill_slot(slot: NotebookNode, cell: NotebookNode) -> None:
        """Put the learner's text and outputs into the release's cell."""
        slot.source = cell.source
        slot.metadata = NotebookNode({**cell.metadata, **slot.metadata})
        for name in ("outputs", "execution_count", "attachments"):
            if name in cell and (name in slot or name == "attachments"):
                slot[name] = cell[name]

    def _set_cell_aside(self, cell: NotebookNode, old: OldNotebook) -> None:
        cells = self.books[old.lesson].cells
        if not _has_text(cells, cell.source):
            key = self.ids[id(cell)]
            why = "has another answer above" if key in self.answers else "is not in this release"
            cells.append(
                _make_heading(f"Carried over: {key}", f"From {old.origin}; the exercise {why}.")
            )
            cells[-1].id = _free_id(cells[-1].source, cells[:-1])
            cells.append(_copy_cell(cell, cells))
            self.rows[old.lesson].aside += 1

    def _move_orphans(self, old: OldNotebook) -> None:
        """Move the learner's work of a lesson that is no more into the notebook `LOOSE`."""
        mine = [cell for cell in old.book.cells if not self._needs_no_cell(cell, None, old)]
        known = self.loose.cells if self.loose else []
        mine = [cell for cell in mine if cell.source.strip() and not _has_text(known, cell.source)]
        if not mine:
            return
        self.loose = self.loose or new_notebook(metadata=_kernel_metadata(old.book))
        cells = self.loose.cells
        cells.append(_make_heading(f"Carried over: {old.lesson}", f"From {old.origin}."))
        cells[-1].id = _free_id(cells[-1].source + old.origin, cells[:-1])
        for cell in mine:
            cells.append(_copy_cell(cell, cells))
        self.rows.setdefault(LOOSE, CarryCounts()).aside += len(mine)

    def finish_notebooks(self, olds: list[OldNotebook]) -> CarriedNotebooks:
        """The notebooks, with the learner's own settings of each, and the counts."""
        seen = set(self.ids.values())
        for key, name in self.where.items():
            self.rows[name].new += key not in seen
        for old in olds:
            if old.own and (book := self.books.get(old.lesson)):
                book.metadata = NotebookNode(
                    {**book.metadata, **old.book.metadata} | _course_metadata(book)
                )
        books = self.books | ({LOOSE: self.loose} if self.loose else {})
        return CarriedNotebooks(books, self.rows)


def _is_exercise(cell: NotebookNode) -> bool:
    meta = cell.metadata.get("nbgrader")
    return bool(grade_id(cell)) and cell.cell_type == "code" and bool(meta.get("solution"))


def _stub_digest(cell: NotebookNode) -> str | None:
    note = cell.metadata.get("course")
    return note.get("stub") if isinstance(note, dict) else None


def _is_pristine(cell: NotebookNode) -> bool:
    """Whether the cell's id is the hash of its text: then the release wrote it, not the learner."""
    match = RELEASE_ID.fullmatch(str(cell.get("id", "")))
    text = cell.source.encode("utf-8", "replace")
    return match is not None and hashlib.sha256(text).hexdigest().startswith(match[1])


def _defines_stub(cell: NotebookNode, stub: str) -> bool:
    """Whether the cell defines what the stub does: the same outer name, with the same holes in it.

    By pattern, not by syntax tree: an answer may well be broken off in the middle of a line.
    """
    node = ast.parse(stub).body[-1]
    holes = {
        n.name
        for n in ast.walk(node)
        if isinstance(n, ast.FunctionDef) and "NotImplementedError" in ast.dump(n)
    }
    outer = rf"^(?:class|def)\s+{re.escape(node.name)}\b"
    inner = set(re.findall(r"^[ \t]*def[ \t]+(\w+)", cell.source, re.M))
    return re.search(outer, cell.source, re.M) is not None and holes <= inner


def _copy_cell(cell: NotebookNode, cells: list[NotebookNode]) -> NotebookNode:
    """A copy that can stand in `cells`: an id of its own, no grading metadata a second time."""
    cell = copy.deepcopy(cell)
    if _is_exercise(cell) or grade_id(cell) in {grade_id(c) for c in cells}:
        cell.metadata.pop("nbgrader", None)
        cell.metadata.pop("course", None)
    cell.metadata.pop("course", None) if grade_id(cell) is None else None
    key = str(cell.get("id", ""))
    if not CELL_ID.fullmatch(key) or key in {c.id for c in cells}:
        cell.id = _free_id(cell.source, cells)
    return cell


def _free_id(text: str, cells: list[NotebookNode]) -> str:
    """An id that no cell has; never the bare hash, which would mark the text as the release's."""
    taken, stem = {c.get("id") for c in cells}, f"kept-{answer_digest(text)}"
    return next(
        i for n in range(len(cells) + 2) if (i := f"{stem}-{n}" if n else stem) not in taken
    )


def _make_heading(title: str, text: str) -> NotebookNode:
    return new_markdown_cell(f"## {title}\n\n{text}", id="kept")


def _rename_old_names(book: NotebookNode) -> None:
    """Write today's names of the library into what the learner wrote."""
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    for cell, text in zip(cells, rewrite_all([cell.source for cell in cells]), strict=True):
        if not _is_pristine(cell) and answer_digest(cell.source) != _stub_digest(cell):
            cell.source = text


def _has_text(cells: list[NotebookNode], source: str) -> bool:
    return any(cell.source == source for cell in cells)


def _kernel_metadata(book: NotebookNode) -> dict:
    return {k: book.metadata[k] for k in ("kernelspec", "language_info") if k in book.metadata}


def _course_metadata(book: NotebookNode) -> dict:
    return {"course": book.metadata["course"]} if "course" in book.metadata else {}
