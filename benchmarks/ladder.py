"""The speed ladder: every rung alone, at its place and taken away, on this machine.

    course bench ladder                    a small model, about five minutes on two cores
    course bench ladder --shape full       134 million parameters, 64 x 512 tokens, on a GPU
    course bench ladder --shape tiny       seconds, without compilation

Writes ladder.json (ladder_SHAPE.json for other shapes than cpu) and a picture beside it.
"""

import argparse
import dataclasses
import os
import sys
import tempfile
from pathlib import Path

import torch
from tqdm import tqdm

from benchmarks.record import RESULTS, record
from course_lib.ladder.climb import climb
from course_lib.ladder.report import draw, table
from course_lib.ladder.rungs import SHAPES, Shape


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, write the record and the picture; 2 for what cannot be run."""
    args = parser().parse_args(argv)
    name = "ladder" if args.shape == "cpu" else f"ladder_{args.shape}"
    try:
        shape, device = chosen(args)
        out = (args.out or RESULTS).resolve()
        out.mkdir(parents=True, exist_ok=True)
        figures = measured(shape, device, args.rounds, lambda found: record(name, found, out))
    except (ValueError, OSError) as problem:
        print(f"course bench ladder: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted before the first round was complete: nothing to keep", file=sys.stderr)
        return 130
    print(table(figures))
    print(f"\n{out / name}.json\n{picture(figures, out / f'{name}.svg')}")
    return 130 if "interrupted_after_rounds" in figures else 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(
        prog="course bench ladder",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument(
        "--shape",
        choices=("cpu", "full", "tiny"),
        default="cpu",
        help="which model (default cpu); full needs a GPU",
    )
    found.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="default: a GPU for full, else the CPU",
    )
    found.add_argument(
        "--rounds", type=int, metavar="N", help="how often each kind of step is timed"
    )
    found.add_argument("--batch", type=int, metavar="B", help="sequences in a step")
    found.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    found.add_argument(
        "--no-autotune", action="store_true", help="leave max-autotune out: minutes on a GPU"
    )
    found.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="where record and picture go, from the course's folder [benchmarks/results]",
    )
    return found


def chosen(args: argparse.Namespace) -> tuple[Shape, torch.device]:
    """Shape and device that were asked for; ValueError for what this machine cannot run."""
    shape = SHAPES[args.shape]
    for option, value in (("--batch", args.batch), ("--rounds", args.rounds)):
        if value is not None and value < 1:
            raise ValueError(f"{option} must be 1 or more, got {value}")
    shape = dataclasses.replace(
        shape, batch=args.batch or shape.batch, compiles=shape.compiles and not args.no_compile
    )
    if args.no_autotune:
        shape = dataclasses.replace(shape, autotunes=False)
    kind = args.device if args.device != "auto" else "cuda" if shape.needs_gpu else "cpu"
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "expected a GPU, torch sees none here: run `course bench ladder` for the small model "
            "on this CPU, or this command on a machine with a GPU (`course doctor` says what torch "
            "sees)"
        )
    if shape.needs_gpu and kind == "cpu":
        raise ValueError(
            "--shape full would take a CPU many hours: leave --device out on a machine with a GPU, "
            "or take --shape cpu"
        )
    return shape, torch.device(kind)


def measured(shape: Shape, device: torch.device, rounds: int | None, keep) -> dict:
    """The figures, with a bar on stderr."""
    with tempfile.TemporaryDirectory() as folder, tqdm(desc="ladder", unit="step") as bar:

        def tick(done: int, total: int, doing: str) -> None:
            bar.total, bar.n = total, done
            bar.set_postfix_str(doing)

        return climb(shape, device, folder, rounds=rounds, keep=keep, tick=tick)


def picture(figures: dict, path: Path) -> Path:
    """Draw the ladder into an SVG file; its path."""
    os.environ.setdefault("MPLBACKEND", "agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"svg.hashsalt": "ladder", "svg.fonttype": "none"}):
        plot, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), constrained_layout=True)
        draw(figures, axes)
        plot.savefig(path, metadata={"Date": None})
        plt.close(plot)
    return path


if __name__ == "__main__":
    sys.exit(main())
