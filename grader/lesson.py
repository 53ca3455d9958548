"""A lesson: one MyST-NB text notebook in book/, read and validated.

The grammar adds three cell options to MyST-NB. `exercise` names a hole in course_lib (its source is
cut from the library by its syntax tree), `check` calls the exercise's suite, and a cell that begins
with `%%writefile` is a script. Everything else is ordinary MyST.
"""

import ast
import re
import textwrap
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import jupytext
import yaml
from nbformat import NotebookNode

from course_lib.lab.reviews.items import Item
from grader import review_items

REQUIRED = ("from", "blank", "title", "difficulty", "importance", "minutes", "needs", "teaches",
            "uses", "not", "hints")  # fmt: skip
DOTTED = re.compile(r"[A-Za-z_]\w*(\.\w+)*\.[\w*]+")
CODE = re.compile(r"^```.*?^```$", re.M | re.S)
WORDS_PER_MINUTE = 120  # that people read of a lesson
STUB = 'raise NotImplementedError("your code here")'
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


class LessonError(ValueError):
    """The lesson's source breaks the grammar; the message names the file and what to write."""


def library_source(module: str) -> str:
    """Text of a module of the library, found but not imported: torch takes seconds."""
    return Path(find_spec(module).origin).read_text(encoding="utf-8")


@dataclass(frozen=True)
class ExerciseSource:
    """An exercise as its author wrote it: the card in the lesson, the code in the library."""

    id: str
    number: str
    lesson: str
    card: dict = field(hash=False)

    @property
    def target(self) -> str:
        return self.card["from"]

    @cached_property
    def _definition(self) -> str:
        """Source of the named function, class or method with its decorators, dedented."""
        module_name, _, path = self.target.partition(":")
        source = library_source(module_name)
        node, lines = ast.parse(source), source.splitlines()
        for name in path.split("."):
            node = next((n for n in node.body if getattr(n, "name", None) == name), None)
            if node is None:
                raise LessonError(
                    f"{self.lesson}: exercise {self.id}: {self.target} does not exist"
                )
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        return textwrap.dedent("\n".join(lines[first - 1 : node.end_lineno]))

    @property
    def ready_made(self) -> list[str]:
        """Functions that would be an answer by themselves; none where the card says why."""
        return [] if isinstance(self.card["not"], str) else self.card["not"]

    @cached_property
    def solution(self) -> str:
        """The cell as the library has it."""
        return self._shape_cell(self._definition)

    @cached_property
    def stub(self) -> str:
        """The cell with its holes."""
        return self._shape_cell(self._fill_holes(lambda indent, body: [indent + STUB]))

    @cached_property
    def marked_solution(self) -> str:
        """The cell with the solution between nbgrader's markers."""
        return self._shape_cell(
            self._fill_holes(lambda indent, body: [indent + BEGIN, *body, indent + END])
        )

    def _shape_cell(self, definition: str) -> str:
        """A method becomes a subclass of the library's class, so the cell stands alone."""
        module, _, path = self.target.partition(":")
        if "." not in path:
            return definition
        cls = path.partition(".")[0]
        home = module.rpartition(".")[2]
        return f"class {cls}({home}.{cls}):\n" + textwrap.indent(definition, "    ")

    def _fill_holes(self, fill) -> str:
        lines = self._definition.splitlines()
        holes = [
            n
            for n in ast.walk(ast.parse(self._definition))
            if isinstance(n, ast.FunctionDef) and n.name in self.card["blank"]
        ]
        if {n.name for n in holes} != set(self.card["blank"]):
            raise LessonError(
                f"{self.lesson}: exercise {self.id}: no {self.card['blank']} in {self.target}"
            )
        for node in sorted(holes, key=lambda n: -n.lineno):
            if ast.get_docstring(node) is None:
                raise LessonError(
                    f"{self.lesson}: {self.id}: {node.name} has no docstring, its contract"
                )
            first, last = node.body[0].end_lineno, node.end_lineno  # the docstring stays in view
            indent = " " * node.body[0].col_offset
            lines[first:last] = fill(indent, lines[first:last])
        return "\n".join(lines)


@dataclass(frozen=True)
class LessonSource:
    """A lesson as its author wrote it: one source file, its cells and its exercises."""

    path: Path
    text: str = field(repr=False)

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def number(self) -> int:
        return int(self.name.partition("_")[0])

    @cached_property
    def source(self) -> NotebookNode:
        """The text as a notebook, options in each cell's metadata, exercise bodies still empty."""
        return jupytext.reads(self.page_text, fmt="md:myst")

    @cached_property
    def page_text(self) -> str:
        """The text with each review item in its first variant; as many lines as the source."""
        try:
            return review_items.concrete(self.text)
        except ValueError as problem:
            raise LessonError(f"{self.path.name}: {problem}") from None

    @cached_property
    def title(self) -> str:
        match = re.search(r"^# (.+)$", self.text, re.M)
        if not match:
            raise LessonError(f"{self.name}: no '# Title' line")
        return match[1].strip()

    @property
    def minutes(self) -> float:
        """What the lesson takes: the minutes on its exercises' cards, and its words outside code."""
        cards = sum(exercise.card["minutes"] for exercise in self.exercises.values())
        return cards + len(CODE.sub("", self.text).split()) / WORDS_PER_MINUTE

    @cached_property
    def exercises(self) -> dict[str, ExerciseSource]:
        """By id, in the lesson's order."""
        found: dict[str, ExerciseSource] = {}
        for cell in self.source.cells:
            if "exercise" in cell.metadata:
                card = dict(cell.metadata)
                self._validate_card(card, cell.source)
                number = f"{self.number}.{len(found) + 1}"
                found[card["exercise"]] = ExerciseSource(card["exercise"], number, self.name, card)
        return found

    @cached_property
    def setup(self) -> str:
        """Source of the cell tagged `setup`: the imports every later cell counts on."""
        cells = [c.source for c in self.source.cells if "setup" in c.metadata.get("tags", ())]
        if len(cells) != 1:
            raise LessonError(f"{self.name}: needs exactly one cell tagged setup, has {len(cells)}")
        return cells[0]

    @cached_property
    def points(self) -> dict[str, int]:
        """Points of each check, by exercise id."""
        points = {}
        for cell in self.source.cells:
            if (exercise := cell.metadata.get("check")) is None:
                continue
            if exercise not in self.exercises:
                raise LessonError(
                    f"{self.name}: a check names {exercise!r}, which is no exercise here"
                )
            if cell.source.strip():
                raise LessonError(f"{self.name}: the check cell of {exercise} must be empty")
            points[exercise] = int(cell.metadata.get("points", 0))
        unchecked = set(self.exercises) - set(points)
        if unchecked or not all(points.values()):
            raise LessonError(f"{self.name}: without a check or points: {unchecked or points}")
        return points

    @cached_property
    def written_reviews(self) -> dict[str, review_items.Written]:
        """Review items by id, with what the names in their braces stand for."""
        exercises = self.exercises
        try:
            found = review_items.parse(self.name, self.text)
            for name, written in found.items():
                if (exercise := written.item.exercise) not in exercises:
                    raise ValueError(
                        f"review-{name}: {exercise!r} is no exercise of this lesson; it has "
                        f"{', '.join(exercises)}"
                    )
                card = exercises[exercise].card
                review_items.validate(written, [*card["teaches"], *card["uses"]])
        except ValueError as problem:
            raise LessonError(f"{self.path.name}: {problem}") from None
        return found

    @property
    def reviews(self) -> dict[str, Item]:
        """Review items by id, every variant computed."""
        return {name: written.item for name, written in self.written_reviews.items()}

    def _validate_card(self, card: dict, body: str) -> None:
        missing = [key for key in REQUIRED if key not in card]
        if missing:
            raise LessonError(
                f"{self.name}: exercise {card['exercise']} lacks {', '.join(missing)}"
            )
        if len(card["hints"]) != 3:
            raise LessonError(f"{self.name}: exercise {card['exercise']} needs three hints")
        refused = card["not"]
        if isinstance(refused, str):
            fine = " " in refused.strip()
        else:
            fine = bool(refused) and all(DOTTED.fullmatch(str(name)) for name in refused)
        if not fine:
            raise LessonError(
                f"{self.name}: exercise {card['exercise']}: `not` is a list of ready-made functions "
                f"such as torch.nn.functional.rms_norm, or a sentence why there is none; found "
                f"{refused!r}"
            )
        if body.strip():
            raise LessonError(
                f"{self.name}: {card['exercise']} must have an empty body; its "
                f"code is cut from {card['from']}"
            )


def lessons(root: Path) -> list[LessonSource]:
    """Every lesson under root/book, in order; prose pages without code cells are not lessons."""
    found = []
    for path in sorted((root / "book").glob("[0-9][0-9]_*.md")):
        text = path.read_text(encoding="utf-8")
        try:
            found.append(LessonSource(path, text))
            found[-1].points  # noqa: B018  validates cards and checks
            found[-1].reviews  # noqa: B018  and review items
        except yaml.YAMLError as error:
            raise LessonError(f"{path.name}: cell options are not YAML: {error}") from None
    _refuse_double_ids(found)
    return found


def _refuse_double_ids(found: list[LessonSource]) -> None:
    seen: dict[str, str] = {}
    for lesson in found:
        for exercise in lesson.exercises:
            if exercise in seen:
                raise LessonError(f"exercise id {exercise!r} in {seen[exercise]} and {lesson.name}")
            seen[exercise] = lesson.name
