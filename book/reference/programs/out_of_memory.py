"""A batch that does not fit, what of it did not, and two ways to make it fit.

    python book/reference/programs/out_of_memory.py

The process allows itself a little more memory than it has and then trains on 64 rows at once.
"""

import resource
import sys
from pathlib import Path

import torch

from course_lib.gpt import GPT, GPTConfig
from course_lib.measure.memory import saved_bytes, tensor_bytes

ROWS, TOKENS, MORE_MB = 64, 128, 600


def allow(megabytes: int) -> bool:
    """Limit this process to what it has now and `megabytes` more; False where that can't be done."""
    statm = Path("/proc/self/statm")
    if not statm.is_file():
        return False
    has = int(statm.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + megabytes * 10**6,) * 2)
    return True


def update(model: GPT, window: torch.Tensor, parts: int) -> str:
    """One forward and backward pass in `parts` micro-batches; what came of it."""
    try:
        for rows in window.chunk(parts):
            loss = model(rows, rows)[1] / parts
            loss.backward()
        return "fits"
    except RuntimeError as error:  # on a GPU: torch.OutOfMemoryError, a RuntimeError too
        wanted = str(error).partition("you tried to allocate ")[2].partition(" bytes")[0]
        return f"does not fit: one tensor more, of {int(wanted or 0) / 1e6:.0f} MB"
    finally:
        model.zero_grad(set_to_none=True)


def main() -> None:
    torch.set_num_threads(1)
    config = GPTConfig.preset("tiny")
    model, window = GPT(config), torch.zeros(ROWS, TOKENS, dtype=torch.int64)
    # 1. count, before anything runs
    print(f"weights {tensor_bytes(model.parameters()) / 1e6:.0f} MB, gradients as much")
    with torch.device("meta"):
        shadow = GPT(config)
        for rows in (64, 8):
            kept = saved_bytes(shadow, *[torch.zeros(rows, TOKENS, dtype=torch.int64)] * 2)
            logits = rows * TOKENS * config.vocab_size * 4
            print(f"{rows:>3} rows keep {kept / 1e6:5.0f} MB; logits alone {logits / 1e6:.0f} MB")
    # 2. run
    if not allow(MORE_MB):
        sys.exit("no /proc here: the rest needs Linux")
    print(f"allowed: {MORE_MB} MB more")
    for parts in (1, 8):
        print(f"{parts} micro-batch of {ROWS // parts} rows: {update(model, window, parts)}")


if __name__ == "__main__":
    main()
