"""Live figures: drawings that answer to a knob, in JupyterLab and on a page without a kernel.

A figure is one module, NAME.mjs, with its drawing and its mathematics (see engine.mjs). In a
notebook anywidget shows it; elsewhere its text is shown, and host.mjs turns that text into the
figure. The text of all presets is in figures.json, which `course build` writes (grader/figures.py).
"""

import functools
import json
import os
import re
from pathlib import Path
from typing import Any

from course_lib.lab.figures import text

HERE = Path(__file__).parent
ENGINE, HOST = "engine.mjs", "host.mjs"
IMPORT = re.compile(r'^import \{([^}]+)\} from "\./engine\.mjs";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?function (\w+)|const (\w+))", re.MULTILINE)


@functools.cache
def _read_rendered() -> dict[str, dict[str, Any]]:
    return json.loads((HERE / "figures.json").read_text(encoding="utf-8"))


def figures() -> list[str]:
    """Names of the figures, sorted."""
    return sorted(_read_rendered())


def presets(name: str) -> list[str]:
    """Names of the presets of the figure `name`, in its order. Raises ValueError for no figure."""
    return list(_find_figure(name)["presets"])


def _find_figure(name: str) -> dict[str, Any]:
    if name not in _read_rendered():
        raise ValueError(f"no figure {name!r}; the figures are: {', '.join(figures())}")
    return _read_rendered()[name]


def static_files() -> list[Path]:
    """Files a built page needs side by side: the engine, the host and every figure."""
    return [HERE / ENGINE, HERE / HOST, *(HERE / f"{name}.mjs" for name in figures())]


def _strip_comments(source: str) -> str:
    """Without comment lines and indentation: what travels to the browser."""
    source = re.sub(r"^\s*/\*.*?\*/\n", "", source, flags=re.DOTALL | re.MULTILINE)
    lines = (line.strip() for line in source.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def module_text(name: str) -> str:
    """Engine and figure as one ES module, for hosts that take a single text (anywidget).

    ValueError for a figure that doesn't import from the engine.
    """
    source = (HERE / f"{name}.mjs").read_text(encoding="utf-8")
    engine = (HERE / ENGINE).read_text(encoding="utf-8")
    imported = IMPORT.search(source)
    if imported is None:
        raise ValueError(
            f'{name}.mjs must hold the line: import {{ figure, fmt }} from "./engine.mjs";'
        )
    names = ", ".join(a or b for a, b in EXPORT.findall(engine))
    wrapped = f"(() => {{\n{EXPORT.sub('', engine)}\nreturn {{ {names} }};\n}})();"
    kit = f"const {{{imported.group(1).replace(' as ', ': ')}}} = {wrapped}"
    return _strip_comments(kit + "\n" + IMPORT.sub("", source))


@functools.cache
def _widget_class(name: str) -> type:
    import anywidget  # late: text must work where the widget stack is missing
    import traitlets

    traits = {
        "_esm": module_text(name),
        "preset": traitlets.Unicode("default").tag(sync=True),
        "prediction": traitlets.Int(None, allow_none=True).tag(sync=True),
    }
    return type(f"Figure_{name}", (anywidget.AnyWidget,), traits)


class Figure:
    """A figure at one preset. A notebook shows the widget, print and nbconvert its text.

    `widget` is None without anywidget, or when the environment says COURSE_FIGURES=static
    (book build, grading). ValueError for a preset that the figure doesn't have lists those it has.
    """

    def __init__(self, name: str, preset: str | None = None):
        preset = preset or "default"
        if preset not in presets(name):
            known = ", ".join(presets(name))
            raise ValueError(f"figure {name!r} has no preset {preset!r}; its presets are: {known}")
        self.name, self._preset = name, preset

    @functools.cached_property
    def widget(self) -> Any:
        if os.environ.get("COURSE_FIGURES") == "static":
            return None
        try:
            return _widget_class(self.name)(preset=self._preset)
        except ImportError:
            return None

    @property
    def preset(self) -> str:
        """The preset shown last; a knob moved by hand does not change it."""
        return self.widget.preset if self.widget is not None else self._preset

    @property
    def prediction(self) -> int | None:
        """Index of the choice the reader committed to, -1 when skipped, None before that."""
        return self.widget.prediction if self.widget is not None else None

    def _find_text(self) -> dict[str, Any]:
        found = _find_figure(self.name)
        return {"title": found["title"], **found["presets"][self.preset]}

    def __repr__(self) -> str:
        return text.render_plain(**self._find_text())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle = {
            "text/plain": repr(self),
            "text/html": text.render_markup(self.name, self.preset, **self._find_text()),
        }
        if self.widget is not None:
            shown = self.widget._repr_mimebundle_(**kwargs)
            data = shown[0] if isinstance(shown, tuple) else shown
            bundle = {**(data or {}), **bundle}
        return bundle


def figure(name: str, preset: str | None = None) -> Figure:
    """The live figure `name`, opened at `preset`. Raises ValueError naming what exists."""
    return Figure(name, preset)
