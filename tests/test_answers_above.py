"""No cell above an exercise holds its answer: each definition there takes its name, and is judged.

A function is also tried as the method that an exercise asks for. What the cells above compute is
left out: imports, definitions and constants are what a definition can lean on.
"""

import ast
import copy
from collections.abc import Iterator

import nbformat
import pytest

from course_lib.lab import checking, registry, terminal
from grader.course import ROOT
from tests.soak import campaign, times

IDS = list(registry.exercises())
SHORT = [i for i in IDS if registry.exercise(i).lesson < "17"]  # ranks cost seconds each
KEPT = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def read_cells(exercise: str) -> list[tuple[str, bool]]:
    """The code cells of the learner's notebook before the exercise's; whether each is an exercise."""
    above: list[tuple[str, bool]] = []
    for cell in nbformat.read(
        ROOT / f"notebooks/{registry.exercise(exercise).lesson}.ipynb", 4
    ).cells:
        if cell.cell_type != "code":
            continue
        meta = cell.metadata.get("nbgrader", {})
        if meta.get("grade_id") == exercise:
            return above
        if not cell.source.startswith("%%"):
            text = "\n".join(x for x in cell.source.splitlines() if not x.startswith("%"))
            above.append((text, bool(meta.get("solution"))))
    raise AssertionError(f"no cell of {exercise}")


def renamed_definitions(exercise: str) -> Iterator[tuple[str, str]]:
    """(its name above, an answer made of it) of each function and class above."""
    card = registry.exercise(exercise)
    own, _, method = card.path.partition(".")
    leaned = ""
    for text, is_exercise in read_cells(exercise):
        tree = ast.parse(text)
        leaned += "".join(
            ast.unparse(node) + "\n"
            for node in tree.body
            if isinstance(node, KEPT)
            or (isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant))
        )
        for node in ast.walk(tree):
            if is_exercise or not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                continue
            taken = copy.deepcopy(node)
            taken.name = card.name
            yield node.name, f"{leaned}\n{ast.unparse(taken)}\n"
            if method and isinstance(node, ast.FunctionDef):
                for given in ("*args", "self, *args"):
                    yield (
                        node.name,
                        (
                            f"{leaned}\n{ast.unparse(node)}\n"
                            f"from {card.module} import {own}\n"
                            f"class {own}({own}):\n"
                            f"    def {method}(self, *args):\n"
                            f"        return {node.name}({given})\n"
                        ),
                    )


@campaign
@pytest.mark.parametrize("exercise", times(SHORT, IDS))
def test_no_definition_above_an_exercise_is_its_answer(exercise):
    card = registry.exercise(exercise)
    for name, text in renamed_definitions(exercise):
        try:
            answer = terminal.define(card, text, f"<{name}>")
        except ValueError:
            continue  # it leans on something that a cell computed
        verdict = checking.judge(card, answer)
        assert not verdict.passed, f"{name}, above {exercise}, is the answer"
