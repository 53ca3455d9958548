"""No word a learner wrote is lost by `course update` or `course reset`, whatever the notebook."""

import copy
import hashlib
import json
from argparse import Namespace

import nbformat
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_output

from grader import answers
from grader.carry import LOOSE, OldNotebook, carry

HOLE = 'raise NotImplementedError("your code here")'
STUB = f'def area(r):\n    """The area."""\n    {HOLE}'
SOLVED = 'def area(r):\n    """The area."""\n    return 3.14 * r * r'
METHOD = f'class GPT(gpt.GPT):\n    def generate(self):\n        """Tokens."""\n        {HOLE}'


def plain(kind, source, key, **more):
    """A cell, without the validation that makes nbformat's own constructors slow."""
    base = {"cell_type": kind, "source": source, "id": key, "metadata": {}}
    return NotebookNode(
        base | ({"outputs": [], "execution_count": None} if kind == "code" else {}) | more
    )


def new_code_cell(source, id="", **more):
    return plain("code", source, id, **more)


def new_markdown_cell(source, id=""):
    return plain("markdown", source, id)


def new_notebook(cells, metadata=None):
    book = dict(cells=cells, metadata=metadata or {}, nbformat=4, nbformat_minor=5)
    return from_dict(book)


def text(source, kind=new_markdown_cell):
    return kind(source, id=hashlib.sha256(source.encode()).hexdigest()[:12])


def code(source):
    return text(source, new_code_cell)


def exercise(key, stub):
    meta = dict(grade_id=key, solution=True, grade=False, locked=False, task=False)
    return new_code_cell(stub, id=key, metadata={"nbgrader": meta | {"schema_version": 3}})


def checked(key):
    meta = dict(grade_id=f"{key}-check", solution=False, grade=True, locked=True, task=False)
    meta |= {"schema_version": 3, "points": 2}
    return new_code_cell(f'check("{key}")', id=f"{key}-check", metadata={"nbgrader": meta})


def lesson(*, prose="Circles.", stub=STUB):
    cells = [text("# One"), code("import math"), text(prose), exercise("area", stub)]
    cells += [checked("area"), code("area(2)"), exercise("generate", METHOD), checked("generate")]
    return new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})


def cell(book, key):
    return next(c for c in book.cells if c.get("id") == key)


def sources(*books):
    return [c.source for book in books for c in book.cells]


def merged(old, new=None, **more):
    return carry(
        {"01_one": new or lesson()}, [OldNotebook("01_one", "notebooks/01_one.ipynb", old)], **more
    )


def test_an_untouched_notebook_becomes_the_new_release():
    done = merged(lesson(), lesson(prose="Circles, explained better."))
    assert done.books["01_one"] == lesson(prose="Circles, explained better.")
    assert (done.rows["01_one"].carried, done.rows["01_one"].aside) == (0, 0)


def test_an_answer_moves_into_the_new_text():
    old = lesson()
    cell(old, "area").source = SOLVED
    new = merged(old, lesson(prose="New prose.", stub=STUB + "  # a hint")).books["01_one"]
    assert cell(new, "area").source == SOLVED
    assert "New prose." in sources(new) and "Circles." not in sources(new)
    assert cell(new, "area").metadata.nbgrader.grade_id == "area"


def test_a_stub_of_an_older_release_gives_way_when_it_left_its_digest():
    from grader.carry import answer_digest

    old = lesson(stub="def area(radius):\n    raise NotImplementedError")
    cell(old, "area").metadata["course"] = {"stub": answer_digest(cell(old, "area").source)}
    done = merged(old)
    assert cell(done.books["01_one"], "area").source == STUB
    assert done.rows["01_one"].carried == done.rows["01_one"].aside == 0


def test_added_cells_stay_behind_the_cell_they_followed():
    old = lesson()
    old.cells.insert(4, new_code_cell("area(7)", id="mine1"))
    old.cells.insert(5, new_markdown_cell("So it grows.", id="mine2"))
    old.cells.insert(0, new_markdown_cell("My notes", id="mine0"))
    new = merged(old, lesson(prose="Other.")).books["01_one"]
    ids = [c.id for c in new.cells]
    at = ids.index("area")
    assert ids[at : at + 3] == ["area", "mine1", "mine2"] and ids[0] == "mine0"


def test_an_edited_cell_of_the_release_stays_edited():
    old = lesson()
    old.cells[5].source = "area(200)"
    new = merged(old, lesson(prose="Other.")).books["01_one"]
    assert sources(new).count("area(200)") == 1 and "area(2)" not in sources(new)


def test_an_edit_of_a_cell_that_is_gone_is_an_added_cell():
    old = lesson()
    old.cells[2].source = "Circles, and what I think of them."
    new = merged(old, lesson(prose="Other.")).books["01_one"]
    assert {"Circles, and what I think of them.", "Other."} <= set(sources(new))


def test_an_edited_check_is_kept_beside_the_real_one():
    old = lesson()
    cell(old, "area-check").source = 'check("area"); print(1)'
    new = merged(old).books["01_one"]
    assert cell(new, "area-check").source == 'check("area")'
    (kept,) = (c for c in new.cells if c.source == 'check("area"); print(1)')
    assert "nbgrader" not in kept.metadata


def test_an_answer_without_metadata_is_found_by_its_name():
    old = lesson()
    for name, source in (
        ("area", SOLVED + "\n    oops ("),
        ("generate", METHOD.replace(HOLE, "pass")),
    ):
        lost = cell(old, name)
        lost.source, lost.id, lost.metadata = source, f"new-{name}", {}
    done = merged(old)
    assert cell(done.books["01_one"], "area").source == SOLVED + "\n    oops ("
    assert cell(done.books["01_one"], "generate").source == METHOD.replace(HOLE, "pass")
    assert len(done.books["01_one"].cells) == len(lesson().cells)


def test_a_second_answer_in_a_copied_cell_is_kept():
    old = lesson()
    cell(old, "area").source = SOLVED
    twin = exercise("area", SOLVED.replace("3.14", "3.1416"))
    twin.id = "pasted"
    old.cells.insert(4, twin)
    new = merged(old).books["01_one"]
    assert cell(new, "area").source == SOLVED and cell(new, "pasted").source == twin.source
    assert "nbgrader" not in cell(new, "pasted").metadata


def test_an_answer_whose_exercise_is_gone_is_set_aside_with_its_origin():
    old, new = lesson(), lesson()
    cell(old, "area").source = SOLVED
    new.cells = [c for c in new.cells if not c.id.startswith("area")]
    done = merged(old, new)
    heading, answer = done.books["01_one"].cells[-2:]
    assert "area" in heading.source and "notebooks/01_one.ipynb" in heading.source
    assert answer.source == SOLVED and done.rows["01_one"].aside == 1


def test_an_exercise_that_moved_takes_its_answer_along():
    old, one, two = lesson(), lesson(), lesson()
    cell(old, "area").source = SOLVED
    one.cells = [c for c in one.cells if not c.id.startswith("area")]
    two.cells = [text("# Two"), exercise("area", STUB), checked("area")]
    done = carry({"01_one": one, "02_two": two}, [OldNotebook("01_one", "o", old)])
    assert cell(done.books["02_two"], "area").source == SOLVED
    assert SOLVED not in sources(done.books["01_one"])


def test_a_lesson_that_is_gone_leaves_its_work_in_one_notebook():
    old = lesson()
    cell(old, "generate").source = METHOD.replace(HOLE, "return 1")
    old.cells.append(new_markdown_cell("My journal", id="j"))
    done = carry({"02_two": new_notebook(cells=[text("# Two")])}, [OldNotebook("01_one", "o", old)])
    kept = sources(done.books[LOOSE])
    assert kept[-2:] == [METHOD.replace(HOLE, "return 1"), "My journal"]
    assert SOLVED not in kept and "# One" not in kept
    again = carry(
        {"02_two": new_notebook(cells=[text("# Two")])},
        [OldNotebook("01_one", "o", old)],
        done.books[LOOSE],
    )
    assert again.books[LOOSE] == done.books[LOOSE]


def test_outputs_stay_with_unchanged_cells():
    old = lesson()
    old.cells[5].outputs = [new_output("stream", text="12.56")]
    old.cells[5].execution_count = 3
    assert merged(old, lesson(prose="Other.")).books["01_one"].cells[5] == old.cells[5]


def test_own_work_wins_over_an_older_copy_and_the_other_is_set_aside():
    own, older = lesson(), lesson()
    cell(own, "area").source = SOLVED
    cell(older, "area").source = SOLVED + "  # older"
    cell(older, "generate").source = METHOD.replace(HOLE, "return 2")
    olds = [
        OldNotebook("01_one", "old/01_one.ipynb", older, own=False),
        OldNotebook("01_one", "own", own),
    ]
    done = carry({"01_one": lesson()}, olds)
    new = done.books["01_one"]
    assert cell(new, "area").source == SOLVED
    assert cell(new, "generate").source == METHOD.replace(HOLE, "return 2")
    assert new.cells[-1].source == SOLVED + "  # older"
    again = carry({"01_one": lesson()}, [olds[0], OldNotebook("01_one", "own", new)])
    assert again.books["01_one"] == new


# --- any notebook at all ---------------------------------------------------------------------

WORDS = st.text(max_size=12) | st.sampled_from([STUB, SOLVED, METHOD, "", "# One", "area(2)"])
EDIT = st.tuples(
    st.sampled_from(
        ["edit", "delete", "insert", "lose id", "lose metadata", "copy", "move", "type"]
    ),
    st.integers(0, 12),
    WORDS,
)


def learner(edits):
    """A release notebook after a learner's (or a strange tool's) edits."""
    book = lesson()
    for number, (what, where, words) in enumerate(edits):
        where %= max(len(book.cells), 1)
        if what == "insert" or not book.cells:
            book.cells.insert(where, new_code_cell(words, id=f"mine-{number}"))
        elif what == "edit":
            book.cells[where].source = words
        elif what == "delete":
            del book.cells[where]
        elif what == "lose id":
            book.cells[where].pop("id", None)
        elif what == "lose metadata":
            book.cells[where].metadata = NotebookNode()
        elif what == "copy":
            book.cells.append(copy.deepcopy(book.cells[where]))
        elif what == "move":
            book.cells.append(book.cells.pop(where))
        else:
            fresh = new_markdown_cell(book.cells[where].source)
            fresh.id = book.cells[where].get("id", f"type-{number}")
            book.cells[where] = fresh
    return book


def releases():
    gone = lesson(prose="Other.")
    gone.cells = [c for c in gone.cells if not c.id.startswith("generate")]
    moved = {"01_one": gone, "02_two": new_notebook(cells=[exercise("generate", METHOD)])}
    return [{"01_one": lesson()}, {"01_one": gone}, moved, {"02_two": lesson(stub=STUB + "#")}]


@settings(
    max_examples=200,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(EDIT, max_size=8), st.lists(EDIT, max_size=4), st.integers(0, 3), st.booleans())
def test_no_source_of_a_learner_is_ever_lost(edits, more, which, with_copy):
    olds = [OldNotebook("01_one", "own", learner(edits))]
    if with_copy:
        olds.append(OldNotebook("01_one", "copy", learner(more), own=False))
    done = carry(releases()[which], olds)
    now = set(sources(*done.books.values()))
    written = {s for s in sources(*(old.book for old in olds)) if s.strip()}
    lost = written - now - set(sources(lesson()))
    assert not lost
    for name, book in done.books.items():
        book.nbformat_minor = 5
        ids = [c.id for c in book.cells]
        assert len(ids) == len(set(ids)), name
    nbformat.validate(book)


REAL = st.tuples(
    st.sampled_from(["edit", "insert", "delete", "lose metadata"]), st.integers(0, 12), st.just("")
)


@settings(max_examples=100, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(REAL, max_size=8), st.integers(0, 3))
def test_a_second_update_changes_nothing(edits, which):
    """After what a learner does: every text of theirs is another one."""
    texts = [(what, where, f"note_{n} = {n}") for n, (what, where, _) in enumerate(edits)]
    olds = [OldNotebook("01_one", "own", learner(texts))]
    done = carry(releases()[which], olds)
    own = [OldNotebook(name, "own", book) for name, book in done.books.items() if name != LOOSE]
    own += [] if "01_one" in done.books else olds
    again = carry(releases()[which], own, done.books.get(LOOSE))
    assert again.books == done.books


# --- files -----------------------------------------------------------------------------------


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course home with one lesson, its notebook answered, and a release that has newer prose."""
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    release = {"01_one": lesson(prose="Newer."), "02_two": new_notebook(cells=[text("# Two")])}
    monkeypatch.setattr(answers, "_release_notebooks", lambda: dict(release))
    (tmp_path / "notebooks").mkdir()
    old = lesson()
    cell(old, "area").source = SOLVED
    nbformat.write(old, tmp_path / "notebooks" / "01_one.ipynb")
    return tmp_path


def kept(course):
    return sorted(p.name for p in course.glob("mine/kept/*"))


def snapshot(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_update_writes_keeps_a_copy_and_does_nothing_the_second_time(course, capsys):
    before = (course / "notebooks/01_one.ipynb").read_bytes()
    assert answers.run_update(Namespace(source=None)) == 0
    assert "01_one" in capsys.readouterr().out
    (copy,) = (course / "mine/kept").iterdir()
    assert copy.read_bytes() == before and copy.name.startswith("01_one-2")
    new = answers.read_notebook(course / "notebooks/01_one.ipynb")
    assert cell(new, "area").source == SOLVED and "Newer." in sources(new)
    after = snapshot(course / "notebooks")
    assert set(after) == {"01_one.ipynb", "02_two.ipynb"}
    assert answers.run_update(Namespace(source=None)) == 0
    assert snapshot(course / "notebooks") == after and len(kept(course)) == 1


@pytest.mark.parametrize("with_todays", [False, True])
def test_work_follows_a_lesson_that_has_another_number(course, with_todays):
    """The old file is kept in mine/ and gone from the notebooks, where its answer would grow old."""
    notebooks = course / "notebooks"
    (notebooks / "01_one.ipynb").rename(notebooks / "00_one.ipynb")
    if with_todays:
        nbformat.write(lesson(), notebooks / "01_one.ipynb")
    before = set(snapshot(notebooks).values())
    assert answers.run_update(Namespace(source=None)) == 0
    new = answers.read_notebook(notebooks / "01_one.ipynb")
    assert cell(new, "area").source == SOLVED and "Newer." in sources(new)
    after = snapshot(notebooks)
    assert set(after) == {"01_one.ipynb", "02_two.ipynb"}
    assert before <= set(snapshot(course / "mine/kept").values())
    assert answers.run_update(Namespace(source=None)) == 0
    assert snapshot(notebooks) == after


DAMAGE = {
    "no JSON": b"{ not json",
    "empty": b"",
    "binary": b"\x80\x04\xff\x00",
    "a list": b"[1, 2]",
    "format 3": b'{"nbformat": 3, "nbformat_minor": 0, "worksheets": [], "metadata": {}}',
    "no cells": b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}}',
    "cells of text": b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": ["a"]}',
    "a cell without source": b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": '
    b'[{"cell_type": "raw", "metadata": {}, "id": "a"}]}',
    "metadata a list": b'{"nbformat": 4, "nbformat_minor": 5, "metadata": [], "cells": []}',
    "too deep": b"[" * 200_000,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_broken_notebook_is_left_alone_and_the_rest_goes_on(course, capsys, damage):
    (course / "notebooks/02_two.ipynb").write_bytes(damage)
    assert answers.run_update(Namespace(source=None)) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "02_two.ipynb" in said and "left as it is" in said
    assert (course / "notebooks/02_two.ipynb").read_bytes() == damage
    assert "Newer." in sources(answers.read_notebook(course / "notebooks/01_one.ipynb"))


def test_a_notebook_without_cell_ids_is_carried(course):
    path = course / "notebooks/01_one.ipynb"
    raw = json.loads(path.read_text())
    raw["nbformat_minor"] = 4
    for entry in raw["cells"]:
        del entry["id"]
    raw["cells"].append({"cell_type": "raw", "metadata": {}, "source": ["my ", "note"]})
    path.write_text(json.dumps(raw), encoding="utf-8-sig")
    assert answers.run_update(Namespace(source=None)) == 0
    new = answers.read_notebook(path)
    assert cell(new, "area").source == SOLVED and "my note" in sources(new)
    assert sources(new).count("import math") == 1


def test_update_from_an_older_copy(course, tmp_path_factory):
    older = tmp_path_factory.mktemp("older")
    (older / "notebooks").mkdir()
    old = lesson()
    cell(old, "generate").source = METHOD.replace(HOLE, "return 3")
    nbformat.write(old, older / "notebooks/01_one.ipynb")
    nbformat.write(new_notebook(cells=[text("play")]), older / "notebooks/scratch.ipynb")
    (older / "notebooks/02_two.ipynb").write_text("{")
    before = snapshot(older / "notebooks")
    assert answers.run_update(Namespace(source=str(older))) == 1
    new = answers.read_notebook(course / "notebooks/01_one.ipynb")
    assert cell(new, "generate").source.endswith("return 3")
    assert cell(new, "area").source == SOLVED
    assert (course / "notebooks/scratch.ipynb").exists()
    assert sources(answers.read_notebook(course / "notebooks/02_two.ipynb")) == ["# Two"]
    assert snapshot(older / "notebooks") == before
    after = snapshot(course / "notebooks")
    answers.run_update(Namespace(source=str(older)))
    assert snapshot(course / "notebooks") == after


def test_a_folder_without_notebooks_is_refused(course):
    before = snapshot(course / "notebooks")
    with pytest.raises(ValueError, match="no notebooks in"):
        answers.update(course / "nowhere")
    assert snapshot(course / "notebooks") == before


def test_nothing_is_written_when_no_copy_can_be_kept(course):
    before = snapshot(course / "notebooks")
    (course / "mine").write_text("in the way")
    with pytest.raises(ValueError, match="nothing was changed"):
        answers.update()
    assert snapshot(course / "notebooks") == before


def test_half_a_character_in_an_answer_is_carried(course):
    path = course / "notebooks/01_one.ipynb"
    raw = json.loads(path.read_text())
    raw["cells"].append({"cell_type": "raw", "metadata": {}, "source": "a\ud83d", "id": "half"})
    path.write_text(json.dumps(raw))
    assert answers.run_update(Namespace(source=None)) == 0
    assert "a\ud83d" in sources(answers.read_notebook(path))


def test_reset_keeps_every_old_notebook(course, capsys):
    (course / "book").mkdir()
    first = (course / "notebooks/01_one.ipynb").read_bytes()
    answers.run_reset(Namespace(lesson="one"))
    path = course / "notebooks/01_one.ipynb"
    assert cell(answers.read_notebook(path), "area").source == STUB
    path.write_bytes(b"broken")
    answers.run_reset(Namespace(lesson="1"))
    assert {p.read_bytes() for p in (course / "mine/kept").iterdir()} == {first, b"broken"}
    answers.run_reset(Namespace(lesson="01_one"))
    assert len(kept(course)) == 2
    assert "as it was already" in capsys.readouterr().out.splitlines()[-1]


def test_reset_of_an_unknown_lesson_names_the_lessons(course):
    with pytest.raises(ValueError, match="Lessons: 01_one"):
        answers.run_reset(Namespace(lesson="nine"))


def test_the_real_lessons_survive_a_round(tmp_path, monkeypatch):
    """Views as they are generated: untouched notebooks update to themselves, byte for byte."""
    from pathlib import Path

    from grader import views

    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    root = Path(__file__).parents[1]
    (tmp_path / "book").mkdir()
    for page in root.glob("book/[0-9][0-9]_*.md"):
        (tmp_path / "book" / page.name).write_text(
            page.read_text(encoding="utf-8"), encoding="utf-8"
        )
    answers.update()
    before = snapshot(tmp_path / "notebooks")
    assert before
    for name, book in answers._release_notebooks().items():
        assert before[f"{name}.ipynb"] == views.dumps(book).encode()
    answers.update()
    assert snapshot(tmp_path / "notebooks") == before and not kept(tmp_path)
