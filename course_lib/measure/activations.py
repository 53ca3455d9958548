"""How many bytes one forward pass keeps for its backward pass, by formula.

What it is: the tensors of `course_lib.gpt` that autograd saves, part by part, equal to the byte to
what `course_lib.measure.memory.saved_bytes` counts on the real model. What it leaves out: autocast,
activation checkpointing, and everything that is alive for a moment only (the peak).

Source: Korthikanti et al. 2022 ("Reducing activation recomputation in large transformer models"),
section 4, which counts another block (GELU, dropout, biases, 16 bits) in the same way.

Shapes: B batch, T sequence, D model width, H heads, F hidden width, L layers, V vocabulary.
"""

from course_lib.gpt import GPTConfig


def activation_bytes(
    config: GPTConfig, batch: int, seq_len: int, *, dtype_bytes: int = 4
) -> dict[str, int]:
    """Bytes that parts of a GPT keep for the backward pass: {"norms", "attention", "mlp", "head"}.

    Whole numbers over all layers, for `batch` sequences of `seq_len` tokens. `dtype_bytes` is the
    size of weights and activations: 4 in float32, 2 in a 16-bit model. Parameters do not count.
    A tensor that two operations keep counts once, in the part whose input it is. Activation
    checkpointing is off, whatever `config` says of it.

    "norms": for each RMSNorm, its input and the input times the inverse rms, both in float32, and
        the inverse rms, one float32 number a token. In 16 bits also a float32 copy of the gain.
    "attention": its input, q and k after their rotation, v, and the input of o_proj.
        With config.fast_attention also the log-sum-exp of each row of scores, in float32.
        Without it the softmax in float32, in 16 bits also its 16-bit copy; and the causal mask,
        (seq_len, seq_len) of 1 byte an entry, one a layer for all heads and rows of the batch.
    "mlp": all that its three products and its gate need.
    "head": its input, and the log-softmax of the logits, always in float32.
    """
    D, F, L, V = config.d_model, config.d_hidden, config.num_layers, config.vocab_size
    kv = config.d_kv if config.fast_attention else D  # the explicit path copies shared heads
    N, H, T = batch * seq_len, config.num_heads, seq_len
    copies = dtype_bytes < 4  # float() copies what is not float32 yet
    norm = 4 * (2 * N * D + N) + copies * 4 * D
    if config.fast_attention:
        between = 4 * N * H
    else:
        between = (4 + copies * dtype_bytes) * batch * H * T * T + T * T
    return {
        "norms": (2 * L + 1) * norm,
        "attention": L * (dtype_bytes * N * (3 * D + 2 * kv) + between),
        "mlp": L * dtype_bytes * (N * D + 4 * N * F),
        "head": dtype_bytes * N * D + 4 * N * V,
    }


def kept_bytes(config: GPTConfig, batch: int, seq_len: int, *, dtype_bytes: int = 4) -> int:
    """All that `model(idx, targets)` keeps: `activation_bytes` and what is small beside it.

    Token ids and targets, int64; the rotary tables, whole and once for all layers; and one float32
    number of the cross-entropy, the count of targets. In 16 bits the fused kernel is taken to keep
    q, k, v and its output in 16 bits, as on a GPU; on a CPU `fused_attention` works in float32.
    """
    parts = activation_bytes(config, batch, seq_len, dtype_bytes=dtype_bytes)
    tables = 2 * config.max_seq_len * config.head_dim * dtype_bytes
    return sum(parts.values()) + 2 * 8 * batch * seq_len + tables + 4
