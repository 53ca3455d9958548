"""Where does the time of an update go? A loop with a planted fault, measured part by part.

    python book/reference/programs/slow.py

The fault: the loop encodes its text anew for every batch. Measured on this machine, now.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from course_lib.data.batches import get_batch
from course_lib.data.corpus import Corpus
from course_lib.data.tokenizer import Tokenizer
from course_lib.gpt import GPT, GPTConfig

ROWS, TOKENS, UPDATES = 4, 64, 6
seconds: dict[str, float] = defaultdict(float)


@contextmanager
def part(name: str) -> Iterator[None]:
    """Adds the time of the block to `seconds[name]`. On a GPU: synchronize at both ends."""
    began = time.perf_counter()
    yield
    seconds[name] += time.perf_counter() - began


def run(name: str, tokens_of) -> None:
    """Train a little, then say what each part took."""
    seconds.clear()
    torch.manual_seed(0)
    model = GPT(GPTConfig.preset("tiny"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    draw = np.random.default_rng(0)
    for _ in range(UPDATES):
        with part("data"):
            tokens = tokens_of()
            idx, targets = get_batch(tokens, draw.integers(len(tokens) - TOKENS, size=ROWS), TOKENS)
        with part("forward"):
            loss = model(idx, targets)[1]
        with part("backward"):
            loss.backward()
        with part("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    whole = sum(seconds.values())
    shares = "   ".join(f"{p} {s / whole:4.0%}" for p, s in seconds.items())
    slowest = max(seconds, key=seconds.__getitem__)
    print(f"{name:<18} {shares}   slowest: {slowest}")


def main() -> None:
    torch.set_num_threads(1)
    tokenizer, text = Tokenizer.course(), Corpus.default().text()[:1_000_000]
    run("encoded each time", lambda: tokenizer.encode_to_array(text))
    once = tokenizer.encode_to_array(text)
    run("encoded once", lambda: once)


if __name__ == "__main__":
    main()
