"""Live figures: drawings that answer to a knob, in JupyterLab and on a page without a kernel.

A figure is NAME.mjs (drawing and mathematics, see engine.mjs) with NAME.py, the Python reference:
TITLE, DEFAULTS, PRESETS, CASES, compute, table, summary. In a notebook it is shown by anywidget;
elsewhere its text is shown, and host.mjs turns that text into the figure.
"""

import functools
import importlib
import os
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from course_lib.lab.figures import text

HERE = Path(__file__).parent
ENGINE, HOST = "engine.mjs", "host.mjs"
IMPORT = re.compile(r'^import \{([^}]+)\} from "\./engine\.mjs";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?function (\w+)|const (\w+))", re.MULTILINE)


def figures() -> list[str]:
    """Names of the figures, sorted."""
    return sorted(path.stem for path in HERE.glob("*.mjs") if path.name not in (ENGINE, HOST))


def static_files() -> list[Path]:
    """Files a built page needs side by side: the engine, the host and every figure."""
    return [HERE / ENGINE, HERE / HOST, *(HERE / f"{name}.mjs" for name in figures())]


def reference(name: str) -> ModuleType:
    """The Python reference of a figure. Raises ValueError for an unknown name."""
    if name not in figures():
        raise ValueError(f"no figure {name!r}; the figures are: {', '.join(figures())}")
    return importlib.import_module(f"{__name__}.{name}")


def _strip(source: str) -> str:
    """Without comment lines and indentation: what travels to the browser."""
    source = re.sub(r"^\s*/\*.*?\*/\n", "", source, flags=re.DOTALL | re.MULTILINE)
    lines = (line.strip() for line in source.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def module_text(name: str) -> str:
    """Engine and figure as one ES module, for hosts that take a single text (anywidget)."""
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
    return _strip(kit + "\n" + IMPORT.sub("", source))


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
    (book build, grading).
    """

    def __init__(self, name: str, preset: str | None = None):
        module = reference(name)
        preset = preset or "default"
        if preset not in module.PRESETS:
            known = ", ".join(module.PRESETS)
            raise ValueError(f"figure {name!r} has no preset {preset!r}; its presets are: {known}")
        self.name, self._preset, self._module = name, preset, module

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

    def _numbers(self) -> tuple[str, str, dict[str, Any]]:
        module = self._module
        state = {**module.DEFAULTS, **module.PRESETS[self.preset]}
        result = module.compute(state)
        return module.TITLE, module.summary(result, state), module.table(result, state)

    def __repr__(self) -> str:
        return text.plain(*self._numbers())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle = {
            "text/plain": repr(self),
            "text/html": text.markup(self.name, self.preset, *self._numbers()),
        }
        if self.widget is not None:
            shown = self.widget._repr_mimebundle_(**kwargs)
            data = shown[0] if isinstance(shown, tuple) else shown
            bundle = {**(data or {}), **bundle}
        return bundle


def figure(name: str, preset: str | None = None) -> Figure:
    """The live figure `name`, opened at `preset`. Raises ValueError naming what exists."""
    return Figure(name, preset)
