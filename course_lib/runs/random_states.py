"""The random states of one process, as plain values that a checkpoint can hold."""

import random
from typing import Any

import numpy as np
import torch


def random_states() -> dict[str, Any]:
    """Every random state of this process: Python's, numpy's, torch's on the CPU and on its GPU.

    The GPU's only where this process has used one; asking never starts CUDA.
    """
    drawn: Any = np.random.get_state()
    name, keys, *rest = drawn
    version, numbers, spare = random.getstate()
    states = {
        "python": [version, list(numbers), spare],
        "numpy": [name, keys.tolist(), *rest],
        "torch": torch.get_rng_state(),
    }
    return states | ({"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_initialized() else {})


def restore_random_states(states: dict[str, Any]) -> None:
    """Put back what `random_states` returned."""
    version, numbers, spare = states["python"]
    random.setstate((version, tuple(numbers), spare))
    name, keys, *rest = states["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(states["torch"])
    if "cuda" in states and torch.cuda.is_initialized():
        torch.cuda.set_rng_state(states["cuda"])
