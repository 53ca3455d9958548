"""Python reference of the figure `fusion`: a chain of operations, and what goes through memory.

Same states, numbers and sentences as `fusion.mjs`; plain floats, no torch. The machine is made up:
2 TB/s, and 6 microseconds to issue a launch, as lesson 13's mathematics has them.
"""

from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "A chain, and what it carries through memory"
SIZE = 4
WIDTH = 2e6
"""Bytes in a microsecond."""
LAUNCH = 6
DEFAULTS: dict[str, Any] = {"ops": 5, "shape": "2048x1024", "fused": False, "code": "right"}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "fused": {"fused": True},
    "twice": {"fused": True, "code": "twice"},
    "small": {"shape": "16x256"},
    "small-fused": {"shape": "16x256", "fused": True},
    "large": {"shape": "16384x4096"},
}
CASES: list[dict[str, Any]] = [
    *({"ops": ops} for ops in range(1, 9)),
    *({"ops": ops, "fused": True} for ops in range(1, 9)),
    *({"shape": shape, "ops": 8} for shape in ("16x256", "256x1024", "16384x4096")),
    {"shape": "256x1024", "fused": True, "code": "twice"},
]


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS): bytes, and microseconds."""
    rows, cols = map(int, state["shape"].split("x"))
    each = SIZE * rows * cols
    kernels = 1 if state["fused"] else state["ops"]
    reads = (2 if state["code"] == "twice" else 1) if state["fused"] else state["ops"]
    moved = (reads + kernels) * each
    kernel = moved / kernels / WIDTH
    return {
        "each": each,
        "kernels": kernels,
        "reads": reads,
        "writes": kernels,
        "bytes": moved,
        "least": 2 * each,
        "times": moved / each / 2,
        "kernel": kernel,
        "launches": kernels * LAUNCH,
        "end": LAUNCH + kernel + (kernels - 1) * max(LAUNCH, kernel),
    }


def limit(result: dict[str, Any]) -> str:
    """What sets the pace."""
    return "launches" if result["kernel"] < LAUNCH else "memory"


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    return {
        "caption": "The chain on the made-up machine",
        "columns": ["quantity", "value"],
        "rows": [
            ["kernels", result["kernels"]],
            ["MB in one tensor", result["each"] / 1e6],
            ["MB through memory", result["bytes"] / 1e6],
            ["least possible, MB", result["least"] / 1e6],
            ["one kernel, us", result["kernel"]],
            ["all launches, us", result["launches"]],
            ["last kernel ends, us", result["end"]],
        ],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    times = result["times"]
    least = "the least possible" if times == 1 else f"{fmt(times)} times the least"
    number = "One operation" if state["ops"] == 1 else f"{state['ops']} operations"
    return (
        f"{number} {'in one kernel' if state['fused'] else 'one at a time'}: {result['reads']} reads "
        f"and {result['writes']} writes of {fmt(result['each'] / 1e6)} MB, "
        f"{fmt(result['bytes'] / 1e6)} MB in all, {least}. It ends "
        f"after {fmt(result['end'])} microseconds, and {limit(result)} set the pace."
    )
