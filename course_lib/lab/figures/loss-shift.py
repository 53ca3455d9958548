"""Python reference of the figure `loss-shift`: what targets shifted by -1, 0, 1, 2 teach.

The chances are a closed form: FOLLOWS is a language in which all successors of a word are equally
likely. TABLE is measured: `python -m course_lib.lab.figures.loss-shift` trains the model of
course_lib/gpt.py once per shift and writes the table here and in `loss-shift.mjs`. A line holds one
shift: the loss at steps 0, 10, ... 120, then the seven words the model writes from "a".
"""

import math
from random import Random
from typing import Any

from course_lib.lab.figures.stored import write
from course_lib.lab.figures.text import fmt

TITLE = "Targets, shifted"
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
TAPE = ". a cat sat on the mat . a dog".split()  # position 0 is TAPE[1]
SHIFTS, STEPS = (-1, 0, 1, 2), 120
NAMES = {
    -1: "the word before",
    0: "the input itself",
    1: "the next word",
    2: "the word after the next",
}
TABLE = """\
2.48 1.61 1.14 0.775 0.511 0.363 0.289 0.253 0.199 0.155 0.135 0.124 0.118 a . park the on sat dog
1.86 1.10 0.546 0.251 0.127 0.075 0.051 0.038 0.030 0.025 0.021 0.018 0.016 a a a a a a a
2.47 1.63 1.19 0.795 0.559 0.432 0.372 0.349 0.335 0.328 0.324 0.313 0.317 a cat ran to the mat .
2.48 1.64 1.19 0.832 0.630 0.524 0.464 0.444 0.433 0.431 0.431 0.410 0.424 a ran the . cat to mat
"""
DEFAULTS: dict[str, Any] = {"shift": 1, "at": 2}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "right": {"shift": 1},
    "copy": {"shift": 0},
    "twice": {"shift": 2},
    "back": {"shift": -1},
}
CASES: list[dict[str, Any]] = [{"shift": s, "at": at} for s in SHIFTS for at in range(7)]


def ahead(word: str, n: int) -> list[str]:
    """The equally likely words n places after `word`, with repetition."""
    words = [word]
    for _ in range(n):
        words = [after for w in words for after in FOLLOWS[w]]
    return words


def chance(shift: int, at: int) -> float:
    """Best possible probability of the target at position `at`, knowing the words up to there."""
    if shift < 1:
        return 1  # already read; before "a" there is always "."
    words = ahead(TAPE[at + 1], shift)
    return words.count(TAPE[at + 1 + shift]) / len(words)


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS)."""
    shift, at = state["shift"], state["at"]
    chances = [chance(shift, t) for t in range(7)]
    *curve, writes = TABLE.splitlines()[SHIFTS.index(shift)].split(maxsplit=STEPS // 10 + 1)
    losses = [float(word) for word in curve]
    return {
        "inputs": TAPE[1:8],
        "targets": TAPE[1 + shift : 8 + shift],
        "read": [0 <= t + shift <= t for t in range(7)],
        "chances": chances,
        "floor": sum(-math.log(p) for p in chances) / 7,
        "curve": losses,
        "final": losses[-1],
        "writes": writes,
        "target": TAPE[1 + at + shift],
    }


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    columns = (result["inputs"], result["targets"], result["read"], result["chances"])
    return {
        "caption": f"The loss rewards naming {NAMES[state['shift']]}",
        "columns": ["t", "input", "target", "already read", "best chance"],
        "rows": [
            [str(t), x, y, "yes" if read else "no", p]
            for t, (x, y, read, p) in enumerate(zip(*columns, strict=True))
        ],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    shift, at = state["shift"], state["at"]
    return (
        f"Shift {fmt(shift)}: position {at} has read \u201c{' '.join(result['inputs'][: at + 1])}"
        f"\u201d and is asked for \u201c{result['target']}\u201d, {NAMES[shift]}. After {STEPS} "
        f"steps the loss is {fmt(result['final'])}; the lowest possible is {fmt(result['floor'])}."
    )


def batch(source: Random) -> list[list[int]]:
    """16 windows of WORDS' indices: ".", two sentences, and the first two words of a third."""
    rows = []
    for _ in range(16):
        words = ["."]
        while len(words) < 17:
            words.append(source.choice(FOLLOWS[words[-1]]))
        rows.append([WORDS.index(word) for word in words])
    return rows


def train(shift: int, steps: int = STEPS) -> tuple[list[float], str]:
    """Losses at every tenth step, and seven words written greedily from "a".

    2 blocks of width 32, AdamW at 0.003, 16 windows of 14 words a step, seed 0
    for weights and for words.
    """
    import torch  # late: showing a figure needs no torch

    from course_lib.gpt import GPT, GPTConfig

    torch.manual_seed(0)
    source, losses = Random(0), []
    shape = dict(num_layers=2, num_heads=2, d_model=32, d_hidden=64, max_seq_len=16)
    model = GPT(GPTConfig(vocab_size=len(WORDS), **shape))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps + 1):
        window = torch.tensor(batch(source))
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
    runs = [train(shift) for shift in SHIFTS]
    digits = [[f"{x:.{2 if x >= 1 else 3}f}" for x in losses] for losses, _ in runs]
    write([" ".join([*row, run[1]]) for row, run in zip(digits, runs, strict=True)], __file__)


if __name__ == "__main__":
    main()
