"""Proofs of the review items of 04_attention."""

import math

import torch


def attention_1(n):
    torch.manual_seed(0)
    q, k = torch.randn(2, 20_000, n.K)
    measured = (q * k).sum(-1).std().item()
    assert abs(measured / math.sqrt(n.K) - 1) < 0.03
    return math.sqrt(n.K)


def attention_2(n):
    weights = torch.softmax(torch.zeros(n.T), dim=0)
    return weights[: n.n].sum().item()


def attention_3(n):
    seen = torch.ones(8, 8).tril(n.k) == 1
    weights = torch.zeros(8, 8).masked_fill(~seen, float("-inf")).softmax(-1)
    return int(weights.isnan().any(-1).sum())


def attention_4(n):
    made = torch.empty(n.B, n.H, n.T, n.T, dtype=torch.bfloat16, device="meta")
    return made.nbytes / 1e9


def gqa_1(n):
    heads = torch.arange(n.G).repeat_interleave(n.H // n.G)
    return heads[n.h].item()


def gqa_2(n):
    made = torch.empty(2, n.L, n.G, 128, dtype=torch.bfloat16, device="meta")
    return made.nbytes / 1e3
