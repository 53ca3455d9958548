"""`course book`: what it copies, what it forgets, what it says and how it fails."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from docutils import nodes

from course_lib.lab.checking import judge
from course_lib.lab.registry import exercise
from grader import book, site
from grader.lesson import WORDS_PER_MINUTE

ROOT = Path(__file__).resolve().parents[1]
PAGE = """---
jupytext: {{text_representation: {{extension: .md, format_name: myst}}}}
kernelspec: {{display_name: Python 3, language: python, name: python3}}
---

# A page

```{{code-cell}} ipython3
:tags: [setup]
{code}
```
"""


def small_course(root: Path, code: str) -> Path:
    """A course of one page with one cell, under the real settings."""
    (root / "book").mkdir(parents=True)
    shutil.copy(ROOT / "_config.yml", root)
    shutil.copytree(ROOT / "book" / "web", root / "book" / "web")
    (root / "_toc.yml").write_text("format: jb-book\nroot: book/00_page\n", encoding="utf-8")
    (root / "book" / "00_page.md").write_text(PAGE.format(code=code), encoding="utf-8")
    return root


def test_failing_cell_fails_the_build_and_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = small_course(tmp_path / "course", "1 / 0")
    before = {path for path in root.rglob("*") if "_build" not in path.parts}
    assert book.build(root) == 1
    told = capfd.readouterr()
    assert "ZeroDivisionError" in told.err and "00_page" in told.err
    assert {path for path in root.rglob("*") if "_build" not in path.parts} == before


def test_a_kernel_that_died_as_it_started_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """nbclient's own complaint, which comes after the cause, does not hide it."""
    spec, died = tmp_path / "jupyter" / "kernels" / "python3", tmp_path / "died"
    spec.mkdir(parents=True)
    start = (
        "import pathlib, runpy, sys\n"
        f"died = pathlib.Path({str(died)!r})\n"
        "if not died.exists():\n"
        "    died.touch()\n"
        "    sys.exit(1)\n"
        "runpy.run_module('ipykernel_launcher', run_name='__main__')\n"
    )
    argv = [sys.executable, "-c", start, "-f", "{connection_file}"]
    told = {"argv": argv, "display_name": "Python 3", "language": "python"}
    (spec / "kernel.json").write_text(json.dumps(told), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    status = book.build(small_course(tmp_path / "course", "print(1)"))
    said = capfd.readouterr()
    assert status == 0, said.err
    assert died.exists() and "going on from there" in said.out


def test_folder_without_a_course_is_named(tmp_path: Path) -> None:
    with pytest.raises(book.BookError, match="no _toc.yml"):
        book.build(tmp_path)


def test_mathjax_is_complete_and_pinned(tmp_path: Path) -> None:
    book.copy_mathjax(tmp_path / "mathjax", packages=tmp_path / "packages")
    copied = book.list_files(tmp_path / "mathjax")
    assert book.tree_digest(copied) == book.MATHJAX_SHA256
    assert "tex-mml-chtml.js" in copied
    assert sum(name.endswith(".woff") for name in copied) >= 20


def test_other_mathjax_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tmp_path / "tex-mml-chtml.js"
    changed.write_text("changed", encoding="utf-8")
    monkeypatch.setattr(book, "mathjax_files", lambda path=None: {changed.name: changed})
    with pytest.raises(book.BookError, match="not the pinned one"):
        book.copy_mathjax(tmp_path / "into", packages=tmp_path)


def test_outputs_are_forgotten_when_the_library_changes(tmp_path: Path) -> None:
    library, cache = tmp_path / "course_lib", tmp_path / "_build" / ".jupyter_cache"
    library.mkdir()
    (library / "gpt.py").write_text("a = 1", encoding="utf-8")
    cache.mkdir(parents=True)
    book.forget_stale_outputs(tmp_path)
    assert not cache.exists()
    cache.mkdir()
    book.forget_stale_outputs(tmp_path)
    assert cache.exists(), "nothing changed"
    (library / "gpt.py").write_text("a = 2", encoding="utf-8")
    book.forget_stale_outputs(tmp_path)
    assert not cache.exists()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/c/book/01.md: Executing notebook using temporary CWD [mystnb]", "  running book/01.md"),
        ("/c/book/01.md:3: WARNING: no such target", "  book/01.md:3: WARNING: no such target"),
        ("[IPKernelApp] WARNING | Kernel is running over TCP", ""),
        ("copying assets... done", ""),
    ],
)
def test_terminal_is_told_what_matters(line: str, told: str) -> None:
    assert book.plain_line(line, Path("/c")) == told


@pytest.mark.parametrize(
    ("runs", "status", "told", "complained"),
    [
        ([(1, [f"RuntimeError: {book.NO_KERNEL[0]} to kernel_info"]), (0, [])], 0, "going on", ""),
        ([(1, [f"RuntimeError: {book.NO_KERNEL[0]}"])] * 3, 1, "going on", book.NO_KERNEL[0]),
        ([(1, [f"RuntimeError: {book.NO_KERNEL[1]} 60 seconds"]), (0, [])], 0, "going on", ""),
        ([(1, ["MemoryError: no room"])], 1, "", "MemoryError: no room"),
        ([(1, ["/c/book/01.md:3: WARNING: no such target"])], 1, "", ""),
    ],
)
def test_a_builder_that_dies_is_started_again_or_heard(
    runs, status, told, complained, tmp_path, monkeypatch, capsys
) -> None:
    left = iter(runs)
    monkeypatch.setattr(book, "run_builder", lambda *_: next(left))
    assert book.run_jupyter_book(tmp_path, strict=True) == status
    assert not list(left), "every start that was to come came"
    out, err = capsys.readouterr()
    assert told in out and complained in err and bool(complained) == bool(err)


def test_description_is_the_first_paragraph_cut_at_a_word() -> None:
    section = nodes.section()
    section += nodes.title(text="Title")
    section += nodes.paragraph(text="word " * 100)
    words = site.first_paragraph(section)
    assert words.endswith("word ...") and len(words) <= site.DESCRIPTION_LENGTH + 4
    assert site.first_paragraph(None) == ""


def test_hours_are_those_of_the_lessons(tmp_path: Path) -> None:
    """Of each part of the contents that has lessons, exercises and reading together."""
    shutil.copy(ROOT / "_toc.yml", tmp_path)
    shutil.copytree(ROOT / "book", tmp_path / "book")
    before = site.count_hours(tmp_path)
    assert len(before) == 6 and before[0] == 0.5 and min(before[1:]) > 1
    lesson = tmp_path / "book" / "06_gpt.md"
    lesson.write_text(lesson.read_text(encoding="utf-8") + "word " * 2 * 60 * WORDS_PER_MINUTE)
    assert site.count_hours(tmp_path) == [before[0], before[1] + 2, *before[2:]]
    index = (ROOT / "book" / "index.md").read_text(encoding="utf-8")
    assert all(f"{{{{ hours_{n} }}}}" in index for n in range(6)) and "{{ hours }}" in index
    config = SimpleNamespace(myst_substitutions={})
    site.tell_hours(SimpleNamespace(srcdir=tmp_path), config)
    told = config.myst_substitutions
    assert told["hours_0"] == "½" and 0 <= int(told["hours"]) - (sum(before) + 2) <= 0.5


def test_the_message_on_the_front_page_is_what_the_check_says() -> None:
    def weights_only(num_params, *, param_bytes=2, **others):
        return num_params * param_bytes

    index = (ROOT / "book" / "index.md").read_text(encoding="utf-8")
    shown = index.partition("```text\n")[2].partition("```")[0]
    assert "Fits" in shown
    assert judge(exercise("bytes"), weights_only).text().startswith(shown.rstrip())


def test_toc_names_pages_that_exist() -> None:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    files = [toc["root"], *(page["file"] for part in toc["parts"] for page in part["chapters"])]
    gone = [name for name in files if not (ROOT / f"{name}.md").is_file()]
    assert not gone, f"_toc.yml names {gone}, which are not there: remove these lines"


def test_settings_and_look_name_no_outside_address() -> None:
    sources = [ROOT / "_config.yml", *sorted((ROOT / "book" / "web").iterdir())]
    outside = re.compile(r"(?:https?:)?//(?!www\.w3\.org/)[\w.-]+\.\w{2,}")
    found = {path.name: outside.findall(path.read_text("utf-8", "replace")) for path in sources}
    assert not any(found.values()), found


def test_pages_that_left_the_toc_are_removed(tmp_path: Path) -> None:
    kept = ("index.html", "search.html", "book/index.html", "book/a.html", "book/b.html")
    for name in (*kept, "book/old.html", "_static/part.html"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    chapters = [{"file": "book/a", "sections": [{"file": "book/b"}]}]
    book.remove_old_pages(tmp_path, {"root": "book/index", "parts": [{"chapters": chapters}]})
    assert set(book.list_files(tmp_path)) == {*kept, "_static/part.html"}
