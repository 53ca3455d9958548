"""Ladders that are not plain: rungs that cost time or do nothing, gaps side by side, none at all.

What is here: the edge cases of rung_gains, for `ladder`. Oracle: as there, the times divided.
"""

import math

from course_lib.checks.ladder_times import (
    Times,
    Way,
    ask_gains,
    draw_times,
    expect_by_rung,
    expect_none,
    expect_number,
)
from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw

FOUR = ("tokens", "fused", "bf16", "compile")
FIVE = ("tokens", "fused", "bf16", "compile", "pad")


def costs_and_ties(subject: Subject, draw: Draw) -> None:
    """A rung may cost time, or change nothing: gains of 1 and below, seconds of 0 and below."""
    fast = draw.size(600, 640, 700) / 1e3
    # one equals the ground, one the step below it, one is slower
    steps = (1.0, fast, fast, 0.8)
    t = Times(
        1.0,
        alone=dict(zip(FOUR, (1.0, 0.7, 1.25, 0.9), strict=True)),
        without=dict(zip(FOUR, (0.5, 0.9, 0.7, 1.1), strict=True)),
        climbed=dict(zip(FOUR, steps, strict=True)),
    )
    by_speed = sorted(steps, reverse=True)
    below = dict(zip(sorted(FOUR, key=lambda n: -t.climbed[n]), [1.0, *by_speed], strict=False))
    first = {n: [1.0, *steps][[1.0, *steps].index(t.climbed[n]) - 1] for n in FOUR}
    tie = ("RUNG-TIE", "two steps of one length are taken for one", "a step found by its time.")
    _expect_all(
        subject,
        t,
        {
            "in_place": (
                (*tie, lambda n: first[n] / t.climbed[n]),
                (
                    "RUNG-SORTED",
                    "steps are taken in the order of their times",
                    "sorted steps.",
                    lambda n: below[n] / t.climbed[n],
                ),
            ),
            "saved": (
                (
                    "RUNG-CLAMPED",
                    "a rung that costs time saves some",
                    "0 in place of what is below 0.",
                    lambda n: max(0.0, t.step_before(n) - t.climbed[n]),
                ),
                (
                    "RUNG-CLAMPED",
                    "a rung that costs time saves some",
                    "the difference without its sign.",
                    lambda n: abs(t.step_before(n) - t.climbed[n]),
                ),
                (*tie, lambda n: first[n] - t.climbed[n]),
            ),
        },
        "a rung that costs time, and two steps of one length.",
    )


def two_gaps(subject: Subject, draw: Draw) -> None:
    """Gaps side by side, at an end and in the middle; and a ladder without rungs."""
    for gaps in ((1, 2), (0, 1), (3, 4), (1, 2, 3), (0, 2, 4)):
        t = draw_times(draw, FIVE)
        for mapping in (t.alone, t.without, t.climbed):
            mapping.update(dict.fromkeys([FIVE[gap] for gap in gaps]))
        _expect_all(subject, t, {}, "the nearest step below that was measured.")
    found, tried = ask_gains(subject, Times(1.0, {}, {}, {}))
    for key in ("total", "product"):
        expect_number(found, key, 1.0, tried, (), "what the top is where no rung is.")


def units(subject: Subject, draw: Draw) -> None:
    """Steps of microseconds, of hours, and of whole seconds."""
    t = draw_times(draw, FOUR)
    for scale in (2**-20, 2**13):  # exact
        scaled = Times(
            t.base * scale,
            *({n: s * scale for n, s in m.items()} for m in (t.alone, t.without, t.climbed)),
        )
        _expect_all(subject, scaled, {}, "numbers that are written into the formula.")
    whole = Times(9, {"bf16": 4, "pad": 8}, {"bf16": 7, "pad": 5}, {"bf16": 4, "pad": 3})
    _expect_all(subject, whole, {}, "`//`, and times that are an int.")


def many_rungs(subject: Subject, draw: Draw) -> None:
    """Many rungs of very short and of very long steps: each gain is near 1, and so is the product,
    though no float holds the product of so many times."""
    count = draw.size(60, 70, 80)
    names = [f"rung {i}" for i in range(count)]
    for base in (1e-6, 1e6, 1.0):
        ratios = [1 + (i % 7 - 3) / 64 for i in range(count)]
        t = Times(
            base,
            alone={n: base / r for n, r in zip(names, ratios, strict=True)},
            without={n: base * r for n, r in zip(names, ratios, strict=True)},
            climbed={n: base / r for n, r in zip(names, ratios, strict=True)},
        )
        tried = f"a ground of {base:g} s, {count} rungs, gains alone of {min(ratios):.3f} to "
        tried += f"{max(ratios):.3f}"
        right = math.prod(base / t.alone[n] for n in names)
        facts = dict(tried=tried, expected=f"product: {right:.9g}", look="the order: first divide.")
        facts["fits"] = "the product of all times, which no float holds: it is 0 or infinite."
        try:
            found = subject.call(t.base, t.alone, t.without, t.climbed)
        except AnswerError as failure:
            if not isinstance(failure.error, ArithmeticError):
                raise
            got = f"{type(failure.error).__name__}: {failure.error}"[:70]
            raise Wrong("RUNG-RANGE", "many rungs are an error", got=got, **facts) from None
        if not math.isclose(found["product"], right, rel_tol=1e-9):
            raise Wrong(
                "RUNG-RANGE",
                "of many rungs the product leaves the range of floats",
                got=f"product: {found['product']!r}"[:70],
                **facts,
            )


def _expect_all(subject: Subject, t: Times, ways: dict[str, tuple[Way, ...]], look: str) -> None:
    """All of the dict; `ways` are known mistakes by kind."""
    found, tried = ask_gains(subject, t)
    for kind, right in (
        ("alone", lambda n: t.base / t.alone[n]),
        ("in_place", lambda n: t.step_before(n) / t.climbed[n]),
        ("last", lambda n: t.without[n] / t.top),
        ("saved", lambda n: t.step_before(n) - t.climbed[n]),
    ):
        clamped = (
            "RUNG-CLAMPED",
            "a gain below 1 is written as 1",
            "1 in place of what is below 1.",
            lambda n, right=right: max(1.0, right(n)),
        )
        known = ways.get(kind, ()) if kind == "saved" else (clamped, *ways.get(kind, ()))
        expect_by_rung(found, t, kind, tried, right, known, look)
    product = math.prod(t.base / t.alone[n] for n in t.here)
    expect_number(found, "total", t.base / t.top, tried, (), look)
    expect_number(found, "product", product, tried, (), look)
    expect_none(found, t, tried)
