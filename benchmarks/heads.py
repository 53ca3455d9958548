"""What a trained head of attention reads: the weights that lesson 04 shows, before training and after.

The model and its training are those of lesson 06 (`benchmarks.minutes`). The head is the one of all
blocks that, in text it was not trained on, gives the most weight to the bracket that is still open.
"""

import argparse
import copy
import time

import torch
from torch import Tensor

from benchmarks.minutes import LAST, read_data, read_unread, train_steps
from benchmarks.record import record
from course_lib.data.corpus import Corpus
from course_lib.data.tokenizer import Tokenizer
from course_lib.gpt import GPT, GPTConfig, causal_attention

LINE = "        if len(self.addresses)!=1:"
"""Of the text after the trained part: one pair of brackets, with tokens before, in and after it."""
INNER = {
    "square": "        return max(sizes[0], other",
    "round": "        return max(len(x), other",
}
"""Lines of our own: a bracket that is still open, and in it a later one that is closed."""
WINDOWS, LENGTH = 1024, 64


@torch.no_grad()
def read_heads(model: GPT, idx: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys of all heads, turned by their positions, each (B, blocks, H, T, K)."""
    found = []

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        found.append(torch.stack((q, k)))
        return causal_attention(q, k, v)

    usual = [block.attention.attend for block in model.blocks]
    for block in model.blocks:
        block.attention.attend = attend
    model(idx)
    for block, before in zip(model.blocks, usual, strict=True):
        block.attention.attend = before
    q, k = torch.stack(found, dim=2)
    return q, k


def read_weights(model: GPT, idx: Tensor) -> Tensor:
    """The weights of all heads, (B, blocks, H, T, T): the outputs for the values of an identity."""
    q, k = read_heads(model, idx)
    B, blocks, H, T, _ = q.shape
    values = torch.eye(T).expand(B * blocks, H, T, T)
    return causal_attention(q.flatten(0, 1), k.flatten(0, 1), values).view(B, blocks, H, T, T)


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


def weight_on_brackets(model: GPT, idx: Tensor, tokenizer: Tokenizer) -> dict[str, Tensor]:
    """Mean weights, each (blocks, H): "open", on the open bracket; "as_far_back", on whatever is.

    The others are means where "(" is open, and in it a later bracket was opened and closed: on the
    one that is open and on the one that is closed, where that is a "[" or another "(".
    """
    weights = read_weights(model, idx)
    rows = [[tokenizer.decode([i]).strip() for i in row] for row in idx.tolist()]
    found = [(b, *places) for b, row in enumerate(rows) for places in open_brackets(row)]
    b, t, j, latest = torch.tensor(found).T
    by_distance = [weights.diagonal(-d, 3, 4).mean((0, 3)) for d in range(idx.shape[1])]
    on_open, on_latest = weights[b, :, :, t, j], weights[b, :, :, t, latest]
    means = {
        "open": on_open.mean(0),
        "as_far_back": torch.stack(by_distance)[t - j].mean(0),
    }
    for name, kind in (("square", "["), ("round", "(")):
        inner = torch.tensor(
            [one != of and (rows[n][of], rows[n][one]) == ("(", kind) for n, _, of, one in found]
        )
        print(f"{name}: {inner.sum()} tokens")
        means |= {
            f"{name}_open": on_open[inner].mean(0),
            f"{name}_closed": on_latest[inner].mean(0),
        }
    return means


def show_head(model: GPT, line: str, block: int, head: int, tokenizer: Tokenizer) -> dict:
    """What that head makes of a line: its tokens, and its queries and keys as text, two digits each."""
    idx = tokenizer.encode(line)
    q, k = (x[0, block, head] for x in read_heads(model, torch.tensor([idx])))
    written = {
        name: [" ".join(f"{number:.2f}" for number in row) for row in x.tolist()]
        for name, x in (("q", q), ("k", k))
    }
    return {"tokens": [tokenizer.decode([i]) for i in idx]} | written


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
    windows = read_unread(tokenizer, WINDOWS, LENGTH)

    data = read_data(tokenizer)
    torch.manual_seed(0)
    model = GPT(GPTConfig.preset("tiny", vocab_size=tokenizer.vocab_size))
    untrained = copy.deepcopy(model)
    steps, began = train_steps(model, data), time.process_time()
    losses = [next(steps) for _ in range(updates)]
    spent = time.process_time() - began

    found = weight_on_brackets(model, windows, tokenizer)
    block, head = divmod(int(found["open"].argmax()), found["open"].shape[1])
    figures = {
        "threads": 1,
        "updates": updates,
        "minutes": round(spent / 60, 1),
        "loss": round(sum(losses[-LAST:]) / len(losses[-LAST:]), 2),
        "heads": found["open"].numel(),
        "block": block + 1,
        "head": head + 1,
        "weight_on": {name: round(on[block, head].item(), 2) for name, on in found.items()},
        "lines": {
            name: show_head(shown, line, block, head, tokenizer)
            for name, shown, line in (
                ("before", untrained, LINE),
                ("after", model, LINE),
                *((name, model, line) for name, line in INNER.items()),
            )
        },
    }
    print(figures)
    record("heads", figures)


if __name__ == "__main__":
    main()
