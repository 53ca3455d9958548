"""Times of a ladder and what an answer makes of them: the parts that the checks of lesson 18 share.

What is here: `Times`, `draw_times`, and expectations on the dict of `rung_gains`, by rung and as one
number. What it leaves out: the checks themselves (ladder.py, ladder_edges.py).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_lib.checks.report import Wrong, number
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw

KINDS = ("alone", "in_place", "last", "saved")
NUMBERS = ("total", "product")
NAMES = ("tokens", "compile", "bf16")  # not in the order of the alphabet
SHOWN = {
    "RUNG-TOTAL-PRODUCT": "ladder:data",
    "RUNG-PRODUCT-PLACE": "ladder:default",
    "RUNG-PRODUCT-LAST": "ladder:compute",
}
CLOSE = 1e-9  # a division or two in float64: 1e-16
Way = tuple[str, str, str, Callable[[str], float]]
"""A known mistake: code, finding, fits, and what it gives for a rung."""


@dataclass(frozen=True)
class Times:
    """Seconds of every step of a ladder."""

    base: float
    alone: dict[str, float | None]
    without: dict[str, float | None]
    climbed: dict[str, float | None]

    @property
    def here(self) -> list[str]:
        return [name for name, seconds in self.climbed.items() if seconds is not None]

    @property
    def top(self) -> float:
        return self.climbed[self.here[-1]] if self.here else self.base

    def step_before(self, name: str) -> float:
        """The step before this rung on the ladder."""
        place = self.here.index(name)
        return self.climbed[self.here[place - 1]] if place else self.base


def draw_times(draw: Draw, names: Sequence[str], *, slower_at: str = "") -> Times:
    """A ladder that gets faster with every rung, but for the one named."""

    def ms(low: int, high: int) -> float:
        return int(draw.randint(low, high, ())) / 1e3

    base, climbed, before = 1.0, {}, 1.0
    for name in names:
        factor = 1.3 if name == slower_at else ms(550, 900)
        climbed[name] = before = round(before * factor, 4)
    # a mapping is asked by name: these two have the rungs in another order
    alone = {name: ms(500, 950) for name in reversed(names)}
    without = {name: round(before * (1 + ms(60, 900)), 4) for name in reversed(names)}
    return Times(base, alone, without, climbed)


def ask_gains(subject: Subject, t: Times) -> tuple[dict, str]:
    """The answer's dict, with the keys that it must have, and what was tried."""
    rows = [
        f"{name} {_ms(t.alone[name])} alone, {_ms(t.without[name])} without, "
        f"{_ms(t.climbed[name])} climbed"
        for name in t.here
    ]
    if absent := [name for name in t.climbed if name not in t.here]:
        rows.append(f"not measured: {', '.join(absent)}")
    tried = f"ms: ground {_ms(t.base)}; in order: {', '.join(t.climbed)}\n" + "\n".join(rows)
    found = subject.call(t.base, t.alone, t.without, t.climbed)
    if found is None:
        raise Wrong(
            "NONE",
            "the answer returned None",
            expected="a dict",
            got="None",
            tried=tried,
            look="the last line: is there a `return`?",
        )
    if not isinstance(found, dict):
        raise Wrong(
            "TYPE",
            f"the answer returned a {type(found).__name__}",
            tried=tried,
            expected="a dict with six keys",
            got=str(found)[:60],
            look="what stands after `return`.",
        )
    lacks = [key for key in (*KINDS, *NUMBERS) if key not in found]
    if lacks:
        raise Wrong(
            "RUNG-KEYS",
            "a key is missing",
            tried=tried,
            expected=f"a key {lacks[0]!r}",
            got=str(list(found))[:60],
            look="the docstring: six keys.",
        )
    for kind in KINDS:
        names = list(found[kind]) if isinstance(found[kind], dict) else found[kind]
        if names != list(t.climbed):
            raise Wrong(
                "RUNG-NAMES",
                f'"{kind}" has not the rungs of the ladder',
                tried=tried,
                expected=str(list(t.climbed))[:70],
                got=str(names)[:70],
                look="every rung, in the order of `climbed`.",
            )
    return found, tried


def _ms(seconds: float | None) -> str:
    return "none" if seconds is None else number(1e3 * seconds)


def expect_by_rung(
    found: dict,
    t: Times,
    kind: str,
    tried: str,
    right: Callable[[str], float],
    ways: Sequence[Way],
    look: str,
) -> None:
    """Every rung's number of this kind; `ways` are known mistakes."""
    values = {name: _a_number(found[kind][name], f'"{kind}" of {name}', tried) for name in t.here}
    bad = [name for name in t.here if not _are_close(values[name], right(name))]
    if not bad:
        return
    name = bad[0]
    facts = dict(
        tried=tried,
        look=look,
        expected=f"{kind} of {name}: {number(right(name))}",
        got=number(values[name]),
    )
    for code, finding, fits, way in ways:
        if all(_are_close(values[n], way(n)) for n in t.here):
            raise Wrong(code, finding, fits=fits, **facts)
    raise Wrong("OTHER", f'"{kind}" is another number', **facts)


def _a_number(value, what: str, tried: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Wrong(
            "TYPE",
            f"{what} is no number",
            tried=tried,
            expected="a float",
            got=f"{type(value).__name__}: {value}"[:60],
            look="what is stored for a rung that was measured.",
        )
    return float(value)


def _are_close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=CLOSE, abs_tol=1e-12)


def expect_none(found: dict, t: Times, tried: str) -> None:
    """A rung that was not measured has None in all four."""
    for kind in KINDS:
        for name in t.climbed:
            if name not in t.here and found[kind][name] is not None:
                raise Wrong(
                    "RUNG-NOT-NONE",
                    f'"{kind}" of a rung that was not measured',
                    tried=tried,
                    expected=f"{kind} of {name}: None",
                    got=str(found[kind][name])[:40],
                    look="what the docstring says of None.",
                )


def expect_number(
    found: dict, key: str, right: float, tried: str, ways: Sequence[tuple], look: str
) -> None:
    """`found[key]` is `right`; else the mistake of `ways` (value, code, finding, fits) that gives it."""
    value = _a_number(found[key], f'"{key}"', tried)
    if _are_close(value, right):
        return
    facts = dict(tried=tried, expected=f"{key}: {number(right)}", got=number(value), look=look)
    for other, code, finding, fits in ways:
        if _are_close(value, other):
            raise Wrong(code, finding, fits=fits, preset=SHOWN.get(code, ""), **facts)
    raise Wrong("OTHER", f'"{key}" is another number', **facts)
