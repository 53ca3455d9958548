"""Sphinx extension of the static site: what to execute, what to describe, which figures to load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

from grader.book import toc_files
from grader.chapter import PAGES
from grader.lesson import lessons

CODE_CELL = "```{code-cell}"
DESCRIPTION_LENGTH = 155  # search engines cut longer ones


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx once."""
    app.connect("config-inited", skip_prose, priority=400)
    app.connect("config-inited", load_figures, priority=400)
    app.connect("config-inited", tell_hours, priority=400)
    app.connect("html-page-context", describe_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def skip_prose(app: Sphinx, config: Config) -> None:
    """Keeps pages without code cells out of the execution: they need no kernel.

    The journal's pages (chapter.py) are among them: what a learner wrote is shown, never run.
    """
    root = Path(app.srcdir)
    prose = [
        path.relative_to(root).as_posix()
        for path in sorted([*root.glob("book/**/*.md"), *root.glob(f"{PAGES.as_posix()}/*.md")])
        if CODE_CELL not in path.read_text(encoding="utf-8")
    ]
    config.nb_execution_excludepatterns = [*config.nb_execution_excludepatterns, *prose]


def tell_hours(app: Sphinx, config: Config) -> None:
    """Gives the pages `{{ hours_0 }}`, the hours of the contents' first part, and so on to the half,
    and `{{ hours }}`, their sum in whole hours."""
    hours = count_hours(Path(app.srcdir))
    told = {
        f"hours_{n}": f"{int(value) or ''}{'½' * (value % 1 > 0)}" for n, value in enumerate(hours)
    }
    told["hours"] = str(int(sum(hours) + 0.5))
    config.myst_substitutions = {**config.myst_substitutions, **told}


def count_hours(root: Path) -> list[float]:
    """Hours, to the half, that each part of lessons takes, in the order of the contents.

    They are the sum of `LessonSource.minutes`, so they count reading too.
    """
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    parts = toc.get("parts", [])
    found = {f"book/{lesson.name}": lesson for lesson in lessons(root)} if parts else {}
    hours = []
    for part in parts:
        inside = [found[name] for name in toc_files(part["chapters"]) if name in found]
        hours.append(round(sum(lesson.minutes for lesson in inside) / 30) / 2)
    return [value for value in hours if value]


def load_figures(app: Sphinx, config: Config) -> None:
    """Loads the figures' host on every page, when `course book` has put it beside the others."""
    if (Path(app.srcdir) / "_build" / "web" / "figures" / "host.mjs").is_file():
        config.html_js_files = [*config.html_js_files, ("figures/host.mjs", {"type": "module"})]


def describe_page(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.Node | None,
) -> None:
    """Gives a page without a description its first paragraph, cut at a word, as one."""
    tags = context.get("metatags", "")
    if 'name="description"' in tags:
        return
    text = first_paragraph(doctree) or f"{context.get('title', pagename)}: {config_title(app)}"
    escaped = text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    context["metatags"] = f'{tags}\n<meta name="description" content="{escaped}" />'


def first_paragraph(doctree: nodes.Node | None) -> str:
    """The plain words of the first paragraph outside lists and tables; empty without one."""
    if doctree is None:
        return ""
    for paragraph in doctree.findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section):
            words = " ".join(paragraph.astext().split())
            if len(words) <= DESCRIPTION_LENGTH:
                return words
            return words[:DESCRIPTION_LENGTH].rpartition(" ")[0] + " ..."
    return ""


def config_title(app: Sphinx) -> str:
    return str(app.config.html_title)
