"""Proofs of the review items of 06_gpt."""

import numpy as np
import torch
import torch.nn.functional as F

from course_lib.data.batches import get_batch
from course_lib.gpt import GPT, GPTConfig
from tests.reviews import SMALL, yes


def init_weights_1(n):
    return yes(n.loss > F.cross_entropy(torch.zeros(1, n.V), torch.tensor([0])).item() + 1)


def init_weights_2(n):
    torch.manual_seed(0)
    model = GPT(GPTConfig(num_layers=n.L, **SMALL))
    rows = [b.attention.o_proj.weight.flatten() for b in model.blocks]
    return torch.cat(rows).std().item()


def gpt_forward_1(n):
    _, targets = get_batch(np.arange(200, dtype=np.uint16), np.array([n.s]), n.T)
    return [targets[0, 0].item(), targets[0, -1].item() + 1]


def gpt_forward_3(n):
    text = torch.arange(40)
    targets = text[1:] if "shifted by one" in n.given else text
    targets = targets[1:] if n.does.startswith("shifts") else targets
    return targets[n.t].item()
