"""Proofs of the review items of 05_block."""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.gpt import CausalSelfAttention, GPTConfig, TransformerBlock, rope_tables
from tests.reviews import SMALL

ARGUED = {"attention-module-3": "the check of the exercise looks at what attention gets"}


def attention_module_1(n):
    numbers = torch.arange(n.D).view(1, 1, -1, n.K).transpose(1, 2)[0, n.h, 0]
    return [numbers[0].item(), numbers[-1].item()]


def attention_module_2(n):
    with torch.device("meta"):
        config = GPTConfig(d_model=n.H * n.K, num_heads=n.H, num_kv_heads=n.G)
        return sum(p.numel() for p in CausalSelfAttention(config).parameters())


def block_forward_1(n):
    config = GPTConfig(**SMALL)
    block = TransformerBlock(config).requires_grad_(False)
    for matrix in (block.attention.o_proj, block.mlp.down_proj):
        nn.init.zeros_(matrix.weight)
    x, turns = torch.randn(1, 3, 64), rope_tables(3, 32)
    x = n.r * F.rms_norm(x, (64,))
    if n.kind == "post-norm":
        x = block.attention_norm(x + block.attention(x, *turns))
        out = block.mlp_norm(x + block.mlp(x))
    else:
        out = block(x, *turns)
    return out.pow(2).mean().sqrt().item()


def block_forward_2(n):
    torch.manual_seed(0)
    first = x = F.rms_norm(torch.randn(64, 100_000), (100_000,))
    for _ in range(n.n):
        x = x + torch.randn_like(x)
        if n.where.startswith("a norm"):
            x = F.rms_norm(x, (100_000,))
    return F.cosine_similarity(first, x, dim=-1).mean().item()
