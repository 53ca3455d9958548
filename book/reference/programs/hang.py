"""Two ranks, and one of them skips a collective: the other waits, until its timeout.

    python book/reference/programs/hang.py
    python book/reference/programs/hang.py --fixed

The fault is the usual one: an `if` around a collective, whose condition differs between ranks.
"""

import sys
from datetime import timedelta

import torch
import torch.distributed as dist

from course_lib.ranks import local_ranks

SECONDS = 3


def train(fixed: bool) -> list[str]:
    """Three updates of one rank; the diary of what it entered and left."""
    group = dist.new_group(timeout=timedelta(seconds=SECONDS), backend="gloo")
    rank, diary = dist.get_rank(), []
    for step in range(3):
        loss = torch.tensor(float("nan") if (rank, step) == (1, 1) else 1.0)
        if not fixed and loss.isnan():
            diary.append(f"step {step}: skips a bad batch")
            return diary
        diary.append(f"step {step}: enters all_reduce")
        try:
            dist.all_reduce(loss, group=group)
        except RuntimeError as error:
            diary.append(f"step {step}: gave up after {SECONDS} s ({type(error).__name__})")
            return diary
        diary.append(f"step {step}: leaves it")
        if loss.isnan():  # the same answer on every rank, because all have the sum
            diary.append(f"step {step}: all skip this batch")
    return diary


def main() -> None:
    ranks = local_ranks.run(train, [("--fixed" in sys.argv,)] * 2, seconds=60)
    for rank, found in enumerate(ranks):
        for line in found.value:
            print(f"rank {rank}  {line}")


if __name__ == "__main__":
    main()
