"""No cell above an exercise holds its answer: each definition there takes its name, and is judged.

A function is also tried as the method that an exercise asks for. What the cells above compute is
left out: imports, definitions and constants are what a definition can lean on.
The last hint of an exercise is its line with one blank. No expression above has that shape either.
"""

import ast
import copy
import re
from collections.abc import Iterator

import nbformat
import pytest

from course_lib.lab import checking, registry, terminal
from grader.course import ROOT
from tests.course import lessons
from tests.soak import campaign, times

IDS = list(registry.exercises())
RANKS = next(lesson.name for lesson in lessons() if lesson.name.endswith("_collectives"))
SHORT = [i for i in IDS if registry.exercise(i).lesson < RANKS]  # ranks cost seconds each
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


def read_hinted(exercise: str) -> Iterator[ast.expr]:
    """The expressions with the blank in the last hint, where two operations or more are in them."""
    for code in re.findall(r"`([^`]*____[^`]*)`", registry.exercise(exercise).hints[-1]):
        try:
            values = [getattr(statement, "value", None) for statement in ast.parse(code).body]
        except SyntaxError:
            continue  # the head of a loop
        for value in filter(None, values):
            nodes = list(ast.walk(value))
            called = [n for n in nodes if isinstance(n, ast.Call) and not is_own(n.func)]
            if (
                called
                and sum(isinstance(n, ast.Call | ast.BinOp | ast.Subscript) for n in nodes) > 1
            ):
                yield value


def is_own(node: ast.expr) -> bool:
    return ast.unparse(node).startswith("self.")


def is_name(node: ast.AST) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name | ast.Constant)


def has_shape(wanted: ast.AST, found: ast.AST) -> bool:
    """Whether `found` is `wanted` under other names; a layer that is called may be a product."""
    if is_name(wanted):
        return True
    if isinstance(wanted, ast.Call) and is_own(wanted.func):
        if isinstance(found, ast.BinOp) and isinstance(found.op, ast.MatMult):
            return len(wanted.args) == 1 and has_shape(wanted.args[0], found.right)
        return isinstance(found, ast.Call) and have_shapes(wanted.args, found.args)
    if type(wanted) is not type(found):
        return False
    if isinstance(wanted, ast.Call):
        if ast.unparse(wanted.func).split(".")[-1] != ast.unparse(found.func).split(".")[-1]:
            return False
        parts = [[*ast.iter_child_nodes(call.func), *call.args] for call in (wanted, found)]
        return have_shapes(*parts)
    return have_shapes(*(list(ast.iter_child_nodes(node)) for node in (wanted, found)))


def have_shapes(wanted: list, found: list) -> bool:
    return len(wanted) == len(found) and all(map(has_shape, wanted, found))


def find_hinted(wanted: list[ast.expr], text: str) -> list[str]:
    nodes = list(ast.walk(ast.parse(text)))
    return [ast.unparse(n) for n in nodes if any(has_shape(w, n) for w in wanted)]


@pytest.mark.parametrize("exercise", IDS)
def test_no_line_above_an_exercise_is_its_last_hint(exercise):
    wanted = list(read_hinted(exercise))
    for text, is_exercise in read_cells(exercise):
        assert is_exercise or not find_hinted(wanted, text), f"above {exercise}"


@pytest.mark.parametrize(
    "exercise, line",
    [
        ("swiglu", "y = down @ (F.silu(gate @ x) * (up @ x))"),
        ("get-batch", "x = torch.from_numpy(sliding_window_view(row, T + 1)[starts].astype(int))"),
    ],
)
def test_a_line_that_is_put_back_is_found(exercise, line):
    assert find_hinted(list(read_hinted(exercise)), line)
