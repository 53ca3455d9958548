"""The table of the figure `loss-shift`: what targets shifted by -1, 0, 1, 2 teach a GPT.

FOLLOWS is a language in which all successors of a word are equally likely. A line holds one shift:
the loss at steps 0, 10, ... 120, then the seven words that the trained model writes from "a".
"""

from random import Random

import torch

from benchmarks.figures import store_table
from course_lib.gpt import GPT, GPTConfig

FOLLOWS = {
    "a": ("cat", "dog"),
    "cat": ("sat", "ran"),
    "dog": ("sat", "ran"),
    "sat": ("on",),
    "ran": ("to",),
    "on": ("the",),
    "to": ("the",),
    "the": ("mat", "park"),
    "mat": (".",),
    "park": (".",),
    ".": ("a",),
}
WORDS = list(FOLLOWS)
WORDS = list(FOLLOWS)
SHIFTS, STEPS = (-1, 0, 1, 2), 120


def draw_windows(source: Random) -> list[list[int]]:
    """16 windows of WORDS' indices: ".", two sentences, and the first two words of a third."""
    rows = []
    for _ in range(16):
        words = ["."]
        while len(words) < 17:
            words.append(source.choice(FOLLOWS[words[-1]]))
        rows.append([WORDS.index(word) for word in words])
    return rows


def train_with_shift(shift: int, steps: int = STEPS) -> tuple[list[float], str]:
    """Losses at every tenth step, and seven words written greedily from "a".

    2 blocks of width 32, AdamW at 0.003, 16 windows of 14 words a step, seed 0
    for weights and for words.
    """
    torch.manual_seed(0)
    source, losses = Random(0), []
    shape = dict(num_layers=2, num_heads=2, d_model=32, d_hidden=64, max_seq_len=16)
    model = GPT(GPTConfig(vocab_size=len(WORDS), **shape))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps + 1):
        window = torch.tensor(draw_windows(source))
        _, loss = model(window[:, 1:15], window[:, 1 + shift : 15 + shift])
        if step % 10 == 0:
            losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    start = torch.tensor([[WORDS.index("a")]])
    written = model.generate(start, max_new_tokens=6, temperature=0)[0]
    return losses, " ".join(WORDS[i] for i in written.tolist())


def main() -> None:
    """Train once per shift and store each run's line."""
    runs = [train_with_shift(shift) for shift in SHIFTS]
    digits = [[f"{x:.{2 if x >= 1 else 3}f}" for x in losses] for losses, _ in runs]
    lines = [" ".join([*row, words]) for row, (_, words) in zip(digits, runs, strict=True)]
    store_table("loss-shift", lines)


if __name__ == "__main__":
    main()
