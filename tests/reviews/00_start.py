"""Proofs of the review items of 00_start."""

import torch

from course_lib.measure.memory import training_state_bytes
from tests.reviews import yes


def bytes_1(n):
    float32 = dict(param_bytes=4, grad_bytes=4, master_copy=False)
    how = float32 if n.run.startswith("float32") else {}
    moments = 2 if "Adam" in n.run else 1 if "with momentum" in n.run else 0
    return training_state_bytes(1, moments=moments, **how)


def bytes_2(n):
    weight = torch.tensor(1.0, dtype=torch.bfloat16)
    return yes(weight + n.update != weight)


def bytes_3(n):
    made = training_state_bytes(
        n.n * 10**9, param_bytes=4, grad_bytes=4, master_copy=False, moments=1
    )
    return made / 1e9
