"""What `_init_weights` of a model makes of modules that are not the model's own.

What is here: modules of many kinds, drawn by the answer, told in plain values. What it leaves out:
what is right, which course_lib.checks says.
"""

from typing import Any

import torch
from torch import nn


class _Adapted(nn.Linear):
    """A Linear by another name, as adapters and quantized layers are."""


class _Lookup(nn.Embedding):
    """An Embedding by another name."""


def draw_modules(model: Any) -> dict[str, dict[str, Any]]:
    """By kind: the weight and bias after `model._init_weights(module)`, and of which of them ("same")
    that is the same parameter, ("in_place") in the same memory, ("trains") in training as before."""
    frozen, marked, adapted = nn.Linear(64, 64), nn.Linear(64, 64, bias=False), _Adapted(64, 64)
    frozen.requires_grad_(False)
    marked.writes_residual = adapted.writes_residual = True
    unmarked = nn.Linear(64, 64)
    unmarked.writes_residual = False
    kinds = {
        "a Linear": nn.Linear(64, 64),
        "a subclass of Linear": _Adapted(64, 64),
        "a subclass of Embedding": _Lookup(64, 64),
        "a Linear with writes_residual": marked,
        "a subclass of Linear with writes_residual": adapted,
        "a Linear whose writes_residual is False": unmarked,
        "a Linear in float64": nn.Linear(64, 64, dtype=torch.float64),
        "a Linear that is frozen": frozen,
        "an Embedding with padding_idx=0": nn.Embedding(64, 64, padding_idx=0),
    }
    return {kind: _draw(model, module) for kind, module in kinds.items()}


def draw_small(model: Any, count: int) -> torch.Tensor:
    """The weights of so many Linears of two numbers each, (count, 2), after `_init_weights`."""
    found = [nn.Linear(2, 1) for _ in range(count)]
    for module in found:
        model._init_weights(module)
    return torch.cat([module.weight.detach() for module in found])


def _draw(model: Any, module: Any) -> dict[str, Any]:
    before = dict(module.named_parameters())
    kept = {name: (p.data_ptr(), p.requires_grad) for name, p in before.items()}
    model._init_weights(module)
    now = {name: getattr(module, name) for name in before}
    found = {name: None if p is None else p.detach().clone() for name, p in now.items()}
    return {
        "weight": found["weight"],
        "bias": found.get("bias"),
        "same": [name for name, p in now.items() if p is before[name]],
        "in_place": [n for n, p in now.items() if p is not None and p.data_ptr() == kept[n][0]],
        "trains": [
            name
            for name, p in now.items()
            if p is not None and p.requires_grad == kept[name][1] and p.is_leaf
        ],
    }
