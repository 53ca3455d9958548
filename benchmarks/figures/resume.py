"""The table of the figure `resume`: a run that is resumed with one part forgotten.

The first line is the run that nobody interrupts: the loss of every second update, in hundredths.
Each line below is a resumed run, by step of the resume and forgotten part.
"""

import numpy as np
import torch

from benchmarks.figures import store_table
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.train_config import TrainConfig

STEPS, EVERY, WARMUP, LR, MIN_LR, BATCH = 56, 2, 10, 3e-3, 1e-4, 8
RESUMES = (8, 20, 32, 44)
MEASURED = ("model", "optimizer", "step", "loader")


def train_run(at: int | None = None, forgotten: str = "nothing", steps: int = STEPS) -> list[float]:
    """The loss of every second update from `at` on; `at` None is the run that nobody interrupts.

    The tiny preset on a language of 64 tokens, each followed by one of four; fp32, seed 0. The
    uninterrupted run leaves a checkpoint at each of RESUMES in memory.
    """
    draw = np.random.default_rng(0)
    followers, tokens = draw.integers(0, 64, (64, 4)), [0]
    while len(tokens) < 2000:
        tokens.append(int(followers[tokens[-1], draw.integers(4)]))
    config = TrainConfig(
        model_size="tiny",
        seq_len=32,
        batch_size=BATCH,
        max_steps=STEPS,
        warmup_steps=WARMUP,
        lr=LR,
        min_lr=MIN_LR,
        precision="fp32",
        device="cpu",
        out="memory:figure",
        keep=len(RESUMES),
        seed=0,
    )
    with torch.random.fork_rng(devices=[]):
        run = DistributedTrainer(config, np.array(tokens, dtype=np.uint16), vocab_size=64)
        fresh = {part: getattr(run, part) for part in ("optimizer", "loader")}
        fresh = {part: held.state_dict() for part, held in fresh.items()} | {"step": 0}
        fresh["model"] = {name: w.clone() for name, w in run.plain_model.state_dict().items()}
        if at is not None:
            path = f"memory:figure/checkpoints/step_{at:08d}.pt"
            state = run.read_checkpoint(path)
            part = {} if forgotten == "nothing" else {forgotten: fresh[forgotten]}
            run.read_checkpoint = lambda path=None: state | part
            run.load_checkpoint()
        losses = []
        for step in range(at or 0, steps):
            if at is None and step in RESUMES:
                run.save_checkpoint()
            losses.append(float(run.train_step(run.next_batches())["loss"]))
    return losses[::EVERY]


def main() -> None:
    """Train once without and sixteen times with a resume, and store each run's line."""
    runs = [train_run(), *(train_run(at, part) for at in RESUMES for part in MEASURED)]
    lines = [" ".join(f"{100 * loss:.0f}" for loss in losses) for losses in runs]
    store_table("resume", lines)


if __name__ == "__main__":
    main()
