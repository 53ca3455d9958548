"""What is to have a row: the notebooks of a class, and whatever lies where a notebook should.

So that nobody vanishes, that is also what looks like a notebook and is none (a link, a folder
called x.ipynb), a folder that cannot be read, and a student's folder without any notebook, be it
empty. All other files are counted, by kind.
"""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from course_lib.lab.journal.subject import lessons
from grader.judge.prose import make_one_line

COPIES = ".ipynb_checkpoints"  # Jupyter's own
MOST = 10  # kinds of files that are told one by one


def find_notebooks(
    paths: Iterable[Path], left_out: Counter[str] | None = None, *, may_be_empty: bool = False
) -> list[Path]:
    """What is to have a row in these files and folders, each once, in a stable order.

    All other files are counted in `left_out`, by kind. ValueError for what is not there, and for a
    folder in which nothing is, unless it `may_be_empty`.
    """
    left_out = Counter() if left_out is None else left_out
    found: dict[Path, None] = {}
    for path in paths:
        if not os.path.lexists(path):
            raise ValueError(f"{path} does not exist; give notebooks or folders of notebooks")
        if path.is_dir() and not path.is_symlink():
            inside = _search_folder(path, left_out)
            if not inside and not may_be_empty:
                raise ValueError(f"no notebook (*.ipynb) in {path}")
            found |= dict.fromkeys(sorted(inside))
        else:
            found[path] = None
    return list(found)


def describe_left_out(left_out: Counter[str]) -> str:
    """The files that have no row, in one line; empty when there are none."""
    most = left_out.most_common(MOST)
    more = left_out.total() - sum(number for _, number in most)
    files = [f"{number} {make_one_line(kind)}" for kind, number in most]
    files += [f"{more} of other kinds"] * bool(more)
    return f"left out as no notebooks: {', '.join(files)}" if files else ""


def _search_folder(top: Path, left_out: Counter[str]) -> list[Path]:
    found: list[Path] = []
    students: set[Path] = set()
    """Students' folders; one that is hidden counts when there is a file in it."""

    def keep_closed(problem: OSError) -> None:
        found.append(Path(problem.filename))

    for name, folders, files in os.walk(top, onerror=keep_closed):
        folder = Path(name)
        if COPIES in folders:
            folders.remove(COPIES)
            left_out[f"in {COPIES}"] += len(os.listdir(folder / COPIES))
        found += [
            folder / one for one in folders if _is_notebook(one) or (folder / one).is_symlink()
        ]
        found += [folder / one for one in files if _is_notebook(one)]
        others = (Path(one).suffix for one in files if not _is_notebook(one))
        left_out.update(kind or "without extension" for kind in others)
        owner = _find_owner(top, folder)
        if owner != top and (files or not owner.name.startswith(".")):
            students.add(owner)
    return found + sorted(students - {_find_owner(top, path) for path in found})


def _find_owner(top: Path, path: Path) -> Path:
    """The student's folder that holds `path`: the first one below `top` that is not a lesson's."""
    parts = path.relative_to(top).parts
    for count, part in enumerate(parts, 1):
        if part not in lessons():
            return top.joinpath(*parts[:count])
    return top


def _is_notebook(name: str) -> bool:
    """Whether a file is called like a notebook, be it `X.IPYNB` or a browser's `x.ipynb.txt`; what
    macOS writes beside a file is not."""
    return ".ipynb" in name.lower() and not name.startswith("._")
