"""The views: current, repeatable, and derived from the library alone."""

import ast
import base64
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import nbformat
import pytest

from grader import cli, views
from grader.course import ROOT
from grader.lesson import BEGIN, STUB, LessonError, LessonSource, lessons
from grader.plain import plain_markdown
from tests import course
from tests.course_copy import BESIDE, copy_course

LESSONS = course.lessons()
CELL = """```{{code-cell}} ipython3
---
exercise: x
from: course_lib.gpt:{target}
blank: [{blank}]
title: t
difficulty: 1
importance: 1
minutes: 1
needs: []
teaches: [a]
uses: []
not: none of torch's own
hints: [one, two, three]
---
```

```{{code-cell}} ipython3
:check: x
:points: 1
```
"""
HEAD = (
    "---\nkernelspec: {display_name: Python 3, language: python, name: python3}\n---\n\n# T\n\n"
    "```{code-cell} ipython3\n:tags: [setup]\n\nimport torch\n```\n\n"
)


GOOD = HEAD + CELL.format(target="rotate_half", blank="rotate_half")


def lesson(target: str = "rotate_half", blank: str = "rotate_half") -> LessonSource:
    return LessonSource(Path("07_x.md"), HEAD + CELL.format(target=target, blank=blank))


def test_nothing_is_stale(capsys):
    code = cli.main(["build", "--check"])
    assert code == 0, capsys.readouterr().err


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with the book and what one build of it writes; tests that write there copy it."""
    root = tmp_path_factory.mktemp("built")
    shutil.copytree(ROOT / "book", root / "book", ignore=shutil.ignore_patterns("web"))
    (root / "course_lib/lab").mkdir(parents=True)
    assert views.build(root)
    return root


def test_two_builds_are_byte_identical(built):
    """And those of another folder are the files of this one."""
    assert not views.build(built)
    for path in (path for path in built.rglob("*") if path.is_file()):
        committed = ROOT / path.relative_to(built)
        assert path.read_bytes() == committed.read_bytes(), f"{committed} differs"


@pytest.mark.parametrize("view", ["notebooks", "solutions", "source"])
def test_a_changed_solution_changes_every_view_that_shows_it(view, monkeypatch):
    import grader.lesson as module

    before = views.dumps(views.notebook(lesson(), view))
    real = module.library_source

    def changed(name: str) -> str:
        source = real(name).replace("(-second, first)", "(-second, +first)")
        return source.replace("swap the", "Swap the")  # in the docstring, which the stub shows

    monkeypatch.setattr(module, "library_source", changed)
    assert views.dumps(views.notebook(lesson(), view)) != before


@pytest.mark.parametrize("found", LESSONS, ids=lambda x: x.name)
def test_views_of_each_lesson(found: LessonSource):
    student, solved, source = (views.notebook(found, v) for v in views.VIEWS)
    for nb in (student, solved, source):
        ids = [c.id for c in nb.cells]
        assert len(ids) == len(set(ids))
        assert all(not c.get("outputs") and c.get("execution_count") is None for c in nb.cells)
    for exercise in found.exercises.values():
        hole, answer, marked = (
            next(c.source for c in nb.cells if c.id == exercise.id)
            for nb in (student, solved, source)
        )
        assert STUB in hole and BEGIN not in hole
        assert STUB not in answer and BEGIN not in answer
        assert BEGIN in marked
        ast.parse(hole), ast.parse(answer)
        body = [line for line in answer.splitlines() if line not in hole.splitlines()]
        assert body, "the stub still holds the whole solution"
        for nb_text in (views.dumps(student),):
            assert BEGIN not in nb_text and "HIDDEN TESTS" not in nb_text


@pytest.mark.parametrize("found", LESSONS, ids=lambda x: x.name)
def test_notebooks_link_to_notebooks_and_fold_their_imports(found: LessonSource):
    nb = views.notebook(found, "notebooks")
    text = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert not [link for link in links if not (ROOT / "notebooks" / link).is_file()]
    assert not [link for link in links if re.match(r"\d\d_\w+\.md", link)]
    after = [one.name for one in LESSONS if one.number == found.number + 1]
    assert all(f"]({name}.ipynb)" in nb.cells[-1].source for name in after)
    assert not re.search(r"<summary>[^<]*`", text), "a backtick in HTML is a letter"
    folded = [c.source for c in nb.cells if c.metadata.get("jupyter", {}).get("source_hidden")]
    assert folded == [found.setup]


def test_what_cells_write_beside_the_notebooks_is_ignored_by_git():
    written = [
        name for found in LESSONS for name in re.findall(r"^%%writefile (\S+)", found.text, re.M)
    ]
    assert written and not [name for name in written if "/" in name or name.endswith(".ipynb")]
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    assert ignored.index("notebooks/*") < ignored.index("!notebooks/*.ipynb")


@pytest.mark.parametrize("found", LESSONS, ids=lambda x: x.name)
def test_a_lesson_is_complete(found: LessonSource):
    lines = found.text.count("\n")
    page = f"book/{found.path.name}"
    assert lines <= 800, f"{page} has {lines} lines, expected at most 800: split it"
    for part in ("\n## Journal\n", "\n## Review\n", "predict(", "reveal("):
        assert part in found.text, (
            f"{page} lacks {part.strip()!r}: see lesson 01 for where it stands"
        )
    end = found.text.partition("\n## Review\n")[0].rstrip()
    box = end.rpartition("\n:::{admonition} In short\n")[2].splitlines()
    assert 4 <= len(box) <= 5 and box[-1] == ":::" and all(x.startswith("- ") for x in box[:-1]), (
        f"{page} doesn't end in short: three or four lines in a box right before the reviews"
    )
    raw = [c for c in found.source.cells if c.cell_type == "code" and "plt.show()" in c.source]
    assert all(c.metadata.get("mystnb", {}).get("image", {}).get("alt") for c in raw), (
        f"{page}: a picture lacks alt text: say what it shows in its cell's mystnb, image, alt"
    )


def test_a_method_becomes_a_subclass_of_the_librarys_class():
    shown = lesson("GPT.forward", "forward").exercises["x"].stub
    assert shown.startswith("class GPT(gpt.GPT):\n    def forward(self")
    assert shown.rstrip().endswith(STUB)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + CELL.format(target="rotate_half", blank="nothing"), "no \\['nothing'\\]"),
        (HEAD + CELL.format(target="missing", blank="missing"), "does not exist"),
        (GOOD.replace("minutes: 1\n", ""), "lacks minutes"),
        (GOOD.replace(", three]", "]"), "three hints"),
        (GOOD.replace(":points: 1\n", ""), "points"),
        (GOOD.replace("---\n```\n\n```", "---\nx = 1\n```\n\n```", 1), "empty body"),
    ],
)
def test_a_lesson_that_breaks_the_grammar_fails_the_build(text, message, tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "book/07_x.md").write_text(text)
    with pytest.raises(LessonError, match=message):
        for found in lessons(tmp_path):
            views.dumps(views.notebook(found, "notebooks"))


def test_one_id_in_two_lessons_is_refused(tmp_path):
    (tmp_path / "book").mkdir()
    for name in ("07_x.md", "08_y.md"):
        (tmp_path / "book" / name).write_text(GOOD)
    with pytest.raises(LessonError, match="07_x and 08_y"):
        lessons(tmp_path)


def test_check_names_what_is_stale(built, tmp_path):
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    changed = tmp_path / "notebooks" / f"{LESSONS[0].name}.ipynb"
    changed.write_text(changed.read_text() + " ")
    orphan = tmp_path / "solutions/99_gone.ipynb"
    orphan.write_text("{}")
    assert set(views.build(tmp_path, check=True)) == {changed, orphan}


def test_the_page_shows_the_stub_and_folds_the_solution():
    nb = views.book_view(LESSONS[1].text)
    tagged = [(i, c, c.metadata.get("tags", ())) for i, c in enumerate(nb.cells)]
    assert [c.source for _, c, tags in tagged if "setup" in tags] == [LESSONS[1].setup]
    assert all("hide-input" in tags for _, _, tags in tagged if "setup" in tags)
    folded = [i for i, _, tags in tagged if "hide-input" in tags and "setup" not in tags]
    stubs = [i for i, c, _ in tagged if STUB in c.source]
    assert len(stubs) == len(LESSONS[1].exercises)
    assert all(i + 1 in folded and i not in folded for i in stubs)
    assert len(nb.metadata["source_map"]) == len(nb.cells)


def test_directives_become_plain_markdown():
    shown = plain_markdown(
        ":::{note} Title\n:class: x\nbody with {ref}`words <target>`\n:::\n\n% gone\nafter"
    )
    assert (
        ":::" not in shown
        and "{ref}" not in shown
        and ":class:" not in shown
        and "gone" not in shown
    )
    assert "> **Title**" in shown and "*words*" in shown and "after" in shown


def test_a_drawing_becomes_an_image_that_says_what_it_shows():
    """JupyterLab takes `svg` out of Markdown, and leaves the words of it behind."""
    svg = (
        '<svg viewBox="0 0 40 20"><title>A box</title><desc>It is "red".</desc>'
        '<a href="01_rmsnorm.html"><rect width="9" height="9"/></a></svg>'
    )
    shown = plain_markdown(f"before\n\n```{{raw}} html\n{svg}\n```\n\nafter")
    before, image, after = shown.split("\n\n")
    assert (before, after) == ("before", "after")
    alt, data = re.fullmatch(
        r'<img width="40" alt="([^"]*)" src="data:image/svg\+xml;base64,([^"]*)">', image
    ).groups()
    assert alt == "A box. It is &quot;red&quot;."
    drawing = ElementTree.fromstring(base64.b64decode(data))
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    assert not [part for part in drawing.iter() if part.tag.endswith("}a")], "a link to a page"
    style = next(part.text for part in drawing.iter() if part.tag.endswith("}style"))
    assert ".course-block{fill:none" in style, "a frame is drawn over what it frames"


def test_generated_notebooks_are_valid():
    for path in [*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("solutions/*.ipynb")]:
        nbformat.validate(nbformat.read(path, 4))


def test_a_build_keeps_a_copy_of_a_notebook_with_answers(built, tmp_path, monkeypatch, capsys):
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    copy_course(tmp_path, BESIDE)
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    path = tmp_path / "notebooks/01_rmsnorm.ipynb"
    book = nbformat.read(path, 4)
    next(c for c in book.cells if c.id == "rmsnorm").source += "\n# an evening's work"
    nbformat.write(book, path)
    cli.run_build(SimpleNamespace(root=tmp_path, check=False, add=False))
    (kept,) = (tmp_path / "mine/kept").glob("01_rmsnorm-*.ipynb")
    assert "an evening's work" in kept.read_text()
    assert "an evening's work" not in path.read_text()
    assert "01_rmsnorm.ipynb has answers" in capsys.readouterr().out
