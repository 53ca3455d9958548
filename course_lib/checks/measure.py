"""Checks of lesson 13, first part: stopwatch.

Time is a number that moves only when a made-up function works (probes/clock.py), so every
answer has exact values, on any machine, in no time.
"""

import math
import statistics
from collections.abc import Sequence

from course_lib.checks import expect
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite
from course_lib.probes.clock import ERRORS, SLEEP_S

PROBE = "course_lib.probes.clock:time_cases"
CLOSE = 1e-9  # the clock stands near 100, where float64 is good to 1e-14


def _ask_stopwatch(subject: Subject, *cases: dict) -> list[dict]:
    return subject.probe(PROBE, list(cases))


def _expect_three(found: dict, tried: str) -> tuple[float, float, float]:
    """Median, fastest, slowest: three finite numbers."""
    out, wanted = found["out"], "a tuple of three numbers: median, fastest, slowest"
    expect.not_none(out, wanted, tried=tried)
    if not isinstance(out, (tuple, list)) or len(out) != 3:
        got = (
            f"{len(out)} values" if isinstance(out, (tuple, list)) else f"type {type(out).__name__}"
        )
        raise Wrong(
            "TIME-THREE",
            "the answer is not three numbers",
            tried=tried,
            expected=wanted,
            got=got,
            look="what stands after `return`.",
        )
    if not isinstance(out, tuple):
        raise Wrong(
            "TYPE",
            "the three numbers come in a list",
            tried=tried,
            expected=wanted,
            got="a list",
            look="the brackets after `return`, and the signature.",
        )
    for value in out:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Wrong(
                "TYPE",
                "one of the three is no number",
                tried=tried,
                expected=wanted,
                got=f"a {type(value).__name__}",
                look="what stands after `return`.",
            )
    return tuple(out)


def _are_close(found: Sequence[float], right: Sequence[float]) -> bool:
    return all(
        math.isclose(a, b, rel_tol=CLOSE, abs_tol=CLOSE) for a, b in zip(found, right, strict=True)
    )


def _stats(runs: Sequence[float]) -> tuple[float, float, float]:
    return statistics.median(runs), min(runs), max(runs)


def _compare(found, right, tried: str, ways: Sequence[tuple], look: str) -> None:
    """`found` is `right`; else the first of `ways` (three numbers, code, finding, fits), or OTHER."""
    if _are_close(found, right):
        return
    facts = dict(tried=tried, expected=f"{vector(right)} s", got=f"{vector(found)} s", look=look)
    for values, code, finding, fits in ways:
        if _are_close(found, values):
            raise Wrong(code, finding, fits=fits, **facts)
    raise Wrong("OTHER", "the times differ", **facts)


def _calls(found: dict, warmup: int, repeats: int, tried: str) -> None:
    calls, right = found["calls"], warmup + repeats
    if calls == right:
        return
    facts = dict(
        tried=tried,
        expected=f"{right} calls: {warmup} to warm up, {repeats} timed",
        got=f"{calls} calls",
    )
    if calls == repeats:
        raise Wrong(
            "TIME-NO-WARMUP",
            "nothing is called to warm up",
            **facts,
            fits="timed runs alone, the first among them.",
            hides="the first run also pays for memory, code and caches.",
            look="what happens before the first reading of the clock.",
        )
    if calls == warmup + 1:
        raise Wrong(
            "TIME-ONE-RUN",
            "only one run is timed",
            **facts,
            fits="no loop over the runs.",
            hides="one run cannot say how far runs lie apart.",
            look="`repeats`.",
        )
    raise Wrong(
        "TIME-CALLS",
        "the number of calls is another",
        **facts,
        look="the two loops and their counts.",
    )


def one_length(subject: Subject, draw: Draw) -> None:
    """Every call takes as long: the unit, the sign, and which clock was read."""
    each, repeats = draw.size(1, 2, 3) / 4, draw.size(3, 5)
    tried = f"each call takes {each:g} s; warmup=2, repeats={repeats}"
    found = _ask_stopwatch(subject, {"costs": [each], "settings": dict(warmup=2, repeats=repeats)})[
        0
    ]
    out, look = _expect_three(found, tried), "what is taken from what, and in which unit."
    if all(abs(value) < 1e-2 for value in out) and any(out):
        raise Wrong(
            "TIME-CLOCK",
            "another clock was read",
            tried=tried,
            got=f"{vector(out)} s",
            expected=f"{vector([each] * 3)} s",
            fits="the machine's own clock.",
            look="the argument `clock`: calling it gives the time.",
        )
    three = lambda value: (value,) * 3  # noqa: E731
    _compare(
        out,
        three(each),
        tried,
        (
            (three(1e3 * each), "TIME-UNIT", "the times are milliseconds", "seconds times 1000."),
            (
                three(1e-3 * each),
                "TIME-UNIT",
                "the times are a thousandth",
                "taken for milliseconds.",
            ),
            (
                three(1e6 * each),
                "TIME-UNIT",
                "the times are microseconds",
                "seconds times a million.",
            ),
            (
                three(repeats * each),
                "TIME-TOTAL",
                "all runs are counted as one",
                "the sum of the runs.",
            ),
            (
                three((repeats + 2) * each),
                "TIME-TOTAL",
                "all calls are counted as one",
                "the sum of the calls, warm-up and all.",
            ),
            (three(-each), "TIME-SIGN", "the times are negative", "start minus end."),
            (
                three(0.0),
                "TIME-ZERO",
                "the times are zero",
                "both readings before the call, or after it.",
            ),
        ),
        look,
    )


def runs_that_differ(subject: Subject, draw: Draw) -> None:
    """Two slow calls first, one slow run later: which calls count, and the middle of them."""
    unit = draw.size(1, 2, 3) / 8
    warm, runs = [64 * unit, 32 * unit], [x * unit for x in (2, 1, 9, 3, 16)]
    tried = f"calls of {vector([*warm, *runs], 7)[1:-1]} s;\nwarmup=2, repeats=5"
    found = _ask_stopwatch(subject, {"costs": warm + runs, "settings": dict(warmup=2, repeats=5)})[
        0
    ]
    out, right = _expect_three(found, tried), _stats(runs)
    _calls(found, 2, 5, tried)
    mean, every = statistics.fmean(runs), warm + runs
    _compare(
        out,
        right,
        tried,
        (
            (
                (mean, *right[1:]),
                "TIME-MEAN",
                "the first number is the mean",
                "the sum over the count.",
            ),
            (
                (mean,) * 3,
                "TIME-TOGETHER",
                "the runs are timed together",
                "one pair of readings around the loop, over the count.",
            ),
            (
                _stats(every),
                "TIME-FIRST-COUNTED",
                "the calls to warm up count",
                "statistics of all calls.",
            ),
            (
                (statistics.fmean(every), min(every), max(every)),
                "TIME-FIRST-COUNTED",
                "the calls to warm up count",
                "the mean of all calls.",
            ),
            (
                (runs[2], *right[1:]),
                "TIME-UNSORTED",
                "the first number is not the median",
                "the run in the middle of the row, which is not sorted.",
            ),
            ((right[1], *right[1:]), "TIME-BEST", "the first number is the fastest run", "min."),
            (
                (right[1], right[0], right[2]),
                "TIME-ORDER",
                "the numbers come in another order",
                "fastest, median, slowest.",
            ),
            (
                (right[0], right[2], right[1]),
                "TIME-ORDER",
                "the numbers come in another order",
                "median, slowest, fastest.",
            ),
        ),
        "which calls are timed, and what is done with their times.",
    )


def a_queue(subject: Subject, draw: Draw) -> None:
    """Calls return at once, their work is done later: wait before a run begins, and before it ends."""
    unit, launch = draw.size(1, 2, 3), 1 / 64
    warm, runs = 50 * unit, [3 * unit, unit, 8 * unit]
    tried = (
        f"calls that return after {number(launch)} s, with {warm:g}, {vector(runs)[1:-1]} s of work in\n"
        "the queue; warmup=1, repeats=3"
    )
    busy = {
        "costs": [unit],
        "launch": launch,
        "busy": 20.0 * unit,
        "settings": dict(warmup=0, repeats=1),
    }
    first, second = _ask_stopwatch(
        subject,
        {"costs": [warm, *runs], "launch": launch, "settings": dict(warmup=1, repeats=3)},
        busy,
    )
    out, right = _expect_three(first, tried), _stats([x + launch for x in runs])
    # a first run that begins before the warm-up is done has the rest of it to wait for
    late = _stats([warm + runs[0], *(x + launch for x in runs[1:])])
    queued = "the first run waits for older work"
    wrong = "work that was queued before the first reading of the clock."
    launches = "launches are timed, not the work"
    _compare(
        out,
        right,
        tried,
        (
            (
                (launch,) * 3,
                "TIME-NO-WAIT",
                launches,
                "the clock read while the queue still works.",
            ),
            (late, "TIME-OLD-WORK", queued, wrong),
        ),
        "every reading of the clock: is the queue empty then?",
    )
    tried = f"{busy['busy']:g} s of work in the queue, then warmup=0, repeats=1"
    _compare(
        _expect_three(second, tried),
        (unit + launch,) * 3,
        tried,
        (((busy["busy"] + unit,) * 3, "TIME-OLD-WORK", queued, wrong),),
        "every reading of the clock: is the queue empty then?",
    )


def even_and_one(subject: Subject, draw: Draw) -> None:
    """Four runs have two in the middle; one run is its own median."""
    unit = draw.size(1, 2, 3)
    runs = [x * unit for x in (9, 2, 4, 1)]
    four, one = _ask_stopwatch(
        subject,
        {"costs": runs, "settings": dict(warmup=0, repeats=4)},
        {"costs": [unit], "settings": dict(warmup=0, repeats=1)},
    )
    tried = f"four runs of {vector(runs)[1:-1]} s; warmup=0"
    low, high = 2 * unit, 4 * unit
    _compare(
        _expect_three(four, tried),
        _stats(runs),
        tried,
        (
            (
                (low, unit, 9 * unit),
                "TIME-EVEN",
                "the median is one of the two in the middle",
                "the lower.",
            ),
            (
                (high, unit, 9 * unit),
                "TIME-EVEN",
                "the median is one of the two in the middle",
                "the upper.",
            ),
        ),
        "an even number of runs.",
    )
    tried = f"one run of {unit:g} s; warmup=0, repeats=1"
    _calls(one, 0, 1, tried)
    _compare(_expect_three(one, tried), (unit,) * 3, tried, (), "one run, and no calls before it.")


def other_clocks(subject: Subject, draw: Draw) -> None:
    """A clock may begin anywhere, at 0 as well, and runs may be short beside its readings."""
    unit = draw.size(1, 2, 3) / 1024
    runs = [3 * unit, unit, 8 * unit]
    begins = (0.0, -4.0, 2.0**20, 2.0**30)  # all sums of these are exact in float64
    found = _ask_stopwatch(
        subject,
        *({"costs": runs, "begin": b, "settings": dict(warmup=0, repeats=3)} for b in begins),
    )
    for begin, one in zip(begins, found, strict=True):
        tried = f"a clock that begins at {begin:,.0f} s; runs of {vector(runs)[1:-1]} s"
        out, right = _expect_three(one, tried), _stats(runs)
        if not _are_close(out, right):
            raise Wrong(
                "TIME-LATE-CLOCK",
                "with a clock that begins elsewhere the times differ",
                tried=tried,
                expected=f"{vector(right)} s",
                got=f"{vector(out)} s",
                fits="readings in float32, which has 7 digits for the whole time since the begin."
                if begin > 0
                else "a reading that is asked whether it is true.",
                look="what holds the readings: a float of Python has 16 digits.",
            )


def many_runs(subject: Subject, draw: Draw) -> None:
    """All runs count, however many there are and however slow one of them was."""
    unit = draw.size(1, 2, 3) / 8
    runs = [unit * x for x in (5, 3, 4, 90, 6, 2, 7, 5, 4, 3, 8, 6, 1)]
    tried = f"{len(runs)} runs: {vector(runs, 13)[1:-1]} s;\nwarmup=0"
    settings = dict(warmup=0, repeats=len(runs))
    (found,) = _ask_stopwatch(subject, {"costs": runs, "settings": settings})
    out, right = _expect_three(found, tried), _stats(runs)
    _calls(found, 0, len(runs), tried)
    if not _are_close(out, right):
        raise Wrong(
            "TIME-TRIMMED",
            "of many runs not all count",
            tried=tried,
            expected=f"{vector(right)} s",
            got=f"{vector(out)} s",
            look="what is left out before the three numbers are taken.",
        )


def refusals(subject: Subject, draw: Draw) -> None:
    """No runs are refused before anything is called, with nothing to call at all as well."""
    cases = [
        dict(warmup=w, repeats=r)
        for w, r in ((1, 0), (-1, 2), (0, -3), (0, 0), (-1, 0), (-1, 1), (-2, -2))
    ]
    found = _ask_stopwatch(
        subject, *({"costs": [1.0], "settings": s, "refuse": True} for s in cases)
    )
    for settings, one in zip(cases, found, strict=True):
        if one["error"] != "ValueError" or one["calls"]:
            raised = one["error"] or "no error"
            raise Wrong(
                "TIME-NO-RUNS",
                "runs that make no sense are not refused",
                tried=", ".join(f"{k}={v}" for k, v in settings.items()),
                expected="ValueError, before any call",
                got=f"{raised}, {one['calls']} calls",
                look="the last sentence of the docstring.",
            )


def errors(subject: Subject, draw: Draw) -> None:
    """What the function raises comes through from any call: to warm up, the first run, a later one."""
    cases = [
        {"costs": [1.0], "settings": dict(warmup=warmup, repeats=4), "fails": kind, "good": good}
        for kind in ERRORS
        for warmup, good in ((0, 0), (2, 0), (2, 1), (2, 2), (0, draw.size(2, 1)), (2, 5))
    ]
    for case, one in zip(cases, _ask_stopwatch(subject, *cases), strict=True):
        kind, call, warmup = case["fails"], case["good"] + 1, case["settings"]["warmup"]
        if one["error"] == kind and one["calls"] == call:
            continue
        raise Wrong(
            "TIME-SWALLOWED",
            "an error of the function is lost",
            tried=f"a function that raises {kind} in call {call}; warmup={warmup}, repeats=4",
            expected=f"{kind}, from call {call}",
            got=f"{one['error'] or 'no error'}, after {one['calls']} of {warmup + 4} calls",
            hides="a run that was broken off is taken for a whole one.",
            look="`try` around the calls: nothing is to be caught.",
        )


def by_default(subject: Subject, draw: Draw) -> None:
    """Without settings: 3 calls and 20 runs, a clock on the wall; no result is kept."""
    found = subject.probe("course_lib.probes.clock:observe_defaults")
    tried = "a function that returns at once; no settings"
    _calls(found, 3, 20, tried)
    if found["alive"] > 1:
        raise Wrong(
            "TIME-KEPT",
            "what the function returns is kept",
            tried=tried,
            expected="results that are dropped: the last one alone may still be there",
            got=f"{found['alive']} of them alive during a later call",
            hides="with large tensors the memory runs full, and that is timed too.",
            look="lists that grow beside that of the times, and names that live on.",
        )
    median = _expect_three({"out": found["slept"]}, tried)[0]
    if median < SLEEP_S / 2:
        raise Wrong(
            "TIME-CPU-CLOCK",
            "the clock by default stands still while the program waits",
            tried=f"one run that sleeps for {SLEEP_S:g} s; no clock given",
            expected=f"{SLEEP_S:g} s or more, on the wall",
            got=f"{number(median)} s",
            fits="a clock of processor time.",
            look="the default of `clock`.",
        )


SUITES = (
    Suite(
        "time-it",
        (
            one_length,
            runs_that_differ,
            a_queue,
            even_and_one,
            other_clocks,
            many_runs,
            refusals,
            errors,
            by_default,
        ),
        tested="warm calls alone count, each with all of its work and nothing else's; "
        "the middle one stands for them.",
        remember="a call that has returned is not work that is done.",
        ranks=1,
        next_step="time `torch.empty(10**8)` and `torch.zeros(10**8)`, then read the first element.",
    ),
)
