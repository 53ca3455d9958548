"""Python reference of the figure `ring`: an all-reduce in a ring, step by step.

Same states, numbers and sentences as `ring.mjs`. Rank r puts 2 ** r into every chunk, so the binary
digits of a sum are the ranks whose parts are in it.
"""

from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "All-reduce in a ring"
CODES = {
    "right": "Right",
    "chunk": "Own chunk first",
    "steps": "A step too few",
    "overwrites": "Overwrites",
    "arrival": "Arrival order",
}
ENDS = {
    "right": "Every rank holds the whole sum.",
    "chunk": "Every sum stands in another chunk\u2019s place: it ended one rank before its start.",
    "steps": "Every sum lacks a part, and stands in another chunk\u2019s place.",
    "overwrites": "No sum has more than one part in it.",
    "arrival": "The sums are right, and each rank has them in another order.",
}
DEFAULTS: dict[str, Any] = {"R": 4, "step": 2, "code": "right"}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "scattered": {"step": 3},
    "done": {"step": 6},
    "chunk": {"code": "chunk", "step": 3},
    "steps": {"code": "steps", "step": 2},
    "overwrites": {"code": "overwrites", "step": 3},
    "arrival": {"code": "arrival", "step": 6},
}
CASES: list[dict[str, Any]] = [
    {"R": R, "step": step, "code": code}
    for R, steps in ((2, (0, 1, 8)), (3, (1, 3)), (5, (4, 8)))
    for step in steps
    for code in CODES
]


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS)."""
    R, code = state["R"], state["code"]
    first = R - 2 if code == "steps" else R - 1
    step = min(state["step"], first + R - 1)
    sums = [[(r - (code != "chunk")) % R, 2**r] for r in range(R)]  # chunk, sum: of each rank
    for _ in range(min(step, first)):
        sums = [sums[r - 1] for r in range(R)]
        if code != "overwrites":
            sums = [[c, total + 2**r] for r, (c, total) in enumerate(sums)]
    cells: list[list[Any]]
    if step <= first:  # beside the sum a rank has its own parts
        at = [c for c, _ in sums]
        cells = [[sums[r] if c == at[r] else [c, 2**r] for c in range(R)] for r in range(R)]
        moves = [[at[r], at[r]] for r in range(R)] if step else []
    else:
        past = step - first
        slots = [
            [i if code == "arrival" else (r - i) % R for i in range(past + 1)] for r in range(R)
        ]
        cells = [[None] * R for _ in range(R)]
        for r in range(R):
            for i, slot in enumerate(slots[r]):
                cells[r][slot] = sums[(r - i) % R]
        at = [slots[r][past] for r in range(R)]
        moves = [[slots[(r - 1) % R][past - 1], at[r]] for r in range(R)]
    return {
        "step": step,
        "steps": first + R - 1,
        "gathering": step > first,
        "cells": cells,
        "at": at,
        "moves": moves,
        "sent": step / R,
    }


def _parts(total: int) -> int:
    return bin(total).count("1")


def _cell(cell: list[int] | None) -> str:
    return "\u2013" if cell is None else f"{'ABCDE'[cell[0]]} {cell[1]}"


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    R = state["R"]
    return {
        "caption": f"What each rank has after step {result['step']} of {result['steps']}: "
        "chunk and sum",
        "columns": ["Rank", *(f"Place {letter}" for letter in "ABCDE"[:R])],
        "rows": [[str(r), *map(_cell, result["cells"][r])] for r in range(R)],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    R, row = state["R"], result["cells"][0]
    head = f"{CODES[state['code']]}, {R} ranks, step {result['step']} of {result['steps']}. "
    sent = f" Each rank has sent {fmt(result['sent'])} times the tensor."
    if result["step"] == result["steps"]:
        return head + ENDS[state["code"]] + sent
    if result["gathering"]:
        return head + f"All-gather: rank 0 has {R - row.count(None)} of {R} sums." + sent
    chunk, total = row[result["at"][0]]
    return (
        head
        + f"Reduce-scatter: rank 0 has a sum of chunk {'ABCDE'[chunk]} with {_parts(total)} of {R} "
        + "parts in it."
        + sent
    )
