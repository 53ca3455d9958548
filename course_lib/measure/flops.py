"""How large a model is and how much arithmetic one token costs, by formula and by counting.

What it is: parameter and FLOP formulas for `course_lib.gpt`, and the same counts from a model that
is built and run, on the meta device if it is large: that computes shapes and no numbers. What it
leaves out: time, and with it the FLOPs per second of a device (`utilization.py`).

A multiply-add is 2 FLOPs. The formulas count matrix products; norms, activations, rotary embedding
and softmax are left out, as everyone leaves them out.

Sources: Kaplan et al. 2020, section 2.1 (6 N per token); Chowdhery et al. 2022 ("PaLM"), appendix B
(the attention term).
"""

import dataclasses

import torch
from torch.utils.flop_counter import FlopCounterMode

from course_lib.gpt import GPT, GPTConfig


def num_params(config: GPTConfig) -> int:
    """Parameters by formula. A tied embedding and head are one matrix, counted once."""
    D, F, L = config.d_model, config.d_hidden, config.num_layers
    tables = 1 if config.tie_embeddings else 2
    block = 2 * D * (D + config.d_kv) + 3 * D * F + 2 * D  # q and o, k and v; MLP; two norms
    return tables * config.vocab_size * D + L * block + D


def num_params_counted(config: GPTConfig) -> int:
    """The same number from the model itself, built on the meta device: no memory, any size."""
    with torch.device("meta"):
        model = GPT(config)
    return sum(p.numel() for p in model.parameters())  # a shared parameter comes once


def flops_per_token(config: GPTConfig, seq_len: int, convention: str = "matmul") -> int:
    """FLOPs of one forward and backward pass, per token, when sequences have `seq_len` tokens.

    6 per parameter that counts (2 forward, 4 backward), plus 12 * num_layers * d_model * seq_len
    for the products of queries with keys and of weights with values, future tokens included.
    `convention` says which parameters count. "matmul": those of the matrices that every token is
    multiplied with. The head counts, tied or not; norm gains and the embedding as a look-up table
    do not. "all": every parameter, `num_params(config)`. ValueError for another word.
    """
    D, L = config.d_model, config.num_layers
    block = 2 * D * (D + config.d_kv) + 3 * D * config.d_hidden
    params = {"matmul": L * block + D * config.vocab_size, "all": num_params(config)}
    if convention not in params:
        raise ValueError(f"convention must be one of {', '.join(params)}, got {convention!r}")
    return 6 * params[convention] + 12 * L * D * seq_len


def flops_per_token_counted(config: GPTConfig, seq_len: int, device: str = "meta") -> float:
    """FLOPs per token as torch counts them during one forward and backward pass.

    On the meta device any size fits; for a small model "cpu", which really computes, is faster.
    Always by the explicit attention: torch 2.13 counts nothing inside the fused kernel of the CPU.
    Activation checkpointing, where the config asks for it, is counted as it runs.
    """
    with torch.device(device):
        model = GPT(dataclasses.replace(config, fast_attention=False))
        tokens = torch.zeros(1, seq_len, dtype=torch.long)
        with FlopCounterMode(display=False) as counter:
            model(tokens, tokens)[1].backward()
    return counter.get_total_flops() / seq_len
