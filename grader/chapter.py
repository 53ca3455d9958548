"""The learner's journal as a chapter of the site: private, and built into a folder of its own.

`course journal export` writes its pages. While they are there, `course book` builds the whole site
with them into `_build/private`, and leaves `_build/html` alone: what gets published from there can
hold no journal. Every page of the private site says that it is private.
"""

import shutil
from pathlib import Path
from typing import Any

import yaml

PAGES = Path("learning", "journal", "book")
NOTE = "Private: this site holds your journal. It is in _build/private, and nothing publishes it."


def has_journal(root: Path) -> bool:
    """Whether the learner has exported a journal."""
    return (root / PAGES / "index.md").is_file()


def private_folder(root: Path) -> Path:
    """Where the private site is built; `_build/html` below it is the finished one."""
    return root / "_build" / "private"


def contents(root: Path) -> dict[str, Any]:
    """The table of contents of the course, with the journal as its last part."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    names = sorted((p.stem for p in (root / PAGES).glob("*.md") if p.stem != "index"), reverse=True)
    index = {"file": (PAGES / "index").as_posix()}
    if names:
        index["sections"] = [{"file": (PAGES / name).as_posix()} for name in names]
    part = {"caption": "My journal", "chapters": [index]}
    return toc | {"parts": [*toc.get("parts", []), part]}


def settings(root: Path) -> dict[str, Any]:
    """The settings of the course; what lessons printed is shared with the public site."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    config["execute"] = {
        **config.get("execute", {}),
        "cache": str(root / "_build" / ".jupyter_cache"),
    }
    theme = config["sphinx"]["config"].setdefault("html_theme_options", {})
    theme["announcement"] = NOTE
    return config


def prepare_private_build(root: Path) -> list[str]:
    """Empty the private folder; returns the options with which jupyter-book builds into it."""
    folder = private_folder(root)
    shutil.rmtree(folder, ignore_errors=True)  # or pages of deleted entries would stay
    folder.mkdir(parents=True)
    found = ["--path-output", str(folder)]
    for name, data in (("config", settings(root)), ("toc", contents(root))):
        path = folder / f"_{name}.yml"
        path.write_text(yaml.safe_dump(data, allow_unicode=True, sort_keys=False), encoding="utf-8")
        found += [f"--{name}", str(path)]
    return found
