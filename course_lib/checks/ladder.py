"""Checks of lesson 18: rung_gains.

Oracle: ratios and differences of the times, written out. Times are drawn as whole milliseconds that
differ by more than a hundredth, so no two mistakes give the same numbers by chance.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_lib.checks.report import Wrong, number
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite

KINDS = ("alone", "in_place", "last", "saved")
NUMBERS = ("total", "product")
NAMES = ("tokens", "compile", "bf16")  # not in the order of the alphabet
SHOWN = {
    "RUNG-TOTAL-PRODUCT": "ladder:data",
    "RUNG-PRODUCT-PLACE": "ladder:default",
    "RUNG-PRODUCT-LAST": "ladder:compute",
}
CLOSE = 1e-9  # a division or two in float64: 1e-16


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
        return self.climbed[self.here[-1]]

    def step_before(self, name: str) -> float:
        """The step before this rung on the ladder."""
        place = self.here.index(name)
        return self.climbed[self.here[place - 1]] if place else self.base


def _draw_times(draw: Draw, names: Sequence[str], *, slower_at: str = "") -> Times:
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


def _ask_gains(subject: Subject, t: Times) -> tuple[dict, str]:
    """The answer's dict, with the keys that it must have, and what was tried."""
    rows = (
        f"{name} {_ms(t.alone[name])} alone, {_ms(t.without[name])} without, "
        f"{_ms(t.climbed[name])} climbed"
        for name in t.climbed
    )
    tried = f"ms: ground {_ms(t.base)}\n" + "\n".join(rows)
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
    return "None" if seconds is None else number(1e3 * seconds)


def _by_rung(
    found: dict,
    t: Times,
    kind: str,
    tried: str,
    right: Callable[[str], float],
    ways: Sequence[tuple],
    look: str,
) -> None:
    """Every rung's number of this kind; `ways`: (code, finding, fits, what that mistake gives)."""
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


def one_rung(subject: Subject, draw: Draw) -> None:
    """Nine tenths of a second become three: whatever the kind, the gain is 3."""
    fast = {"bf16": 0.3}
    t = Times(0.9, fast, dict.fromkeys(fast, 0.9), fast)
    found, tried = _ask_gains(subject, t)
    ways = [
        ("RUNG-INVERTED", "the gain is upside down", "after over before.", lambda n: 1 / 3),
        (
            "RUNG-PERCENT",
            "a percentage in place of a gain",
            "what is saved, of before.",
            lambda n: 2 / 3,
        ),
        ("RUNG-PERCENT", "a percentage in place of a gain", "percent saved.", lambda n: 200 / 3),
        ("RUNG-PERCENT", "a percentage in place of a gain", "gain minus 1.", lambda n: 2.0),
        ("RUNG-SECONDS", "seconds in place of a gain", "before minus after.", lambda n: 0.6),
    ]
    base_top = (
        "RUNG-LAST-BASE",
        "the step without the rung is compared with the ground",
        "ground over `without`.",
        lambda n: 1.0,
    )
    for kind in KINDS[:3]:
        more = [base_top] if kind == "last" else []
        _by_rung(
            found,
            t,
            kind,
            tried,
            lambda n: 3.0,
            [*ways, *more],
            "a gain is time before over time after.",
        )


def gain_alone(subject: Subject, draw: Draw) -> None:
    """Each rung by itself, over the ground."""
    t = _draw_times(draw, NAMES)
    found, tried = _ask_gains(subject, t)
    by_place = dict(zip(t.climbed, t.alone.values(), strict=True))
    _by_rung(
        found,
        t,
        "alone",
        tried,
        lambda n: t.base / t.alone[n],
        (
            (
                "RUNG-POSITION",
                "the numbers of another rung are taken",
                "`alone` by position, not by name.",
                lambda n: t.base / by_place[n],
            ),
            (
                "RUNG-ALONE-CLIMBED",
                "the rungs below are counted in",
                "ground over `climbed`.",
                lambda n: t.base / t.climbed[n],
            ),
            (
                "RUNG-ALONE-PLACE",
                "that is the gain at its place",
                "the step before over `climbed`.",
                lambda n: t.step_before(n) / t.climbed[n],
            ),
        ),
        "which of the three mappings has this rung and no other.",
    )


def in_place(subject: Subject, draw: Draw) -> None:
    """Each rung over the one below it: gains that multiply, seconds that add."""
    t = _draw_times(draw, NAMES)
    found, tried = _ask_gains(subject, t)
    by_name = dict(
        zip(sorted(NAMES), [t.base, *(t.climbed[n] for n in sorted(NAMES))], strict=False)
    )
    _by_rung(
        found,
        t,
        "in_place",
        tried,
        lambda n: t.step_before(n) / t.climbed[n],
        (
            (
                "RUNG-PLACE-BASE",
                "every rung is compared with the ground",
                "ground over `climbed`.",
                lambda n: t.base / t.climbed[n],
            ),
            (
                "RUNG-PLACE-ALONE",
                "the rung alone is taken",
                "ground over `alone`.",
                lambda n: t.base / t.alone[n],
            ),
            (
                "RUNG-PLACE-ALONE",
                "the rung alone is taken",
                "the step before over `alone`.",
                lambda n: t.step_before(n) / t.alone[n],
            ),
            (
                "RUNG-ORDER",
                "the rungs are taken in the order of the alphabet",
                "sorted names.",
                lambda n: by_name[n] / t.climbed[n],
            ),
        ),
        "where a rung stands, and what is below it.",
    )
    _by_rung(
        found,
        t,
        "saved",
        tried,
        lambda n: t.step_before(n) - t.climbed[n],
        (
            (
                "RUNG-SAVED-BASE",
                "the seconds of all rungs below are counted again",
                "ground minus `climbed`.",
                lambda n: t.base - t.climbed[n],
            ),
            (
                "RUNG-SAVED-ALONE",
                "the seconds that it saves alone",
                "ground minus `alone`.",
                lambda n: t.base - t.alone[n],
            ),
            (
                "RUNG-SAVED-LAST",
                "the seconds that it saves as the last one",
                "`without` minus the top.",
                lambda n: t.without[n] - t.top,
            ),
            (
                "RUNG-SAVED-SIGN",
                "saved seconds are negative",
                "after minus before.",
                lambda n: t.climbed[n] - t.step_before(n),
            ),
            (
                "RUNG-SAVED-SHARE",
                "a share in place of seconds",
                "saved over all that is saved.",
                lambda n: (t.step_before(n) - t.climbed[n]) / (t.base - t.top),
            ),
        ),
        'the two steps that "in_place" divides.',
    )


def gain_last(subject: Subject, draw: Draw) -> None:
    """Each rung taken away from the whole. A last rung may make it slower: the top is the top."""
    t = _draw_times(draw, NAMES, slower_at=NAMES[-1])
    found, tried = _ask_gains(subject, t)
    best = min(t.climbed.values())
    _by_rung(
        found,
        t,
        "last",
        tried,
        lambda n: t.without[n] / t.top,
        (
            (
                "RUNG-LAST-BASE",
                "the step without the rung is compared with the ground",
                "ground over `without`.",
                lambda n: t.base / t.without[n],
            ),
            (
                "RUNG-LAST-INVERTED",
                "the gain is upside down",
                "the top over `without`.",
                lambda n: t.top / t.without[n],
            ),
            (
                "RUNG-LAST-PLACE",
                "the rung's own place is taken for the top",
                "`without` over `climbed`.",
                lambda n: t.without[n] / t.climbed[n],
            ),
            (
                "RUNG-TOP-BEST",
                "the best step is taken for the top",
                "the smallest of `climbed`.",
                lambda n: t.without[n] / best,
            ),
        ),
        "the step that has every rung.",
    )


def whole_ladder(subject: Subject, draw: Draw) -> None:
    """The ladder as a whole, and the product that is not it."""
    t = _draw_times(draw, NAMES, slower_at=NAMES[-1])
    found, tried = _ask_gains(subject, t)
    gains = [t.base / t.alone[n] for n in t.here]
    lasts = [t.without[n] / t.top for n in t.here]
    total, product = t.base / t.top, math.prod(gains)
    _expect_number(
        found,
        "total",
        total,
        tried,
        (
            (
                product,
                "RUNG-TOTAL-PRODUCT",
                "the total is multiplied, not measured",
                "the product alone.",
            ),
            (
                math.prod(lasts),
                "RUNG-TOTAL-PRODUCT",
                "the total is multiplied, not measured",
                'the product of "last".',
            ),
            (
                t.base / min(t.climbed.values()),
                "RUNG-TOP-BEST",
                "the best step is taken for the top",
                "ground over the smallest of `climbed`.",
            ),
            (1 / total, "RUNG-INVERTED", "the total is upside down", "the top over the ground."),
            (t.base - t.top, "RUNG-SECONDS", "seconds in place of a gain", "ground minus top."),
            (sum(gains), "RUNG-SUM", "gains are added", "the sum of all gains alone."),
        ),
        "the two ends of the ladder.",
    )
    _expect_number(
        found,
        "product",
        product,
        tried,
        (
            (
                total,
                "RUNG-PRODUCT-PLACE",
                "that product is the total, always",
                'the gains "in_place" multiplied.',
            ),
            (
                math.prod(lasts),
                "RUNG-PRODUCT-LAST",
                "the gains as the last rung are multiplied",
                'the product of "last".',
            ),
            (sum(gains), "RUNG-SUM", "gains are added", "the sum of all gains alone."),
            (
                1 + sum(g - 1 for g in gains),
                "RUNG-SUM",
                "percentages are added",
                "1 + all (gain - 1).",
            ),
        ),
        'the gains called "alone".',
    )


def _expect_number(
    found: dict, key: str, right: float, tried: str, ways: Sequence[tuple], look: str
) -> None:
    value = _a_number(found[key], f'"{key}"', tried)
    if _are_close(value, right):
        return
    facts = dict(tried=tried, expected=f"{key}: {number(right)}", got=number(value), look=look)
    for other, code, finding, fits in ways:
        if _are_close(value, other):
            raise Wrong(code, finding, fits=fits, preset=SHOWN.get(code, ""), **facts)
    raise Wrong("OTHER", f'"{key}" is another number', **facts)


def not_measured(subject: Subject, draw: Draw) -> None:
    """A rung that this machine has not is no step of the ladder, wherever it stands."""
    for gap in (NAMES[1], NAMES[0], NAMES[2]):
        t = _draw_times(draw, NAMES)
        for mapping in (t.alone, t.without, t.climbed):
            mapping[gap] = None
        found, tried = _ask_gains(subject, t)
        for kind in KINDS:
            if found[kind][gap] is not None:
                raise Wrong(
                    "RUNG-NOT-NONE",
                    f'"{kind}" of a rung that was not measured',
                    tried=tried,
                    expected=f"{kind} of {gap}: None",
                    got=str(found[kind][gap])[:40],
                    look="what the docstring says of None.",
                )
        after = t.climbed[t.here[0]] if gap == NAMES[0] else 0.0
        _by_rung(
            found,
            t,
            "in_place",
            tried,
            lambda n, t=t: t.step_before(n) / t.climbed[n],
            (
                (
                    "RUNG-GAP-BASE",
                    "behind a gap the ladder begins anew",
                    "ground over `climbed` there.",
                    lambda n, t=t, gap=gap: (
                        (t.base if NAMES[NAMES.index(n) - 1] == gap else t.step_before(n))
                        / t.climbed[n]
                    ),
                ),
            ),
            f"the step below the rung that follows {gap}." if not after else "the ground.",
        )
        product = math.prod(t.base / t.alone[n] for n in t.here)
        _by_rung(
            found,
            t,
            "last",
            tried,
            lambda n, t=t: t.without[n] / t.top,
            (),
            "the last rung that was measured.",
        )
        _expect_number(
            found, "total", t.base / t.top, tried, (), "the last rung that was measured."
        )
        _expect_number(found, "product", product, tried, (), "rungs that have a gain alone.")


def nothing_measured(subject: Subject, draw: Draw) -> None:
    """A ladder of rungs that this machine has not: the ground is the top."""
    none = dict.fromkeys(NAMES)
    found, tried = _ask_gains(subject, Times(1.0, none, none, none))
    for kind in KINDS:
        if any(value is not None for value in found[kind].values()):
            raise Wrong(
                "RUNG-NOT-NONE",
                f'"{kind}" of a rung that was not measured',
                tried=tried,
                expected=f"{kind}: None for all",
                got=str(found[kind])[:60],
                look="what the docstring says of None.",
            )
    for key in NUMBERS:
        _expect_number(found, key, 1.0, tried, (), "what the top is where no rung was measured.")


def refusals(subject: Subject, draw: Draw) -> None:
    """Other names, and times that are none."""
    right = {"tokens": 0.5, "bf16": 0.4}
    for base, alone_, without, climbed, why in (
        (1.0, right, right, {"tokens": 0.5}, "a rung is missing in `climbed`"),
        (1.0, {"tokens": 0.5, "fp8": 0.4}, right, right, "`alone` has another rung"),
        (1.0, right, right, right | {"bf16": 0.0}, "a step of 0 seconds"),
        (-1.0, right, right, right, "a ground of -1 seconds"),
        (1.0, right, right | {"bf16": math.nan}, right, "a step of nan seconds"),
        (1.0, right | {"bf16": -0.4}, right, right, "a step of -0.4 seconds alone"),
        (0.0, right, right, right, "a ground of 0 seconds"),
        (1.0, right, {"tokens": 0.5, "fp8": 0.4}, right, "`without` has another rung"),
        (1.0, right, right | {"fp8": 0.4}, right, "`without` has a rung more"),
        (1.0, right | {"fp8": 0.4}, right, right, "`alone` has a rung more"),
    ):
        try:
            got = f"{subject.call(base, alone_, without, climbed)}"[:60]
        except AnswerError as failure:
            if isinstance(failure.error, ValueError):
                continue
            got = str(failure)[:60]
        raise Wrong(
            "RUNG-GUARD",
            "times that are none are not refused",
            tried=why,
            expected="ValueError",
            got=got,
            look="the last sentence of the docstring.",
        )


SUITES = (
    Suite(
        "ladder-rung",
        (
            one_rung,
            gain_alone,
            in_place,
            gain_last,
            whole_ladder,
            not_measured,
            nothing_measured,
            refusals,
        ),
        proved="a rung has three gains; those at their places multiply to the total, on any\n"
        "ladder, with rungs that are not there.",
        remember="gains alone do not multiply; seconds saved at their places add.",
        next_step="swap two rungs of the page's toy: which of the three gains stay?",
    ),
)
