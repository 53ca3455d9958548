"""Python reference of the figure `ladder`: a step made of parts, six rungs, and three gains of each.

Same states, numbers and sentences as `ladder.mjs`; plain floats, no torch. Source: Amdahl 1967. The
step is made up: 100 ms on the ground, and a rung divides the time of one part.
"""

from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "What a rung is worth depends on where it stands"
DEFAULTS: dict[str, Any] = {"data": 30, "taken": "none", "log": False}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "data": {"data": 70},
    "compute": {"data": 0},
    "tf32": {"data": 0, "taken": "TF32"},
    "bf16": {"data": 0, "taken": "bf16"},
}
# name, part, what its time is divided by; bf16 takes TF32's place
RUNGS = (("tokens", "data", 50), ("TF32", "products", 3), ("bf16", "products", 6),
         ("compile", "small", 4), ("attention", "scores", 5), ("update", "update", 4))  # fmt: skip
SHARES = {"products": 0.8, "scores": 0.08, "small": 0.08, "update": 0.04}
NAMES = [name for name, _, _ in RUNGS]
CASES: list[dict[str, Any]] = [
    *({"data": data} for data in (10, 50, 90)),
    *({"data": data, "taken": name} for data in (30, 90) for name in NAMES),
    *({"data": 10, "taken": name, "log": True} for name in NAMES),
]


def step(data: float, rungs: list[str]) -> float:
    """Milliseconds of a step that stands on these rungs; of two on one part the stronger counts."""
    total = 0.0
    parts = {"data": data} | {part: share * (100 - data) for part, share in SHARES.items()}
    for part, ms in parts.items():
        total += ms / max([1, *(by for name, on, by in RUNGS if on == part and name in rungs)])
    return total


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS): ms of steps, and gains."""
    data, taken = state["data"], state["taken"]
    climbing = [name for name in NAMES if name != taken]
    top, before = step(data, climbing), 100.0
    rows, product, last_product = [], 1.0, 1.0
    for i, name in enumerate(NAMES):
        alone = 100 / step(data, [name])
        if name == taken:
            last = top / step(data, NAMES)
            rows.append({"name": name, "ms": before, "alone": alone, "place": None, "last": last})
            continue
        ms = step(data, [n for n in NAMES[: i + 1] if n != taken])
        last = step(data, [n for n in climbing if n != name]) / top
        rows.append({"name": name, "ms": ms, "alone": alone, "place": before / ms, "last": last})
        product, last_product, before = product * alone, last_product * last, ms
    return {
        "rows": rows,
        "top": top,
        "total": 100 / top,
        "product": product,
        "last_product": last_product,
    }


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    return {
        "caption": "Gains: time before over time after",
        "columns": ["rung", "ms", "alone", "in place", "last"],
        "rows": [
            [
                r["name"],
                r["ms"],
                r["alone"],
                "away" if r["place"] is None else r["place"],
                r["last"],
            ]
            for r in result["rows"]
        ]
        + [["product", result["top"], result["product"], result["total"], result["last_product"]]],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    total, product = result["total"], result["product"]
    lies = "less" if product < total else "more"
    away = "" if state["taken"] == "none" else f" without {state['taken']}"
    return (
        f"Data takes {fmt(state['data'])} of 100 ms. The ladder{away} ends at "
        f"{fmt(result['top'])} ms, {fmt(total)} times as fast. The gains alone multiply to "
        f"{fmt(product)}, {lies} than it is; those of each rung as the last one to "
        f"{fmt(result['last_product'])}; those in their places to {fmt(total)}."
    )
