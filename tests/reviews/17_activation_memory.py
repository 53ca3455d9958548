"""Proofs of the review items of 17_activation_memory."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint as checkpoint_again
from torch.utils.checkpoint import set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode

from course_lib.fast.chunked_loss import ChunkedHead
from course_lib.measure.memory import saved_bytes

ARGUED = {
    "gpt-forward-2": "what checkpointing does is measured in test_gpt",
    "checkpoint-policy-3": "what a plan keeps and frees is measured in test_recompute",
}


def activation_bytes_1(n):
    with torch.device("meta"):
        layer, x = nn.Linear(n.a, n.b, bias=False), torch.zeros(n.n, n.a)
    return saved_bytes(layer, x.requires_grad_()) / 1000


def activation_bytes_2(n):
    targets = torch.zeros(n.n, dtype=torch.int64, device="meta")
    logits = torch.zeros(n.n, n.V, dtype=getattr(torch, n.how), device="meta", requires_grad=True)
    both = saved_bytes(lambda: F.cross_entropy(logits.float(), targets))
    return (both - targets.nbytes - 4) / 1e6  # the 4: how many targets count


def activation_bytes_3(n):
    sizes = []
    for T in (8, 8 * n.k):
        q = torch.zeros(1, 2, T, 4, requires_grad=True)
        fused = saved_bytes(lambda q=q: F.scaled_dot_product_attention(q, q, q, is_causal=True))
        scores = torch.zeros(1, 2, T, T, requires_grad=True)
        mlp_input = torch.zeros(1, T, 4, requires_grad=True)
        sizes.append(
            {
                "softmax": saved_bytes(lambda s=scores: s.softmax(-1)),
                "log-sum-exp": fused - 2 * q.nbytes,  # q is q, k and v here; and the output
                "input": saved_bytes(nn.Linear(4, 8), mlp_input),
            }
        )
    name = n.what.split()[0]
    return sizes[1][name] / sizes[0][name]


def checkpoint_policy_1(n):
    x, layer = torch.zeros(4, 8, requires_grad=True), nn.Linear(8, 8, bias=False)
    spent = []
    for run in (layer, lambda x: checkpoint_again(layer, x, use_reentrant=False)):
        with FlopCounterMode(display=False) as counter, set_checkpoint_early_stop(False):
            run(x).sum().backward()
        spent.append(counter.get_total_flops())
    return n.f * spent[1] / spent[0]


def chunked_loss_1(n):
    return np.mean([n.s / max(n.a, 1)] * n.a + [n.t / max(n.b, 1)] * n.b)


def chunked_loss_2(n):
    weight = torch.tensor([[n.p], [1 - n.p]]).log()
    aims, ones = torch.zeros(n.n, dtype=torch.int64), torch.ones(n.n, 1)
    logits = (ones @ weight.T).requires_grad_()
    loss = F.cross_entropy(logits, aims)
    found, _, _ = ChunkedHead(2).loss_and_gradients(ones, weight, aims)
    assert abs(found - loss.item()) < 1e-5
    return torch.autograd.grad(loss, logits)[0][0, 0].item()


def chunked_loss_3(n):
    return torch.empty(n.c, n.V, device="meta").nbytes / 1e6
