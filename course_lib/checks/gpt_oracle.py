"""What the checks of GPT.forward share: a small model, its weights, and the oracle.

The oracle is `logits_of`, the same architecture written once more in plain functions of the answer's
own weights.
"""

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.block import run_block, tables
from course_lib.checks.report import Wrong
from course_lib.checks.subject import Module
from course_lib.checks.suite import Draw
from course_lib.gpt import GPTConfig


def small_config(**changes) -> GPTConfig:
    """Three blocks of two heads of 4 numbers, 23 tokens, not tied."""
    shape = dict(vocab_size=23, max_seq_len=8, num_layers=3, num_heads=2, d_model=8, d_hidden=12)
    return GPTConfig(**(shape | dict(tie_embeddings=False) | changes))


def draw_model(module: Module, draw: Draw) -> dict[str, Tensor]:
    """Weights far larger than the initial ones, so that every step shows in the logits."""
    state = {
        name: 1 + 0.3 * draw.randn(*w.shape) if "norm" in name else 0.4 * draw.randn(*w.shape)
        for name, w in module.state().items()
    }
    module.load(state)
    return state


def logits_of(
    state: dict[str, Tensor],
    config: GPTConfig,
    idx: Tensor,
    *,
    final_norm: bool = True,
    blocks: list[int] | None = None,
    restart: bool = False,
) -> Tensor:
    """Logits by the plain formulas; the options leave something out, as wrong answers do."""
    x = F.embedding(idx, state["embedding.weight"])
    start, turns = x, tables(idx.shape[1], config, config.rope_theta)
    for i in range(config.num_layers) if blocks is None else blocks:
        w = {
            n.removeprefix(f"blocks.{i}."): v
            for n, v in state.items()
            if n.startswith(f"blocks.{i}.")
        }
        x = run_block(w, config, start if restart else x, *turns)
    if final_norm:
        x = F.rms_norm(x, (config.d_model,), state["norm.weight"], config.norm_eps)
    return x @ state["head.weight"].T


def expect_pair(out: Any, tried: str) -> tuple:
    """`out`, if it is a tuple of two."""
    expect.not_none(out, "(logits, loss)", tried=tried)
    if not isinstance(out, tuple) or len(out) != 2:
        what = (
            f"a tensor of shape {tuple(out.shape)}"
            if isinstance(out, Tensor)
            else type(out).__name__
        )
        raise Wrong(
            "GPT-PAIR",
            "the answer is not a pair",
            tried=tried,
            expected="(logits, loss)",
            got=what,
            look="what stands after each `return`.",
        )
    return out


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean over the positions that count, in nats."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
