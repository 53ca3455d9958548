"""The notebook as it was released, from nbgrader's gradebook: what a submission is put back into."""

from dataclasses import dataclass

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook

from grader.judge.notebook import Cell
from grader.judge.prose import LONGEST, make_harmless, quote_as_code
from grader.judge.submission import Submission

MOST_PROSE = 200_000
"""Characters of prose that go on into nbgrader's pages; a lesson itself has a quarter of them at most."""


@dataclass(frozen=True)
class _Slot:
    """A graded, locked or answered cell as the gradebook has it."""

    kind: str
    source: str
    meta: dict

    @property
    def is_ours(self) -> bool:
        """Whether the text is the course's: a check, or anything locked."""
        return self.meta["locked"] or self.meta["task"] or not self.meta["solution"]

    def make_cell(self, text: str) -> NotebookNode:
        """The cell with the course's text where that counts, else with the learner's `text`."""
        source, meta = self.source if self.is_ours else text, {"nbgrader": dict(self.meta)}
        if self.kind == "code":
            return new_code_cell(source, metadata=meta)
        return new_markdown_cell(source if self.is_ours else make_harmless(source), metadata=meta)


class Release:
    """The released cells that count, read from the gradebook once; the gradebook is not kept."""

    def __init__(self, book: Gradebook, notebook: str, assignment: str):
        found = book.find_notebook(notebook, assignment)
        points = {cell.name: cell.max_score for cell in [*found.grade_cells, *found.task_cells]}
        graded = {cell.name for cell in found.grade_cells}
        solved = {cell.name for cell in found.solution_cells}
        tasks = {cell.name for cell in found.task_cells}
        self.slots = {
            cell.name: _Slot(
                cell.cell_type,
                cell.source,
                {
                    "grade": cell.name in graded,
                    "solution": cell.name in solved,
                    "task": cell.name in tasks,
                    "locked": bool(cell.locked),
                    "grade_id": cell.name,
                    "cell_type": cell.cell_type,
                    "schema_version": 3,
                    **({"checksum": cell.checksum} if cell.checksum else {}),
                    **({"points": points[cell.name]} if cell.name in points else {}),
                },
            )
            for cell in found.source_cells
        }

    def cells(self, submitted: list[Cell], found: Submission) -> list[NotebookNode]:
        """The submitted cells in their order, each graded one once and as the gradebook has it."""
        first = {parts[0]: name for name, parts in found.places.items()}
        joined = {i for parts in found.places.values() for i in parts[1:]}
        texts, nodes, room = self._join_texts(submitted), {}, MOST_PROSE
        for i, cell in enumerate(submitted):
            name = first.get(i) or (cell.grade_id if cell.grade_id not in found.flags else "")
            if name in self.slots:
                answer = found.answers.get(name)
                text = _answer_text(answer) if answer else texts.get(name, cell.source)
                nodes.setdefault(name, self.slots[name].make_cell(text))
            elif i not in joined and cell.grade_id not in found.flags:
                nodes[i] = _make_own_cell(cell, room)
                room -= len(nodes[i].source) if cell.kind != "code" else 0
        return self._restore_missing(nodes)

    def _join_texts(self, submitted: list[Cell]) -> dict[str, str]:
        """What the learner wrote in each graded cell; the parts of a split cell are joined."""
        texts: dict[str, str] = {}
        for cell in submitted:
            if cell.grade_id in self.slots:
                before = texts.get(cell.grade_id)
                texts[cell.grade_id] = cell.source if before is None else f"{before}\n{cell.source}"
        return texts

    def _restore_missing(self, nodes: dict) -> list[NotebookNode]:
        """The cells with removed ones put back: a check below its exercise, others at the end."""
        order = list(nodes)
        for name, slot in self.slots.items():
            if name in nodes:
                continue
            nodes[name] = slot.make_cell(slot.source)
            exercise = name.removesuffix("-check")
            place = order.index(exercise) + 1 if exercise in order else len(order)
            order.insert(place, name)
        return [nodes[name] for name in order]


def _answer_text(answer) -> str:
    """The answer as a cell again."""
    return answer.source if answer.kind == "cell" else f"%%writefile answer.py\n{answer.source}"


def _make_own_cell(cell: Cell, room: int) -> NotebookNode:
    """A cell of the learner's own: shown, not graded, and no part of it active. `room`: characters of
    prose that a page has left."""
    if cell.kind == "code":
        return new_code_cell(cell.source)
    if min(len(cell.source), LONGEST) > room:
        return new_markdown_cell("(more text is in the submitted file)")
    return new_markdown_cell(
        make_harmless(cell.source) if cell.kind == "markdown" else quote_as_code(cell.source)
    )
