"""How many bytes training keeps: weights, gradients and optimizer state.

What it is: the part of the memory that follows from the number of parameters alone, by formula and
by counting, and a count of what one forward pass saves for its backward pass.

Source: Rajbhandari et al. 2020 ("ZeRO"), section 3.1: mixed-precision Adam keeps 16 bytes a
parameter.
"""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.optim import Optimizer


def training_state_bytes(
    num_params: int,
    *,
    param_bytes: int = 2,
    grad_bytes: int = 2,
    master_copy: bool = True,
    moments: int = 2,
    moment_bytes: int = 4,
) -> int:
    """Bytes of weights, gradients and optimizer state of `num_params` parameters, as a Python int.

    Each parameter has one weight of `param_bytes`, one gradient of `grad_bytes`, and `moments`
    moments of `moment_bytes` each. Adam keeps 2 moments, SGD with momentum 1, plain SGD 0.
    `master_copy` adds one float32 copy of the weight (4 bytes), which the optimizer updates.
    Nothing else counts: no activations, no scales of 8-bit moments. The defaults are those of
    mixed-precision Adam.
    """
    master_bytes = 4 if master_copy else 0
    return num_params * (param_bytes + grad_bytes + master_bytes + moments * moment_bytes)


def tensor_bytes(tensors: Iterable[Tensor | None]) -> int:
    """Bytes of the numbers in these tensors; each tensor counts once, None counts nothing.

    Of a sharded tensor (DTensor) the part that is on this rank.
    """
    distinct = {id(t): getattr(t, "_local_tensor", t) for t in tensors if t is not None}
    return sum(t.numel() * t.element_size() for t in distinct.values())


def counted_state_bytes(model: nn.Module, optimizer: Optimizer) -> dict[str, int]:
    """Bytes that `model` and `optimizer` hold now: "weights", "gradients", "optimizer".

    Counts what is there, so call it after a first `optimizer.step()`, while gradients exist.
    "optimizer" is its state, step counters aside, and parameters of its own, such as master copies.
    """
    params = list(model.parameters())
    own = [p for group in optimizer.param_groups for p in group["params"]]
    ids = {id(p) for p in params}
    masters = [p for p in own if id(p) not in ids]
    state = [
        t
        for p in own
        for name, t in optimizer.state[p].items()
        if isinstance(t, Tensor) and name != "step"
    ]
    return {
        "weights": tensor_bytes(params),
        "gradients": tensor_bytes(p.grad for p in params),
        "optimizer": tensor_bytes(state + masters),
    }


def saved_bytes(function: Callable, *args: Any) -> int:
    """Bytes of the tensors that `function(*args)` saves for its backward pass, as an int.

    A storage counts once, however many views of it are saved; parameters and their views do not
    count, they are there anyway. Runs the forward pass, never the backward pass; drops the result.
    Works on the meta device too, where tensors have sizes and no addresses.
    """
    kept: dict[int, int] = {}

    def pack(x: Tensor) -> Tensor:
        base = x if x._base is None else x._base  # F.linear saves weight.T, a view
        if not isinstance(base, nn.Parameter):
            kept[x.untyped_storage()._cdata] = x.untyped_storage().nbytes()
        return x

    with saved_tensors_hooks(pack, lambda x: x):
        out = function(*args)  # noqa: F841  alive while counting, or memory is used again
    return sum(kept.values())
