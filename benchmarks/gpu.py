"""Every figure that needs a GPU, by one command, in under ten minutes on one H200.

    python -m benchmarks.gpu                     all parts, results in benchmarks/results/gpu_*.json
    python -m benchmarks.gpu triton step         some of them
    python -m benchmarks.gpu --dry --out FOLDER  each part at tiny sizes on the CPU: does it run?

Each part is a process of its own with a time limit of its own, so that one failure costs one part.
Without a GPU it says so and ends with 2; with 1 when a part failed, with 130 after Ctrl-C.
"""

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from benchmarks import attention
from benchmarks.on_gpu import kernels, lessons, steps
from benchmarks.record import RESULTS, record

LIMIT_S = 570
"""Of all parts on one GPU together; a machine may be lent for ten minutes."""
LESSON_S = 200
"""Of each lesson's script, beside that: a machine with several GPUs takes longer."""
PARTS: dict[str, tuple[Callable[[bool], dict], int]] = {
    "attention": (kernels.sdpa, 90), "triton": (kernels.triton, 150), "rmsnorm": (kernels.rmsnorm, 60),
    "nccl": (steps.nccl, 40), "wrappers": (steps.wrappers, 70), "switches": (steps.switches, 70),
    "step": (steps.step, 150),
} | {name: (partial(lessons.measure, name), LESSON_S) for name in lessons.SCRIPTS}  # fmt: skip
"""Name to function and seconds it may take. The ladder, the longest, comes last with what is left."""


def work(name: str, dry: bool, out: Path) -> None:
    """In a process of its own: one part, and its record."""
    figures = PARTS[name][0](dry)
    path = record(f"gpu_{name}", figures, out)
    if name == "attention":  # last: without matplotlib the figures are there all the same
        attention.draw(figures, path.with_suffix(".png"))


def command(name: str, dry: bool, out: Path) -> list[str]:
    """What starts a part, or the ladder, which has a program of its own."""
    if name != "ladder":
        more = ["--dry"] if dry else []
        return [sys.executable, "-m", "benchmarks.gpu", "--work", name, "--out", str(out), *more]
    shape = ["--shape", "tiny", "--rounds", "1"] if dry else ["--shape", "full", "--rounds", "5"]
    more = ["--no-autotune", "--out", str(out)]  # it alone takes half of what all parts may take
    return [sys.executable, "-m", "benchmarks.ladder", *shape, *more]


def run(name: str, dry: bool, out: Path, seconds: float) -> str:
    """Start a part and wait for it; "" or what went wrong. Out of time it is asked to end first."""
    process = subprocess.Popen(
        command(name, dry, out), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    stopped = None
    try:
        said, _ = process.communicate(timeout=seconds)
        late = ""
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as stop:
        late, stopped = f"not done after {seconds:.0f} s", stop
        process.send_signal(signal.SIGINT)  # the ladder keeps the rounds it has
        try:
            said, _ = process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
    (out / f"gpu_{name}.log").write_text(said, encoding="utf-8")
    if isinstance(stopped, KeyboardInterrupt):
        raise stopped
    if process.returncode and not late:
        last = [line for line in said.strip().splitlines() if line.strip()] or ["no word"]
        return f"ended with {process.returncode}: {last[-1][:200]}"
    return late


def main(argv: list[str] | None = None) -> int:
    """All parts, or those named; the exit status."""
    names = [*PARTS, "ladder"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(names)}")
    parser.add_argument("--dry", action="store_true", help="tiny sizes, on the CPU")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the records")
    parser.add_argument("--work", choices=list(PARTS), help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if unknown := set(given.parts) - set(names):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if not (given.dry or torch.cuda.is_available()):
        print(
            "benchmarks.gpu: torch sees no GPU here, nothing was measured; run the same command "
            "on a machine with one, or `python -m benchmarks.gpu --dry --out FOLDER` to see that "
            "each part runs",
            file=sys.stderr,
        )
        return 2
    if given.dry and given.out == RESULTS:
        parser.error("--dry writes figures that mean nothing: pass --out FOLDER")
    given.out.mkdir(parents=True, exist_ok=True)
    if given.work:
        work(given.work, given.dry, given.out)
        return 0
    if not (given.parts or given.dry or torch.cuda.device_count() > 1):
        names = [name for name in names if name not in lessons.SCRIPTS]
        print(f"one GPU: {', '.join(lessons.SCRIPTS)} need two or more and are left out")
    names = given.parts or names
    limit = LIMIT_S + LESSON_S * len(set(names) & set(lessons.SCRIPTS))
    began, failed = time.monotonic(), False
    for name in names:
        start = time.monotonic()
        seconds = min(PARTS[name][1] if name in PARTS else LIMIT_S, limit - (start - began))
        try:
            problem = (
                "no time was left" if seconds <= 20 else run(name, given.dry, given.out, seconds)
            )
        except KeyboardInterrupt:
            print(f"{name:<12} interrupted; the parts above it are in {given.out}")
            return 130
        failed = failed or bool(problem)
        print(f"{name:<12} {time.monotonic() - start:6.1f} s  {problem or 'done'}", flush=True)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
