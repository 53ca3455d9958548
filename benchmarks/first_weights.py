"""How many updates bad first weights cost: those of torch's defaults, until the loss is ln V.

The loop is that of lesson 06 (`benchmarks.minutes`), the model is that of lesson 06 before its first
exercise is solved. Where the course's weights begin, these have to get first.
"""

import argparse
import math
import statistics
from collections import deque

import torch
from torch import nn

from benchmarks.minutes import LAST, read_data, train_steps
from benchmarks.record import record
from course_lib.data.tokenizer import Tokenizer
from course_lib.gpt import GPT, GPTConfig


class DefaultWeights(GPT):
    """The model as torch draws it."""

    def _init_weights(self, module: nn.Module) -> None:
        pass


def main() -> None:
    """Train until the mean loss of LAST updates is below ln V; benchmarks/results/first_weights.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=1000, help="updates at which to give up")
    most = parser.parse_args().most
    torch.set_num_threads(1)
    tokenizer = Tokenizer.course()
    data, goal = read_data(tokenizer), math.log(tokenizer.vocab_size)
    torch.manual_seed(0)
    model = DefaultWeights(GPTConfig.preset("tiny", vocab_size=tokenizer.vocab_size))
    recent: deque[float] = deque(maxlen=LAST)
    for updates, loss in enumerate(train_steps(model, data), start=1):
        if updates == 1:
            first_loss = loss
        recent.append(loss)
        reached = len(recent) == LAST and statistics.mean(recent) < goal
        if reached or updates == most:
            break
    figures = {"first_loss": round(first_loss, 2), "updates": updates, "reached": reached}
    print(figures)
    record("first_weights", figures)


if __name__ == "__main__":
    main()
