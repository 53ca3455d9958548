"""Loss scaling by hand: float16 gradients that do not vanish.

What it is: the dynamic scale that keeps small gradients in float16's range, and skips the updates in
which large ones left it. What it leaves out: a scale per optimizer, and the graph without a
synchronization that `torch.amp.GradScaler` takes care of; this one reads one number per update.

Source: Micikevicius et al. 2018 ("Mixed Precision Training"), section 3.2.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

LARGEST = 2.0**24  # beyond, no gradient that matters vanishes, and float32 loses none either


class LossScaler:
    """A scale for the loss that finds its own size; one for each optimizer.

        scaler.scale(loss).backward()
        if scaler.unscale(params):   # False: a gradient was not finite, leave this update out
            optimizer.step()
        scaler.update()

    Args: `scale`, the first factor; after `growth_interval` good updates in a row it is multiplied
    by `growth`, after a bad one by `backoff`, both powers of two, so that scaling rounds nothing.
    ValueError for factors that could not find a scale.
    """

    def __init__(self, scale: float = 2.0**16, *, growth: float = 2.0, backoff: float = 0.5,
                 growth_interval: int = 2000):  # fmt: skip
        if not (scale > 0 and growth > 1 > backoff > 0 and growth_interval >= 1):
            raise ValueError(f"expected scale > 0, growth > 1 > backoff > 0 and an interval of 1 or "
                             f"more, got {scale}, {growth}, {backoff}, {growth_interval}")  # fmt: skip
        self.value, self.growth, self.backoff = scale, growth, backoff
        self.growth_interval, self.good_steps, self.finite = growth_interval, 0, True

    def scale(self, loss: Tensor) -> Tensor:
        """`loss` times the scale: every gradient behind it is as many times larger."""
        return loss * self.value

    def unscale(self, params: Iterable[Tensor]) -> bool:
        """Divide each `p.grad` by the scale, in place; whether all of them are finite.

        Before clipping: a norm of scaled gradients means nothing. A gradient in float16 is divided
        in float16, where it may vanish: keep weights and gradients in float32 (autocast does).
        Reads one number from the device.
        """
        grads = [p.grad for p in params if p.grad is not None]
        found = [torch.isfinite(grad.div_(self.value)).all() for grad in grads]
        self.finite = not found or bool(torch.stack(found).all())
        return self.finite

    def update(self) -> None:
        """Adapt the scale to what the last `unscale` found; once per update."""
        if not self.finite:
            self.value, self.good_steps = self.value * self.backoff, 0
            return
        self.good_steps += 1
        if self.good_steps == self.growth_interval:
            self.value, self.good_steps = min(self.value * self.growth, LARGEST), 0

    def state_dict(self) -> dict[str, float]:
        """What a resumed run needs to go on with the same scales."""
        return {"value": self.value, "good_steps": self.good_steps}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Go on where `state` was taken."""
        self.value, self.good_steps = state["value"], state["good_steps"]
