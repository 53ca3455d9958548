"""A measured ladder as a table and as a picture.

What it is: text for a terminal, bars for a page, and the door to records that are stored. What it
leaves out: the measuring (climb.py).
"""

import json
from pathlib import Path

from course_lib.ladder.rungs import BESIDE, LADDER, TITLES

RECORDS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def read_record(name: str = "ladder") -> dict | None:
    """The record of that name beside this library, with its machine and date; None without one."""
    path = RECORDS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def table(figures: dict) -> str:
    """One line a rung: ms at its place, the three gains, tokens per second, MFU, memory, losses."""
    gains, ground = figures["gains"], figures["ground"]
    lines = [_shape(figures), ""]
    lines.append(
        f"{'rung':<20}{'ms':>9}{'alone':>8}{'in place':>10}{'last':>8}{'tokens/s':>11}"
        f"{'MFU':>7}{'MB':>9}  losses"
    )
    lines.append(_line("the ground", ground, "", "", ""))
    for name in LADDER:
        if gains["alone"].get(name) is None:
            lines.append(f"{TITLES[name]:<20}  not here: {figures['not_here'].get(name, '')}"[:110])
            continue
        three = (
            f"{gains[kind][name]:.2f}{_noise(figures, kind, name)}"
            for kind in ("alone", "in_place", "last")
        )
        lines.append(_line(TITLES[name], figures["climbed"][name], *three))
    top = figures["climbed"][_top_rung(figures)] if _top_rung(figures) else ground
    for name in BESIDE:
        if name in figures.get("beside", {}):
            row = figures["beside"][name]
            lines.append(_line(f"+ {TITLES[name]}", row, "", "", f"{top['ms'] / row['ms']:.2f} "))
        elif figures["not_here"].get(name):
            lines.append(f"+ {TITLES[name]:<18}  not here: {figures['not_here'][name]}"[:110])
    total, product = gains["total"], gains["product"]
    lines += [
        "",
        f"the whole ladder: {total:.2f} times; the gains alone multiply to {product:.2f}",
        "~ the quartiles of the rounds lie on both sides of 1: no gain was seen",
        "! that step has other losses than the ground: it is no faster way to the same",
        f"peak for MFU: {figures['peak_gflops_per_s']:,.0f} GFLOP/s, {figures['peak_from']}",
        *(f"- {rule}" for rule in figures["rules"]),
    ]
    if "interrupted_after_rounds" in figures:
        lines.append(f"interrupted after {figures['interrupted_after_rounds']} rounds")
    return "\n".join(lines)


def _shape(figures: dict) -> str:
    s = figures["shape"]
    return (
        f"{s['parameters']:,} parameters, {s['batch']} x {s['seq_len']} tokens a step, "
        f"{figures['device']}, {figures['threads']} CPU threads, "
        f"{figures['rounds']} rounds of {figures.get('steps_in_a_row', 1)}"
    )


def _line(title: str, row: dict, alone: str, in_place: str, last: str) -> str:
    memory = "" if row["step_memory_mb"] is None else f"{row['step_memory_mb']:.0f}"
    off = row["loss_off_by"]
    same = (
        f"off by {off:.0e}"
        if row["same_curve"]
        else (f"OFF BY {'NaN' if off is None else f'{off:.3f}'}: another curve")
    )
    return (
        f"{title:<20}{row['ms']:>9.4g}{alone:>8}{in_place:>10}{last:>8}"
        f"{row['tokens_per_s']:>11,}{row['mfu']:>7.1%}{memory:>9}  {same}"
    )


def _noise(figures: dict, kind: str, name: str) -> str:
    """A mark where the gain's own step trains otherwise, or its quartiles lie on both sides of 1."""
    how = {"alone": "alone", "in_place": "climbed", "last": "without"}[kind]
    if not figures[how][name]["same_curve"]:
        return "!"
    low, high = figures["gain_quartiles"][kind][name]
    return "~" if low <= 1 <= high else " "


def _top_rung(figures: dict) -> str:
    """The top rung that was measured, or nothing."""
    here = [name for name in LADDER if figures["gains"]["alone"].get(name) is not None]
    return here[-1] if here else ""


def draw(figures: dict, axes) -> None:
    """Two pictures on `axes`, a pair: ms of a step while climbing, and the three gains of a rung."""
    steps, gains = axes
    here = [name for name in LADDER if figures["gains"]["alone"].get(name) is not None]
    rows = [figures["ground"], *(figures["climbed"][name] for name in here)]
    places = range(len(rows))
    low = [row["ms"] - min(row["ms"], row["ms_spread"][0]) for row in rows]
    high = [max(row["ms"], row["ms_spread"][1]) - row["ms"] for row in rows]
    steps.barh(
        places,
        [row["ms"] for row in rows],
        xerr=(low, high),
        color="#1b6e9c",
        ecolor="#333333",
        height=0.65,
    )
    steps.set_yticks(places, ["the ground", *(f"+ {TITLES[name]}" for name in here)], fontsize=8)
    steps.set_xlabel("ms a step, with all rungs above it")
    for offset, kind, color, label in (
        (-0.25, "alone", "#b3261e", "alone"),
        (0.0, "in_place", "#1b6e9c", "in its place"),
        (0.25, "last", "#7a6a00", "as the last one"),
    ):
        values = [figures["gains"][kind][name] for name in here]
        gains.barh(
            [1 + i + offset for i in range(len(here))],
            [v - 1 for v in values],
            left=1,
            height=0.22,
            color=color,
            label=label,
        )
    gains.set_yticks([1 + i for i in range(len(here))], [""] * len(here))
    gains.axvline(1, color="#333333", lw=0.8)
    gains.set_xlabel("gain: time before over time after")
    gains.legend(frameon=False, fontsize=8)
    for ax in axes:
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.spines[["top", "right"]].set_visible(False)
