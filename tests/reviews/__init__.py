"""Proofs of the review items, a file for each lesson: tests/reviews/NN_name.py.

A function `rmsnorm_1` gets the names of one variant of the item `rmsnorm-1` and returns its right
answer, computed with torch and the library. An item that nothing can compute stands in its lesson's
`ARGUED` instead, with the reason. What several lessons need is here.
"""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import torch
from torch import nn

from course_lib.measure.memory import counted_state_bytes
from course_lib.training.adamw import adamw_step

SMALL = dict(vocab_size=64, d_model=64, num_heads=2, d_hidden=64)


def read_proofs() -> tuple[dict[str, Callable], dict[str, str]]:
    """The function that computes each item's answer, and the reasons for those without one."""
    computed: dict[str, Callable] = {}
    argued: dict[str, str] = {}
    for path in sorted(Path(__file__).parent.glob("[0-9][0-9]_*.py")):
        module = import_module(f"tests.reviews.{path.stem}")
        computed |= _find_functions(module)
        argued |= getattr(module, "ARGUED", {})
    return computed, argued


def _find_functions(module: ModuleType) -> dict[str, Callable]:
    return {
        name.replace("_", "-"): function
        for name, function in vars(module).items()
        if re.fullmatch(r"[a-z]\w*_\d+", name) and function.__module__ == module.__name__
    }


def yes(value) -> str:
    """The word that a learner chooses."""
    return "yes" if value else "no"


def moved(g: float, lr: float, *, w: float = 1.0, decay: float = 0.0) -> float:
    """How far the library's AdamW moves one weight in its first update."""
    param, grad, zero = torch.tensor([w, g, 0.0], dtype=torch.float64)
    new, _, _ = adamw_step(param, grad, zero, zero, 1, lr=lr, betas=(0.9, 0.95), weight_decay=decay)
    return abs((new - param).item())


def checkpoint_bytes_per_parameter() -> float:
    """Bytes of weights and of AdamW's moments, counted on a model in float32."""
    model = nn.Linear(100, 100, bias=False)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 100)).sum().backward()
    optimizer.step()
    held = counted_state_bytes(model, optimizer)
    return (held["weights"] + held["optimizer"]) / 10_000
