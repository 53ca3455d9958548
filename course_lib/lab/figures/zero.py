"""Python reference of the figure `zero`: training state by stage, and what is sent for one update.

Same states, numbers and sentences as `zero.mjs`; plain numbers, no torch.
"""

import math
from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "ZeRO: what one rank holds, and what it sends"
PARTS = ("Weights", "Gradients", "Optimizer")
BYTES = (2, 2, 12)
FIRST = (3, 2, 1)
"""The first stage that shards each part."""
STAGES = (0, 1, 2, 3)
CARD = 80
"""GB of one card."""
DEFAULTS: dict[str, Any] = {"billions": 7, "ranks": 8, "stage": 1, "claim": False}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "one": {"ranks": 1},
    "many": {"ranks": 64},
    "stage-2": {"stage": 2},
    "halves": {"stage": 2, "claim": True},
    "large": {"billions": 70, "ranks": 64, "stage": 3},
}
CASES: list[dict[str, Any]] = [
    {"billions": billions, "ranks": ranks, "stage": stage, "claim": ranks == 3}
    for billions, ranks in ((0.1, 3), (0.35, 64), (13, 6), (400, 48))
    for stage in STAGES
]


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS), in GB."""
    billions, ranks = state["billions"], state["ranks"]
    whole = round(billions * 1e9)
    shard, ring = math.ceil(whole / ranks), (ranks - 1) / ranks
    held = [
        [(shard if s >= first else whole) * b / 1e9 for first, b in zip(FIRST, BYTES, strict=True)]
        for s in STAGES
    ]
    total = [sum(parts) for parts in held]
    sent = [(3 if s == 3 else 2) * ring * whole * 2 / 1e9 for s in STAGES]
    mine = total[state["stage"]]
    return {
        "held": held,
        "total": total,
        "sent": sent,
        "claimed": sent[0] / 2 if state["claim"] else None,
        "factor": total[0] / mine,
        "most": CARD * billions / mine,
    }


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    return {
        "caption": "GB on each rank, and GB that it sends for one update",
        "columns": ["Stage", *PARTS, "Together", "Sent"],
        "rows": [
            [f"Stage {s}", *result["held"][s], result["total"][s], result["sent"][s]]
            for s in STAGES
        ],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    stage, ranks = state["stage"], state["ranks"]
    beside = (
        "the measure for the others",
        "as much as stage 0",
        "as much as stage 0",
        "half as much again as stage 0",
    )[stage]
    claimed = result["claimed"]
    said = (
        "" if claimed is None else f" The claim that stage 2 halves it would be {fmt(claimed)} GB."
    )
    return (
        f"{fmt(state['billions'])} billion parameters, {fmt(ranks)} rank{'s' * (ranks > 1)}, "
        f"stage {stage}: {fmt(result['total'][stage])} GB on each, {fmt(result['factor'])} times less "
        f"than at stage 0. Sent: {fmt(result['sent'][stage])} GB, {beside}.{said} One card of 80 GB "
        f"holds the state of up to {fmt(result['most'])} billion parameters."
    )
