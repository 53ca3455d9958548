"""Python reference of the figure `timeline`: one step on R ranks, computing beside communicating.

Same states, numbers and sentences as `timeline.mjs`; plain numbers, no torch. Two of the ranks are
simulated, since all but rank 1 are alike: each has a lane that computes and a lane that communicates,
a lane does one thing at a time, and a collective starts when the last rank is ready for it.

Lesson 18 shows DDP (`mode` "ddp" and "front", presets up to "slow"), lesson 21 FSDP ("free" and
"keep", presets that begin with "fsdp").
"""

from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "One step: computing beside communicating"
LAYERS, RANKS, MB = 8, 4, 8
"""Layers, ranks, and megabytes of parameters in a layer."""
FORWARD, BACKWARD, START, MB_PER_TIME = 1, 2, 1, 8
"""Units of time: of a layer's two passes, of starting a collective; megabytes sent in one."""
MODES = {
    "ddp": "DDP",
    "front": "DDP, from the front",
    "free": "FSDP, freed",
    "keep": "FSDP, kept",
}
KINDS = {"F": "Forward", "B": "Backward", "G": "Gather", "S": "Reduce-scatter", "A": "All-reduce"}
DEFAULTS: dict[str, Any] = {"mode": "ddp", "size": 8, "overlap": True, "slow": 1}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "buckets": {"size": 2},
    "single": {"size": 1},
    "late": {"size": 2, "overlap": False},
    "front": {"size": 2, "mode": "front"},
    "slow": {"size": 2, "slow": 1.5},
    "fsdp": {"mode": "free", "size": 1},
    "fsdp-kept": {"mode": "keep", "size": 1},
    "fsdp-waits": {"mode": "free", "size": 1, "overlap": False},
    "fsdp-whole": {"mode": "free"},
}
CASES: list[dict[str, Any]] = [
    {"mode": mode, "size": size, "overlap": overlap, "slow": slow}
    for mode in MODES
    for size, overlap, slow in ((2, True, 1), (4, True, 1), (4, False, 1.5), (8, False, 1))
]


class _Lanes:
    """Boxes of two ranks, placed one after the other."""

    def __init__(self, slow: float):
        self.slow, self.boxes = slow, []
        self.ends = [[0, 0], [0, 0]]
        """By lane and rank, where its last box ends."""

    def add(self, kind: str, unit: int, time: float, mb: float, *after: dict | None) -> dict:
        """A box that starts after those of its lane and those in `after`; with `mb` a collective."""
        ends = self.ends[1 if mb else 0]
        waits = [ends, *(box["end"] for box in after if box)]
        start = [max(end[rank] for end in waits) for rank in (0, 1)]
        if mb:
            start = [max(start)] * 2
        end = [start[0] + time, start[1] + time * (1 if mb else self.slow)]
        ends[:] = end
        box = {"kind": kind, "unit": unit, "mb": mb, "start": start, "end": end}
        self.boxes.append(box)
        return box


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS)."""
    lanes = _Lanes(state["slow"])
    held = _fsdp(lanes, **state) if state["mode"] in ("free", "keep") else _ddp(lanes, **state)
    sent = [box["mb"] for box in lanes.boxes if box["mb"]]
    end = max(max(box["end"]) for box in lanes.boxes)
    return {
        "boxes": lanes.boxes,
        "end": end,
        "waits": end - state["slow"] * LAYERS * (FORWARD + BACKWARD),
        "sent": sum(sent),
        "collectives": len(sent),
        "held": held,
        "peak": max(mb for _, mb in held),
    }


def _sends(size: int, passes: int) -> tuple[float, float]:
    """Time and megabytes of a collective over `size` layers; an all-reduce goes round twice."""
    mb = passes * size * MB * (RANKS - 1) / RANKS
    return START + mb / MB_PER_TIME, mb


def _ddp(lanes: _Lanes, *, mode: str, size: int, overlap: bool, slow: float) -> list[list[float]]:
    units = range(LAYERS // size)
    for unit in units:
        lanes.add("F", unit, size * FORWARD, 0)
    back = {unit: lanes.add("B", unit, size * BACKWARD, 0) for unit in reversed(units)}
    for unit in units if mode == "front" else reversed(units):
        lanes.add("A", unit, *_sends(size, 2), back[unit if overlap else 0])
    return [[0, LAYERS * MB]]


def _fsdp(lanes: _Lanes, *, mode: str, size: int, overlap: bool, slow: float) -> list[list[float]]:
    units, sends = range(LAYERS // size), _sends(size, 1)
    last, free, ahead = len(units) - 1, mode == "free", 2 if overlap else 1
    gathered, forward, again, back, scattered = {}, {}, {}, {}, {}
    for unit in units:  # with overlap one unit ahead, so that at most two are whole
        gathered[unit] = lanes.add("G", unit, *sends, forward.get(unit - ahead))
        forward[unit] = lanes.add("F", unit, size * FORWARD, 0, gathered[unit])
    for unit in reversed(units):
        for due in (unit, unit - 1)[:ahead] if free else ():
            if due >= 0 and due not in again:  # goes before the scatter of this unit
                whole = back.get(due + ahead) or forward[last]
                again[due] = lanes.add("G", due, *sends, whole)
        before = None if overlap else scattered.get(unit + 1)
        back[unit] = lanes.add(
            "B", unit, size * BACKWARD, 0, forward[last], again.get(unit), before
        )
        scattered[unit] = lanes.add("S", unit, *sends, back[unit])
    changes = []
    for unit in units:
        spans = [(gathered, forward), (again, back)] if free else [(gathered, back)]
        for first, until in spans:
            changes += [(first[unit]["start"][0], 1), (until[unit]["end"][0], -1)]
    return _steps(changes, size * MB)


def _steps(changes: list[tuple[float, int]], mb: float) -> list[list[float]]:
    """[time, megabytes held on rank 0] after each change; what is freed goes first."""
    now: float = LAYERS * MB / RANKS
    held = [[0, now]]
    for time, sign in sorted(changes):
        now += sign * mb
        held.append([time, now])
    return held


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    rows = []
    for kind, name in KINDS.items():
        found = [box for box in result["boxes"] if box["kind"] == kind]
        if found:
            first, last = found[0]["start"][0], found[-1]["end"][0]
            rows.append([name, len(found), first, last, sum(box["mb"] for box in found)])
    return {
        "caption": "Boxes of rank 0, by kind; times in units",
        "columns": ["Kind", "Boxes", "First starts", "Last ends", "MB sent"],
        "rows": rows,
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    beside = "" if state["overlap"] else ", nothing beside computing"
    longer = 100 * (state["slow"] - 1)
    plural = "s" if result["collectives"] > 1 else ""
    slow = f"; rank 1 computes {fmt(longer)} percent longer" if longer else ""
    return (
        f"{MODES[state['mode']]}, {fmt(state['size'])} of {LAYERS} layers together{beside}{slow}: the "
        f"step ends at {fmt(result['end'])}, {fmt(result['waits'])} later than computing alone. "
        f"A rank sends {fmt(result['sent'])} MB in {fmt(result['collectives'])} collective{plural} and "
        f"holds up to {fmt(result['peak'])} MB of parameters."
    )
