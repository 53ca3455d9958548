"""When a training is over because its numbers are nan or infinite.

What it is: what `fit` asks of the numbers of an update whenever it reads them. What it leaves out: what
to do against it (lessons 10, 11 and 14).
"""

import math
from collections.abc import Mapping

import torch

LEAST_SCALE = 1e-4
"""A loss scale below it has been halved 30 times and more: it is not the scale that is too large."""


class TrainingDiverged(RuntimeError):
    """The loss or the gradient is no longer a number. The message says what was found; `fit` adds where,
    and what to try."""


def refuse_divergence(
    numbers: Mapping[str, float],
    scaler: torch.amp.GradScaler,
    optimizer: torch.optim.Optimizer,
    *,
    is_last: bool,
) -> None:
    """TrainingDiverged for an update after which going on is of no use.

    `numbers` has its "loss" and "grad_norm". Neither may be infinite or nan. In float16, where the
    `scaler` is on, a gradient may, once in a while: that update is skipped and the loss scale is
    halved. A scale below LEAST_SCALE says that all are skipped, and so does an optimizer that has
    made no step when the run `is_last`. Reads the scale from the device.
    """
    loss, norm = numbers["loss"], numbers["grad_norm"]
    if not math.isfinite(loss) or not (scaler.is_enabled() or math.isfinite(norm)):
        raise TrainingDiverged(f"loss {loss}, gradient norm {norm}")
    if not scaler.is_enabled():
        return
    scale = scaler.get_scale()
    never = is_last and not any(state.get("step", 1) for state in optimizer.state.values())
    if scale < LEAST_SCALE or never:
        raise TrainingDiverged(
            f"float16 has skipped {'every update' if never else 'update after update'}, because "
            f"gradients were infinite or nan at every loss scale down to {scale:g}"
        )
