"""What a mask that begins one diagonal too far does to training and to writing: lesson 04's figures.

Two models of lesson 06 are trained by its loop (`benchmarks.minutes`) from the same first weights on
the same batches. In one of them each token can also read the next one, which it has to predict.
"""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.minutes import LAST, read_data, read_unread, train_steps, write_text
from benchmarks.record import record
from course_lib.data.tokenizer import Tokenizer
from course_lib.gpt import GPT, GPTConfig

WINDOWS, LENGTH = 512, 64
PROMPT = "    def __init__(self, name"


def attend_leaking(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention whose mask leaves the diagonal above the main one open; all (B, H, T, K)."""
    T, K = q.shape[-2:]
    closed = torch.ones(T, T, dtype=torch.bool, device=q.device).triu(2)
    scores = (q @ k.mT / math.sqrt(K)).masked_fill(closed, float("-inf"))
    return scores.softmax(-1) @ v


@torch.no_grad()
def losses_on(model: GPT, windows: Tensor) -> tuple[float, float]:
    """Mean losses, in nats, on texts (B, T) of which the model reads T - 1 tokens.

    First of all tokens but the last, whose next token is read as well; then of the last alone.
    """
    logits = model(windows[:, :-1])[0]
    within = F.cross_entropy(logits[:, :-1].flatten(0, 1), windows[:, 1:-1].flatten()).item()
    return within, F.cross_entropy(logits[:, -1], windows[:, -1]).item()


def main() -> None:
    """Train both, and write benchmarks/results/leak.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=650)
    updates = parser.parse_args().updates
    torch.set_num_threads(1)
    tokenizer = Tokenizer.course()
    data = read_data(tokenizer)
    windows = read_unread(tokenizer, WINDOWS, LENGTH)
    figures: dict = {"threads": 1, "updates": updates}
    for name in ("causal", "leaking"):
        torch.manual_seed(0)
        model = GPT(GPTConfig.preset("tiny", vocab_size=tokenizer.vocab_size))
        if name == "leaking":
            for block in model.blocks:
                block.attention.attend = attend_leaking
        steps = train_steps(model, data)
        losses = [next(steps) for _ in range(updates)]
        within, last = losses_on(model, windows)
        figures[name] = {
            "training_loss": round(sum(losses[-LAST:]) / len(losses[-LAST:]), 2),
            "unread_loss": round(within, 2),
            "next_token_loss": round(last, 2),
            "text": write_text(model, tokenizer, PROMPT, tokens=40),
        }
        print(name, figures[name], flush=True)
    record("leak", figures)


if __name__ == "__main__":
    main()
