"""Python reference of the figure `accumulation`: two micro-batches, their mean gradients, one sum.

Same states, numbers and sentences as `accumulation.mjs`; plain floats, no torch.
"""

import math
from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "Accumulation: which arrow do two micro-batches make?"
ARROWS = ((3, 0.6), (0.6, 2.4))
"""Mean gradient over the counted tokens of micro-batch 1 and 2, for a model of two weights."""
CODES = {
    "means": "Mean of means",
    "tokens": "By tokens",
    "sum": "Not divided",
    "twice": "Divided twice",
    "last": "Last one only",
}
DEFAULTS: dict[str, Any] = {"a": 4, "b": 4, "code": "means"}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "ragged": {"a": 6, "b": 2},
    "weighed": {"a": 6, "b": 2, "code": "tokens"},
    "sum": {"code": "sum"},
    "twice": {"code": "twice"},
    "last": {"a": 6, "b": 2, "code": "last"},
    "empty": {"a": 0},
}
CASES: list[dict[str, Any]] = [
    {"a": a, "b": b, "code": code} for a, b in ((0, 1), (1, 12), (12, 1), (7, 5)) for code in CODES
]


def shares(state: dict[str, Any]) -> list[float]:
    """What each mean gradient is multiplied with."""
    a, b, code = state["a"], state["b"], state["code"]
    right = [a / (a + b), b / (a + b)]
    return {
        "means": [0.5, 0.5],
        "tokens": right,
        "sum": [1, 1],
        "twice": [right[0] / 2, right[1] / 2],
        "last": [0, right[1]],
    }[code]


def _mixed(first: float, second: float) -> list[float]:
    return [first * x + second * y for x, y in zip(*ARROWS, strict=True)]


def _length(v: list[float]) -> float:
    return math.sqrt(v[0] * v[0] + v[1] * v[1])


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS)."""
    a, b = state["a"], state["b"]
    whole, mine = [a / (a + b), b / (a + b)], shares(state)
    big, made = _mixed(*whole), _mixed(*mine)
    if a == 0 and state["code"] in ("means", "sum"):  # the mean over no token is 0 / 0
        made = [math.nan, math.nan]
    off = _length([made[0] - big[0], made[1] - big[1]]) / _length(big)
    return {
        "big": big,
        "made": made,
        "big_length": _length(big),
        "length": _length(made),
        "off": 0 if off < 1e-12 else off,
        "weights": [mine[0] / a if a else math.nan, mine[1] / b],
        "weight": 1 / (a + b),
    }


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    a, b, one = state["a"], state["b"], result["weights"]
    first = list(ARROWS[0]) if a else [math.nan, math.nan]
    return {
        "caption": "Arrows, and how much one token of a micro-batch weighs in the sum",
        "columns": ["Arrow", "Tokens", "Weight of one", "x", "y"],
        "rows": [
            ["Micro-batch 1", a, one[0], *first],
            ["Micro-batch 2", b, one[1], *ARROWS[1]],
            ["Big batch", a + b, result["weight"], *result["big"]],
            [CODES[state["code"]], a + b, "\u2013", *result["made"]],
        ],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    head = (
        f"Micro-batch 1 counts {fmt(state['a'])} tokens, micro-batch 2 counts {fmt(state['b'])}. "
        f"{CODES[state['code']]}: "
    )
    if math.isnan(result["off"]):
        return head + "no arrow, because the mean over no token is 0/0, which is NaN."
    if result["off"] == 0:
        return head + f"the gradient of the big batch, {fmt(result['length'])} long."
    return (
        head + f"an arrow {fmt(result['length'])} long, where the big batch\u2019s is "
        f"{fmt(result['big_length'])} long; off by {fmt(100 * result['off'])} percent of it."
    )
