"""Loss scaling by hand: float16 gradients that do not vanish.

What it is: the dynamic scale that keeps small gradients in float16's range, and leaves out the
updates in which large ones left it. What it leaves out: several optimizers, and the update without
a synchronization that `torch.amp.GradScaler` takes care of; this one waits for the device.

Source: Micikevicius et al. 2018 ("Mixed Precision Training"), section 3.2.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

LARGEST = 2.0**24  # beyond, no gradient that matters vanishes, and float32 loses none either


class LossScaler:
    """A scale for the loss that finds its own size; one for each optimizer.

        scaler.scale(loss).backward()
        scaler.step(optimizer, max_norm=1.0)   # None: a gradient was not finite, no step was made
        scaler.update()
        optimizer.zero_grad()

    `scale` is the first factor. After `growth_interval` good updates in a row it is multiplied by
    `growth`, after a bad one by `backoff`. Use powers of two, so that scaling rounds nothing.
    ValueError for factors that could not find a scale.
    """

    def __init__(
        self,
        scale: float = 2.0**16,
        *,
        growth: float = 2.0,
        backoff: float = 0.5,
        growth_interval: int = 2000,
    ):
        if not (scale > 0 and growth > 1 > backoff > 0 and growth_interval >= 1):
            raise ValueError(
                f"expected scale > 0, growth > 1 > backoff > 0 and an interval of 1 or "
                f"more, got {scale}, {growth}, {backoff}, {growth_interval}"
            )
        self.value, self.growth, self.backoff = scale, growth, backoff
        self.growth_interval, self.good_steps, self.finite = growth_interval, 0, True

    def scale(self, loss: Tensor) -> Tensor:
        """`loss` times the scale, so every gradient behind it is larger by the same factor."""
        return loss * self.value

    def step(self, optimizer: Optimizer, max_norm: float = math.inf) -> float | None:
        """`optimizer.step()` with gradients of true size; none when one of them is not finite.

        The gradients are `p.grad` of every parameter in `optimizer.param_groups`, where it is not
        None. Each is divided by `self.value`, in place. Then `self.finite` becomes True if no
        gradient has an infinity or a NaN, else False. If True, clips all together to `max_norm`
        (`nn.utils.clip_grad_norm_`), steps, and returns their norm before clipping, a float. If
        False, leaves the weights as they are and returns None. The scale stays as it is. A gradient
        in float16 is divided in float16, where it may vanish. Weights in float32, as autocast has
        them, get gradients in float32.
        """
        params = [p for group in optimizer.param_groups for p in group["params"]]
        grads = [p.grad for p in params if p.grad is not None]
        found = [torch.isfinite(grad.div_(self.value)).all() for grad in grads]
        self.finite = not found or bool(torch.stack(found).all())  # waits for the device, once
        if not self.finite:
            return None
        norm = nn.utils.clip_grad_norm_(params, max_norm)
        optimizer.step()
        return norm.item()

    def update(self) -> None:
        """Adapt the scale to what the last `step` found; once per update.

        A bad update, with `self.finite` False, multiplies `self.value` by `self.backoff` and sets
        the count `self.good_steps` back to 0. A good one adds 1 to the count, which is 0 at first.
        When the count reaches `self.growth_interval`, `self.value` is multiplied by `self.growth`,
        to at most LARGEST, and the count goes back to 0. A value that is already above LARGEST
        comes down to it at that update. `self.value` stays a Python float, as a checkpoint keeps it.
        """
        if not self.finite:
            self.value, self.good_steps = self.value * self.backoff, 0
            return
        self.good_steps += 1
        if self.good_steps == self.growth_interval:
            self.value, self.good_steps = min(self.value * self.growth, LARGEST), 0

    def rehearse(
        self, updates: Sequence[Sequence[Tensor | None]], max_norm: float = math.inf
    ) -> list[dict]:
        """Go through updates with these true gradients; each gradient has a weight, 0 at first.

        Scales the gradients as a backward pass would, then calls `step` with plain SGD of rate 1,
        then `update`. Returns a dict for each update: "norm", what `step` returned; "weights", the
        tensors after it; "scale", `self.value` after `update`.
        """
        params = [
            nn.Parameter(torch.zeros(1) if g is None else torch.zeros_like(g)) for g in updates[0]
        ]
        optimizer, found = torch.optim.SGD(params, lr=1.0), []
        for gradients in updates:
            for param, gradient in zip(params, gradients, strict=True):
                param.grad = None if gradient is None else gradient * self.value
            norm = self.step(optimizer, max_norm)
            self.update()
            after = [param.detach().clone() for param in params]
            found.append({"norm": norm, "weights": after, "scale": self.value})
        return found

    def state_dict(self) -> dict[str, float]:
        """What a resumed run needs to go on with the same scales."""
        return {"value": self.value, "good_steps": self.good_steps}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Go on where `state` was taken."""
        self.value, self.good_steps = state["value"], int(state["good_steps"])
