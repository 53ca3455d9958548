"""Python reference of the figure `flash`: the tiles of a T x T square, and what one row remembers.

Same states, numbers and sentences as `flash.mjs`; plain floats, no torch. Sources: Milakov and
Gimelshein 2018 (running softmax), Dao et al. 2022 (tiles).
"""

import math
from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "Flash attention: the square, tile by tile"
T, ROW = 8, 6
SCORES = [1, 3, 2, 0, 2, 1, 5, 4]  # of query 6 with keys 0 to 7
DEFAULTS: dict[str, Any] = {"step": 9, "tile": 2, "causal": True, "code": "right"}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "rises": {"step": 10},
    "no-rescale": {"step": 10, "code": "forgets"},
    "lucky": {"step": 1, "tile": 8, "code": "forgets"},
    "short": {"step": 6, "tile": 3},
    "all": {"step": 16, "causal": False},
}
CASES: list[dict[str, Any]] = [
    *({"tile": tile, "causal": causal, "step": 16, "code": code}
      for tile in (2, 3, 4, 8) for causal in (True, False) for code in ("right", "forgets")),
    {"step": 1},
    {"step": 7},
    {"step": 8, "tile": 3, "causal": False},
    {"step": 2, "tile": 4},
]  # fmt: skip


def order(tile: int, causal: bool) -> list[list[int]]:
    """[tile of queries, tile of keys] in the order in which they are computed."""
    n = math.ceil(T / tile)
    return [[i, j] for i in range(n) for j in range(i + 1 if causal else n)]


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS)."""
    tile, tiles = state["tile"], order(state["tile"], state["causal"])
    done = tiles[: state["step"]]
    keys = ROW + 1 if state["causal"] else T
    trace: list[dict[str, Any]] = []
    peak, total, seen = -math.inf, 0.0, []
    for i, j in done:
        scores = SCORES[j * tile : min((j + 1) * tile, keys)]
        if i != ROW // tile or not scores:
            continue
        new = max(peak, *scores)
        keep = 1 if state["code"] == "forgets" else math.exp(peak - new)
        total = total * keep + sum(math.exp(s - new) for s in scores)
        peak, seen = new, seen + scores
        trace.append({"tile": j, "scores": scores, "keep": keep, "peak": peak, "total": total})
    return {
        "tiles": len(tiles),
        "square": math.ceil(T / tile) ** 2,
        "done": len(done),
        "at": done[-1],
        "trace": trace,
        "lse": peak + math.log(total) if seen else -math.inf,
        "right": math.log(sum(math.exp(s) for s in seen)) if seen else -math.inf,
        "held": tile * tile,
    }


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    return {
        "caption": f"What query {ROW} remembers after each of its tiles",
        "columns": ["Tile of keys", "Scores", "Old sums times", "Maximum", "Total"],
        "rows": [
            ["none", "none", "none", -math.inf, 0],
            *(
                [t["tile"], ", ".join(map(str, t["scores"])), t["keep"], t["peak"], t["total"]]
                for t in result["trace"]
            ),
        ],
    }


def span(n: int, tile: int) -> str:
    """The tokens of tile `n`, in words."""
    return f"{n * tile} to {min((n + 1) * tile, T) - 1}"


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    (i, j), tile, trace = result["at"], state["tile"], result["trace"]
    text = (
        f"Tile {result['done']} of {result['tiles']}: queries {span(i, tile)}, keys {span(j, tile)}. "
        f"Held at once: {result['held']} of {T * T} scores. "
    )
    if not trace:
        return text + f"Query {ROW} has not been reached."
    last = trace[-1]
    text += f"Query {ROW}: maximum {fmt(last['peak'])}, total {fmt(last['total'])}, "
    text += f"logsumexp so far {fmt(result['lse'])}"
    if abs(result["lse"] - result["right"]) < 1e-9:
        return text + ", which is right."
    return text + f", right is {fmt(result['right'])}."
