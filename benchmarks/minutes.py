"""What the model of lesson 06 writes after some minutes: the samples that the page has stored.

    python -m benchmarks.minutes             # a minute and five of them
    python -m benchmarks.minutes --curves    # losses of the first 128 updates, also from torch's weights

The loop is the lesson's own, seed and all, with the library's model. A minute is one of processor
time on a single thread, so that a busy machine changes little.
"""

import argparse
import time
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from benchmarks.record import record
from course_lib.data.corpus import Corpus
from course_lib.data.tokenizer import Tokenizer
from course_lib.gpt import GPT, GPTConfig

BATCH_SIZE, SEQ_LEN, LEARNING_RATE = 16, 128, 2e-3
UPDATES = 128
"""As many as the stored minute made."""
LAST = 20
"""Updates whose mean loss is given: one alone says how hard its batch was."""


def read_data(tokenizer: Tokenizer) -> Tensor:
    """The first three million characters of the default text, as tokens."""
    text = Corpus.default().text()[:3_000_000]
    return torch.from_numpy(tokenizer.encode_to_array(text).astype("int64"))


def read_unread(tokenizer: Tokenizer, windows: int, length: int) -> Tensor:
    """Stretches of the five million characters after those, (windows, length) tokens, always the same."""
    text = Corpus.default().text()[3_000_000:8_000_000]
    other = torch.from_numpy(tokenizer.encode_to_array(text).astype("int64"))
    generator = torch.Generator().manual_seed(1)
    starts = torch.randint(len(other) - length, (windows, 1), generator=generator)
    return other[starts + torch.arange(length)]


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


class DefaultWeights(GPT):
    """The model with the weights that torch draws by itself."""

    def _init_weights(self, module: nn.Module) -> None:
        pass


def record_curves(tokenizer: Tokenizer, data: Tensor) -> None:
    """Write benchmarks/results/first_minute.json: the losses of both models, one per update."""
    figures = {"threads": 1}
    for name, kind in (("course", GPT), ("default", DefaultWeights)):
        torch.manual_seed(0)
        steps = train_steps(kind(GPTConfig.preset("tiny", vocab_size=tokenizer.vocab_size)), data)
        figures[f"{name}_nats"] = [round(next(steps), 2) for _ in range(UPDATES)]
    record("first_minute", figures)


def main() -> None:
    """Train, and write benchmarks/results/minutes.json anew after each sample."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, nargs="+", default=[1, 5])
    parser.add_argument("--curves", action="store_true")
    chosen = parser.parse_args()
    ends = sorted(chosen.minutes)
    torch.set_num_threads(1)
    tokenizer = Tokenizer.course()
    data = read_data(tokenizer)
    if chosen.curves:
        record_curves(tokenizer, data)
        return
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
