"""What the model of lesson 06 writes after some minutes: the samples that the page has stored.

The loop is the lesson's own, seed and all, with the library's model. A minute is one of processor
time on a single thread, so that a busy machine changes little.
"""

import argparse
import time
from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.record import record
from course_lib.data.corpus import Corpus
from course_lib.data.tokenizer import Tokenizer
from course_lib.gpt import GPT, GPTConfig

BATCH_SIZE, SEQ_LEN, LEARNING_RATE = 16, 128, 2e-3
LAST = 20
"""Updates whose mean loss is given: one alone says how hard its batch was."""


def read_data(tokenizer: Tokenizer) -> Tensor:
    """The first three million characters of the default text, as tokens."""
    text = Corpus.default().text()[:3_000_000]
    return torch.from_numpy(tokenizer.encode_to_array(text).astype("int64"))


def train_steps(model: GPT, data: Tensor) -> Iterator[float]:
    """The loss of each update, for as long as it is asked."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    while True:
        starts = torch.randint(len(data) - SEQ_LEN, (BATCH_SIZE, 1))
        window = data[starts + torch.arange(SEQ_LEN + 1)]
        loss = model(window[:, :-1], window[:, 1:])[1]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def write_text(model: GPT, tokenizer: Tokenizer, prompt: str = "def ", tokens: int = 60) -> str:
    """A sample, always by the same random numbers."""
    found = model.generate(
        torch.tensor([tokenizer.encode(prompt)]),
        max_new_tokens=tokens,
        temperature=0.8,
        top_k=40,
        generator=torch.Generator().manual_seed(0),
    )
    return tokenizer.decode(found[0])


def main() -> None:
    """Train, and write benchmarks/results/minutes.json anew after each sample."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, nargs="+", default=[1, 5])
    ends = sorted(parser.parse_args().minutes)
    torch.set_num_threads(1)
    tokenizer = Tokenizer.course()
    data = read_data(tokenizer)
    torch.manual_seed(0)
    model = GPT(GPTConfig.preset("tiny", vocab_size=tokenizer.vocab_size))
    steps, losses, spent, rows = train_steps(model, data), [], 0.0, []
    for minutes in ends:
        while spent < 60 * minutes:
            began = time.process_time()
            losses.append(next(steps))
            spent += time.process_time() - began
        rows.append(
            {
                "minutes": minutes,
                "updates": len(losses),
                "tokens": len(losses) * BATCH_SIZE * SEQ_LEN,
                "loss": round(sum(losses[-LAST:]) / len(losses[-LAST:]), 2),
                "text": write_text(model, tokenizer),
            }
        )
        print(rows[-1], flush=True)
        record("minutes", {"threads": 1, "first_loss": round(losses[0], 2), "samples": rows})


if __name__ == "__main__":
    main()
