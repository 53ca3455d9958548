"""What is asked of a module that an answer has made, where its outputs do not say it.

What it is: the probes that checks run with `Module.probe`, in the process of the module, so that
only plain values leave it.
"""

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.measure.memory import saved_bytes
from course_lib.probes.calls import called_in, ways_to_call


def init_with_bias(model: Any) -> Tensor:
    """The bias of a Linear of threes and one number after `model._init_weights(linear)`."""
    linear = nn.Linear(4, 5)
    nn.init.constant_(linear.bias, 3.0)
    model._init_weights(linear)
    return linear.bias.detach()


class _OddModel(nn.Module):
    """Tensors of no, one, two and three dimensions, none named for what it is; some are frozen, and
    one named "bf16" is of bfloat16. A name as "head.weight" is one of a module inside. `flat`: all
    lie in one buffer, one after the other, but for what is of bfloat16."""

    def __init__(self, shapes: dict[str, tuple[int, ...]], frozen: set[str], flat: bool):
        super().__init__()
        rest = torch.ones(sum(map(math.prod, shapes.values())))
        for name, shape in shapes.items():
            values = torch.ones(shape, dtype=torch.bfloat16 if name == "bf16" else torch.float32)
            if flat and name != "bf16":
                values, rest = rest[: values.numel()].view(shape), rest[values.numel() :]
            param = nn.Parameter(values, requires_grad=name not in frozen)
            inner, _, last = name.rpartition(".")
            if inner:
                self.add_module(inner, nn.Module())
            self.get_submodule(inner).register_parameter(last, param)


def group_odd_model(
    trainer: Any,
    shapes: dict[str, list[int]],
    frozen: list[str],
    weight_decay: float,
    flat: bool = False,
) -> list[dict]:
    """The groups that `trainer` makes of a model with these tensors, as `optimizer_groups` says them."""
    trainer.plain_model = trainer.model = _OddModel(shapes, set(frozen), flat)
    trainer.config = dataclasses.replace(trainer.config, weight_decay=weight_decay)
    trainer.optimizer = trainer._setup_optimizer()
    return trainer.optimizer_groups()


def largest_gradient(trainer: Any) -> float:
    """The largest number, without its sign, in any `p.grad` of the trainer's model; 0.0 for none."""
    grads = [p.grad for p in trainer.plain_model.parameters() if p.grad is not None]
    return max((grad.abs().max().item() for grad in grads if grad.numel()), default=0.0)


def spoil_first_gain(trainer: Any) -> None:
    """Write NaN into the first parameter of one dimension: the loss and all gradients become NaN."""
    gain = next(p for p in trainer.plain_model.parameters() if p.dim() == 1)
    with torch.no_grad():
        gain[0] = math.nan


def set_loss_scale(trainer: Any, scale: float) -> None:
    """Let the trainer's scaler begin at `scale`."""
    trainer.scaler = torch.amp.GradScaler(trainer.device.type, init_scale=scale)


def loss_scale(trainer: Any) -> float:
    """What the trainer's scaler multiplies the next loss by."""
    return trainer.scaler.get_scale()


def weight_gradients(module: Any, upstream: Tensor, args: tuple) -> dict[str, Tensor]:
    """Gradients of sum(upstream * module(*args)) by the names of the parameters that get one, where
    nothing that goes in needs a gradient."""
    module.zero_grad(set_to_none=True)
    out = module(*args)
    if out.requires_grad:
        (out * upstream).sum().backward()
    return {n: p.grad.clone() for n, p in module.named_parameters() if p.grad is not None}


def saved_bytes_in_modes(module: Any, own: bool, inside: bool, *args: Any) -> int:
    """Bytes that `module(*args)` keeps for its backward pass while its own `training` is `own` and
    that of every part is `inside`. All are in training mode afterwards."""
    module.train(inside)
    module.training = own
    try:
        return saved_bytes(module, *args)
    finally:
        module.train()


def results_of_weights(
    module: nn.Module, states: list[dict[str, Tensor]], args: tuple
) -> list[tuple[str, list[Tensor]]]:
    """`module(*args)` with the weights of each of `states` in turn, in each way to call it, with words.

    They are loaded, then written into the parameters in place, as an optimizer does.
    """
    found = []
    for way in ways_to_call(module):
        for how in ("loaded", "written in place"):
            results = []
            with called_in(module, way):
                for state in states:
                    if how == "loaded":
                        module.load_state_dict(state)
                    else:
                        with torch.no_grad():
                            for name, p in module.named_parameters():
                                p.copy_(state[name])
                    results.append(module(*args).detach().clone())
            found.append((f"{how}, {way.words}", results))
    return found


def look_at_heads(module: Any, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, list[Tensor]]:
    """What an attention module makes of x when every head hands on its values, and what it asked
    `self.attend` for: q, k and v of each call, one after the other.
    """
    seen = []

    def hand_on(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        seen.extend(t.detach().clone() for t in (q, k, v))
        return v

    module.attend = hand_on
    with torch.no_grad():
        return module(x, cos, sin), seen
