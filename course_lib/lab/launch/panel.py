"""The live panel of a run in JupyterLab: a row per rank, and the logs (panel.mjs draws it).

Jupyter's server drops what exceeds a thousand messages or a megabyte a second, so at most five
updates a second are sent, one message each, and logs once a second, at most LOG_CHARS of each.
"""

import functools
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from course_lib.lab.launch import gpus, plain
from course_lib.lab.launch.watch import RankView, Watch

UPDATE_S, LOG_S, GAUGE_S = 0.2, 1.0, 1.0
LOG_CHARS = 16_000


class Panel:
    """Shown when a run begins; afterwards it keeps its last state."""

    def __init__(self):
        self.widget, self._next, self._next_log, self._next_gauge = None, 0.0, 0.0, 0.0
        self._gauges, self._states = "", ""

    def begin(self, lines: Sequence[str], watch: Watch) -> None:
        """The plan as text, and below it the panel."""
        from IPython.display import display

        print(*lines, sep="\n", flush=True)
        self.widget = _widget_class()(rows=[_row(view) for view in watch.ranks])
        shown = self.widget._repr_mimebundle_()
        bundle = shown[0] if isinstance(shown, tuple) else shown
        display({**(bundle or {}), "text/plain": "(a live panel, in JupyterLab)"}, raw=True)
        self.update(watch, {}, 0.0)

    def update(self, watch: Watch, new: Mapping[int, list[str]], seconds: float) -> None:
        """What is new, if the last update is long enough ago."""
        if time.monotonic() >= self._next:
            self._send(watch)

    def say(self, lines: Sequence[str]) -> None:
        """What the launcher has found out."""
        print(*lines, sep="\n", flush=True)

    def end(self, lines: Sequence[str], watch: Watch, good: bool) -> None:
        """The last state, and below the panel how it ended, which is still there when it is not."""
        self._next_log = self._next_gauge = 0.0
        self._send(watch, lines[0])
        self.widget.state = "done" if good else "failed"
        if good:
            print(*plain.output(watch.ranks[0], most=10), sep="\n")
        print(*lines, sep="\n", flush=True)

    def _send(self, watch: Watch, status: str | None = None) -> None:
        now = time.monotonic()
        with self.widget.hold_sync():  # one message
            self.widget.rows = [_row(view) for view in watch.ranks]
            if now >= self._next_gauge:
                self._next_gauge = now + GAUGE_S
                self.widget.gauges = "; ".join(gpu.text() for gpu in gpus.gauges())
            if now >= self._next_log:
                self._next_log = now + LOG_S
                self.widget.logs = {str(view.rank): _log(view) for view in watch.ranks}
            states = ", ".join(view.state for view in watch.ranks)
            if status or states != self._states:  # a screen reader says this aloud
                self._states = states
                self.widget.status = status or plain.states(watch.ranks)
        self._next = time.monotonic() + UPDATE_S


def _row(view: RankView) -> dict[str, Any]:
    return {"cells": list(plain.row(view)), "step": view.step or 0, "total": view.total or 0}


def _log(view: RankView) -> str:
    return "\n".join([*view.log.lines, view.log.open_line]).strip("\n")[-LOG_CHARS:]


@functools.cache
def _widget_class() -> type:
    import anywidget  # late: text must work where the widget stack is missing
    import traitlets

    traits = {
        "_esm": (Path(__file__).parent / "panel.mjs").read_text(encoding="utf-8"),
        "rows": traitlets.List().tag(sync=True),
        "logs": traitlets.Dict().tag(sync=True),
        "status": traitlets.Unicode("starting").tag(sync=True),
        "gauges": traitlets.Unicode("").tag(sync=True),
        "state": traitlets.Unicode("running").tag(sync=True),
    }
    return type("LaunchPanel", (anywidget.AnyWidget,), traits)
