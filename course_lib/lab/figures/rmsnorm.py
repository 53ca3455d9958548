"""Python reference of the figure `rmsnorm`: RMSNorm and LayerNorm of k * x + c.

Same states, numbers and sentences as `rmsnorm.mjs`; plain floats, no torch.
Paper: Zhang and Sennrich 2019.
"""

import math
from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "RMSNorm and LayerNorm of k\u00b7x + c"
DEFAULTS: dict[str, Any] = {"x": [3, -1, 2, 0.5], "k": 1, "c": 0, "eps": 1e-5}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "scaled-10x": {"k": 10},
    "scaled-100x": {"k": 100},
    "shifted": {"c": 2},
    "tiny": {"k": 0.001},
    "all-zero": {"x": [0, 0, 0, 0]},
    "no-eps": {"x": [0, 0, 0, 0], "eps": 0},
}
CASES: list[dict[str, Any]] = [
    {"x": [4, 4, 4, 4]},  # no spread: LayerNorm gives 0, RMSNorm 1
    {"x": [4, 4, 4, 4], "eps": 0},  # variance 0 without eps: LayerNorm is 0 / 0
    {"x": [4, -4, 4, -4], "eps": 0},  # mean 0: the two norms agree
    {"x": [4, 0, 0, 0], "eps": 0},  # one-hot: the largest output, sqrt(4)
    {"x": [0, 0, 0, 0], "c": 5},
    {"x": [0, 0, 0, 0], "c": 5, "eps": 0},
    {"x": [1, 1, 1, 1], "c": -1, "eps": 0},  # the constant cancels the vector
    {"x": [-4, -3.5, 3.5, 4], "k": 100, "c": -5, "eps": 0.01},
    {"k": 0.001, "eps": 0},
    {"k": 0.001, "eps": 1e-8},
    {"k": 0.001, "eps": 0.01},
    {"k": 0.001, "c": 5},
    {"k": 100, "c": 5},
    {"k": 0.1, "c": -0.5, "eps": 0.01},
    {"k": 50, "eps": 0},
    {"c": -5, "eps": 1e-8},
    {"x": [0.5, 0, 0, 0], "k": 0.002},
    {"x": [1, 2]},
    {"x": [1, -2, 3], "c": 1.5},
]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _divide(top: float, bottom: float) -> float:
    """IEEE division: Python raises where the hardware, torch and JavaScript give NaN or inf."""
    if bottom:
        return top / bottom
    return math.copysign(math.inf, top) if top else math.nan


def normalize(y: list[float], eps: float) -> dict[str, Any]:
    """Mean, root mean square and both normalized vectors of `y`."""
    center = _mean(y)
    mean_square = _mean([a * a for a in y])
    variance = _mean([(a - center) ** 2 for a in y])
    return {
        "mean": center,
        "rms": math.sqrt(mean_square),
        "rmsnorm": [_divide(a, math.sqrt(mean_square + eps)) for a in y],
        "layernorm": [_divide(a - center, math.sqrt(variance + eps)) for a in y],
    }


def _moved(a: list[float], b: list[float]) -> float:
    """Largest distance between two outputs; below 1e-12 it is round-off and counts as 0."""
    gaps = [abs(p - q) for p, q in zip(a, b, strict=True)]
    if any(math.isnan(gap) for gap in gaps):
        return math.nan
    return 0.0 if max(gaps) < 1e-12 else max(gaps)


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS)."""
    x, k, c, eps = (state[key] for key in ("x", "k", "c", "eps"))
    y = [k * a + c for a in x]
    now, base = normalize(y, eps), normalize(x, eps)
    return {
        "input": y,
        **now,
        "base_rmsnorm": base["rmsnorm"],
        "base_layernorm": base["layernorm"],
        "moved_rmsnorm": _moved(now["rmsnorm"], base["rmsnorm"]),
        "moved_layernorm": _moved(now["layernorm"], base["layernorm"]),
    }


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    columns = (state["x"], result["input"], result["rmsnorm"], result["layernorm"])
    return {
        "caption": "The same numbers, by component",
        "columns": ["i", "x", "k\u00b7x + c", "RMSNorm", "LayerNorm"],
        "rows": [[str(i), *row] for i, row in enumerate(zip(*columns, strict=True), start=1)],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    head = (
        f"With k = {fmt(state['k'])}, c = {fmt(state['c'])} and eps = {fmt(state['eps'])} "
        f"the input has RMS {fmt(result['rms'])} and mean {fmt(result['mean'])}."
    )
    if math.isnan(result["moved_rmsnorm"]):
        return f"{head} A vector of zeros with eps = 0 is 0 / 0: RMSNorm\u2019s output is NaN."
    return (
        f"{head} Against k = 1 and c = 0, RMSNorm\u2019s output moved by at most "
        f"{fmt(result['moved_rmsnorm'])} and LayerNorm\u2019s by at most "
        f"{fmt(result['moved_layernorm'])}."
    )
