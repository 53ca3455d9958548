"""Writing with a memory: each token is read once, and its keys and values are kept.

What it is: the cache of one attention layer, a model's forward pass through such caches, and the
loop that writes. What it leaves out: sequences of different lengths in one batch, and a window that
slides, for which `GPT.generate` reads everything anew.

Shapes as in `course_lib.gpt`; M is the room of a cache, in tokens.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.gpt import GPT, GPTConfig, TransformerBlock, apply_rotary_pos_emb
from course_lib.sampling import next_token_probs

WRITER = Path(__file__).parent / "data/assets/writer.pt"
"""The weights that `load_writer` reads; `python -m benchmarks.writer` has made them."""


def load_writer() -> GPT:
    """A small model that can write a little Python: 1.8 million parameters, float32, on the CPU.

    The preset *tiny* with two heads of keys and values, trained on Python's standard library by the
    course's own trainer. Its weights are stored in bfloat16, 3.6 MB. A call makes a new model.
    """
    weights = torch.load(WRITER, weights_only=True)
    model = GPT(GPTConfig.preset("tiny", num_kv_heads=2))
    model.load_state_dict(weights | {"head.weight": weights["embedding.weight"]})
    return model


@torch.no_grad()
def read_heads(model: GPT, idx_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys of all heads of a model for one text, as its attention gets them.

    `idx_BT` is (1, T), int64, on the model's device, or ValueError. Both results are
    (blocks, H, T, K) in the model's dtype, turned by their positions. Query heads that share keys
    have a copy each.
    """
    if idx_BT.shape[0] != 1:
        raise ValueError(f"read_heads takes one text, got {idx_BT.shape[0]}")
    found = []

    def watch(attend: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        found.append((q[0], k[0].repeat_interleave(q.shape[1] // k.shape[1], dim=0)))
        return attend(q, k, v)

    blocks = [cast(TransformerBlock, block) for block in model.blocks]
    usual = [block.attention.attend for block in blocks]
    try:
        for block, attend in zip(blocks, usual, strict=True):
            block.attention.attend = partial(watch, attend)
        model(idx_BT)
    finally:
        for block, attend in zip(blocks, usual, strict=True):
            block.attention.attend = attend
    queries, keys = zip(*found, strict=True)
    return torch.stack(queries), torch.stack(keys)


class KVCache:
    """What one attention layer keeps of the tokens it has read: turned keys, and values.

    `k_BGMK` and `v_BGMK`, (batch_size, G, room, K), are reserved once, in `dtype`.
    Their first `length` places hold the kept tokens. The other places may hold anything.
    A caller may set `length` to a smaller n, to forget the tokens from position n on. The next ones
    are written over them.

    Args: `config` of the model; `batch_size`, the number of sequences read side by side; `room`,
    the number of places for each sequence, by default `config.max_seq_len`; `dtype`, usually that
    of the model, by default float32; `device`.
    """

    def __init__(
        self,
        config: GPTConfig,
        batch_size: int,
        *,
        room: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ):
        K = config.head_dim
        shape = (batch_size, config.d_kv // K, room or config.max_seq_len, K)
        self.k_BGMK = torch.empty(shape, dtype=dtype, device=device)
        self.v_BGMK = torch.empty(shape, dtype=dtype, device=device)
        self.length = 0

    def attend(
        self, q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, cos_MK: Tensor, sin_MK: Tensor
    ) -> Tensor:
        """Attention of T new tokens, which follow the kept ones: (B, H, T, K).

        q is (B, H, T, K), k and v are (B, G, T, K). All three have the dtype of the cache, and so
        has the result. q and k are not turned yet, and v never is. B is the cache's batch_size, T
        at least 1. cos and sin have a row for each position, from 0. The first new token is at
        position `length`. Keeps the turned keys and the values of the new tokens in `k_BGMK` and
        `v_BGMK`, and adds T to `length`. Each new token reads itself and all tokens before it, kept
        or new. Query head h reads head h // (H / G) of k and v.

        Kept tokens are not computed anew and stay where they are in memory. The work grows with the
        kept tokens, not with the room. You may compute attention in that dtype: the numbers are
        small enough that no score overflows in it, even before the division by sqrt(K). ValueError
        when T more tokens do not fit in the room, and nothing has changed then. The arguments stay
        as they are.
        """
        start, end = self.length, self.length + q_BHTK.shape[2]
        if end > self.k_BGMK.shape[2]:
            raise ValueError(
                f"the cache has room for {self.k_BGMK.shape[2]} tokens and keeps {start}, got "
                f"{end - start} more; make one with more room, or read less"
            )
        q, k = apply_rotary_pos_emb(q_BHTK, k_BGTK, cos_MK[start:end], sin_MK[start:end])
        self.k_BGMK[:, :, start:end] = k
        self.v_BGMK[:, :, start:end] = v_BGTK
        self.length = end
        # row t of the new tokens is position start + t; `is_causal` would count from the first key
        open_TM = torch.ones(end - start, end, dtype=torch.bool, device=q.device).tril(start)
        kept = self.k_BGMK[:, :, :end], self.v_BGMK[:, :, :end]
        shared = q.shape[1] != k.shape[1]
        return F.scaled_dot_product_attention(q, *kept, attn_mask=open_TM, enable_gqa=shared)


def make_caches(model: GPT, batch_size: int, *, room: int | None = None) -> list[KVCache]:
    """An empty cache for each block of the model, in the dtype and on the device of its weights."""
    weight = model.embedding.weight
    return [
        KVCache(model.config, batch_size, room=room, dtype=weight.dtype, device=weight.device)
        for _ in model.blocks
    ]


@torch.no_grad()
def read_tokens(model: GPT, idx: Tensor, caches: Sequence[KVCache]) -> Tensor:
    """Logits (B, V) after the last of the new tokens idx (B, T), which follow those in the caches.

    Up to rounding the numbers of `model(every token so far)[0][:, -1]`. There is one cache for each
    block; each keeps T tokens more afterwards. ValueError when there is no room for them.
    """
    x_BTD, blocks = model.embedding(idx), cast(Sequence[TransformerBlock], model.blocks)
    for block, cache in zip(blocks, caches, strict=True):
        attention, y_BTD = block.attention, block.attention_norm(x_BTD)
        q, k, v = (
            project(y_BTD).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
            for project in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        out = cache.attend(q, k, v, model.cos_TK, model.sin_TK)
        x_BTD = x_BTD + attention.o_proj(out.transpose(1, 2).flatten(2))
        x_BTD = x_BTD + block.mlp(block.mlp_norm(x_BTD))
    return model.head(model.norm(x_BTD[:, -1]))


@torch.no_grad()
def generate_cached(
    model: GPT,
    idx: Tensor,
    *,
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """As `model.generate`, but each token is read once: idx (B, T) to (B, T + max_new_tokens).

    The last token is written and not read. ValueError when more than `max_seq_len` would have to be
    read: the keys and values that are kept depend on every token read so far, also on those that
    a window of `max_seq_len` tokens would have left behind, so they cannot be used again.
    """
    B, T = idx.shape
    room = T + max_new_tokens - 1
    if room > model.config.max_seq_len:
        raise ValueError(
            f"{T} tokens and {max_new_tokens} new ones, of which all but the last are read, are "
            f"more than max_seq_len {model.config.max_seq_len}; ask for fewer, or use "
            f"model.generate, whose window slides"
        )
    caches, unread = make_caches(model, B, room=room), idx
    for _ in range(max_new_tokens):
        logits_BV = read_tokens(model, unread, caches)
        probs_BV = next_token_probs(logits_BV, temperature=temperature, top_k=top_k, top_p=top_p)
        unread = torch.multinomial(probs_BV, 1, generator=generator)
        idx = torch.cat((idx, unread), dim=1)
    return idx
