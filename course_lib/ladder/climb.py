"""The speed ladder, climbed: every rung alone, at its place and taken away, side by side.

What it is: the list of steps that are measured, their losses and memory one after another, their
times in turn, and the figures that come of it. What it leaves out: the step itself (rungs.py), how
the figures look (report.py), and files: whoever calls gives a function that keeps them.
"""

import contextlib
import dataclasses
import math
import random
import statistics
from collections.abc import Callable, Iterator

import torch

from course_lib.gpt import GPTConfig
from course_lib.ladder.gains import rung_gains
from course_lib.ladder.rungs import BESIDE, LADDER, Bench, Rungs, Shape, first_line, not_here
from course_lib.measure.flops import num_params
from course_lib.measure.peak import peak_flops
from course_lib.measure.roofline import measured_ceilings
from course_lib.measure.step_memory import peak_bytes
from course_lib.measure.timing import Timing, side_by_side
from course_lib.measure.utilization import mfu

CHECKED = 5  # updates whose losses are compared

ORDER = ("ground", "alone", "climbed", "without", "beside")

# Two float32 sums in another order differ by 1e-6 of themselves. AdamW divides each gradient by its
# own size, so one that is nearly 0 may turn its sign and its weight go the other way: 1e-4 nats
# after five updates here. bfloat16 rounds each number of a product by up to 1/256 of itself; errors
# of many numbers cancel, and of a loss of 9 nats 0.001 to 0.01 remain.
ALLOWED = {False: 2e-3, True: 3e-2}

RULES = (
    "The ground: text is tokenized in the step, in Python; float32 with TF32 off; eager; explicit "
    "attention; an odd vocabulary; AdamW tensor by tensor; loss and norm are read in every step.",
    "In a step: batch, forward, backward, clipping to 1, AdamW. Not in it: schedule, validation, "
    "checkpoints, log.",
    "All kinds of step are timed in turn, one of each a round, in a new order, after a warm-up; medians.",
    "MFU counts parameters of matrices, forward and backward, against one peak for all rungs.",
    "Memory is what a step takes beyond weights and moments, at its highest.",
)


class Failed(RuntimeError):
    """A rung does not work here; `name` says which, the message why."""

    def __init__(self, name: str, reason: str):
        super().__init__(reason)
        self.name = name


def plan(names: list[str]) -> dict[tuple[str, str], Rungs]:
    """(how, rung) to the step that is measured for it; several may be the same step."""
    climbing = [name for name in names if name not in BESIDE]
    top = Rungs(**dict.fromkeys(climbing, True))
    found = {("ground", ""): Rungs()}
    for i, name in enumerate(climbing):
        found["alone", name] = Rungs(**{name: True})
        found["without", name] = dataclasses.replace(top, **{name: False})
        found["climbed", name] = Rungs(**dict.fromkeys(climbing[: i + 1], True))
    for name in names:
        if name in BESIDE and (name != "autotune" or top.compile):
            found["beside", name] = dataclasses.replace(top, **{name: True})
    return found


def climb(
    shape: Shape,
    device: torch.device,
    folder,
    *,
    rounds: int | None = None,
    keep: Callable[[dict], object] = lambda figures: None,
    tick: Callable[[int, int, str], object] = lambda done, total, doing: None,
) -> dict:
    """Measure the ladder; the figures, as JSON. `folder` gets a file of tokens.

    `keep(figures)` is called after every round with what is known by then: an interrupt from the
    keyboard ends the run with these, marked, or comes through when no round was complete.
    `tick(done, total, doing)` hears of each step. ValueError when the ground itself does not run.
    """
    rounds = rounds or shape.rounds
    if rounds < 1:
        raise ValueError(f"expected 1 round or more, got {rounds}")
    bench, missing = Bench(shape, device, folder), not_here(shape, device)
    with many_graphs(compiled="compile" not in missing):
        checked = _check_all(bench, missing, rounds, tick)
        steps = plan([name for name in (*LADDER, *BESIDE) if name not in missing])
        kinds, seconds = list(dict.fromkeys(steps.values())), []
        peak, source = _peak(bench, missing)
        figures, total = {}, len(kinds) * (CHECKED + 1 + rounds)
        try:
            for number in range(rounds):
                seconds.append(_one_round(bench, kinds, number))
                tick(len(kinds) * (CHECKED + 2 + number), total, "timing")
                figures = _figures(bench, steps, checked, seconds, missing, (peak, source))
                keep(figures)
        except KeyboardInterrupt:
            if not figures:
                raise
            figures["interrupted_after_rounds"] = len(seconds)
            keep(figures)
    return figures


@contextlib.contextmanager
def many_graphs(*, compiled: bool) -> Iterator[None]:
    """Let one forward be compiled for as many kinds of step as there are, and not for eight."""
    if not compiled:
        yield
        return
    import torch._dynamo  # seconds, so only for those who compile

    with torch._dynamo.config.patch(recompile_limit=64):
        yield


def _check_all(bench: Bench, missing: dict[str, str], rounds: int, tick) -> dict[Rungs, dict]:
    """Losses and memory of every kind of step; a rung that fails goes to `missing`."""
    checked: dict[Rungs, dict] = {}
    while True:
        steps = plan([name for name in (*LADDER, *BESIDE) if name not in missing])
        total = len(set(steps.values())) * (CHECKED + 1 + rounds)
        try:
            # alone first, then climbing: so the rung that is blamed for a failure is the one
            for how, name in sorted(steps, key=lambda key: ORDER.index(key[0])):
                if (rungs := steps[how, name]) not in checked:
                    tick(len(checked) * CHECKED, total, f"{how} {name}".strip())
                    checked[rungs] = _check(bench, rungs, name)
            return checked
        except Failed as failed:
            if not failed.name:
                raise ValueError(
                    f"a step on the ground does not run here: {failed}; take fewer sequences "
                    f"(--batch) or a smaller shape"
                ) from failed
            missing[failed.name] = str(failed)


def _check(bench: Bench, rungs: Rungs, name: str) -> dict:
    losses: list = []
    try:
        bench.restart(rungs)
        for number in range(CHECKED - 1):
            losses.append(bench.step(rungs, number))
        most = peak_bytes(lambda: losses.append(bench.step(rungs, CHECKED - 1)), bench.device)
    except RuntimeError as problem:  # out of memory, a compiler's complaint, no kernel for it
        if bench.device.type == "cuda":
            torch.cuda.empty_cache()
        raise Failed(name, first_line(problem)) from problem
    numbers = [float(loss) for loss in losses]  # JSON has no NaN, and a wrong kernel makes one
    return {
        "losses": [round(n, 6) if math.isfinite(n) else None for n in numbers],
        "peak_bytes": most,
    }


def _one_round(bench: Bench, kinds: list[Rungs], number: int) -> dict[Rungs, float]:
    """Seconds of one step of each kind, on the same batches, in an order of this round's own."""
    order = random.Random(number).sample(kinds, len(kinds))  # nobody is always behind the same one
    steps = bench.shape.in_a_row
    first = CHECKED + number * steps

    def run_steps(rungs: Rungs) -> None:
        bench.wait()  # for what the kind before left in the queue: it would hide the next one's data
        for batch in range(first, first + steps):
            bench.step(rungs, batch)

    calls = {rungs: lambda r=rungs: run_steps(r) for rungs in order}
    timings = side_by_side(calls, warmup=int(number == 0), rounds=1, device=bench.device)
    return {rungs: timing.median / steps for rungs, timing in timings.items()}


def _peak(bench: Bench, missing: dict[str, str]) -> tuple[float, str]:
    """FLOPs per second that no rung can pass, and where the figure is from."""
    dtype = torch.float32 if "bf16" in missing else torch.bfloat16
    if bench.device.type == "cuda":
        return peak_flops(bench.device, dtype)
    found = {
        str(d)[6:]: measured_ceilings(bench.device, d, copied_bytes=1 << 20).flops_per_s
        for d in (torch.float32, dtype)
    }
    best = max(found, key=found.get)
    return found[best], f"measured, a product of 1024 x 1024 matrices in {best}"


def _figures(bench, steps, checked, seconds, missing, peak) -> dict:
    """All that a reader needs, as JSON."""
    shape = bench.shape
    times = {rungs: Timing(tuple(row[rungs] for row in seconds)) for rungs in seconds[0]}
    gains = gains_of(steps, {rungs: t.median for rungs, t in times.items()})
    rounds = [gains_of(steps, row) for row in seconds]
    ground = checked[Rungs()]["losses"]
    measured = {how: {} for how in ORDER}
    for (how, name), rungs in steps.items():
        measured[how][name] = _row(shape, times[rungs], checked[rungs], ground, rungs, peak[0])
    return {
        "shape": describe(shape.model) | {"batch": shape.batch, "seq_len": shape.seq_len},
        "device": str(bench.device),
        "threads": torch.get_num_threads(),
        "rules": list(RULES),
        "peak_gflops_per_s": round(peak[0] / 1e9, 1),
        "peak_from": peak[1],
        "rounds": len(seconds),
        "steps_in_a_row": shape.in_a_row,
        "not_here": missing,
        "gains": gains,
        "gain_quartiles": {
            kind: _quartiles([r[kind] for r in rounds]) for kind in ("alone", "in_place", "last")
        },
        "data_ms": _data_ms(bench),
        "ground": measured.pop("ground")[""],
        **measured,
    }


def describe(config: GPTConfig) -> dict:
    """The shape of the model on the ground."""
    c = config
    return {
        "layers": c.num_layers,
        "d_model": c.d_model,
        "d_hidden": c.d_hidden,
        "vocab_size": c.vocab_size,
        "parameters": num_params(c),
    }


def gains_of(steps: dict[tuple[str, str], Rungs], seconds: dict[Rungs, float]) -> dict:
    """`rung_gains` of these times; None for the rungs that are not here."""
    by_how = {
        how: {name: seconds[steps[how, name]] if (how, name) in steps else None for name in LADDER}
        for how in ("alone", "without", "climbed")
    }
    return rung_gains(seconds[Rungs()], *by_how.values())


def _row(shape, timing: Timing, checked: dict, ground: list[float], rungs: Rungs, peak) -> dict:
    """Time, speed, memory and losses of one kind of step."""
    rate = shape.batch * shape.seq_len / timing.median
    finite = None not in checked["losses"]
    off = (
        max(abs(a - b) for a, b in zip(checked["losses"], ground, strict=True)) if finite else None
    )
    most = checked["peak_bytes"]
    return {
        "ms": round(1e3 * timing.median, 4),
        "ms_spread": [round(1e3 * s, 4) for s in timing.spread],
        "tokens_per_s": round(rate),
        "mfu": round(mfu(rate, shape.model, shape.seq_len, peak), 4),
        "step_memory_mb": None if most is None else round(most / 1e6, 1),
        "losses": checked["losses"],
        "loss_off_by": round(off, 6) if finite else None,
        "same_curve": finite and off <= ALLOWED[rungs.bf16],
    }


def _quartiles(rounds: list[dict[str, float | None]]) -> dict[str, list[float] | None]:
    """First and third quartile of each rung's gain over the rounds."""
    return {
        name: None
        if rounds[0][name] is None
        else [round(q, 4) for q in Timing(tuple(r[name] for r in rounds)).spread]
        for name in rounds[0]
    }


def _data_ms(bench: Bench) -> dict[str, float]:
    """One batch, three ways: the part of a step that the data rungs change."""
    ways = {"from text": (False, False), "row by row": (True, False), "by strides": (True, True)}
    found = {
        way: side_by_side(
            {
                way: lambda f=file, g=gathered: bench.text.batch(
                    0, bench.shape.batch, file=f, gathered=g
                )
            },
            warmup=1,
            rounds=3,
        )[way]
        for way, (file, gathered) in ways.items()
    }
    return {way: round(1e3 * statistics.median(t.seconds), 4) for way, t in found.items()}
