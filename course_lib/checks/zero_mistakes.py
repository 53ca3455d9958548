"""The sharded update of lesson 22: where it starts, what it must give, and what wrong ones give.

Oracle: AdamW's formulas in float64 on all N weights in one process; every rank's part is cut from it.
Gradients are quarters from 1/4 to 2, so that sums over ranks are exact in any order and in 16 bits.
"""

import functools
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.checks.expect import Pattern
from course_lib.checks.report import Wrong
from course_lib.checks.suite import Draw

SETTINGS = dict(lr=0.01, betas=(0.9, 0.95), weight_decay=0.1, eps=0.05)
DEFAULT_EPS = 1e-8
STATE = ("master", "m", "v")


@dataclass(frozen=True)
class UpdateCase:
    """Update `step` of N weights on R ranks: all ranks' gradients, all of the state."""

    grads: list[Tensor]
    whole: dict[str, Tensor]
    step: int
    eps: float = SETTINGS["eps"]

    @property
    def ranks(self) -> int:
        return len(self.grads)

    @property
    def size(self) -> int:
        """N."""
        return self.grads[0].numel()

    @property
    def shard(self) -> int:
        """S = ceil(N / R)."""
        return -(-self.size // self.ranks)

    @property
    def tried(self) -> str:
        kind = str(self.grads[0].dtype).removeprefix("torch.")
        return f"{self.ranks} ranks, {self.size} weights, update {self.step}, gradients in {kind}"

    def inputs(self, rank: int) -> dict:
        """What this rank's `zero1_step` gets, by name."""
        mine = {name: self.cut(x, rank).clone() for name, x in self.whole.items()}
        return {"grad": self.grads[rank], **mine, "step": self.step}

    def cut(self, x: Tensor, rank: int) -> Tensor:
        """This rank's S numbers of N, padded with zeros."""
        padded = F.pad(x, (0, self.ranks * self.shard - x.numel()))
        return padded[rank * self.shard : (rank + 1) * self.shard]

    @functools.cached_property
    def total(self) -> Tensor:
        """The sum of the gradients of all ranks, (N,) float32."""
        return torch.stack([g.float() for g in self.grads]).sum(dim=0)

    @functools.cached_property
    def after(self) -> dict[str, Tensor]:
        """The state that a right update leaves, whole."""
        return self.update_state(self.total / self.ranks)

    def update_state(
        self, grad: Tensor, step: int = 0, *, decay: bool = True, eps: float = 0.0
    ) -> dict[str, Tensor]:
        """AdamW's update with another gradient, step number, decay or eps: whole, float32."""
        master, m, v = (self.whole[name].double() for name in STATE)
        (b1, b2), lr, step = SETTINGS["betas"], SETTINGS["lr"], step or self.step
        m = b1 * m + (1 - b1) * grad.double()
        v = b2 * v + (1 - b2) * grad.double() ** 2
        move = m / (1 - b1**step) / ((v / (1 - b2**step)).sqrt() + (eps or self.eps))
        master = master * (1 - lr * SETTINGS["weight_decay"] * decay) - lr * move
        return {name: x.float() for name, x in zip(STATE, (master, m, v), strict=True)}


def case(draw: Draw, ranks: int, size: int, step: int = 1, dtype=torch.float32) -> UpdateCase:
    """A case; before update 1 both moments are 0, later they are what they might be."""
    whole = {"master": draw.randn(size), "m": torch.zeros(size), "v": torch.zeros(size)}
    if step > 1:
        whole |= {"m": 0.3 * draw.randn(size), "v": 0.2 + draw.randn(size).square()}
    steps, signs = draw.randint(1, 9, (ranks, size)), draw.randint(0, 2, (ranks, size))
    grads = (steps * (2 * signs - 1) / 4).to(dtype)
    return UpdateCase(list(grads), whole, step)


def gradients(c: UpdateCase, rank: int) -> list[Pattern]:
    """The new m as it comes out with another gradient."""
    mean, own = c.total / c.ranks, c.grads[rank].float()

    def mistake_of(
        code: str, grad: Tensor, finding: str, fits: str, look: str, hides: str = ""
    ) -> Pattern:
        value = c.cut(c.update_state(grad)["m"], rank)
        return Pattern(code=code, value=value, finding=finding, fits=fits, look=look, hides=hides)

    def moment_of(other: int) -> Tensor:  # the old m is this rank's own, the gradient another's
        b1 = SETTINGS["betas"][0]
        return b1 * c.cut(c.whole["m"], rank) + (1 - b1) * c.cut(mean, other)

    return [
        mistake_of(
            "ZERO1-SUM",
            c.total,
            "the gradients are added, not averaged",
            f"a gradient {c.ranks} times the mean.",
            "which step turns a sum into a mean.",
            "AdamW divides the length away, so the weights come out right.\n"
            "Clipping, eps and another number of ranks bring it back.",
        ),
        mistake_of(
            "ZERO1-DIVIDED-TWICE",
            mean / c.ranks,
            "the gradient is divided twice",
            f"the mean, once more divided by {c.ranks}.",
            "every place that divides or averages.",
        ),
        mistake_of(
            "ZERO1-OWN",
            own,
            "the other ranks' gradients are missing",
            "this rank's own gradient.",
            "what the ranks send each other before the update.",
            "every rank trains its shard on its own rows alone.",
        ),
        mistake_of(
            "ZERO1-OWN",
            own / c.ranks,
            "the other ranks' gradients are missing",
            f"this rank's own gradient, divided by {c.ranks}.",
            "what the ranks send each other before the update.",
        ),
        mistake_of(
            "ZERO1-DIVIDES-16",
            (c.total.to(c.grads[0].dtype) / c.ranks).float(),
            "the sum is divided in 16 bits",
            "a mean that was rounded to the gradient's dtype, then widened.",
            "which comes first: `float()`, or the division by the world size.",
            "a number of ranks that is no power of 2 costs digits of every gradient.",
        ),
        *old_state(c, rank, "m"),
        *(
            Pattern(
                code="ZERO1-SHARD",
                value=moment_of(q),
                finding="a rank takes another rank's gradient",
                fits=f"the shard of rank {q}.",
                look="which part of the flat vector is this rank's.",
                hides="moments that average the gradients of other weights.",
            )
            for q in range(c.ranks)
            if q != rank
        ),
    ]


def old_state(c: UpdateCase, rank: int, name: str) -> list[Pattern]:
    """A part of the state that was not updated."""
    return [
        Pattern(
            code="ZERO1-STATE-OLD",
            value=c.cut(c.whole[name], rank),
            finding=f"{name} comes back as it was",
            fits=f"the old {name}.",
            look="what `return` hands back.",
            hides="each update would begin without a memory.",
        )
    ]


def masters(c: UpdateCase, rank: int) -> list[Pattern]:
    """The new master as it comes out of other settings."""
    mean = c.total / c.ranks
    patterns = [
        Pattern(
            code="ZERO1-NO-DECAY",
            value=c.cut(c.update_state(mean, decay=False)["master"], rank),
            finding="the weights do not decay",
            fits="an update with weight_decay 0.",
            look="which settings are handed on to AdamW.",
        ),
        *(
            Pattern(
                code="ZERO1-EPS",
                value=c.cut(c.update_state(mean, eps=eps)["master"], rank),
                finding="AdamW adds another eps",
                fits=f"an update with eps {eps:g}.",
                look="which settings are handed on to AdamW, and the default of `eps`.",
            )
            for eps in (DEFAULT_EPS, 1e-6, 2 * DEFAULT_EPS)
            if eps != c.eps
        ),
    ]
    patterns += [
        Pattern(
            code="ZERO1-STEP",
            value=c.cut(c.update_state(mean, step)["master"], rank),
            finding="AdamW corrects for another step number",
            fits=f"update {step}.",
            look="`step`: which update is this one?",
        )
        for step in (1, c.step + 1, c.step - 1, 10**9)
        if 0 < step != c.step
    ]
    half = c.cut(c.after["master"], rank).to(torch.bfloat16).float()
    patterns.append(
        Pattern(
            code="ZERO1-STATE-16",
            value=half,
            finding="master is a rounded copy",
            fits="the weights, rounded to 16 bits and widened again.",
            look="which tensor is cast, and which one is returned.",
            hides="updates smaller than the rounding of 16 bits would be lost.",
        )
    )
    return [*patterns, *old_state(c, rank, "master")]


def gathered_weights(c: UpdateCase, rank: int) -> list[Pattern]:
    """The new weights, gathered in another way."""
    new, old = c.after["master"], c.whole["master"]
    S, R = c.shard, c.ranks
    shards = [c.cut(new, q) for q in range(R)]
    alone = torch.zeros(R * S)
    alone[rank * S : (rank + 1) * S] = shards[rank]
    mixed = torch.cat([c.cut(old, q) for q in range(R)])
    mixed[rank * S : (rank + 1) * S] = shards[rank]
    orders = [torch.cat([shards[(rank + q) % R] for q in range(R)]), torch.cat(shards[::-1])]
    return [
        Pattern(
            code="ZERO1-STALE",
            value=old,
            finding="the weights are those before the update",
            fits="the old master shards, gathered.",
            look="the order of update and all-gather.",
            hides="every update works with weights that are one update old.",
        ),
        *(
            Pattern(
                code="ZERO1-NOT-GATHERED",
                value=x[: c.size],
                finding="only this rank's weights are new",
                fits="this rank's shard in its place.",
                look="what do the other ranks know that this one needs?",
            )
            for x in (alone, mixed)
        ),
        *(
            Pattern(
                code="ZERO1-ORDER",
                value=x[: c.size],
                finding="the shards stand in another order",
                fits="the right numbers in other places.",
                look="rank r owns shard r.",
            )
            for x in orders
        ),
    ]


def traffic(seen: list, padded: int, size: int, **facts) -> Wrong:
    """What is said of collectives that send other bytes."""
    gathers = [b for name, b in seen if name == "allgather"]
    scatters = [b for name, b in seen if name == "reduce_scatter"]
    if any(name == "allreduce" for name, _ in seen):
        return Wrong(
            "ZERO1-ALL-REDUCE",
            "the gradients are all-reduced",
            **facts,
            fits="every rank gets the whole sum and uses one shard of it.",
            look="which collective gives each rank its own part of a sum.",
        )
    if len(gathers) > 1:
        return Wrong(
            "ZERO1-GATHERS",
            "more than the weights is gathered",
            **facts,
            hides="state that is put together on every rank is not sharded any more.",
            look="every `all_gather`: what needs to be whole?",
        )
    if size < 4 and max(scatters, default=0) > padded:
        return Wrong(
            "ZERO1-REDUCE-WIDE",
            "the gradients travel in float32",
            **facts,
            look="where the gradient is widened: before or after it travels?",
        )
    if size < 4 and max(gathers, default=0) > padded:
        return Wrong(
            "ZERO1-GATHER-WIDE",
            "the weights travel in float32",
            **facts,
            hides="twice the bytes of the weights, for digits that the model drops.",
            look="where the master is cast: before or after it travels?",
        )
    return Wrong(
        "ZERO1-COLLECTIVES",
        "other bytes travel",
        **facts,
        look="the docstring: which two collectives, of what.",
    )
