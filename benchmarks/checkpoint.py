"""Saving a training state: seconds that training waits, and GB per second, beside torch.save.

Ours writes the same bytes and then some: it hashes them, waits until they are on the disk, and
writes the record. `torch.save` waits for nothing; beside it stands torch.save with an fsync.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.record import record
from course_lib.checkpoints import single_file
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.train_config import TrainConfig

ROUNDS = 5


def run(preset: str = "small") -> dict:
    """Median seconds and GB/s of three ways to save, in turn, and of loading."""
    tokens = np.random.default_rng(0).integers(0, 8192, 10_000).astype(np.uint16)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = TrainConfig(model_size=preset, batch_size=1, seq_len=32, device="cpu", out=name)
        trainer = DistributedTrainer(config, tokens, vocab_size=8192)
        trainer.train_step(trainer.next_batches())
        trainer.save_checkpoint()
        state = trainer.read_checkpoint()
        ways = {
            "ours": lambda: single_file.save(state, folder / "ours", 1),
            "torch_save": lambda: torch.save(state, folder / "plain.pt"),
            "torch_save_fsync": lambda: _synced(state, folder / "synced.pt"),
        }
        seconds = {way: [] for way in ways}
        for _ in range(1 + ROUNDS):
            for way, save in ways.items():
                seconds[way].append(_timed(save))
        path = folder / "ours/step_00000001.pt"
        gigabytes = path.stat().st_size / 1e9
        loading = [_timed(lambda: single_file.load(path)) for _ in range(ROUNDS)]
    medians = {way: statistics.median(times[1:]) for way, times in seconds.items()}
    ratios = [
        a / b for a, b in zip(seconds["ours"][1:], seconds["torch_save_fsync"][1:], strict=True)
    ]
    return {
        "preset": preset,
        "gigabytes": round(gigabytes, 3),
        "rounds": ROUNDS,
        **{f"{way}_s": round(value, 3) for way, value in medians.items()},
        **{f"{way}_gb_per_s": round(gigabytes / value, 2) for way, value in medians.items()},
        "ours_to_torch_save_fsync": round(statistics.median(ratios), 2),
        "load_checked_s": round(statistics.median(loading), 3),
    }


def _timed(work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _synced(state: dict, path: Path) -> None:
    with path.open("wb") as stream:
        torch.save(state, stream)
        stream.flush()
        os.fsync(stream.fileno())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model_size", default="small", help="preset of the model")
    print(record("checkpoint", run(parser.parse_args().model_size)))
