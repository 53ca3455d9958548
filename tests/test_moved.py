"""What was written for the first edition goes on working: mine/, notebooks, submissions, scripts.

`fixtures/first_edition` holds a `mine/` of all 48 exercises as that edition's own `mine.save` wrote
it, from right answers in another style than the course's, and the import cells of its lessons.
"""

import hashlib
import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from course_lib.lab import checking, mine, moved, registry
from course_lib.lab.moved import rewrite
from grader import carry, views
from grader.course import ROOT
from grader.judge import cell, submission
from grader.lesson import lessons

FIRST = Path(__file__).parent / "fixtures" / "first_edition"
IMPORTS = {
    lesson[3:]: imports
    for lesson, imports in json.loads((FIRST / "imports.json").read_text(encoding="utf-8")).items()
}
FIRST_LESSON = {"count-flops": "gpt"}
"""Exercises that were in another lesson."""
CARDS = {
    id: card
    for id, card in registry.exercises().items()
    if (FIRST / "mine" / f"{id.replace('-', '_')}.py").exists()
}
"""Those that the first edition had."""
LEANING = (  # answers that lean on what was renamed or taken apart, and one that was renamed itself
    "shard-batch train-step save-checkpoint load-checkpoint fsdp-save-checkpoint "
    "fsdp-load-resharded fused-rmsnorm"
).split()


def kept(exercise: str) -> str:
    """The file of the first edition."""
    name = f"{exercise.replace('-', '_')}.py"
    return (FIRST / "mine" / name).read_text(encoding="utf-8")


def written(exercise: str) -> str:
    """The answer's cell, as it stood in a notebook of the first edition."""
    return kept(exercise).split("\n\n\n", 1)[1]


def old_notebook(exercise: str, **grading) -> nbformat.NotebookNode:
    """The import cell as the release gave it, the answer, its check."""
    imports = IMPORTS[FIRST_LESSON.get(exercise, CARDS[exercise].lesson[3:])]
    base = {"schema_version": 3, "task": False, "points": CARDS[exercise].points}
    answer = base | dict(grade_id=exercise, solution=True, grade=False, locked=False) | grading
    check = base | dict(grade_id=f"{exercise}-check", solution=False, grade=True, locked=True)
    new = nbformat.v4.new_code_cell
    return nbformat.v4.new_notebook(
        cells=[
            new(imports, id=hashlib.sha256(imports.encode()).hexdigest()[:12]),
            new(written(exercise), id=exercise, metadata={"nbgrader": answer}),
            new(f'check("{exercise}")', id=f"{exercise}-check", metadata={"nbgrader": check}),
        ]
    )


@pytest.fixture
def learner(course_home):
    (course_home / "mine").mkdir()
    return course_home


def test_the_table_leads_from_names_that_are_gone_to_names_that_are_there():
    for old, new in moved.MODULES.items():
        assert importlib.util.find_spec(moved.find_new_address(old)[0]), new
        with pytest.raises(ImportError, match="course update"):
            importlib.import_module(old)
    for old in moved.NAMES:
        module, name = moved.find_new_address(*old.split(":"))
        assert hasattr(importlib.import_module(module), name), old
        if (there := old.partition(":"))[0] not in moved.MODULES:
            assert not hasattr(importlib.import_module(there[0]), there[2]), f"{old} is there again"
    for trainer in ("ddp_trainer:DistributedTrainer", "fsdp_trainer:FSDPTrainer"):
        module, _, name = trainer.partition(":")
        kind = getattr(importlib.import_module(f"course_lib.training.{module}"), name)
        assert all(
            hasattr(kind, new) and not hasattr(kind, old) for old, new in moved.METHODS.items()
        )
    assert set(moved.ANSWERS.values()) <= {card.name for card in CARDS.values()}


REWRITTEN = {
    "a module": ("from course_lib import zero", "from course_lib.parallel import zero"),
    "a name": (
        "from course_lib.batches import BatchLoader, window_starts  # both",
        "from course_lib.data.batches import BatchLoader, window_starts  # both",
    ),
    "a path": ("import course_lib.tiles as tl", "import course_lib.fast.tiles as tl"),
    "an alias": ("from course_lib import tiles as tl", "from course_lib.fast import tiles as tl"),
    "a path without alias": (
        "import torch, course_lib.zero\nx = course_lib.zero.shard_of(course_lib.gpt)",
        "import torch, course_lib.parallel.zero\nx = course_lib.parallel.zero.shard_of(course_lib.gpt)",
    ),
    "several, moved apart": (
        "if True:\n    from course_lib import gpt, world, zero  # three\n    world.run()",
        "if True:\n    from course_lib import gpt\n    from course_lib.ranks import world\n"
        "    from course_lib.parallel import zero  # three\n    world.run()",
    ),
    "several on one line": (
        "x = 1; from course_lib import world, zero; y = 2",
        "x = 1; from course_lib.ranks import world; from course_lib.parallel import zero; y = 2",
    ),
    "a module taken apart": (
        "from course_lib import checkpoint\n\n\ndef f(s):\n"
        "    return checkpoint.plain_names(checkpoint.steps(s))  # ü",
        "from course_lib.checkpoints.saved_state import plain_names\n"
        "from course_lib.checkpoints import single_file as checkpoint\n\n\ndef f(s):\n"
        "    return plain_names(checkpoint.steps(s))  # ü",
    ),
    "a function that reads both formats": (
        "from course_lib.checkpoint import load\nload(s)",
        "from course_lib.checkpoints.whole import load\nload(s)",
    ),
    "a name that is taken": (
        "from course_lib import checkpoint\nplain_names = checkpoint.plain_names(s)",
        "from course_lib.checkpoints.saved_state import plain_names as checkpoint_plain_names\n"
        "from course_lib.checkpoints import single_file as checkpoint\n"
        "plain_names = checkpoint_plain_names(s)",
    ),
    "a class renamed": (
        "from course_lib.shards import Shards, pretokenize\nShards.open(x)",
        "from course_lib.data.token_store import TokenStore as Shards, pretokenize\nShards.open(x)",
    ),
    "a class of a module": (
        "from course_lib import shards\nshards.Shards.open(x)",
        "from course_lib.data import token_store as shards\nshards.TokenStore.open(x)",
    ),
    "a name that moved with its module and was then renamed": (
        "from course_lib.measure import formats\nfrom course_lib import recompute\n"
        "formats.named(x)\nrecompute.selective()",
        "from course_lib.measure import formats\nfrom course_lib.fast import recompute\n"
        "formats.find_format(x)\nrecompute.selective_contexts()",
    ),
    "a star": (
        "from course_lib.flash import *",
        "from course_lib.fast.flash import *\nfrom course_lib.fast.flash_attention import *",
    ),
    "a trainer's method": (
        "class DistributedTrainer(ddp_trainer.DistributedTrainer):\n    def _autocast(self):\n"
        "        return self._over_ranks(1)",
        "class DistributedTrainer(ddp_trainer.DistributedTrainer):\n    def autocast(self):\n"
        "        return self.sum_over_ranks(1)",
    ),
    "an answer": (
        "def shard_of_rank(starts, *, rank, world_size):  # mine\n    return starts[rank]\n\n\n"
        "shard_of_rank([1], rank=0, world_size=1)",
        "def rows_of_rank(starts, *, rank, world_size):  # mine\n    return starts[rank]\n\n\n"
        "rows_of_rank([1], rank=0, world_size=1)",
    ),
    "an answer of the library": (
        "from course_lib.batches import shard_of_rank\nshard_of_rank(s)",
        "from course_lib.data.batches import rows_of_rank\nrows_of_rank(s)",
    ),
    "an address": (
        'local_ranks.run(f, [()], drive="course_lib.measure.seats:meet")',
        'local_ranks.run(f, [()], probe="course_lib.probes.seats:meet")',
    ),
    "a script": (
        "%%writefile train.py\nfrom course_lib.world import run",
        "%%writefile train.py\nfrom course_lib.ranks.world import run",
    ),
    "a command": (
        "%%bash\ntorchrun --nproc_per_node=2 -m course_lib.ddp_trainer --mine && true",
        "%%bash\ntorchrun --nproc_per_node=2 -m course_lib.training.ddp_trainer --mine && true",
    ),
    "commands in a cell": (
        "x = 1\n!python -m course_lib.ddp_trainer --max_steps 3\nfrom course_lib import zero",
        "x = 1\n!python -m course_lib.training.ddp_trainer --max_steps 3\n"
        "from course_lib.parallel import zero",
    ),
    "arguments": (
        'run([python, "-m", "course_lib.demo"])',
        'run([python, "-m", "course_lib.training.demo"])',
    ),
}


@pytest.mark.parametrize("old, new", REWRITTEN.values(), ids=REWRITTEN)
def test_a_text_gets_todays_names(old, new):
    assert rewrite(old) == new and rewrite(new) == new
    crlf = old.replace("\n", "\r\n")
    assert rewrite(crlf).replace("\r\n", "\n") == new


UNCHANGED = [
    "",
    "from course_lib import (",
    "def f(:\n    from course_lib import zero",
    "import zero\nzero.shard_of(1)  # of course_lib.zero",
    "class Value:\n    def _backward(self):\n        self._autocast = 1\n        self._backward()",
    "from .course_lib import zero",
    "loss._backward()  # of a class of the learner's own, defined in another cell",
    "x = '\ud800'\nfrom course_lib import zero",
    "from course_lib.zero import x\0",
    "(" * 300 + "course_lib" + ")" * 300,
]


@pytest.mark.parametrize("text", UNCHANGED, ids=range(len(UNCHANGED)))
def test_what_has_no_old_name_or_is_no_python_stays(text):
    assert rewrite(text) == text


def test_todays_course_stays_byte_for_byte():
    for path in (ROOT / "course_lib").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert rewrite(text) == text or path.name == "moved.py", path
    for lesson in lessons(ROOT):
        texts = [
            c.source for c in views.notebook(lesson, "solutions").cells if c.cell_type == "code"
        ]
        assert moved.rewrite_all(texts) == texts, lesson.name


def test_a_cell_knows_what_another_one_imports():
    imports = "from course_lib import checkpoint\nfrom course_lib import zero"
    assert rewrite("checkpoint.save(zero.shard_of(1))", [imports]) == (
        "from course_lib.checkpoints import single_file as checkpoint\n"
        "checkpoint.save(zero.shard_of(1))"
    )
    assert rewrite("checkpoint.random_states()", [imports]) == (
        "from course_lib.runs.random_states import random_states\nrandom_states()"
    )


STRICTER = {
    "param-groups": "GROUPS-BY-NAME",  # it went by names, and passed with the course's own model
    "train-step": "TRAIN-NOTHING",  # an update without targets ended in NaN, as the course's did
    "ddp-buckets": "BUCKETS-DEVICE",  # it put tensors of two devices into one bucket
    "ddp-sync": "STRIDED",  # it sent a transposed gradient in the order of its memory
    "init-weights": "INIT-NAMES",  # it took an attribute that says no for one that says yes
    "swiglu": "SWIGLU-NAN-GRAD",  # its sigmoid gave NaN behind a closed gate, and it had no mark
}
"""Kept answers that the checks of before accepted and today's refuse; they go on working."""


@pytest.mark.parametrize("exercise", CARDS)
def test_a_kept_answer_passes_its_own_check(learner, exercise):
    card = CARDS[exercise]
    mine.file_of(card).write_text(kept(exercise), encoding="utf-8")
    verdict = checking.judge(card, mine.load(card))
    assert verdict.code == STRICTER.get(exercise, "PASS"), verdict.text()
    assert mine.file_of(card).read_text(encoding="utf-8") == kept(exercise), "never written to"


def test_all_of_them_are_installed_and_train(learner):
    for exercise, card in CARDS.items():
        mine.file_of(card).write_text(kept(exercise), encoding="utf-8")
    (learner / "text").mkdir()
    for module in (json, hashlib):
        (learner / "text" / f"{module.__name__}.py").write_bytes(Path(module.__file__).read_bytes())
    train = [sys.executable, "-m", "course_lib.training.ddp_trainer", "--mine"]
    train += "--model_size tiny --max_steps 2 --seq_len 32 --data text --cache tokens".split()
    train += "--valid_fraction 0.4 --precision fp32 --device cpu --out run".split()
    done = subprocess.run(train, cwd=learner, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == f"yours     {', '.join(CARDS)}"


BROKEN = {
    "an import that nobody knows": ("from course_lib.gpt import nothing", "cannot import name"),
    "a text broken off": ("class RMSNorm(", "SyntaxError"),
    "another definition": ("x = 1", "does not define RMSNorm"),
    "a class without its methods": ("class RMSNorm:\n    pass", "does not define"),
    "a function for a class": ("def RMSNorm(x):\n    return x", "does not define"),
    "an end": ("raise SystemExit(3)", "SystemExit"),
}


@pytest.mark.parametrize("text, said", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_costs_its_own_exercise_alone(learner, text, said):
    (learner / "mine/rmsnorm.py").write_text(text)
    (learner / "mine/swiglu.py").write_text(kept("swiglu"))
    done = subprocess.run(
        [sys.executable, "-c", "from course_lib.lab import mine; print(mine.install())\n"
         "from course_lib import gpt; print(gpt.RMSNorm.__init__.__module__, gpt.MLP.forward.__module__)"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "'rmsnorm': 'broken'" in done.stdout and "'swiglu': 'yours'" in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0] == "yours     swiglu" and "broken    rmsnorm" in lines
    (line,) = (line for line in lines if line.startswith("rmsnorm: "))
    assert said in line and "mine/rmsnorm.py" in line
    assert 'check("rmsnorm")' in line and "01_rmsnorm" in line
    assert lines[-1] == "course_lib.gpt mine.swiglu"


def test_bytes_that_are_no_text_and_a_folder_are_broken_files(learner):
    (learner / "mine/rmsnorm.py").write_bytes(b"\xff\xfe\0")
    (learner / "mine/swiglu.py").mkdir()
    for exercise in ("rmsnorm", "swiglu"):
        with pytest.raises(ValueError, match="Error: "):
            mine.load(CARDS[exercise])


def judged(exercise: str, imports: str, source: str, context: str = "", kind: str = "cell"):
    """The verdict on the answer as a worker of the judge would find it, erasing aside."""
    card = CARDS[exercise]
    told = {"setup": imports, "needs": [], "name": card.name}
    scope = cell.prepare_scope(told)
    cell.run_context(scope, told, context)
    assert cell.run_answer(scope, source, kind, card.name) is None
    return checking.judge(card, scope.get(card.name))


@pytest.mark.parametrize("how", ["by its id", "by its name"])
@pytest.mark.parametrize("exercise", LEANING)
def test_a_notebook_handed_out_before_is_graded(exercise, how, monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    book = old_notebook(exercise)
    if how == "by its name":
        book.cells[1].metadata, book.cells[1].id = {}, "lost"
    found = submission.read_submission(nbformat.writes(book).encode(), CARDS[exercise].lesson)
    answer = found.answers[exercise]
    verdict = judged(exercise, CARDS[exercise].setup, answer.source, answer.context, answer.kind)
    assert verdict.code == STRICTER.get(exercise, "PASS"), verdict.text()


@pytest.mark.parametrize("exercise", LEANING)
def test_an_updated_notebook_works_and_stays_as_it_is(exercise, monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    lesson = next(x for x in lessons(ROOT) if exercise in x.exercises)
    release = {lesson.name: views.notebook(lesson, "notebooks")}
    old = carry.OldNotebook(lesson.name, "notebooks", old_notebook(exercise))
    done = carry.carry(release, [old])
    assert done.rows[lesson.name].carried == 1 and done.rows[lesson.name].aside == 0
    book = done.books[lesson.name]
    (answer,) = (c for c in book.cells if carry.grade_id(c) == exercise)
    verdict = judged(exercise, CARDS[exercise].setup, answer.source)
    assert verdict.code == STRICTER.get(exercise, "PASS"), verdict.text()
    again = carry.carry(release, [carry.OldNotebook(lesson.name, "notebooks", book)])
    assert again.books[lesson.name] == book
