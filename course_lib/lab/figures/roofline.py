"""Python reference of the figure `roofline`: two roofs of a machine, and one product under them.

Same states, numbers and sentences as `roofline.mjs`; plain floats, no torch. Source: Williams,
Waterman and Patterson 2009. The default machine is made up; its ridge is 150 FLOPs per byte.
"""

from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "Two roofs, and one product under them"
SIZE = 2
DEFAULTS: dict[str, Any] = {"top": 300, "width": 2, "product": "4096x4096x4096", "code": "right"}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "decode": {"product": "1x4096x4096"},
    "batch": {"product": "128x4096x4096"},
    "scores": {"product": "2048x64x2048"},
    "wider": {"product": "1x4096x4096", "width": 4},
    "faster": {"product": "1x4096x4096", "top": 1000},
    "higher": {"product": "1x4096x4096", "code": "max"},
}
PRODUCTS = ("1x4096x4096", "16x4096x4096", "128x4096x4096", "512x4096x4096", "4096x4096x4096",
            "2048x64x2048", "128x128x128")  # fmt: skip
CASES: list[dict[str, Any]] = [
    *({"product": product} for product in PRODUCTS),
    *({"product": product, "top": 20, "width": 8} for product in PRODUCTS),
    *({"product": product, "top": 1000, "width": 0.5, "code": "max"} for product in PRODUCTS),
]


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS): TFLOP/s, TB/s, FLOPs per byte."""
    M, K, N = map(int, state["product"].split("x"))
    flops, moved = 2 * M * K * N, SIZE * (M * K + K * N + M * N)
    intensity = flops / moved
    slope = intensity * state["width"]
    reached = min(state["top"], slope)
    return {
        "flops": flops,
        "bytes": moved,
        "intensity": intensity,
        "ridge": state["top"] / state["width"],
        "slope": slope,
        "reached": reached,
        "shown": max(state["top"], slope) if state["code"] == "max" else reached,
        "micros": flops / reached / 1e6,
    }


def limit(result: dict[str, Any]) -> str:
    """What limits the product."""
    return "memory" if result["intensity"] < result["ridge"] else "arithmetic"


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    return {
        "caption": "The product under either roof",
        "columns": ["quantity", "value"],
        "rows": [
            ["FLOPs", result["flops"]],
            ["bytes", result["bytes"]],
            ["intensity, FLOP per byte", result["intensity"]],
            ["ridge, FLOP per byte", result["ridge"]],
            ["memory roof here, TFLOP/s", result["slope"]],
            ["arithmetic roof, TFLOP/s", state["top"]],
            ["reached at best, TFLOP/s", result["reached"]],
            ["least time, microseconds", result["micros"]],
        ],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    text = (
        f"{state['product']} in bfloat16 has {fmt(result['intensity'])} FLOPs per byte; the ridge "
        f"is at {fmt(result['ridge'])}. It reaches {fmt(result['reached'])} of "
        f"{fmt(state['top'])} TFLOP/s at best: {limit(result)} is the limit. "
    )
    if state["code"] == "max":
        return text + f"The higher roof, {fmt(result['shown'])}, is what nothing reaches."
    return text + f"It takes {fmt(result['micros'])} microseconds or more."
