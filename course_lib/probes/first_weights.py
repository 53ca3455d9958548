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
    """By kind: the weight and bias after `model._init_weights(module)`, and whether the weight is the
    same parameter ("same"), in the same memory ("in_place"), and in training as before ("trains")."""
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
        "a Linear in bfloat16": nn.Linear(64, 64, dtype=torch.bfloat16),
        "a Linear that is frozen": frozen,
    }
    return {kind: _draw(model, module) for kind, module in kinds.items()}


def _draw(model: Any, module: Any) -> dict[str, Any]:
    weight = module.weight
    at, trains = weight.data_ptr(), weight.requires_grad
    model._init_weights(module)
    bias = getattr(module, "bias", None)
    return {
        "weight": module.weight.detach().clone(),
        "bias": None if bias is None else bias.detach().clone(),
        "same": module.weight is weight,
        "in_place": module.weight.data_ptr() == at,
        "trains": module.weight.requires_grad == trains and module.weight.is_leaf,
    }
