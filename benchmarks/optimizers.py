"""AdamW against Muon: losses of the smallest preset on the course's text, each at its best rate.

Both optimizers are tried at the same rates, with the same first weights, batches, decay, warmup and
schedule; the best rate is the one of the lowest validation loss. Those two are run again from other
first weights, on other batches. What comes out is said of this model and this number of updates.

    python -m benchmarks.optimizers --cache runs/data
"""

import argparse
import statistics

from benchmarks.record import record
from course_lib.data.sources import make_tokens, open_tokens
from course_lib.data.tokenizer import Tokenizer
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.train_config import OPTIMIZERS, TrainConfig

RATES = (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2)
SEEDS = (1, 2)
STEPS, MEAN_OF = 200, 10  # updates, and how many of their losses make one point of a curve


def train(optimizer: str, lr: float, seed: int, texts: tuple, vocab_size: int) -> dict:
    """Curve of the training loss, means of MEAN_OF updates each, and the last validation loss."""
    config = TrainConfig(
        model_size="tiny", optimizer=optimizer, lr=lr, min_lr=lr / 10, seed=seed, max_steps=STEPS,
        batch_size=8, seq_len=64, warmup_steps=20, precision="fp32", device="cpu", eval_batches=32,
    )  # fmt: skip
    tokens, valid = texts
    trainer = DistributedTrainer(config, tokens, vocab_size=vocab_size, valid_tokens=valid)
    losses = [
        float(trainer.train_step([trainer.loader.next_batch()])["loss"]) for _ in range(STEPS)
    ]
    parts = [losses[at : at + MEAN_OF] for at in range(0, STEPS, MEAN_OF)]
    curve = [round(statistics.mean(part), 4) for part in parts]
    return {"curve_nats": curve, "valid_nats": round(trainer.evaluate(), 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", default="runs/data", help="folder of the tokens")
    cache, tokenizer = parser.parse_args().cache, Tokenizer.course()
    folders = make_tokens(None, tokenizer, cache=cache, valid_fraction=0.05)
    given = open_tokens(folders, tokenizer), tokenizer.vocab_size
    figures: dict = {"updates": STEPS, "tokens_per_update": 8 * 64, "mean_of_updates": MEAN_OF}
    for optimizer in OPTIMIZERS:
        runs = {f"{lr:g}": train(optimizer, lr, 0, *given) for lr in RATES}
        best = min(runs, key=lambda lr: runs[lr]["valid_nats"])
        again = [train(optimizer, float(best), seed, *given) for seed in SEEDS]
        figures[optimizer] = {"rates": runs, "best_rate": float(best), "other_seeds": again}
        for lr, run in runs.items():
            print(f"{optimizer:<6} lr {lr:<6} validation loss {run['valid_nats']:.3f}", flush=True)
        print(
            f"       other seeds {', '.join(str(run['valid_nats']) for run in again)}", flush=True
        )
    print(record("optimizers", figures))


if __name__ == "__main__":
    main()
