"""Python reference of the figure `rope`: two pairs of q and k as clocks, and their product.

Same states, numbers and sentences as `rope.mjs`; plain floats, no torch. Paper: Su et al. 2021.
"""

import math
from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "RoPE clocks: what q\u00b7k can see of two positions"
SPEEDS = (1, 0.1)
"""Radians per token of the two pairs: theta = 100, K = 4."""
DEFAULTS: dict[str, Any] = {
    "q": [0.8, 0.6, 0.6, 0.8],
    "k": [1, 0.8, 0, -0.6],
    "n": 3,
    "gap": 2,
    "code": "right",
}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "slid": {"n": 43},
    "wider": {"gap": 8},
    "together": {"gap": 0},
    "mixed": {"n": 43, "code": "mixed"},
    "q-only": {"n": 43, "code": "q-only"},
}
CASES: list[dict[str, Any]] = [
    {"n": 0, "gap": 0},
    {"n": 0, "gap": 0, "code": "mixed"},
    {"n": 0, "gap": 0, "code": "q-only"},
    {"n": 0, "gap": 16},
    {"n": 60, "gap": 16},
    {"n": 60, "gap": 16, "code": "mixed"},
    {"n": 60, "gap": 16, "code": "q-only"},
    {"n": 1, "gap": 1, "code": "mixed"},
    {"n": 7, "gap": 6},
    {"n": 22, "gap": 3, "code": "mixed"},
    {"q": [0, 0, 0, 0]},
    {"q": [0, 0, 0, 0], "code": "mixed"},
    {"q": [1, 0, 0, 0], "k": [1, 0, 0, 0], "n": 11, "gap": 3},  # pair 1 alone: a cosine of the gap
    {"q": [0, 1, 0, 0], "k": [0, 1, 0, 0], "n": 11, "gap": 3},  # pair 2 alone, ten times slower
    {"q": [1, 0, 0, 0], "k": [0, 0, 1, 0], "n": 5, "gap": 5},  # a sine
    {"q": [3, -4, 4, 3], "n": 30, "gap": 12},
    {"q": [3, -4, 4, 3], "n": 30, "gap": 12, "code": "mixed"},
    {"k": [-1, -0.8, 0, 0.6], "n": 59, "gap": 15},
    {"n": 44, "gap": 0, "code": "q-only"},
    {"n": 43, "gap": 0, "code": "mixed"},
]


def turn(x: list[float], position: int, mixed: bool) -> list[float]:
    """x at `position`; `mixed` takes the other layout's quarter turn with these tables."""
    cos, sin = ([f(position * SPEEDS[i % 2]) for i in range(4)] for f in (math.cos, math.sin))
    quarter = [-x[1], x[0], -x[3], x[2]] if mixed else [-x[2], -x[3], x[0], x[1]]
    return [x[i] * cos[i] + quarter[i] * sin[i] for i in range(4)]


def _score(state: dict[str, Any], n: int, gap: int) -> tuple[list[float], list[float], list[float]]:
    """Turned q, turned k and the product of each pair."""
    mixed = state["code"] == "mixed"
    q = turn(state["q"], n + gap, mixed)
    k = turn(state["k"], 0 if state["code"] == "q-only" else n, mixed)
    return q, k, [q[i] * k[i] + q[i + 2] * k[i + 2] for i in range(2)]


def _lengths(x: list[float]) -> list[float]:
    exact = (math.sqrt(x[i] * x[i] + x[i + 2] * x[i + 2]) for i in range(2))
    return [math.floor(1e12 * length + 0.5) / 1e12 for length in exact]  # 1, not 1.0000000000000002


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS)."""
    n, gap = state["n"], state["gap"]
    q, k, pairs = _score(state, n, gap)
    score, at_zero = sum(pairs), sum(_score(state, 0, gap)[2])
    moved = abs(score - at_zero)
    return {
        "m": n + gap,
        "q": q,
        "k": k,
        "lengths_q": _lengths(q),
        "lengths_k": _lengths(k),
        "pairs": pairs,
        "score": score,
        "at_zero": at_zero,
        "moved": 0 if moved < 1e-12 else moved,
        "curve": [sum(_score(state, n, g)[2]) for g in range(17)],
        "curve_at_zero": [sum(_score(state, 0, g)[2]) for g in range(17)],
    }


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    turned = 0 if state["code"] == "q-only" else state["n"]
    return {
        "caption": "By pair: angles in radians, lengths of the hands, share of q\u00b7k",
        "columns": ["Pair", "q angle", "k angle", "q length", "k length", "q\u00b7k"],
        "rows": [
            [
                str(i + 1),
                result["m"] * speed,
                turned * speed,
                result["lengths_q"][i],
                result["lengths_k"][i],
                result["pairs"][i],
            ]
            for i, speed in enumerate(SPEEDS)
        ],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    head = (
        f"k stands at {fmt(state['n'])}, q at {fmt(result['m'])}, a gap of {fmt(state['gap'])}: "
        f"q\u00b7k = {fmt(result['score'])}."
    )
    same = f"With k at 0 and the same gap it is {fmt(result['at_zero'])}"
    if result["moved"] == 0:
        return f"{head} {same}: the gap alone decides."
    return f"{head} {same}: the place moved it by {fmt(result['moved'])}."
