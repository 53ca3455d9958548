"""Python reference of the figure `schedule`: warmup, cosine, clamp, a resume, and five mistakes.

Same states, numbers and sentences as `schedule.mjs`; plain floats, no torch. Rates are in
thousandths: 1 is a rate of 0.001. Sources: Goyal et al. 2017 (warmup), Loshchilov and Hutter 2017
(cosine).
"""

import math
from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "The learning rate, update by update"
PLANNED, HIGH, LOW = 50, 1, 0.1
DEFAULTS: dict[str, Any] = {"warmup": 10, "resume": 0, "beyond": 10, "code": "right"}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "no-warmup": {"warmup": 0},
    "resumed": {"resume": 30},
    "climbs": {"beyond": 50, "code": "climbs"},
    "micro-steps": {"code": "micro-steps"},
    "zero-first": {"code": "zero-first"},
    "to-zero": {"code": "to-zero"},
    "restart": {"resume": 30, "code": "restart"},
}
CODES = ("right", "climbs", "micro-steps", "zero-first", "to-zero", "restart")
CASES: list[dict[str, Any]] = [
    *({"warmup": 0, "beyond": 20, "resume": 20, "code": code} for code in CODES),
    *({"warmup": 25, "beyond": 0, "resume": 45, "code": code} for code in CODES),
    {"warmup": 1, "code": "zero-first"},
    {"warmup": 1, "beyond": 0},
    {"resume": 5},  # in the middle of the warmup
    {"resume": 5, "code": "restart"},
    {"beyond": 0, "code": "climbs"},  # nothing to be seen
    {"beyond": 50, "resume": 45, "code": "restart"},
]


def right(step: int, warmup: int, *, low: float = LOW, clamp: bool = True) -> float:
    """The rate of update `step`; the options are what two of the mistakes change."""
    if step < warmup:
        return HIGH * (step + 1) / warmup
    if clamp and step >= PLANNED:
        return low
    angle = math.pi * (step - warmup) / (PLANNED - warmup)
    return low + 0.5 * (HIGH - low) * (1 + math.cos(angle))


def rate(step: int, state: dict[str, Any]) -> float:
    """The rate of update `step` by the code that `state` names."""
    warmup, code = state["warmup"], state["code"]
    if code == "zero-first" and step < warmup:
        return HIGH * step / warmup
    if code == "micro-steps":
        step *= 4
    if code == "restart" and step >= state["resume"]:
        step -= state["resume"]
    return right(step, warmup, low=0 if code == "to-zero" else LOW, clamp=code != "climbs")


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS)."""
    steps, resume = range(PLANNED + state["beyond"]), state["resume"]
    rates = [rate(step, state) for step in steps]
    off = [abs(rates[step] - right(step, state["warmup"])) > 1e-9 for step in steps]
    return {
        "rates": rates,
        "before": rates[resume - 1] if resume else rates[0],
        "after": rates[resume],
        "off": sum(off),
    }


def phase(step: int, warmup: int) -> str:
    """Which part of the right schedule update `step` is in."""
    return "warmup" if step < warmup else "cosine" if step < PLANNED else "after the end"


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    warmup, total = state["warmup"], len(result["rates"])
    shown = {0, warmup - 1, warmup, PLANNED // 2, state["resume"], PLANNED - 1, PLANNED, total - 1}
    return {
        "caption": "Rates in thousandths",
        "columns": ["update", "part", "rate", "right"],
        "rows": [
            [step, phase(step, warmup), result["rates"][step], right(step, warmup)]
            for step in sorted(shown)
            if 0 <= step < total
        ],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    rates, resume = result["rates"], state["resume"]
    total, off = len(rates), result["off"]
    text = (
        f"{PLANNED} updates planned, {total} made, warmup {state['warmup']}. Update 0 takes "
        f"{fmt(rates[0])}, the highest rate is {fmt(max(rates))}, the last update takes "
        f"{fmt(rates[-1])}. "
    )
    if resume:
        moved = f"{fmt(result['before'])} to {fmt(result['after'])}"
        text += f"At the resume, update {resume}, the rate goes from {moved}. "
    if off == 0:
        return text + "Every rate is right."
    return text + f"{off} of {total} updates have a wrong rate."
