"""The model that checks of data parallelism train, and its updates in one process.

What it is: `Toy`, small and full of special cases; the part of the loss that a rank sees; the same
updates without ranks, to compare with. What it leaves out: the ranks (ddp.py).
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

D, ROWS, RATE = 6, 10, 0.1
"""Width of the model; rows of a batch, over all ranks; learning rate between two updates."""
Plan = list[list[str]]
"""By update and micro-batch, the layers of `Toy` that are used besides those that always are."""


class Toy(nn.Module):
    """Has what goes wrong: a frozen layer, a tied weight, a buffer, two layers that may be unused.

    Every matrix has 144 bytes. In order of the parameters: first.weight, first.bias, frozen, left,
    right, tied, top; backward meets them from the end, but for the two in the middle.
    """

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(D, D)
        self.frozen = nn.Linear(D, D, bias=False).requires_grad_(False)
        self.left, self.right = nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False)
        self.tied, self.again = nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False)
        self.again.weight = self.tied.weight
        self.top = nn.Linear(D, D, bias=False)
        self.register_buffer("scale", torch.rand(()) + 0.5)

    def forward(self, x: Tensor, used: str) -> Tensor:
        x = torch.tanh(self.frozen(torch.tanh(self.first(x))))
        for name in (
            "right",
            "left",
        ):  # so backward meets left first: not the order of registration
            if name in used:
                x = x + getattr(self, name)(x)
        return self.top(torch.tanh(self.again(torch.tanh(self.tied(x))))) * self.scale


def part_of_loss(model: nn.Module, used: str, seed: int, rank: int, world_size: int) -> Tensor:
    """The loss of a rank's rows, of which there may be one more than on another rank.

    Its sum over rows, times R over all rows: the mean over ranks is the mean over all rows.
    """
    rows = torch.randn(ROWS, D, generator=torch.Generator().manual_seed(seed))
    out = model(rows.tensor_split(world_size)[rank], used)
    return out.pow(2).sum() * world_size / ROWS


def make_toy(seed: int, rank: int = 0) -> Toy:
    """The model as `rank` makes it: other weights on every rank."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1000 * seed + rank)
        return Toy()


def train_alone(
    seed: int, plans: Sequence[Plan], first: int = 0
) -> tuple[list[dict[str, Tensor]], Toy]:
    """By update the gradients of one process that sees the rows of all ranks; the model after it.

    `plans`: by rank; `first`: the rank whose weights all begin with.
    """
    model, found = make_toy(seed, first), []
    for update in range(len(plans[0])):
        for rank, plan in enumerate(plans):
            for i, used in enumerate(plan[update]):
                rows = rows_of(seed, update, i)
                (part_of_loss(model, used, rows, rank, len(plans)) / len(plans)).backward()
        found.append(gradients(model))
        step(model)
    return found, model


def gradients(model: nn.Module) -> dict[str, Tensor]:
    """Copies by name, of those that are there."""
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def step(model: nn.Module) -> None:
    """Plain gradient descent; gradients are gone after it."""
    with torch.no_grad():
        for p in model.parameters():
            if p.grad is not None:
                p -= RATE * p.grad
                p.grad = None


def rows_of(seed: int, update: int, micro: int) -> int:
    """The seed of the rows of a micro-batch."""
    return 10_000 + 1000 * seed + 10 * update + micro
