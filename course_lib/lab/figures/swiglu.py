"""Python reference of the figure `swiglu`: gate, up and product of one unit; parameter counts.

Same states, numbers and sentences as `swiglu.mjs`; plain floats, no torch. Paper: Shazeer 2020.
"""

import math
from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "SwiGLU: a gate, an up value, their product"
D = 384
SAMPLES = (-4, -2, -1, 0, 1, 2, 4)
NAMES = {
    "silu": "SiLU",
    "gelu": "GELU, tanh",
    "relu": "ReLU",
    "sigmoid": "sigmoid",
    "none": "no SiLU",
}
DEFAULTS: dict[str, Any] = {"act": "silu", "wg": 1, "wu": 1, "x": 2, "f": 1536}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "matched": {"f": 1024},
    "closed": {"wg": -4, "f": 1024},
    "bilinear": {"act": "none", "x": -2, "f": 1024},
    "sigmoid": {"act": "sigmoid", "f": 1024},
    "gelu": {"act": "gelu", "x": -1, "f": 1024},
    "relu": {"act": "relu", "x": -1, "f": 1024},
}
CASES: list[dict[str, Any]] = [
    {"x": 0},
    {"x": -4, "wg": 4, "wu": 4},  # the deepest closed gate
    {"x": 4, "wg": 4, "wu": 4},
    {"x": 4, "wg": -4, "wu": -4},
    {"wg": 0},  # silu(0) = 0: the unit is off
    {"wu": 0},
    {"wg": 0, "act": "sigmoid"},  # half open whatever x is
    {"wg": 0, "act": "none"},
    {"x": -1.5, "wg": 2.5, "wu": -0.5},
    {"x": -1.5, "wg": 2.5, "wu": -0.5, "act": "gelu"},
    {"x": -1.5, "wg": 2.5, "wu": -0.5, "act": "relu"},
    {"x": -1.5, "wg": 2.5, "wu": -0.5, "act": "sigmoid"},
    {"x": -1.5, "wg": 2.5, "wu": -0.5, "act": "none"},
    {"x": 4, "wg": -4, "act": "gelu"},  # tanh saturates at -1: exactly 0
    {"x": 4, "wg": 4, "act": "gelu"},
    {"f": 256},
    {"f": 960},
    {"f": 1088},
    {"x": -0.5, "wg": -0.5, "wu": 3.5, "f": 512},
    {"x": 3.5, "wg": 1.5, "wu": -2, "act": "relu", "f": 768},
]


def _sigmoid(a: float) -> float:
    return 1 / (1 + math.exp(-a))


def activate(act: str, a: float) -> float:
    """The activation of that name (keys of NAMES) at `a`."""
    if act == "silu":
        return a * _sigmoid(a)
    if act == "gelu":
        return 0.5 * a * (1 + math.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))
    if act == "relu":
        return max(a, 0)
    return _sigmoid(a) if act == "sigmoid" else a


def unit(x: float, state: dict[str, Any]) -> dict[str, float]:
    """One hidden unit at input x: gate after its activation, up, and their product."""
    gate, up = activate(state["act"], state["wg"] * x), state["wu"] * x
    return {"gate": gate, "up": up, "product": gate * up}


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS)."""
    two, three = 2 * D * 4 * D, 3 * D * state["f"]
    samples = [unit(x, state) for x in SAMPLES]
    return {
        **unit(state["x"], state),
        "samples": samples,
        "two": two,
        "three": three,
        "ratio": three / two,
    }


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    rows = [
        [x, s["gate"], s["up"], s["product"]]
        for x, s in zip(SAMPLES, result["samples"], strict=True)
    ]
    return {
        "caption": "The unit at seven inputs",
        "columns": ["x", "gate", "up", "product"],
        "rows": rows,
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    ratio = "as many as" if result["ratio"] == 1 else f"{fmt(result['ratio'])} times those of"
    return (
        f"At x = {fmt(state['x'])} the gate ({NAMES[state['act']]}) is {fmt(result['gate'])}, "
        f"up is {fmt(result['up'])}, their product {fmt(result['product'])}. "
        f"Hidden width {fmt(state['f'])} gives {fmt(result['three'])} weights, "
        f"{ratio} the two-matrix MLP."
    )
