"""What a trained head of attention reads: the head that lesson 04 looks at, and its share of brackets.

The model is the one that writes in lesson 07 (`benchmarks.writer`). Of its 16 heads we take the one
that gives the most weight to the innermost bracket that is still open, in one half of the files that
the model wasn't trained on. What that head does is measured in the other half.
"""

import tempfile
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.record import record
from benchmarks.writer import WriterConfig
from course_lib.data.tokenizer import Tokenizer
from course_lib.generation import load_writer, read_heads
from course_lib.gpt import GPT, causal_attention
from course_lib.ranks.world import World
from course_lib.training.run_tokens import run_tokens

LENGTH = 32
"""Tokens of a window, as many as a head has numbers, so that its values can be an identity."""


def read_unseen(tokenizer: Tokenizer) -> Tensor:
    """The files that the model wasn't trained on, cut into windows, (N, LENGTH) int64."""
    with tempfile.TemporaryDirectory() as folder:
        config = WriterConfig(out=str(Path(folder) / "run"), cache=str(Path(folder) / "data"))
        _, valid = run_tokens(World(), config, tokenizer)
        tokens = torch.from_numpy(valid.preload().astype("int64"))
    return tokens[: len(tokens) // LENGTH * LENGTH].view(-1, LENGTH)


def open_brackets(tokens: list[str]) -> list[tuple[int, int, int]]:
    """(t, j, latest) for each token t inside brackets, j with the last one open there, and `latest`
    with the last that was opened at all; tokens that close one do not count.
    """
    found, stack, latest = [], [], -1
    for t, token in enumerate(tokens):
        if stack and not set(token) & set(")]}"):
            found.append((t, stack[-1], latest))
        for letter in token:
            if letter in "([{":
                stack.append(t)
                latest = t
            elif letter in ")]}" and stack:
                stack.pop()
    return found


def weight_on_brackets(model: GPT, windows: Tensor, tokenizer: Tokenizer) -> dict[str, Tensor]:
    """Mean weights of all heads, each (blocks, H).

    "open" is the weight on the innermost open bracket. The other two are means over the places where a
    "(" is open and in it a later "(" has been opened and closed: on the open one and on the closed one.
    """
    found = {"open": [], "inner_open": [], "inner_closed": []}
    for idx in windows:
        q, k = read_heads(model, idx[None])
        weights = causal_attention(q, k, torch.eye(LENGTH).expand_as(q))
        tokens = [tokenizer.decode([i]).strip() for i in idx.tolist()]
        for t, j, latest in open_brackets(tokens):
            found["open"].append(weights[:, :, t, j])
            if latest != j and tokens[j] == tokens[latest] == "(":
                found["inner_open"].append(weights[:, :, t, j])
                found["inner_closed"].append(weights[:, :, t, latest])
    print({name: len(rows) for name, rows in found.items()}, "tokens")
    return {name: torch.stack(rows).mean(0) for name, rows in found.items()}


def main() -> None:
    """Choose the head, measure it, and write benchmarks/results/heads.json."""
    tokenizer, model = Tokenizer.course(), load_writer()
    windows = read_unseen(tokenizer)
    chosen = weight_on_brackets(model, windows[::2], tokenizer)["open"]
    block, head = divmod(int(chosen.argmax()), chosen.shape[1])
    measured = weight_on_brackets(model, windows[1::2], tokenizer)
    figures = {
        "heads": chosen.numel(),
        "block": block + 1,
        "head": head + 1,
        "weight_on": {name: round(on[block, head].item(), 2) for name, on in measured.items()},
    }
    print(figures)
    record("heads", figures)


if __name__ == "__main__":
    main()
