"""Our GPT against an equal one of torch's stock modules: tokens per second in one run.

Equal means: same shapes, same number of parameters, same loss for the same weights. The stock model
uses nn.RMSNorm, nn.Linear and scaled_dot_product_attention, and turns positions as complex numbers.
"""

import statistics
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.record import record
from course_lib.gpt import GPT, GPTConfig

ROUNDS = 9
STEPS = 1


class StockBlock(nn.Module):
    """One block of torch's own parts."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        D, self.num_heads = config.d_model, config.num_heads
        self.attention_norm = nn.RMSNorm(D, eps=config.norm_eps)
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.out = nn.Linear(D, D, bias=False)
        self.mlp_norm = nn.RMSNorm(D, eps=config.norm_eps)
        self.gate, self.up = (nn.Linear(D, config.d_hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(config.d_hidden, D, bias=False)

    def forward(self, x: Tensor, turn: Tensor) -> Tensor:
        B, T, D = x.shape
        q, k, v = (
            part.view(B, T, self.num_heads, -1).transpose(1, 2)
            for part in self.qkv(self.attention_norm(x)).chunk(3, dim=-1)
        )
        q, k = (_turned(part, turn[:T]) for part in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, D))
        h = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class StockGPT(nn.Module):
    """The whole model of torch's own parts."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.blocks = nn.ModuleList(StockBlock(config) for _ in range(config.num_layers))
        self.norm = nn.RMSNorm(config.d_model, eps=config.norm_eps)
        K = config.head_dim
        rate = config.rope_theta ** (-torch.arange(0, K, 2) / K)
        angle = torch.outer(torch.arange(config.max_seq_len), rate)
        self.register_buffer("turn", torch.polar(torch.ones_like(angle), angle), persistent=False)

    def forward(self, idx: Tensor, targets: Tensor) -> Tensor:
        x = self.embedding(idx)
        for block in self.blocks:
            x = block(x, self.turn)
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def _turned(x: Tensor, turn: Tensor) -> Tensor:
    """Half-split pairs as complex numbers, times the turn of their position."""
    first, second = x.chunk(2, dim=-1)
    turned = torch.complex(first, second) * turn
    return torch.cat((turned.real, turned.imag), dim=-1)


def same_weights(stock: StockGPT, ours: GPT) -> None:
    """Copy our weights into the stock model, so that both must give the same loss."""
    stock.embedding.weight.data.copy_(ours.embedding.weight)
    stock.norm.weight.data.copy_(ours.norm.weight)
    for theirs, block in zip(stock.blocks, ours.blocks, strict=True):
        attention, mlp = block.attention, block.mlp
        stacked = torch.cat(
            [attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]
        )
        for target, source in (
            (theirs.qkv.weight, stacked),
            (theirs.out.weight, attention.o_proj.weight),
            (theirs.attention_norm.weight, block.attention_norm.weight),
            (theirs.mlp_norm.weight, block.mlp_norm.weight),
            (theirs.gate.weight, mlp.gate_proj.weight),
            (theirs.up.weight, mlp.up_proj.weight),
            (theirs.down.weight, mlp.down_proj.weight),
        ):
            target.data.copy_(source)


def run(preset: str = "small", batch: int = 4) -> dict:
    """Training steps (forward, backward, AdamW) of both, in turn, `ROUNDS` times."""
    torch.manual_seed(0)
    config = GPTConfig.preset(preset)
    ours, stock = GPT(config), StockGPT(config)
    same_weights(stock, ours)
    tokens = torch.randint(config.vocab_size, (batch, config.max_seq_len + 1))
    idx, targets = tokens[:, :-1], tokens[:, 1:]
    losses = {"ours": ours(idx, targets)[1].item(), "stock": stock(idx, targets).item()}
    assert abs(losses["ours"] - losses["stock"]) < 1e-4, losses
    steps = {
        "ours": _stepper(ours, lambda: ours(idx, targets)[1]),
        "stock": _stepper(stock, lambda: stock(idx, targets)),
    }
    rates = {name: [] for name in steps}
    for step in steps.values():
        step()
    for _ in range(ROUNDS):
        for name, step in steps.items():
            began = time.perf_counter()
            for _ in range(STEPS):
                step()
            rates[name].append(STEPS * idx.numel() / (time.perf_counter() - began))
    ratios = [a / b for a, b in zip(rates["ours"], rates["stock"], strict=True)]
    return {
        "shape": f"{preset}, batch {batch}, {config.max_seq_len} tokens, float32",
        "parameters": sum(p.numel() for p in ours.parameters()),
        "ours_tokens_per_s": round(statistics.median(rates["ours"])),
        "stock_tokens_per_s": round(statistics.median(rates["stock"])),
        "ratio_ours_to_stock": {
            "median": round(statistics.median(ratios), 3),
            "min": round(min(ratios), 3),
            "max": round(max(ratios), 3),
        },
        "rounds": ROUNDS,
    }


def _stepper(model: nn.Module, loss_of):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        loss_of().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


if __name__ == "__main__":
    print(record("model", run()))
