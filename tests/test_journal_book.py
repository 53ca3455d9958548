"""The journal in the book: a private site beside the public one, which never holds a word of it."""

import argparse
import shutil
from pathlib import Path

import pytest
import yaml

from course_lib.lab.journal import export
from course_lib.lab.journal import template as templates
from course_lib.lab.journal.entry import entries
from grader import book, chapter
from grader.cli import parser

ROOT = Path(__file__).resolve().parents[1]
LESSON = """---
jupytext: {text_representation: {extension: .md, format_name: myst}}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

# A page

```{code-cell} ipython3
:tags: [setup]
print("a lesson ran")
```
"""
ENTRY = """---
date: 2026-11-20
tags: [rope]
---

# Secret thoughts 我的日记

## Context

Only for me: zanzibar. See [[2026-11-19-old]] and [nothing](nowhere.md), $x^2$.

```{code-cell} ipython3
raise SystemExit("a journal is not run")
```

{no-such-role}`x`
"""


@pytest.fixture
def course(tmp_path, monkeypatch) -> Path:
    """A course of one page, and a learner with two entries."""
    root = tmp_path / "course"
    (root / "book").mkdir(parents=True)
    (root / "course_lib").mkdir()
    shutil.copy(ROOT / "_config.yml", root)
    shutil.copytree(ROOT / "book" / "web", root / "book" / "web")
    (root / "_toc.yml").write_text("format: jb-book\nroot: book/00_page\n", encoding="utf-8")
    (root / "book" / "00_page.md").write_text(LESSON, encoding="utf-8")
    journal = root / "learning" / "journal"
    journal.mkdir(parents=True)
    (journal / "2026-11-19-old.md").write_text("# Old\n\n## Context\n\nold\n", encoding="utf-8")
    (journal / "2026-11-20-日记.md").write_text(ENTRY, encoding="utf-8")
    monkeypatch.setenv("COURSE_HOME", str(root))
    return root


def holds(folder: Path, word: str) -> list[str]:
    return [p.name for p in folder.rglob("*") if p.is_file() and word.encode() in p.read_bytes()]


def test_without_an_exported_journal_the_book_is_the_public_one(course):
    assert not chapter.has_journal(course)
    export.export(entries(templates.load()))
    assert chapter.has_journal(course)
    export.remove()
    assert not chapter.has_journal(course)


def test_contents_and_settings_of_the_private_site(course):
    export.export(entries(templates.load()))
    before = {p: p.read_bytes() for p in course.glob("_*.yml")}
    toc, config = chapter.contents(course), chapter.settings(course)
    part = toc["parts"][-1]
    assert part["caption"] == "My journal"
    assert [page["file"].rpartition("/")[2] for page in part["chapters"][0]["sections"]] == [
        "2026-11-20-日记",
        "2026-11-19-old",
    ]
    assert "Private" in config["sphinx"]["config"]["html_theme_options"]["announcement"]
    options = chapter.prepare_private_build(course)
    assert "--path-output" in options and str(course / "_build" / "private") in options
    assert {p: p.read_bytes() for p in course.glob("_*.yml")} == before
    written = yaml.safe_load((course / "_build/private/_toc.yml").read_text(encoding="utf-8"))
    assert written == toc


def test_the_private_site_holds_the_journal_and_the_public_one_does_not(course, capfd):
    export.export(entries(templates.load()))
    assert book.run(argparse.Namespace(root=course, serve=False, public=False)) == 0
    public, private = book.site(course), book.site(course, private=True)
    assert private.is_dir() and not private.is_relative_to(public)
    assert "2026-11-20-日记.html" in holds(private, "zanzibar")
    page = (private / "learning/journal/book/2026-11-20-日记.html").read_text(encoding="utf-8")
    assert "Private: this site holds your journal" in page and "raise" in page
    assert (private / "book" / "00_page.html").is_file()
    assert book.run(argparse.Namespace(root=course, serve=False, public=True)) == 0
    assert not holds(public, "zanzibar") and not holds(public, "My journal")
    assert "a journal is not run" not in capfd.readouterr().err


def test_the_command_can_leave_the_journal_out():
    assert parser().parse_args(["book", "--public"]).public
    assert not parser().parse_args(["book"]).public


def test_git_ignores_the_journal_and_its_chapter():
    assert "learning/" in (ROOT / ".gitignore").read_text(encoding="utf-8").split()
