"""What is taken from a submitted notebook: the answers, and nothing else.

An answer is found by the grading id of its cell, then by the cell's own id, then by the name it
defines. Tags, flags, points, checksums, outputs and the checks themselves are the course's business
and not read; where they differ from what was handed out, the exercise is flagged:

    DUP       its cell was split or copied: the parts are joined in order
    MATCHED   its grading id was lost or its cell left untouched: found by the name defined
    TAMPERED  the check or its settings were changed or removed: graded as if they were not
    ALONE     it passes with the course's solution of an earlier exercise, not with the learner's

The judge adds three, of an answer's code (judge.py, touched.py, witness.py, prints.py, sameness.py):

    READY-MADE  it passes, and calls a function that its card names as an answer by itself
    TOUCHED     it changes torch, another library, or what takes the facts of its check
    SAME        it is nearly another notebook's answer, or the published solution

Flags cost nothing. They are for the person who reads the results.
"""

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from course_lib.lab.moved import rewrite, rewrite_all
from course_lib.lab.registry import Exercise, exercises
from grader.carry import answer_digest
from grader.judge import notebook
from grader.judge.context import MAX_TOTAL, find_context
from grader.judge.magics import blank_magics, parse_text
from grader.judge.notebook import Cell, NotebookError

SCRIPT = re.compile(r"\s*%%writefile\s+\S+[^\n]*\n")
HEADING = re.compile(r"^## +(.*)$", re.M)
SKIPPING = {"skip-execution", "raises-exception"}  # tags that would have fooled a kernel
MAX_TEXT, MAX_TEXTS = 4_000, 50  # characters of a free text in the results, and their number


@dataclass(frozen=True)
class Answer:
    """The answer to one exercise."""

    source: str
    context: str = ""
    """The learner's other imports, functions, classes and constants that the source reads."""
    kind: str = "cell"
    """"cell", or "script" for a cell that writes one with `%%writefile`."""
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Text:
    """Something a person reads: a free-text answer or a journal entry."""

    id: str
    text: str


@dataclass(frozen=True)
class Submission:
    """One notebook. With a `problem` nothing else is known of it."""

    name: str
    lesson: str = ""
    answers: dict[str, Answer] = field(default_factory=dict)
    alone: dict[str, Answer] = field(default_factory=dict)
    """The same answers without the learner's earlier ones, where they read one of them: so that a
    mistake in one exercise does not cost the points of the next."""
    missing: dict[str, str] = field(default_factory=dict)
    """Why an exercise of the lesson has no answer, by exercise id."""
    flags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    texts: tuple[Text, ...] = ()
    places: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Positions among the notebook's cells of the parts of each answer."""
    problem: str = ""


def read_submission(
    source: Path | bytes, lesson_name: str | None = None, *, name: str = ""
) -> Submission:
    """The submission in a file or in its bytes. Never raises for anything that is in it.

    `lesson_name` ("01_rmsnorm") is taken from the file's name and its content when not given;
    ValueError when it names no lesson.
    """
    name = name or (str(source) if isinstance(source, Path) else "notebook")
    if lesson_name is not None and lesson_name not in _cards_by_lesson():
        known = ", ".join(_cards_by_lesson())
        raise ValueError(f"no lesson is called {lesson_name!r}; the lessons are {known}")
    try:
        data = notebook.read_file(source) if isinstance(source, Path) else source
        stem = Path(name).stem
        with notebook.limit_reading():
            cells = notebook.parse_cells(data)
            found = take_answers(cells, lesson_name or _find_lesson(cells, stem), name=name)
        others = [lesson for lesson in _cards_by_lesson() if lesson in stem]
        if others and found.lesson not in others:
            said = f"it is called {others[0]}, and its cells are of {found.lesson}"
            found = replace(found, notes=(said, *found.notes))
        return found
    except NotebookError as problem:
        return Submission(name, lesson_name or "", problem=str(problem))


def take_answers(cells: list[Cell], lesson: str, *, name: str = "notebook") -> Submission:
    """The answers among `cells` to the exercises of `lesson`."""
    taker = _Taker(cells, _cards_by_lesson()[lesson])
    answers = {card.id: taker.take_answer(card) for card in taker.cards}
    return Submission(
        name=name,
        lesson=lesson,
        answers={i: found for i, found in answers.items() if isinstance(found, Answer)},
        alone=taker.alone,
        missing={i: found for i, found in answers.items() if isinstance(found, str)},
        flags={i: tuple(sorted(flags)) for i, flags in taker.flags.items()},
        notes=tuple(taker.notes),
        texts=tuple(_find_texts(cells, set(answers)))[:MAX_TEXTS],
        places=taker.places,
    )


@dataclass
class _Taker:
    cells: list[Cell]
    cards: list[Exercise]
    flags: dict[str, set[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    places: dict[str, tuple[int, ...]] = field(default_factory=dict)
    alone: dict[str, Answer] = field(default_factory=dict)
    texts: list[str] = field(init=False)
    """The cells' sources with today's names of the library: a notebook may have been handed out
    before something was renamed."""

    def __post_init__(self):
        self.texts = [cell.source for cell in self.cells]
        total, places = 0, []
        for i, cell in enumerate(self.cells):
            total += len(cell.source) if _is_readable(cell) else 0
            if _is_readable(cell) and total <= MAX_TOTAL:
                places.append(i)
        sources = [self.texts[i] for i in places]
        for i, text in zip(places, rewrite_all(sources), strict=True):
            self.texts[i] = text

    def take_answer(self, card: Exercise) -> Answer | str:
        """The answer, or the reason why there is none."""
        self.flags[card.id] = set()
        check = self._find_check(card)
        parts = self._answer_parts(card, check)
        if not parts:
            return f"no cell has its grading id and none defines {card.path}"
        self.places[card.id] = parts
        source = "\n".join(self.texts[i] for i in parts)
        if "\0" in source:
            return "its cell holds a NUL character, which is not text"
        if len(source) > notebook.MAX_SOURCE:
            return f"its cell holds more than {notebook.MAX_SOURCE:,} characters"
        flags = tuple(sorted(self.flags[card.id]))
        if script := SCRIPT.match(source):
            return Answer(source[script.end() :], kind="script", flags=flags)
        source = blank_magics(source)
        if len(parts) > 1:  # neither half need be Python by itself
            source = rewrite(source, [cell.source for cell in self.cells if _is_readable(cell)])
        needed = find_context(source, self._other_sources(parts, check))
        if _defines_answer(
            needed, card
        ):  # `class RMSNorm(RMSNorm)`: its first half is part of the answer
            source, needed = f"{needed}\n\n\n{source}", ""
        answer = Answer(source, needed, flags=flags)
        answers = {i for places in self.places.values() for i in places}
        without = find_context(source, self._other_sources(parts, check, without=answers))
        if answer.context and without != answer.context:
            self.alone[card.id] = replace(answer, context=without)
        return answer

    def _answer_parts(self, card: Exercise, check: int | None) -> tuple[int, ...]:
        """Positions of the cells that make up the answer."""
        found = [i for i, cell in enumerate(self.cells) if cell.grade_id == card.id]
        for i in found:
            self._compare_settings(card, self.cells[i], f"the cell of {card.id}", solution=True)
        if not found:
            found = [
                i
                for i, cell in enumerate(self.cells)
                if cell.id == card.id and cell.kind == "code" and not cell.grade_id
            ]
            self._add_flag(card, "MATCHED", f"{card.id}: its grading id is lost", found)
        written = [i for i in found if not _is_untouched(self.cells[i].source, card)]
        if not written and (moved := self._defining_cell(card, check)):
            self._add_flag(card, "MATCHED", f"{card.id}: found in another cell, by its name")
            return moved
        written += self._torn_part(card, written)
        self._add_flag(
            card, "DUP", f"{card.id}: its cell was split or copied", found[1:] or written[1:]
        )
        texts = {self.texts[i]: i for i in written}  # of equal copies the last
        return tuple(sorted(texts.values())) or tuple(found[:1])

    def _torn_part(self, card: Exercise, written: list[int]) -> list[int]:
        """The next cell when the answer is complete only with it: the second half of a split cell."""
        if not written or written[-1] + 1 >= len(self.cells):
            return []
        after = self.cells[written[-1] + 1]
        text = "\n".join(self.cells[i].source for i in written)
        if after.kind != "code" or after.grade_id:
            return []
        whole = f"{text}\n{after.source}"
        torn = parse_text(blank_magics(after.source)) is None and parse_text(whole) is not None
        return [written[-1] + 1] if torn and _defines_answer(whole, card) else []

    def _defining_cell(self, card: Exercise, check: int | None) -> tuple[int, ...]:
        """The last cell of the learner's own before the check that defines what is asked for."""
        known = {id for other in self.cards for id in (other.id, f"{other.id}-check")}
        before = self.cells[:check] if check is not None else self.cells
        for i in reversed(range(len(before))):
            cell = before[i]
            own = cell.kind == "code" and cell.grade_id not in known and not _is_released(cell)
            if (
                own
                and not _is_untouched(cell.source, card)
                and _defines_answer(blank_magics(self.texts[i]), card)
            ):
                return (i,)
        return ()

    def _find_check(self, card: Exercise) -> int | None:
        """Position of the check's cell, or None; notes changes to it as flags."""
        found = [i for i, c in enumerate(self.cells) if c.grade_id == f"{card.id}-check"]
        call = re.compile(rf"""check\(\s*["']{re.escape(card.id)}["']\s*\)""")
        if not found:
            alike = [i for i, c in enumerate(self.cells) if call.fullmatch(c.source.strip())]
            found = [i for i in alike if self.cells[i].kind == "code"]
            self._add_flag(card, "TAMPERED", f"the check of {card.id} was removed", not found)
            return found[0] if found else None
        cell = self.cells[found[0]]
        edited = not call.fullmatch(cell.source.strip())
        self._add_flag(card, "TAMPERED", f"the check of {card.id} was edited", edited)
        self._compare_settings(
            card, cell, f"the check of {card.id}", grade=True, locked=True, points=card.points
        )
        return found[0]

    def _compare_settings(
        self, card: Exercise, cell: Cell, what: str, *, points: float | None = None, **set_
    ):
        wanted = {"grade": False, "solution": False, "locked": False} | set_
        changed = [key for key in wanted if cell.grading.get(key, False) is not wanted[key]]
        changed += ["points"] if points is not None and cell.grading.get("points") != points else []
        changed += ["type"] if cell.kind != "code" else []
        changed += sorted(SKIPPING & set(cell.tags))
        self._add_flag(card, "TAMPERED", f"{what}: changed {', '.join(changed)}", changed)

    def _add_flag(self, card: Exercise, flag: str, note: str, when=True) -> None:
        if when:
            self.flags[card.id].add(flag)
            self.notes.append(note)

    def _other_sources(
        self, parts, check: int | None, *, without: Container[int] = ()
    ) -> list[str]:
        """Code of the other cells that a learner runs before the check."""
        end = len(self.cells) if check is None or check < max(parts) else check
        return [
            self.texts[i]
            for i, cell in enumerate(self.cells[:end])
            if i not in parts
            and i not in without
            and cell.kind == "code"
            and not SCRIPT.match(cell.source)
        ]


def _cards_by_lesson() -> dict[str, list[Exercise]]:
    found: dict[str, list[Exercise]] = {}
    for card in exercises().values():
        found.setdefault(card.lesson, []).append(card)
    return found


def _find_lesson(cells: list[Cell], stem: str) -> str:
    """The lesson that the file's name says, or the one that most of the exercises are from."""
    hits: Counter[str] = Counter()
    ids = {cell.grade_id or cell.id for cell in cells}
    for lesson, cards in _cards_by_lesson().items():
        hits[lesson] = sum(card.id in ids for card in cards)
    if not any(hits.values()):
        own = [
            _find_definitions(blank_magics(rewrite(c.source)))
            for c in cells
            if _is_readable(c) and not _is_released(c)
        ]
        for lesson, cards in _cards_by_lesson().items():
            hits[lesson] = sum(any(_defines(found, card) for found in own) for card in cards)
    named = [lesson for lesson in hits if lesson in stem]
    if named and (hits[named[0]] or not any(hits.values())):
        return named[0]
    best, count = hits.most_common(1)[0]
    if not count:
        raise NotebookError("it has no exercise of this course in it, and no lesson's name")
    return best


def _is_readable(cell: Cell) -> bool:
    return cell.kind == "code" and len(cell.source) <= notebook.MAX_SOURCE


def _is_untouched(source: str, card: Exercise) -> bool:
    return not source.strip() or answer_digest(source) == answer_digest(card.stub)


def _is_released(cell: Cell) -> bool:
    """Whether the cell's id is the hash of its text: then the release wrote it, not the learner."""
    return hashlib.sha256(cell.source.encode()).hexdigest()[:12] == cell.id[:12]


def _defines_answer(text: str, card: Exercise) -> bool:
    """Whether `text` defines the exercise's function, or its class with the methods asked for."""
    return _defines(_find_definitions(text), card)


def _defines(found: dict[str, set[str]], card: Exercise) -> bool:
    return card.name in found and set(card.blank) <= found[card.name] | {card.name}


def _find_definitions(text: str) -> dict[str, set[str]]:
    """The names that `text` defines at its top, and of each class the methods."""
    tree = parse_text(text) if len(text) <= notebook.MAX_SOURCE else None
    if tree is None:  # an answer broken off in the middle of a line is still one
        inner = set(re.findall(r"^[ \t]+def[ \t]+(\w+)", text, re.M))
        outer = re.findall(r"^(?:class|def)[ \t]+(\w+)", text, re.M)
        return dict.fromkeys(outer, inner)
    found: dict[str, set[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found.setdefault(node.name, set()).update(
                part.name for part in node.body if isinstance(part, (ast.FunctionDef, ast.ClassDef))
            )
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.setdefault(node.name, set())
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, set())
    return found


def _find_texts(cells: list[Cell], answered: set[str]) -> Iterator[Text]:
    """Cells for a person: graded by hand in nbgrader, or what was written under the journal."""
    journal = False
    for number, cell in enumerate(cells):
        by_hand = cell.grading.get("task") or (
            cell.grading.get("grade") and cell.grading.get("solution")
        )
        headings = list(HEADING.finditer(cell.source)) if cell.kind == "markdown" else []
        journal = headings[-1][1].startswith("Journal") if headings else journal
        if by_hand and cell.grade_id not in answered:
            yield Text(cell.grade_id or f"cell {number + 1}", cell.source[:MAX_TEXT])
        elif journal and cell.kind == "markdown" and not _is_released(cell):
            written = cell.source[headings[-1].end() if headings else 0 :].strip()
            yield Text("journal", written[:MAX_TEXT])
