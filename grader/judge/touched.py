"""Whether an answer's text changes what is not its own: the drivers of checks, torch, other libraries.

Read from the syntax tree in one pass; nothing is run. What can't be seen in the text, the worker may
still see when it runs (witness.py). Neither proves anything, and neither costs a point: a person
looks.
"""

import ast
import re
from collections.abc import Iterator

from grader.judge.magics import parse_text

DRIVERS = re.compile(
    r"(course_lib\.(probes|checks|ranks\.(local_ranks|rank_server))|grader)(\.\w+)*"
)
SETTINGS = ("matplotlib", "torch.backends", "torch._dynamo.config", "torch._inductor.config",
            "warnings", "logging", "numpy.random", "os.environ")  # fmt: skip
"""What may be set: it changes no function."""
INSIDES = {"__globals__", "__closure__", "__code__", "__builtins__", "cell_contents", "f_back",
           "f_globals", "f_locals", "tb_frame"}  # fmt: skip
REACHES = {"sys._getframe", "sys.settrace", "sys.setprofile", "sys.modules", "sys.meta_path",
           "threading.settrace", "threading.setprofile", "gc.get_objects", "gc.get_referrers",
           "gc.get_referents", "inspect.currentframe", "inspect.stack"}  # fmt: skip
REPLACING = re.compile(r"(ctypes|unittest\.mock|mock)(\.\w+)*")
DEEPEST = 9  # parts of a full name: a chain of a hundred thousand is nobody's library
MOST = 5  # sentences for a person


def find_touches(text: str, setup: str = "") -> list[str]:
    """What the text changes, in words with lines of the text: [] for nothing.

    `setup` is the code whose imports the text may use.
    """
    tree = parse_text(text)
    if tree is None:
        return []
    imports = _find_imports(parse_text(setup)) | _find_imports(tree)
    for name in _find_own_names(tree):
        imports.pop(name, None)  # it may be a parameter, or a class of the learner's own
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        for words in _describe(node, imports):
            line = getattr(node, "lineno", 0)
            found.setdefault(f"line {line} {words}")
    return list(found)[:MOST]


def _find_imports(tree: ast.Module | None) -> dict[str, str]:
    """What each imported name stands for, by its full name."""
    found = {}
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                found[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def _find_own_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def _describe(node: ast.AST, imports: dict[str, str]) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        module = getattr(node, "module", None)
        for alias in node.names:
            name = f"{module}.{alias.name}" if module else alias.name
            if DRIVERS.fullmatch(name):
                yield f"imports {name}, which checks answers"
            if REPLACING.fullmatch(name):
                yield f"imports {name}"
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if DRIVERS.fullmatch(node.value) and "." in node.value:
            yield f"names {node.value}, which checks answers"
    elif isinstance(node, ast.Attribute):
        name = _full_name(node, imports)
        if isinstance(node.ctx, ast.Store | ast.Del):
            if name and not name.startswith(SETTINGS):
                yield f"changes {name}"
            elif node.attr in INSIDES:
                yield f"changes {node.attr}"
        elif name in REACHES or node.attr in INSIDES:
            yield f"uses {name or node.attr}"
        elif name and name.endswith(".__dict__"):
            yield f"uses {name}"
    elif isinstance(node, ast.Name) and node.id == "__builtins__":
        yield "uses __builtins__"
    elif isinstance(node, ast.Name) and imports.get(node.id) in REACHES:
        yield f"uses {imports[node.id]}"
    elif isinstance(node, ast.Call) and node.args:
        name = _full_name(node.args[0], imports)
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        called = node.func.id if isinstance(node.func, ast.Name) else called
        changes = called in ("setattr", "delattr", "__setattr__", "__delattr__", "vars")
        if changes and name and not name.startswith(SETTINGS):
            yield f"changes {name} by {called}"


def _full_name(node: ast.AST, imports: dict[str, str]) -> str:
    """ "torch.nn.functional.relu" for `F.relu`; "" for what is not rooted in an import."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < DEEPEST:
        parts.append(node.attr)
        node = node.value
    root = imports.get(node.id, "") if isinstance(node, ast.Name) else ""
    return ".".join([root, *reversed(parts)]) if root else ""
