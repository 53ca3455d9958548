"""A clock, a device and a function that live on no machine: what a stopwatch is tried with.

What it is: the probe that checks of `stopwatch` run (`local_ranks.run(..., probe=)`), since a clock
and a function cannot be sent to another process. What it leaves out: real time, so nothing here
depends on the machine.
"""

import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

ERRORS = {kind.__name__: kind for kind in (ZeroDivisionError, KeyboardInterrupt, SystemExit)}
"""What a function may raise; the last two are no `Exception`."""


class FakeDevice:
    """Time stands still unless work is done. `costs` are seconds of the calls, the last for the rest.

    A call puts its work into a queue and returns after `launch` seconds; the queue works by itself.
    Without `launch` the call does the work and returns when it is done. `fails` names one of
    ERRORS, which every call but the first `good` ones raises.
    """

    def __init__(
        self,
        costs: Sequence[float],
        launch: float | None = None,
        fails: str = "",
        begin: float = 100.0,
        good: int = 0,
    ):
        self.now, self.busy_until = begin, begin
        self.costs, self.launch, self.fails, self.good = costs, launch, fails, good
        self.calls = 0

    def clock(self) -> float:
        return self.now

    def function(self) -> str:
        cost = self.costs[min(self.calls, len(self.costs) - 1)]
        self.calls += 1
        if self.fails and self.calls > self.good:
            raise ERRORS[self.fails]("the timed function failed")
        if self.launch is None:
            self.now += cost
        else:
            self.now += self.launch
            self.busy_until = max(self.busy_until, self.now) + cost
        return "a result"

    def wait(self) -> None:
        self.now = max(self.now, self.busy_until)


def time_cases(stopwatch: Callable, cases: Sequence[dict]) -> list[dict[str, Any]]:
    """What `stopwatch` says of each case: "costs", "settings", and maybe "launch", "busy", "fails"
    and "good", see FakeDevice, and "begin", the clock's first reading.

    Work of `busy` seconds is in the queue before it is called. Of each case: "out", what came back;
    "calls", how often the function was called; "error", with `refuse` or `fails`, the name of what
    was raised ("" for nothing).
    """
    return [_time_case(stopwatch, **case) for case in cases]


def _time_case(
    stopwatch: Callable,
    costs: list,
    settings: dict,
    *,
    launch: float | None = None,
    busy: float = 0.0,
    fails: str = "",
    good: int = 0,
    refuse: bool = False,
    begin: float = 100.0,
) -> dict[str, Any]:
    bench = FakeDevice(costs, launch, fails, begin, good)
    bench.busy_until += busy
    out, error = None, ""
    try:
        out = stopwatch(bench.function, wait=bench.wait, clock=bench.clock, **settings)
    except (ValueError, IndexError, TypeError, *ERRORS.values()) as raised:
        if not (fails or refuse):
            raise
        error = "ValueError" if isinstance(raised, ValueError) else type(raised).__name__
    return {"out": _plain_numbers(out), "calls": bench.calls, "error": error}


SLEEP_S = 0.02


class _Result:
    """What a timed function returns, where it is watched how many of them are alive."""


def observe_defaults(stopwatch: Callable) -> dict[str, Any]:
    """The stopwatch without settings, on a function that returns at once: "calls", how often it was
    called; "alive", most of its results that were alive when it was called. And "slept", what the
    stopwatch says of one run that sleeps for SLEEP_S."""
    alive: weakref.WeakSet[_Result] = weakref.WeakSet()
    most = []

    def function() -> _Result:
        most.append(len(alive))
        result = _Result()
        alive.add(result)
        return result

    stopwatch(function)
    out = stopwatch(lambda: time.sleep(SLEEP_S), warmup=0, repeats=1)
    return {"calls": len(most), "alive": max(most, default=0), "slept": _plain_numbers(out)}


def _plain_numbers(out: Any) -> Any:
    """NumPy's numbers as Python's, which travel."""
    if not isinstance(out, (tuple, list)):
        return out
    plain = [x.item() if isinstance(x, np.generic) else x for x in out]
    return plain if isinstance(out, list) else tuple(plain)
