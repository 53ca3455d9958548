"""The counts of the figure `number-line`: weight gradients of lesson 14's model, by power of two.

They are those of the first update, with the whole loss.
"""

import torch

from benchmarks.figures import store_constant
from course_lib.gpt import GPT, GPTConfig

LOWEST, HIGHEST = -30, -4


def count_gradients() -> list[int]:
    """How many gradients lie from 2^e to 2^(e + 1), for e from LOWEST to HIGHEST; about a second."""
    torch.manual_seed(0)
    followers = torch.stack([torch.randperm(64)[:4] for _ in range(64)])
    torch.manual_seed(0)
    shape = dict(vocab_size=64, max_seq_len=16, num_layers=2, num_heads=2, d_model=64, d_hidden=128)
    model = GPT(GPTConfig(**shape))
    walk = [torch.randint(64, (16,))]
    for _ in range(16):
        walk.append(followers[walk[-1], torch.randint(4, (16,))])
    window = torch.stack(walk, dim=1)
    model(window[:, :-1], window[:, 1:])[1].backward()
    sizes = torch.cat([p.grad.flatten() for p in model.parameters()]).abs().log2().floor()
    return [int((sizes == LOWEST + i).sum()) for i in range(HIGHEST - LOWEST + 1)]


def main() -> None:
    """Count and store."""
    store_constant("number-line", "COUNTS", f"{count_gradients()}")


if __name__ == "__main__":
    main()
