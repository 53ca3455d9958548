"""What a training run writes down: a progress bar, log.csv, curves.png, and other logs when asked.

What it is: one row per logged update, the same row everywhere. What it leaves out: what the numbers
mean; `ddp_trainer.py` makes them.
"""

import csv
import os
from collections.abc import Iterable
from pathlib import Path

from tqdm import tqdm

from course_lib.runs.atomic import write_whole

COLUMNS = ("step", "loss", "valid_loss", "lr", "grad_norm", "tokens", "tokens_per_s", "mfu",
           "memory_mb", "slowest_rank", "slowest_ratio")  # fmt: skip
"""A new one comes last, so that the rows of an older log stay where they are."""


class RunLog:
    """The log of one run. On ranks other than the first, and with `folder` None, it does nothing."""

    def __init__(
        self,
        folder: Path | None,
        *,
        total: int,
        done: int = 0,
        tensorboard: bool = False,
        wandb: bool = False,
        settings: dict | None = None,
    ):
        """`done`: the step a resumed run starts from; later rows of an earlier try are dropped.

        ValueError when `tensorboard` or `wandb` is asked for and the package is not installed.
        """
        self.folder, self._bar, self._others = folder, None, []
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "log.csv"
        _keep_rows(self.path, done)
        self._stream = self.path.open("a", newline="", encoding="utf-8")
        self._writer = csv.DictWriter(self._stream, COLUMNS, restval="", lineterminator="\n")
        if self._stream.tell() == 0:
            self._writer.writeheader()
        self._bar = tqdm(
            total=total, initial=done, unit="step", dynamic_ncols=True, mininterval=0.5
        )
        if tensorboard:
            self._others.append(_tensorboard(folder, done))
        if wandb:
            self._others.append(_wandb(folder, settings or {}))

    def write(self, row: dict[str, float]) -> None:
        """Log one update; `row` has "step" and any of the other columns."""
        if self.folder is None:
            return
        self._writer.writerow({name: _shorten(value) for name, value in row.items()})
        self._stream.flush()  # a killed run keeps every row it has shown
        self._bar.update(row["step"] - self._bar.n)
        self._bar.set_postfix_str(f"loss {row['loss']:.3f}, {row['tokens_per_s']:,.0f} tokens/s")
        for other in self._others:
            other(row)

    def close(self) -> None:
        """End the bar, draw the curves, close the files."""
        if self.folder is None:
            return
        self._bar.close()
        self._stream.close()
        plot(self.path, self.folder / "curves.png")
        for other in self._others:
            other(None)


def read(path: str | Path) -> list[dict[str, float]]:
    """The rows of a log.csv, numbers as floats, empty cells left out."""
    with Path(path).open(newline="", encoding="utf-8") as stream:
        return [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(stream)]


def plot(path: str | Path, target: str | Path) -> None:
    """Loss and rate against step, from a log.csv into a PNG."""
    from matplotlib.figure import Figure  # not pyplot: no window system, no state of anyone else's

    rows = read(path)
    if not rows:
        return
    figure = Figure(figsize=(8, 4), layout="constrained")
    loss, rate = figure.subplots(1, 2)
    loss.plot(*_series(rows, "loss"), color="#1b6e9c", lw=1, label="training")
    loss.plot(*_series(rows, "valid_loss"), "o-", color="#b3261e", ms=4, label="validation")
    loss.set(xlabel="step", ylabel="loss, nats per token")
    loss.legend(frameon=False)
    rate.plot(*_series(rows, "lr"), color="#1b6e9c")
    rate.set(xlabel="step", ylabel="learning rate", ylim=(0, None))
    figure.savefig(target, dpi=120)


def _series(rows: Iterable[dict], name: str) -> tuple[list[float], list[float]]:
    found = [(row["step"], row[name]) for row in rows if name in row]
    return [step for step, _ in found], [value for _, value in found]


def _shorten(value: float) -> float | str:
    """Whole numbers as they are, others with as many digits as a float32 carries."""
    return value if isinstance(value, int) else f"{value:.9g}"


def _keep_rows(path: Path, done: int) -> None:
    """Drop rows of steps after `done`, and a last row that a kill has cut in two."""
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    rows = [line for line in lines[1:] if line.endswith("\n")]
    kept = [
        line for line in rows if line.split(",")[0].isdigit() and int(line.split(",")[0]) <= done
    ]
    # a log that was begun with fewer columns goes on with those of today
    write_whole(path, "".join([",".join(COLUMNS) + "\n", *kept]) if lines else "", sync=False)


def _tensorboard(folder: Path, done: int):
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError(
            "--tensorboard needs the package tensorboard: pip install tensorboard, or read log.csv"
        ) from None
    writer = SummaryWriter(str(folder / "tensorboard"), purge_step=done + 1)

    def write(row: dict | None) -> None:
        if row is None:
            writer.close()
            return
        for name, value in row.items():
            if name != "step":
                writer.add_scalar(name, value, row["step"])

    return write


def _wandb(folder: Path, settings: dict):
    try:
        import wandb
    except ImportError as missing:
        raise ValueError(
            f"--wandb needs the package wandb ({missing}): pip install wandb, or read log.csv"
        ) from None
    mode = os.environ.get("WANDB_MODE", "offline")  # no network unless it is asked for
    started = wandb.init(project="course", dir=str(folder), mode=mode, config=settings)

    def write(row: dict | None) -> None:
        if row is None:
            started.finish()
            return
        started.log({k: v for k, v in row.items() if k != "step"}, step=row["step"])

    return write
