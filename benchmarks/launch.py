"""What watching costs: %torchrun beside bare torchrun, preflight, a heartbeat.

    python -m benchmarks.launch [--runs 5]

Medians of alternating runs of an empty script on two ranks, of a preflight in a fresh process as
`course launch` pays it, and of a heartbeat that writes, that is too early, and that nobody reads.
"""

import argparse
import contextlib
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.record import record
from course_lib.lab.launch import plain, plan
from course_lib.lab.launch.run import launch
from course_lib.lab.launch.start import _torchrun
from course_lib.runs import heartbeat

PREFLIGHT = """
import time; began = time.perf_counter()
from course_lib.lab.launch import plan, preflight, run
preflight.look(plan.read(["--nproc_per_node=2", "empty.py"]))
print(time.perf_counter() - began)
"""


def main() -> None:
    """Measure in a folder of its own, and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as place:
        os.environ["COURSE_HOME"] = place
        os.chdir(place)
        Path("empty.py").write_text("")
        seconds = {"bare": [], "watched": []}
        for _ in range(runs):  # in turns: what else the machine does meets both
            seconds["bare"].append(timed(bare))
            seconds["watched"].append(timed(watched))
            print(f"bare {seconds['bare'][-1]:.2f} s, watched {seconds['watched'][-1]:.2f} s")
        figures = {f"{name}_s": round(statistics.median(s), 3) for name, s in seconds.items()}
        differences = [b - a for a, b in zip(seconds["bare"], seconds["watched"], strict=True)]
        figures["overhead_s"] = round(statistics.median(differences), 3)
        figures["preflight_s"] = round(statistics.median(preflight() for _ in range(runs)), 3)
        figures |= heartbeats(place)
    print(record("launch", figures | {"runs": runs}))


def timed(function: Callable[[], object]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def bare() -> None:
    """torchrun as a terminal starts it."""
    command = [*_torchrun(), "--standalone", "--nproc_per_node=2", "empty.py"]
    subprocess.run(command, check=True, capture_output=True)


def watched() -> None:
    """The same through everything the magic does but drawing a panel."""
    with contextlib.redirect_stdout(io.StringIO()):
        launch(plan.read(["--nproc_per_node=2", "empty.py"]), plain.Page())


def preflight() -> float:
    """Seconds from the first import to a plan, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", PREFLIGHT], check=True, capture_output=True)
    return float(done.stdout)


def heartbeats(place: str, count: int = 2000) -> dict[str, float]:
    """Microseconds of one beat in the three cases."""
    found = {}
    os.environ.pop(heartbeat.VARIABLE, None)
    found["beat_unread_us"] = per_call(count, lambda i: heartbeat.beat(i, 0, loss=0.5))
    os.environ[heartbeat.VARIABLE] = place
    found["beat_early_us"] = per_call(count, lambda i: heartbeat.beat(i, 0, loss=0.5))
    found["beat_written_us"] = per_call(count, lambda i: heartbeat.beat(i, i, loss=0.5))
    return found


def per_call(count: int, function: Callable[[int], object]) -> float:
    """Microseconds of a call, mean of `count`."""
    began = time.perf_counter()
    for i in range(1, count + 1):
        function(i)
    return round((time.perf_counter() - began) / count * 1e6, 2)


if __name__ == "__main__":
    main()
