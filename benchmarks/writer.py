"""The model that writes in lesson 07: trained by the course's own trainer, and stored in 16 bits.

    python -m benchmarks.writer                        # about 20 minutes on two free cores
    python -m benchmarks.writer --updates 20 --dry-run

It is the preset *tiny* with two heads of keys and values, on Python's standard library. The last
tenth of the files is held out, and the loss on it is in the record, benchmarks/results/writer.json.
"""

import argparse
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from benchmarks.record import record
from course_lib.data.tokenizer import Tokenizer
from course_lib.generation import WRITER
from course_lib.gpt import GPTConfig
from course_lib.ranks.world import World
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.run_tokens import run_tokens
from course_lib.training.train_config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class WriterConfig(TrainConfig):
    """Settings of a run whose model shares its heads of keys and values by two."""

    def model_config(self, vocab_size: int) -> GPTConfig:
        return replace(super().model_config(vocab_size), num_kv_heads=2)


def main() -> None:
    """Train, store the weights, and write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--updates", type=int, default=2500)
    parser.add_argument("--dry-run", action="store_true", help="store and record nothing")
    chosen = parser.parse_args()
    tokenizer, world = Tokenizer.course(), World()
    with tempfile.TemporaryDirectory() as folder:
        config = WriterConfig(
            model_size="tiny",
            batch_size=16,
            max_steps=chosen.updates,
            lr=3e-3,
            min_lr=1e-4,
            warmup_steps=100,
            precision="fp32",
            device="cpu",
            eval_every=0,
            eval_batches=64,
            save_every=0,
            log_every=50,
            out=str(Path(folder) / "run"),
            cache=str(Path(folder) / "data"),
        )
        tokens, valid_tokens = run_tokens(world, config, tokenizer)
        trainer = DistributedTrainer(
            config, tokens, vocab_size=tokenizer.vocab_size, valid_tokens=valid_tokens, world=world
        )
        row = trainer.fit()
    figures = {
        "updates": trainer.step,
        "tokens": trainer.tokens_seen,
        "loss": round(row["loss"], 2),
        "valid_loss": round(row["valid_loss"], 2),
    }
    print(figures)
    if chosen.dry_run:
        return
    weights = {name: w.bfloat16() for name, w in trainer.plain_model.state_dict().items()}
    del weights["head.weight"]  # the embedding's matrix once more
    torch.save(weights, WRITER)
    record("writer", figures)


if __name__ == "__main__":
    main()
