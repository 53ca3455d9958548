"""Python reference of the figure `desync`: four ranks, six collectives, and where they part.

Same states, numbers and sentences as `desync.mjs`; plain lists, no torch.
"""

from typing import Any

TITLE = "A hang: who waits, and for whom?"
RANKS = 4
CALLS = (("BC", 8), ("AR", 4096), ("AR", 4096), ("AR", 1024), ("AG", 512), ("BA", 4))
"""Broadcast, all-reduce, all-gather, barrier, with their bytes: what every rank should issue."""
FAULTS = {
    "none": "none",
    "absent": "does not come",
    "skip": "leaves one out",
    "extra": "makes one more",
    "size": "has fewer bytes",
    "order": "swaps two",
}
DEFAULTS: dict[str, Any] = {"fault": "absent", "rank": 2, "place": 3}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "skip": {"fault": "skip"},
    "late": {"fault": "skip", "place": 1},
    "extra": {"fault": "extra", "rank": 0, "place": 2},
    "size": {"fault": "size"},
    "order": {"fault": "order"},
    "unseen": {"fault": "order", "place": 1},
    "none": {"fault": "none"},
}
CASES: list[dict[str, Any]] = [
    {"fault": fault, "rank": rank, "place": place}
    for fault in FAULTS
    for rank, place in ((0, 1), (3, 2), (1, 3), (2, 4))
]


def issued(state: dict[str, Any]) -> list[tuple[str, int]]:
    """What the rank with the fault would issue, if nothing ever waited."""
    fault, place, calls = state["fault"], state["place"], list(CALLS)
    if fault == "absent":
        return calls[:place]
    if fault == "skip":
        del calls[place]
    if fault == "extra":
        calls.insert(place, ("AG", 64))
    if fault == "size":
        calls[place] = (calls[place][0], calls[place][1] // 2)
    if fault == "order":
        calls[place], calls[place + 1] = calls[place + 1], calls[place]
    return calls


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Calls by rank up to where they part: [name, bytes, done]; the place, or -1; who waits."""
    plans = [issued(state) if rank == state["rank"] else list(CALLS) for rank in range(RANKS)]
    at = next((i for i in range(max(map(len, plans))) if len({*_column(plans, i)}) > 1), -1)
    end = len(CALLS) if at < 0 else at + 1
    calls = [[[*call, i != at] for i, call in enumerate(plan[:end])] for plan in plans]
    waits = [rank for rank, own in enumerate(calls) if own and not own[-1][2]]
    return {"calls": calls, "at": at, "waits": waits, "odd": [] if at < 0 else [state["rank"]]}


def _column(plans: list, place: int) -> list:
    return [plan[place] if place < len(plan) else None for plan in plans]


def _listed(ranks: list[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text."""
    rows = []
    for rank, calls in enumerate(result["calls"]):
        said = [f"{n} {b}" if done else f"({n} {b})" for n, b, done in calls]
        rows.append([f"Rank {rank}", *said, *["\u2013"] * (len(CALLS) - len(said))])
    return {
        "caption": "What each rank has issued; in brackets: it waits there",
        "columns": ["Rank", *(f"Place {i}" for i in range(len(CALLS)))],
        "rows": rows,
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    if state["fault"] == "none":
        return "All six collectives end: nobody waits."
    head = f"Rank {state['rank']} {FAULTS[state['fault']]} at place {state['place']}: "
    if result["at"] < 0:
        return head + "no hang, because both calls look the same, and wrong tensors are summed."
    return (
        head + f"the ranks part at place {result['at']}, where {_listed(result['waits'])} "
        f"{'waits' if len(result['waits']) == 1 else 'wait'}; look at rank {state['rank']}."
    )
