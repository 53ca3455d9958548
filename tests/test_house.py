"""The rules of the house, each as a test, so that a convention does not live in prose alone."""

import ast
import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from grader.cli import ROOT

TOP = set(
    "book notebooks solutions course_lib grader tests benchmarks README.md Makefile pyproject.toml "
    "constraints.txt environment.yml _config.yml _toc.yml LICENSE CHANGELOG.md CONTRIBUTING.md .ci "
    ".gitignore .gitattributes".split()
)
TRACKED = [
    ROOT / line
    for line in subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    if (ROOT / line).is_file()
]
CODE = [p for p in TRACKED if p.suffix == ".py"]
LIBRARY = [p for p in CODE if p.is_relative_to(ROOT / "course_lib")]
TEXT = [
    p
    for p in TRACKED
    if p.suffix in {".py", ".md", ".mjs", ".toml", ".yml", ".css", ".js", ".json"}
]


def imported(path: Path) -> set[str]:
    """Modules that `path` imports, but for what stands under `if __name__ == "__main__":`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    main = [n for n in tree.body if isinstance(n, ast.If) and "__main__" in ast.dump(n.test)]
    skipped = {id(n) for block in main for n in ast.walk(block)}
    found = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_the_top_level_holds_what_the_layout_names():
    assert {p.relative_to(ROOT).parts[0] for p in TRACKED} <= TOP


def test_the_floors():
    """lab and checks stand on the library, grader on all; never the other way round."""
    for path in LIBRARY:
        room = path.relative_to(ROOT / "course_lib").parts[0]
        upper = {"grader"} | ({"course_lib.lab"} if room == "checks" else set())
        upper |= {"course_lib.lab", "course_lib.checks"} if room not in ("lab", "checks") else set()
        bad = {m for m in imported(path) for u in upper if m == u or m.startswith(u + ".")}
        assert not bad, f"{path.relative_to(ROOT)} imports {bad}"


@pytest.mark.parametrize("path", CODE, ids=lambda p: str(p.relative_to(ROOT)))
def test_code_habits(path):
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    stars = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.names[0].name == "*"]
    assert not stars, "star import"
    paths = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.Attribute)
        and n.attr == "path"
        and isinstance(n.value, ast.Name)
        and n.value.id == "sys"
    ]
    assert not paths, "sys.path"
    assert path.name != "utils.py"


@pytest.mark.parametrize("path", LIBRARY, ids=lambda p: str(p.relative_to(ROOT)))
def test_library_files_are_small_and_documented(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
    if path.name == "__init__.py" and not tree.body:
        return
    assert ast.get_docstring(tree), f"{path.name} does not say what it is"
    public = [
        n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name[0] != "_"
    ]
    assert not [n.name for n in public if not ast.get_docstring(n)], "without a docstring"


@pytest.mark.parametrize("path", TEXT, ids=lambda p: str(p.relative_to(ROOT)))
def test_text_speaks_of_the_project_only(path):
    source = path.read_text(encoding="utf-8")
    if path == Path(__file__):
        return
    absolute = re.findall(r"(?<![\w.:/])/(?:work|farm|root|home/[a-z])\b", source)
    assert not absolute, f"absolute path {absolute}"
    if not path.is_relative_to(ROOT / "tests"):
        networks = re.findall(
            r"cdn\.jsdelivr|unpkg\.com|cdnjs|esm\.sh|fonts\.googleapis|registry\.npmjs", source
        )
        assert not networks, f"address of a content network: {networks}"


def test_notebooks_hold_no_outputs():
    for path in TRACKED:
        if path.suffix == ".ipynb":
            assert '"output_type"' not in path.read_text(encoding="utf-8"), path.name


def test_no_large_files():
    big = [
        f"{p.relative_to(ROOT)}: {p.stat().st_size >> 10} KB"
        for p in TRACKED
        if p.stat().st_size > 1_500_000
    ]
    assert not big, big


def test_the_model_is_installed_not_path_hacked():
    """The package in use is this checkout, so the other tests speak about these files."""
    import course_lib

    assert Path(course_lib.__file__).resolve().parent == ROOT / "course_lib"


@pytest.mark.parametrize(
    "command", [["ruff", "check", "."], ["ruff", "format", "--check", "."]], ids=" ".join
)
def test_lint(command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_pinned_version_runs_on_the_oldest_python():
    """pyproject.toml promises 3.11, Debian 12 has 3.11.2, and some packages ask for 3.11.5."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    names = [Requirement(line).name for line in lines if line and line[0] not in "#-"]
    asked = {name: metadata.metadata(name)["Requires-Python"] for name in names}
    assert len(asked) > 100
    late = {
        name: asks
        for name, asks in asked.items()
        if not SpecifierSet(asks or "").contains("3.11.0")
    }
    assert not late
