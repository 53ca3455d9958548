"""A model of your own in five minutes: `python -m course_lib.training.demo`, or `make train-demo`.

What it is: a preset and a number of steps that suit the machine, a run of the trainer, and the
result beside what counting alone reaches. What it leaves out: tuning; each figure is of one run.
"""

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path

from course_lib.data.ngram import bigram_loss, unigram_loss
from course_lib.data.tokenizer import Tokenizer
from course_lib.ranks.world import World, run
from course_lib.runs.options import parse
from course_lib.runs.ranges import Range, check_settings
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.run_tokens import run_tokens
from course_lib.training.train_config import RANGES, TrainConfig

TRIAL_STEPS = 3


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """Train for a few minutes on the text that is there, and compare with counting."""

    minutes: float = 5.0
    """Minutes of training, the trial steps that measure the machine left out."""
    model_size: str = "small"
    """Preset of the model; small has 13.8 million parameters."""
    batch_size: int = 8
    """Sequences per update."""
    data: str | None = None
    """Folder of text files; none takes the sources of Python's library."""
    cache: str = "runs/data"
    """Folder for the tokens."""
    out: str = "runs/demo"
    """Folder of the run."""

    def __post_init__(self):
        minutes = Range(0, 24 * 60 + 1, open=True)
        check_settings(self, RANGES | {"minutes": minutes})


def main(world: World, chosen: DemoConfig) -> None:
    """Measure a step, train as many as fit, print losses and samples.

    ValueError for data without a part to validate on.
    """
    config = TrainConfig(
        model_size=chosen.model_size,
        batch_size=chosen.batch_size,
        data=chosen.data,
        cache=chosen.cache,
        out=chosen.out,
        resume=False,
        warmup_steps=20,
        eval_every=0,
        save_every=0,
    )
    tokenizer = Tokenizer.course()
    train, valid = run_tokens(world, config, tokenizer)
    if valid is None:
        raise ValueError(f"{chosen.data} has no validation shards: pass a folder of text files")
    words = (train, tokenizer.vocab_size, valid, world)
    steps = max(20, int(60 * chosen.minutes / seconds_per_step(config, *words)))
    config = dataclasses.replace(
        config, max_steps=steps, eval_every=max(1, steps // 8), log_every=5
    )
    trainer = build(config, *words)
    print(f"{trainer.describe()}\n{steps} steps, about {chosen.minutes:g} minutes")
    before = trainer.sample(tokenizer, 60)
    row = trainer.fit()
    held_out, seen = valid.preload(), train.preload()
    print("validation loss, nats per token")
    print(f"  unigram {unigram_loss(seen, held_out, tokenizer.vocab_size):.3f}")
    print(f"  bigram  {bigram_loss(seen, held_out, tokenizer.vocab_size):.3f}")
    print(f"  model   {row['valid_loss']:.3f} after {row['tokens']:,} tokens")
    print(f"before training:\n{before}\nafter training:\n{trainer.sample(tokenizer, 120)}")
    print(f"curves: {Path(config.out) / 'curves.png'}")


def build(config: TrainConfig, train, vocab_size: int, valid, world: World) -> DistributedTrainer:
    """The trainer of this run."""
    return DistributedTrainer(config, train, vocab_size=vocab_size, valid_tokens=valid, world=world)


def seconds_per_step(config: TrainConfig, *words) -> float:
    """The fastest of a few steps after the first, which also loads and warms up."""
    trainer, best = build(config, *words), float("inf")
    for i in range(1 + TRIAL_STEPS):
        began = time.perf_counter()
        trainer.train_step([trainer.loader.next_batch()])
        best = min(best, time.perf_counter() - began) if i else best
    return best


if __name__ == "__main__":
    wanted = parse(DemoConfig, prog="python -m course_lib.training.demo")
    run(lambda world: main(world, wanted))
