"""How long something takes: after a warm-up, with the device waited for, and with the spread.

What it is: a stopwatch for one function, and for several in turn, so that a busy moment of the machine
hits each of them. What it leaves out: where inside the time goes (torch.profiler), and memory.

On a GPU a call returns when its work is queued. Events are marks in that queue: the time between two of
them is the GPU's own, and the CPU waits once, at the end.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Timing:
    """Seconds of each run, in the order of the runs."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Half of the runs were faster."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> tuple[float, float]:
        """First and third quartile: half of the runs lie between. With fewer than 4 runs, all do."""
        if len(self.seconds) < 4:
            return min(self.seconds), max(self.seconds)
        first, _, third = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return first, third

    def __str__(self) -> str:
        low, high = (1e3 * s for s in self.spread)
        return f"{1e3 * self.median:.3g} ms ({low:.3g} to {high:.3g}, {len(self.seconds)} runs)"


def time_it(
    function: Callable[[], object],
    *,
    warmup: int = 3,
    repeats: int = 20,
    device: str | torch.device = "cpu",
) -> Timing:
    """Time `function()` `repeats` times, after `warmup` calls that do not count.

    The first calls load code, allocate memory and fill caches: `warmup` leaves them out. On "cuda"
    each run lies between two events of the current stream, else between two readings of the clock.
    What the function raises comes through. ValueError for less than one run.
    """
    return side_by_side({"": function}, warmup=warmup, rounds=repeats, device=device)[""]


def side_by_side(
    functions: Mapping[Any, Callable[[], object]],
    *,
    warmup: int = 3,
    rounds: int = 20,
    device: str | torch.device = "cpu",
    before: Callable[[], object] = lambda: None,
) -> dict[Any, Timing]:
    """Time several functions in turn, one run of each a round, as `time_it` does; by name.

    Ratios of what was measured in the same round leave out what the machine did meanwhile.
    `before()` is called before every run that counts, and its time does not. ValueError for less
    than one round, or a negative warm-up.
    """
    if rounds < 1 or warmup < 0:
        raise ValueError(f"expected 1 run or more and no negative warm-up, got {rounds}, {warmup}")
    for _ in range(warmup):
        for function in functions.values():
            function()
    run = _time_events if torch.device(device).type == "cuda" else _on_the_clock
    return run(functions, rounds, before)


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all that was queued on it; a CPU has, when a call returns."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def stopwatch(
    function: Callable[[], object],
    *,
    warmup: int = 3,
    repeats: int = 20,
    wait: Callable[[], object] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float, float]:
    """Time `function()` by a clock on the wall: (median, fastest, slowest) of the runs, seconds.

    Call `function()` `warmup` times first; those calls do not count. Then time `repeats` runs, each
    by itself. `clock()` gives seconds. A call may return before its work is done; `wait()` returns
    when all work is done. No work may be left when a run begins, and all work of a run must be done
    when it ends. What `function` returns is dropped, when the next call has ended at the latest.
    What it raises comes through, in every call, an interrupt too: no time is given then. Only a
    StopIteration may come as a RuntimeError, as it does out of a generator.
    For an even number of runs, the median is the mean of the two in the middle.
    ValueError, before any call, for repeats < 1 or warmup < 0.
    """
    if repeats < 1 or warmup < 0:
        raise ValueError(f"expected 1 run or more and no negative warm-up, got {repeats}, {warmup}")
    for _ in range(warmup):
        function()
    seconds = []
    for _ in range(repeats):
        wait()  # for what was queued before: it is not this run's
        began = clock()
        function()
        wait()
        seconds.append(clock() - began)
    return statistics.median(seconds), min(seconds), max(seconds)


def _on_the_clock(
    functions: Mapping[str, Callable], rounds: int, before: Callable[[], object]
) -> dict[str, Timing]:
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            before()
            began = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - began)
    return {name: Timing(tuple(found)) for name, found in seconds.items()}


def _time_events(
    functions: Mapping[str, Callable], rounds: int, before: Callable[[], object]
) -> dict[str, Timing]:
    def mark() -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    torch.cuda.synchronize()  # the warm-up may still be running
    marks: dict[str, list] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            before()
            start = mark()
            function()
            marks[name].append((start, mark()))
    torch.cuda.synchronize()
    return {
        name: Timing(tuple(start.elapsed_time(end) / 1e3 for start, end in pairs))  # was in ms
        for name, pairs in marks.items()
    }
