"""Checks of lesson 18: rung_gains.

Oracle: ratios and differences of the times, written out. Times are drawn as whole milliseconds that
differ by more than a hundredth, so no two mistakes give the same numbers by chance.
"""

import math

from course_lib.checks.ladder_edges import costs_and_ties, many_rungs, two_gaps, units
from course_lib.checks.ladder_times import (
    KINDS,
    NAMES,
    NUMBERS,
    Times,
    ask_gains,
    draw_times,
    expect_by_rung,
    expect_none,
    expect_number,
)
from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite


def one_rung(subject: Subject, draw: Draw) -> None:
    """Nine tenths of a second become three: whatever the kind, the gain is 3."""
    fast = {"bf16": 0.3}
    t = Times(0.9, fast, dict.fromkeys(fast, 0.9), fast)
    found, tried = ask_gains(subject, t)
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
        expect_by_rung(
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
    t = draw_times(draw, NAMES)
    found, tried = ask_gains(subject, t)
    by_place = dict(zip(t.climbed, t.alone.values(), strict=True))
    expect_by_rung(
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
    t = draw_times(draw, NAMES)
    found, tried = ask_gains(subject, t)
    by_name = dict(
        zip(sorted(NAMES), [t.base, *(t.climbed[n] for n in sorted(NAMES))], strict=False)
    )
    expect_by_rung(
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
    expect_by_rung(
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
    t = draw_times(draw, NAMES, slower_at=NAMES[-1])
    found, tried = ask_gains(subject, t)
    best = min(t.climbed.values())
    expect_by_rung(
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
    t = draw_times(draw, NAMES, slower_at=NAMES[-1])
    found, tried = ask_gains(subject, t)
    gains = [t.base / t.alone[n] for n in t.here]
    lasts = [t.without[n] / t.top for n in t.here]
    total, product = t.base / t.top, math.prod(gains)
    expect_number(
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
    expect_number(
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


def not_measured(subject: Subject, draw: Draw) -> None:
    """A rung that this machine has not is no step of the ladder, wherever it stands."""
    for gap in (NAMES[1], NAMES[0], NAMES[2]):
        t = draw_times(draw, NAMES)
        for mapping in (t.alone, t.without, t.climbed):
            mapping[gap] = None
        found, tried = ask_gains(subject, t)
        expect_none(found, t, tried)
        after = t.climbed[t.here[0]] if gap == NAMES[0] else 0.0
        expect_by_rung(
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
        expect_by_rung(
            found,
            t,
            "last",
            tried,
            lambda n, t=t: t.without[n] / t.top,
            (),
            "the last rung that was measured.",
        )
        expect_number(found, "total", t.base / t.top, tried, (), "the last rung that was measured.")
        expect_number(found, "product", product, tried, (), "rungs that have a gain alone.")


def nothing_measured(subject: Subject, draw: Draw) -> None:
    """A ladder of rungs that this machine has not: the ground is the top."""
    none = dict.fromkeys(NAMES)
    t = Times(1.0, none, none, none)
    found, tried = ask_gains(subject, t)
    expect_none(found, t, tried)
    for key in NUMBERS:
        expect_number(found, key, 1.0, tried, (), "what the top is where no rung was measured.")


def refusals(subject: Subject, draw: Draw) -> None:
    """Other names, and times that are none."""
    right = {"tokens": 0.5, "bf16": 0.4}
    everywhere = [
        (*[right | dict.fromkeys(names, seconds)] * 3, names, seconds)
        for names in (("bf16",), ("tokens",), ("tokens", "bf16"))
        for seconds in (0.0, 0, -0.4, math.nan)
    ]
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
        (1.0, right, right | {"bf16": 0.0}, right, "a step of 0 seconds without bf16"),
        (1.0, right, right | {"bf16": -0.4}, right, "a step of -0.4 seconds without bf16"),
        (1.0, right | {"bf16": 0.0}, right, right, "a step of 0 seconds alone"),
        (1.0, right | {"bf16": math.nan}, right, right, "a step of nan seconds alone"),
        (1.0, right, right, right | {"bf16": math.nan}, "a climbed step of nan seconds"),
        (1.0, right, right, right | {"tokens": -0.5}, "a climbed step of -0.5 seconds"),
        (math.nan, right, right, right, "a ground of nan seconds"),
        *(
            (1.0, *three, f"{seconds} seconds of {' and '.join(names)} in all three")
            for *three, names, seconds in everywhere
        ),
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
            costs_and_ties,
            not_measured,
            nothing_measured,
            two_gaps,
            units,
            many_rungs,
            refusals,
        ),
        tested="a rung has three gains; those at their places multiply to the total, also "
        "behind rungs that are not there.",
        remember="gains alone do not multiply; seconds saved at their places add.",
        next_step="swap two rungs of the page's toy: which of the three gains stay?",
    ),
)
