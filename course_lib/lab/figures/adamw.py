"""Python reference of the figure `adamw`: size of the gradient against length of the step.

Same states, numbers and sentences as `adamw.mjs`; plain floats, no torch. One weight gets the same
gradient in every update; lengths are in units of the learning rate.
Papers: Kingma and Ba 2015, Loshchilov and Hutter 2019.
"""

import math
from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "Size of the gradient, length of the step"
DEFAULTS: dict[str, Any] = {"g": 1, "beta2": 0.999, "corrected": True}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "loud": {"g": 1000},
    "quiet": {"g": 1e-4},
    "silent": {"g": 1e-10},
    "no-correction": {"corrected": False},
    "no-correction-095": {"corrected": False, "beta2": 0.95},
}
SIZES = [1e-10, 1e-8, 1e-6, 1e-4, 0.01, 1, 10, 1000]
CASES: list[dict[str, Any]] = [
    {"g": g, "beta2": beta2, "corrected": corrected}
    for g in SIZES
    for beta2 in (0.95, 0.99, 0.999)
    for corrected in (True, False)
]
BETA1, EPS, DECAY = 0.9, 1e-8, 0.1
UPDATES, LISTED = 100, (1, 2, 5, 12, 30, 100)


def step_length(g: float, update: int, beta2: float, corrected: bool) -> float:
    """AdamW's step, in lr, at that update of a run of equal gradients of size g."""
    mean, square = 1 - BETA1**update, 1 - beta2**update
    if corrected:
        mean, square = 1, 1
    return mean * g / (math.sqrt(square) * g + EPS)


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS)."""
    g, beta2 = state["g"], state["beta2"]
    on, off = (
        [step_length(g, t, beta2, corrected) for t in range(1, UPDATES + 1)]
        for corrected in (True, False)
    )
    now = on if state["corrected"] else off
    sizes = [10.0**k for k in range(-10, 4)]
    first = [step_length(size, 1, beta2, state["corrected"]) for size in sizes]
    return {
        "on": on,
        "off": off,
        "sgd": g,
        "first": now[0],
        "longest": max(now),
        "sizes": sizes,
        "by_size": first,
        "matrix": DECAY,
        "gain": 0,
    }


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    on, off, sgd = (result[key] for key in ("on", "off", "sgd"))
    return {
        "caption": f"Steps in units of lr, gradient {fmt(state['g'])} in every update",
        "columns": ["update", "AdamW", "no correction", "SGD"],
        "rows": [
            *([t, on[t - 1], off[t - 1], sgd] for t in LISTED),
            ["decay, matrix", DECAY, DECAY, "none"],
            ["decay, gain", 0, 0, "none"],
        ],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    correction = "with" if state["corrected"] else "without"
    return (
        f"With a gradient of {fmt(state['g'])} in every update, AdamW {correction} bias correction "
        f"moves a weight by {fmt(result['first'])} lr in update 1 and by at most "
        f"{fmt(result['longest'])} lr in 100 updates; SGD moves it by {fmt(result['sgd'])} lr. "
        f"A weight of 1 also decays by {fmt(DECAY)} lr in a matrix, and not at all as a gain."
    )
