"""Python reference of the figure `attention`: one query's way from scores to its output.

Same states, numbers and sentences as `attention.mjs`; plain floats, no torch.
Paper: Vaswani et al. 2017.
"""

import math
from collections.abc import Callable
from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "One query at a time: score, scale, mask, softmax, sum"
WORDS = ("the", "cat", "that", "dogs", "chased", "was")
LAST = len(WORDS) - 1
Z = [  # q . k / sqrt(K) for every query (row) and key (column), spread about 1
    [0.6, -0.4, 0.9, -1.1, 0.3, 0.8],
    [-0.5, 1.2, 0.2, 0.7, -0.9, 1.4],
    [0.1, 1.6, 0.4, -0.3, 0.9, -1.2],
    [-0.8, 0.5, -0.2, 1.1, 1.5, 0.3],
    [-1.2, 1.3, 0.5, 1.7, -0.1, 0.6],
    [-0.7, 2.1, -0.3, 0.8, 0.4, -0.6],
]
V = [0.5, 2, -1, 1, -1.5, 3]  # one number of each token's value

OPEN: dict[str, Callable[[int, int], bool]] = {
    "correct": lambda i, j: j <= i,
    "leak-1": lambda i, j: j <= i + 1,
    "transposed": lambda i, j: j >= i,
    "nan-row": lambda i, j: j < i,
    "zero-after": lambda i, j: True,
    "finite-fill": lambda i, j: j <= i,
    "no-mask": lambda i, j: True,
}
NAMES = {mask: mask.replace("-", " ") for mask in OPEN} | {"nan-row": "NaN row"}
DEFAULTS: dict[str, Any] = {"query": 5, "k": 64, "scaled": True, "mask": "correct"}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "no-scale": {"scaled": False},
    "leak-1": {"mask": "leak-1", "query": 4},
    "transposed": {"mask": "transposed", "query": 3},
    "nan-row": {"mask": "nan-row", "query": 0},
    "zero-after": {"mask": "zero-after", "query": 2},
    "finite-fill": {"mask": "finite-fill", "query": 2},
    "no-mask": {"mask": "no-mask", "query": 2},
}
CASES: list[dict[str, Any]] = [
    *({"query": query} for query in range(5)),
    *({"query": 3, "scaled": False, "k": k} for k in (4, 16, 64, 256)),
    {"k": 256},  # scaled, so as K = 64
    {"mask": "leak-1"},  # the last query has no future to leak
    {"mask": "transposed"},  # sees itself only
    {"mask": "nan-row"},
    {"mask": "nan-row", "query": 1},  # sees token 0 only
    {"mask": "zero-after"},
    {"mask": "zero-after", "query": 0, "scaled": False, "k": 256},  # its weight underflows to 1e-5
    {"mask": "finite-fill", "query": 0, "scaled": False, "k": 256},
    {"mask": "no-mask", "query": 0},
]


def _clean(x: float) -> float:
    return 0 if abs(x) < 1e-9 else round(x * 1e9) / 1e9 if math.isfinite(x) else x


def _flip(row: list[float]) -> list[float]:
    """The last token, changed: its key and its value turn round."""
    return [*row[:LAST], -row[LAST]]


def _softmax(row: list[float]) -> list[float]:
    top = max(row)
    e = [math.exp(s - top) for s in row]
    return [x / sum(e) for x in e]


def attend(z: list[list[float]], v: list[float], state: dict[str, Any]) -> dict[str, Any]:
    """Masked scores, weights and outputs of all queries."""
    mask, factor = state["mask"], 1 if state["scaled"] else math.sqrt(state["k"])
    fill = 0 if mask == "finite-fill" else -math.inf
    masked = [
        [s * factor if OPEN[mask](i, j) else fill for j, s in enumerate(row)]
        for i, row in enumerate(z)
    ]
    weights = [
        [0 if mask == "zero-after" and j > i else w for j, w in enumerate(_softmax(row))]
        for i, row in enumerate(masked)
    ]
    outputs = [sum(w * x for w, x in zip(row, v, strict=True)) for row in weights]
    return {"masked": masked, "weights": weights, "outputs": outputs}


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS)."""
    now, q = attend(Z, V, state), state["query"]
    then = attend([_flip(row) for row in Z], _flip(V), state)
    return {
        "scores": [s * math.sqrt(state["k"]) for s in Z[q]],
        "masked": now["masked"][q],
        "weights": now["weights"],
        "parts": [w * x for w, x in zip(now["weights"][q], V, strict=True)],
        "sum": _clean(sum(now["weights"][q])),
        "output": now["outputs"][q],
        "moved": [_clean(abs(b - a)) for a, b in zip(now["outputs"], then["outputs"], strict=True)],
    }


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    query = state["query"]
    columns = (result["scores"], result["masked"], result["weights"][query])
    return {
        "caption": f"Query {query} ({WORDS[query]}), key by key",
        "columns": ["key", "q\u00b7k", "masked", "weight", "product"],
        "rows": [
            [f"{j} {WORDS[j]}", *row]
            for j, row in enumerate(zip(*columns, result["parts"], strict=True))
        ],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    query, divided = state["query"], "divided" if state["scaled"] else "not divided"
    moved = sum(m > 0 for m in result["moved"][:LAST])  # NaN is not above 0
    return (
        f"Query {query} ({WORDS[query]}), mask: {NAMES[state['mask']]}, "
        f"scores {divided} by \u221a{state['k']}: "
        f"largest weight {fmt(_clean(max(result['weights'][query])))}, "
        f"sum of weights {fmt(result['sum'])}, output {fmt(_clean(result['output']))}. "
        f"When token 5 changes, {moved} of the 5 outputs before it move."
    )
