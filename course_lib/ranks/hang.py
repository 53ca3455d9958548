"""A hang, explained from what each rank has issued.

What it is: `Diary`, which writes down the collectives of one rank while it runs, and
`find_the_hang`, which reads the diaries of all ranks and names the place where they part. What it
leaves out: where in the code a rank stands, which stacks tell (lab/launch/stacks.py).

NCCL keeps such a diary itself, in memory, and calls it the flight recorder.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

Call = tuple[str, int, bool]
"""One collective of one rank: name, bytes of its tensor, and whether it has come back."""


def find_the_hang(calls_by_rank: Sequence[Sequence[Call]]) -> tuple[int, list[int]] | None:
    """The collective at which the ranks part, and the ranks to look at.

    `calls_by_rank[rank]`: the collectives of that rank, in the order in which it issued them. Each
    is (name, bytes, done); `done` says whether the call has come back. Two calls are the same when
    name and bytes are.
    The place, counted from 0, is the first one where some call is not done and not every rank has
    issued the same call.
    The ranks come in rising order. If some ranks have issued nothing at the place, it is these: the
    others wait for them. Otherwise it is those outside the largest group with the same call, or all
    ranks if two groups or more tie for the largest.
    Returns (place, ranks), or None when there is no such place.
    """
    for place in range(max(map(len, calls_by_rank), default=0)):
        here = [calls[place] if place < len(calls) else None for calls in calls_by_rank]
        if all(call is None or call[2] for call in here):
            continue  # nobody waits: this one is over, wherever it was issued
        same = [call and tuple(call[:2]) for call in here]
        if None in same:
            return place, [rank for rank, call in enumerate(same) if call is None]
        (most, size), *others = Counter(same).most_common()
        if others:
            tie = others[0][1] == size
            return place, [rank for rank, call in enumerate(same) if tie or call != most]
    return None


class Diary:
    """Issues the collectives of one rank, and writes each down before and after it.

    `diary("all_reduce", dist.all_reduce, x)` calls `dist.all_reduce(x)`. Each line is on disk
    before the call begins, so a rank that is killed inside it has written where it was.
    With gloo a call comes back when it is done, with NCCL as soon as it is queued: there a diary
    says what was issued, and not for which call the device waits.
    """

    def __init__(self, folder: str | Path, rank: int):
        self._file = Path(folder) / f"diary{rank}.jsonl"
        self._file.write_text("")

    def __call__(self, name: str, collective: Callable, tensor: Tensor, *args, **kwargs) -> Any:
        self._write({"name": name, "bytes": tensor.numel() * tensor.element_size()})
        result = collective(tensor, *args, **kwargs)
        self._write({"done": True})
        return result

    def _write(self, line: dict) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(line) + "\n")


def read_diaries(folder: str | Path, world_size: int) -> list[list[Call]]:
    """What the ranks have written there, by rank; [] for a rank without a diary."""
    found = []
    for rank in range(world_size):
        file, calls = Path(folder) / f"diary{rank}.jsonl", []
        for line in file.read_text().splitlines() if file.exists() else ():
            entry = json.loads(line)
            if "done" in entry:  # one call at a time: it is the last that was begun
                calls[-1] = (*calls[-1][:2], True)
            else:
                calls.append((entry["name"], entry["bytes"], False))
        found.append(calls)
    return found
