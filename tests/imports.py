"""Who imports whom in `course_lib` and `grader`: import statements and string addresses."""

import ast
import functools
import re
from collections.abc import Mapping
from pathlib import Path

PACKAGES = ("course_lib", "grader")
ADDRESS = re.compile(r"((?:course_lib|grader)(?:\.\w+)+)(?::\w*)?")


def read_modules(root: Path) -> dict[str, str]:
    """The source of each module below `root`, by its dotted name."""
    found = {}
    for package in PACKAGES:
        for path in (root / package).rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = path.read_text(encoding="utf-8")
    return found


def find_imports(modules: Mapping[str, str]) -> dict[str, set[str]]:
    """The modules that each module imports or names as "module:name".

    What stands under `if __name__ == "__main__":` does not count: only a program goes through it.
    """
    return {name: _imports_of(source, modules) - {name} for name, source in modules.items()}


def _imports_of(source: str, modules: Mapping[str, str]) -> set[str]:
    known = _names_imported(source) & modules.keys()
    # importing a.b.c runs a and a.b too, but a package's own file is no part of a circle below it
    return {m for m in known if not any(other.startswith(m + ".") for other in known)}


@functools.cache
def _names_imported(source: str) -> frozenset[str]:
    tree = ast.parse(source)
    programs = [n for n in tree.body if isinstance(n, ast.If) and "__main__" in ast.dump(n.test)]
    skipped = {id(n) for program in programs for n in ast.walk(program)}
    found = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if address := ADDRESS.fullmatch(node.value):
                found.add(address[1])
    return frozenset(found)


def find_circles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules each of which reaches the others (Tarjan 1972)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    circles = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for other in imports[module]:
            if other not in order:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], order[other])
        if lowest[module] == order[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                circles.append(sorted(group))

    for module in imports:
        if module not in order:
            visit(module)
    return circles
