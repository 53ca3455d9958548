"""What a trained head of attention reads: the weights that lesson 04 shows, before training and after.

The model and its training are those of lesson 06 (`benchmarks.minutes`). The head is the one of all
blocks that, in text it was not trained on, gives the most weight to the bracket that is still open.
"""

import argparse
import time

import torch
from torch import Tensor

from benchmarks.minutes import LAST, read_data, train_steps
from benchmarks.record import record
from course_lib.data.corpus import Corpus
from course_lib.data.tokenizer import Tokenizer
from course_lib.gpt import GPT, GPTConfig, causal_attention

LINE = "        if len(self.addresses)!=1:"
"""Of the text after the trained part: one pair of brackets, with tokens before, in and after it."""
WINDOWS, LENGTH = 128, 64


@torch.no_grad()
def read_weights(model: GPT, idx: Tensor) -> Tensor:
    """The weights of all heads, (B, blocks, H, T, T): the outputs for the values of an identity."""
    found, T = [], idx.shape[1]

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        found.append(causal_attention(q, k, torch.eye(T).expand(*q.shape[:2], T, T)))
        return found[-1] @ v

    usual = [block.attention.attend for block in model.blocks]
    for block in model.blocks:
        block.attention.attend = attend
    model(idx)
    for block, before in zip(model.blocks, usual, strict=True):
        block.attention.attend = before
    return torch.stack(found, dim=1)


def open_brackets(tokens: list[str]) -> list[tuple[int, int]]:
    """(t, j) for each token t inside brackets, and j with the last one open there; those that close
    one do not count.
    """
    pairs, stack = [], []
    for t, token in enumerate(tokens):
        if stack and not set(token) & set(")]}"):
            pairs.append((t, stack[-1]))
        for letter in token:
            if letter in "([{":
                stack.append(t)
            elif letter in ")]}" and stack:
                stack.pop()
    return pairs


def weight_on_brackets(model: GPT, idx: Tensor, tokenizer: Tokenizer) -> tuple[Tensor, Tensor]:
    """Mean weight on the open bracket, and on whatever is as far back; each (blocks, H)."""
    weights = read_weights(model, idx)
    rows = [[tokenizer.decode([i]) for i in row] for row in idx.tolist()]
    found = [(b, t, j) for b, row in enumerate(rows) for t, j in open_brackets(row)]
    b, t, j = torch.tensor(found).T
    by_distance = [weights.diagonal(-d, 3, 4).mean((0, 3)) for d in range(idx.shape[1])]
    return weights[b, :, :, t, j].mean(0), torch.stack(by_distance)[t - j].mean(0)


def rounded(weights: Tensor) -> list:
    """Two digits, and of a square only what the mask leaves."""
    return [[round(w, 2) for w in row[: t + 1]] for t, row in enumerate(weights.tolist())]


def main() -> None:
    """Train, choose the head, and write benchmarks/results/heads.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=650)
    updates = parser.parse_args().updates
    torch.set_num_threads(1)
    tokenizer = Tokenizer.course()
    text = Corpus.default().text()
    if LINE in text[:3_000_000] or LINE not in text[3_000_000:]:
        raise ValueError("the line is to be one that the model was not trained on")
    other = torch.from_numpy(tokenizer.encode_to_array(text[3_000_000:3_400_000]).astype("int64"))
    starts = torch.randint(
        len(other) - LENGTH, (WINDOWS, 1), generator=torch.Generator().manual_seed(1)
    )
    windows, line = other[starts + torch.arange(LENGTH)], torch.tensor([tokenizer.encode(LINE)])

    data = read_data(tokenizer)
    torch.manual_seed(0)
    model = GPT(GPTConfig.preset("tiny", vocab_size=tokenizer.vocab_size))
    before = read_weights(model, line)[0]
    steps, began = train_steps(model, data), time.process_time()
    losses = [next(steps) for _ in range(updates)]
    spent = time.process_time() - began

    on_bracket, as_far_back = weight_on_brackets(model, windows, tokenizer)
    block, head = divmod(int(on_bracket.argmax()), on_bracket.shape[1])
    figures = {
        "threads": 1,
        "updates": updates,
        "minutes": round(spent / 60, 1),
        "loss": round(sum(losses[-LAST:]) / len(losses[-LAST:]), 2),
        "heads": on_bracket.numel(),
        "block": block + 1,
        "head": head + 1,
        "on_open_bracket": round(on_bracket[block, head].item(), 2),
        "as_far_back": round(as_far_back[block, head].item(), 2),
        "tokens": [tokenizer.decode([i]) for i in line[0].tolist()],
        "before": rounded(before[block, head]),
        "after": rounded(read_weights(model, line)[0, block, head]),
    }
    print(figures)
    record("heads", figures)


if __name__ == "__main__":
    main()
