"""Proofs of the review items of 12_checkpoint."""

import torch
from torch import nn

from course_lib.checkpoints.saved_state import plain_names
from course_lib.gpt import RMSNorm
from tests.reviews import checkpoint_bytes_per_parameter

ARGUED = {
    "save-checkpoint-1": "what a loss is computed from",
    "save-checkpoint-2": "what each part of the file is for",
    "load-checkpoint-2": "the order is tested in test_checkpoint",
    "load-checkpoint-3": "killed writers are tested in test_checkpoint",
}


def save_checkpoint_3(n):
    return n.n * 1e6 * checkpoint_bytes_per_parameter() / 1e9


def load_checkpoint_1(n):
    class DDP(nn.Module):  # holds the model under the same name, and needs no other rank
        def __init__(self, module):
            super().__init__()
            self.module = module

    plain = nn.ModuleDict({"norm": RMSNorm(4)})
    made = {
        "a compiled model inside DDP": DDP(torch.compile(plain)),
        "DDP alone": DDP(plain),
        "torch.compile alone": torch.compile(plain),
        "DDP inside torch.compile": torch.compile(DDP(plain)),
    }
    assert list(plain_names({n.name: 0})) == ["norm.weight"]
    (found,) = [how for how, model in made.items() if list(model.state_dict()) == [n.name]]
    return found
