"""What the suites of lesson 23 ask of ranks: decisions, runs, and one process beside them.

The probes on the ranks are those of course_lib/probes/fsdp.py.
"""

import functools
from collections.abc import Sequence
from typing import Any

import torch

from course_lib.checks.report import Wrong, number
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw
from course_lib.gpt import GPT
from course_lib.probes.fsdp import T, V, config

PROBE = "course_lib.probes.fsdp:"
ROWS = 2
# Between sums of the same numbers in another order: float32 keeps 6e-8, the norm was seen to differ
# by 1e-6. A mean over the wrong number of ranks is off by 2 and more.
CLOSE = 1e-4


def run_decisions(subject: Subject, method: str, cases: list[dict], ranks: int = 1) -> list[Any]:
    """What `method` says in each case; all ranks must say the same."""
    found = subject.run_ranks([(method, cases)] * ranks, probe=PROBE + "decide")
    for rank, one in enumerate(found):
        if one.value != found[0].value:
            raise Wrong(
                "OTHER",
                "the ranks decide differently",
                tried=f"{ranks} ranks",
                expected="the same on all",
                got=f"rank {rank}: {one.value}"[:76],
                look="what the answer reads beside its settings.",
            )
    return found[0].value


def run_steps(
    subject: Subject, draw: Draw, cases: list[dict], ranks: int, peak: bool = False
) -> list[list[dict]]:
    """By case and rank: what a forward and a backward pass held and sent."""
    args = [(cases, *rows, peak) for rows in batch(draw.seed, ranks)]
    found = subject.run_ranks(args, probe=PROBE + "observe")
    return [[rank.value[i] for rank in found] for i in range(len(cases))]


def batch(seed: int, ranks: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Rows of tokens for each rank, and their targets."""
    generator = torch.Generator().manual_seed(seed + 1)
    tokens = torch.randint(V, (ranks * ROWS, T + 1), generator=generator)
    return list(zip(tokens[:, :-1].chunk(ranks), tokens[:, 1:].chunk(ranks), strict=True))


@functools.lru_cache(maxsize=4)
def train_alone(seed: int, ranks: int) -> tuple[float, float]:
    """Loss and norm of the gradient of one process that has the rows of all ranks."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GPT(config().model_config(V))
    idx, targets = (torch.cat(side) for side in zip(*batch(seed, ranks), strict=True))
    loss = model(idx, targets)[1]
    loss.backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
    return loss.item(), norm.item()


def same_gradient(
    by_rank: Sequence[dict], draw: Draw, tried: str, copies: int = 1, close: float = CLOSE
) -> None:
    """Loss and gradient norm over all ranks, which hold that many copies, are those of one process."""
    loss, norm = train_alone(draw.seed, len(by_rank))
    mean = sum(rank["loss"] for rank in by_rank) / len(by_rank)
    found = (sum(rank["squares"] for rank in by_rank) / copies) ** 0.5
    for what, got, due in (("loss", mean, loss), ("gradient norm", found, norm)):
        if abs(got - due) > close * due:
            raise Wrong(
                "OTHER",
                f"the {what} is not that of one process",
                tried=tried,
                expected=f"{number(due)}, from one process with all rows",
                got=number(got),
                look="what the decision changes beside memory and collectives.",
            )


def count(one: dict, name: str) -> int:
    """How many collectives of that name a rank issued."""
    return sum(kind == name for kind, _ in one["sent"])


def expect_sends(one: dict, tried: str, **due: int) -> None:
    """So many collectives of each name, forward and backward together."""
    if (found := {name: count(one, name) for name in due}) != due:
        raise Wrong(
            "OTHER",
            "other collectives are issued",
            tried=tried,
            expected=_words(due),
            got=_words(found),
            look="the units, and whether they are freed after forward.",
        )


def _words(counts: dict[str, int]) -> str:
    return ", ".join(f"{n} {name}" for name, n in counts.items())


def per_number(one: dict, name: str) -> float:
    """Bytes that a collective of that name moves for each number of a block."""
    largest = max((b for kind, b in one["sent"] if kind == name), default=0)
    return largest / max(one["units"].values())
