"""The concepts as a picture: a row for each lesson, each concept below what it stands on.

One SVG, made without a network, in light and dark, readable in print and without color: the level
stands in every box as a number.
"""

import html
import textwrap
from dataclasses import dataclass

from course_lib.lab.ledger import concepts
from course_lib.lab.ledger.levels import NAMES

BOX_W, BOX_H, GAP_X, GAP_Y, LEFT, TOP = 112, 56, 26, 46, 160, 56
LANE = 4
"""Pixels between two lines that run down the same gap."""
STYLE = """
.concepts text { font: 12px system-ui, sans-serif; fill: #1b1f24 }
.concepts .small { font-size: 11px }
.concepts .paper { fill: #ffffff }
.concepts rect { stroke: #57606a; stroke-width: 1 }
.concepts path { fill: none; stroke: #6e7781; stroke-width: 1 }
.concepts .tip { fill: #6e7781 }
.concepts .l0 { fill: #ffffff; stroke-dasharray: 3 3 }
.concepts .l1 { fill: #eef1f4 }
.concepts .l2 { fill: #dcebf9 }
.concepts .l3 { fill: #b4d7f3 }
.concepts .l4 { fill: #b9e3bd; stroke-width: 2 }
.concepts .l5 { fill: #8fd096; stroke-width: 3 }
@media (prefers-color-scheme: dark) {
  .concepts text { fill: #f0f3f6 }
  .concepts .paper { fill: #14181d }
  .concepts rect { stroke: #9aa4ae }
  .concepts path { stroke: #8b949e }
  .concepts .tip { fill: #8b949e }
  .concepts .l0 { fill: #14181d }
  .concepts .l1 { fill: #272e36 }
  .concepts .l2 { fill: #1d3550 }
  .concepts .l3 { fill: #174a7a }
  .concepts .l4 { fill: #1c4d2a }
  .concepts .l5 { fill: #17663a }
}"""


@dataclass(frozen=True)
class Box:
    """One concept's place."""

    slug: str
    x: int
    y: int
    lines: tuple[str, ...]


def boxes() -> tuple[list[Box], list[tuple[str, int]]]:
    """All boxes, and the rows' (lesson title, y)."""
    rows: dict[str, list[str]] = {}
    for slug, concept in concepts.concepts().items():
        if concept.lesson:
            rows.setdefault(concept.lesson, []).append(slug)
    found, labels = [], []
    for row, (lesson, slugs) in enumerate(rows.items()):
        y = TOP + row * (BOX_H + GAP_Y)
        labels.append((concepts.lessons()[lesson].title, y))
        for column, slug in enumerate(sorted(slugs, key=lambda slug: _depth(slug, lesson))):
            lines = textwrap.wrap(concepts.title(slug), 15, break_on_hyphens=True)
            found.append(Box(slug, LEFT + column * (BOX_W + GAP_X), y, tuple(lines)))
    return found, labels


def _depth(slug: str, lesson: str) -> int:
    """How many concepts of the same lesson stand below this one."""
    known = concepts.concepts()
    below = [need for need in known[slug].requires if known[need].lesson == lesson]
    return 1 + max((_depth(need, lesson) for need in below), default=-1)


def svg(levels: dict[str, int]) -> str:
    """The picture as one file's text."""
    found, labels = boxes()
    places = {box.slug: box for box in found}
    width = max(box.x for box in found) + BOX_W + GAP_X
    height = max(box.y for box in found) + BOX_H + GAP_Y
    names = " \N{MIDDLE DOT} ".join(f"{level} {name}" for level, name in enumerate(NAMES))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'class="concepts" aria-labelledby="concepts-title concepts-text">',
        '<title id="concepts-title">Concepts of the course and their levels</title>',
        f'<desc id="concepts-text">{html.escape(_describe_levels(levels))}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}" style="stroke:none"/>',
        f'<text x="{GAP_X}" y="24">Level: {names}</text>',
        '<marker id="concepts-end" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" '
        'markerHeight="6" orient="auto"><path class="tip" d="M0 0 L6 3 L0 6 z"/></marker>',
        *_edges(places),
        *(_label(title, y) for title, y in labels),
        *(_draw_box(box, levels.get(box.slug, 0)) for box in found),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def text_list(levels: dict[str, int]) -> list[str]:
    """The same as lines: "causal mask: level 3, solved alone; stands on scaled dot product"."""
    lines = []
    for slug, concept in concepts.concepts().items():
        if concept.lesson:
            level = levels.get(slug, 0)
            needs = ", ".join(map(concepts.title, concept.requires))
            lines.append(
                f"{concept.title}: level {level}, {NAMES[level]}"
                + (f"; stands on {needs}" if needs else "")
            )
    return lines


def _describe_levels(levels: dict[str, int]) -> str:
    counts = [sum(level == n for level in levels.values()) for n in range(6)]
    told = ", ".join(f"{count} at level {n} ({NAMES[n]})" for n, count in enumerate(counts))
    return f"A row for each lesson; lines lead from a concept to those that stand on it. {told}."


def _edges(places: dict[str, Box]) -> list[str]:
    """The lines. A long one runs down a gap between columns: behind boxes it would look like a
    chain of them."""
    drawn, long = [], 0
    for box in places.values():
        for need in concepts.concepts()[box.slug].requires:
            if need in places:
                start, below = places[need], BOX_H + GAP_Y
                long += box.y - start.y > below
                drawn.append(_edge(start, box, lane=long if box.y - start.y > below else None))
    return drawn


def _edge(start: Box, end: Box, lane: int | None) -> str:
    x1, x2, y2 = start.x + BOX_W // 2, end.x + BOX_W // 2, end.y
    if start.y == end.y:  # an arc above the row
        path = f"M{x1} {y2} C{x1} {y2 - 24} {x2} {y2 - 24} {x2} {y2}"
    elif lane is None:
        y1 = start.y + BOX_H
        path = f"M{x1} {y1} C{x1} {y1 + 26} {x2} {y2 - 26} {x2} {y2}"
    else:
        shift = LANE * (lane % 5)
        gap = start.x - GAP_X + 5 + shift
        path = f"M{x1} {start.y + BOX_H} v{4 + shift // 2} H{gap} V{y2 - 16 - shift} H{x2} V{y2}"
    return f'<path d="{path}" marker-end="url(#concepts-end)"/>'


def _label(title: str, y: int) -> str:
    return f'<text x="{GAP_X}" y="{y + BOX_H // 2 + 4}">{html.escape(title)}</text>'


def _draw_box(box: Box, level: int) -> str:
    middle = box.x + BOX_W // 2
    first = box.y + (26 if len(box.lines) == 1 else 19)
    spans = "".join(
        f'<text x="{middle}" y="{first + 14 * n}" text-anchor="middle">{html.escape(line)}</text>'
        for n, line in enumerate(box.lines)
    )
    return (
        f'<g><rect class="l{level}" x="{box.x}" y="{box.y}" width="{BOX_W}" height="{BOX_H}" '
        f'rx="6"/>{spans}<text class="small" x="{middle}" y="{box.y + BOX_H - 7}" '
        f'text-anchor="middle">level {level}</text></g>'
    )
