"""A Llama-style GPT, written to be read.

What it is: token embedding, blocks of (RMSNorm, rotary attention, RMSNorm, SwiGLU), a final norm
and a linear head; query heads may share keys and values. What it leaves out: dropout, biases, a
key-value cache (generation.py).

Sources: Vaswani et al. 2017 (attention), Zhang and Sennrich 2019 (RMSNorm), Su et al. 2021 (rotary
embedding), Shazeer 2020 (SwiGLU), Radford et al. 2019 (residual initialization), Touvron et al.
2023 (the combination, "Llama"), Ainslie et al. 2023 (grouped queries).

Shapes: B batch, T sequence, D model width, H heads, G heads of keys and values, K head size,
F hidden width, V vocabulary.
A suffix names the logical dimensions of a tensor: q_BHTK is (batch, heads, sequence, head size).
"""

import functools
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from course_lib.runs.ranges import COUNT, Range, check_settings
from course_lib.sampling import next_token_probs


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """Shape of a model. Immutable, so a config can be hashed, logged and compared.

    ValueError for a setting out of its range, when d_model isn't a multiple of 2 * num_heads, since
    rotary embedding turns pairs inside each head, and when num_kv_heads doesn't divide num_heads.
    """

    vocab_size: int = 8192
    """V, number of token ids. The course's own tokenizer has 8,192."""
    max_seq_len: int = 256
    """Longest T the rotary tables cover, in tokens."""
    num_layers: int = 6
    """Number of transformer blocks."""
    num_heads: int = 6
    """H, attention heads per block."""
    num_kv_heads: int | None = None
    """G, heads of keys and values, each read by H / G query heads; None for one per query head."""
    d_model: int = 384
    """D, width of the residual stream."""
    d_hidden: int = 1024
    """F, hidden width of the SwiGLU; near 8/3 D costs what a two-matrix MLP of 4 D costs."""
    rope_theta: float = 10_000.0
    """Base of the rotary frequencies."""
    norm_eps: float = 1e-5
    """Added to the mean square before the root; keeps an all-zero vector finite."""
    tie_embeddings: bool = True
    """Use one V x D matrix for the embedding and the head."""
    fast_attention: bool = True
    """Use torch's fused kernel; False takes `causal_attention`, the explicit path of lesson 04."""
    activation_checkpointing: bool = False
    """Recompute each block in the backward pass instead of keeping its activations."""

    def __post_init__(self):
        sizes = ("vocab_size", "max_seq_len", "num_layers", "num_heads", "d_model", "d_hidden")
        check_settings(
            self,
            dict.fromkeys((*sizes, "num_kv_heads"), COUNT)
            | {"rope_theta": Range(0, 1e12, open=True), "norm_eps": Range(0, 1)},
        )
        if self.d_model % (2 * self.num_heads):
            raise ValueError(
                f"d_model must be a multiple of 2 * num_heads, because rotary embedding turns "
                f"pairs inside each head: got d_model {self.d_model}, num_heads {self.num_heads}"
            )
        if self.num_kv_heads and self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_heads must be a multiple of num_kv_heads, because as many query heads share "
                f"each key head: got {self.num_heads} and {self.num_kv_heads}"
            )

    @property
    def head_dim(self) -> int:
        """K, the size of one head."""
        return self.d_model // self.num_heads

    @property
    def d_kv(self) -> int:
        """G * K, numbers in the keys of one token, and in its values."""
        return (self.num_kv_heads or self.num_heads) * self.head_dim

    @classmethod
    def preset(cls, name: str, **changes) -> "GPTConfig":
        """The preset called `name`, with `changes` applied; ValueError lists the names."""
        if name not in PRESETS:
            raise ValueError(f"no preset {name!r}; choose one of {', '.join(PRESETS)}")
        return cls(**(PRESETS[name] | changes))


PRESETS: dict[str, dict] = {
    "tiny": dict(num_layers=4, num_heads=4, d_model=128, d_hidden=344, max_seq_len=128),
    "small": dict(num_layers=6, num_heads=6, d_model=384, d_hidden=1024, max_seq_len=256),
    "medium": dict(num_layers=8, num_heads=8, d_model=512, d_hidden=1376, max_seq_len=512),
    "134m": dict(num_layers=12, num_heads=12, d_model=768, d_hidden=2048, max_seq_len=1024,
                 vocab_size=32_000, tie_embeddings=False),
    "large": dict(num_layers=24, num_heads=16, d_model=1024, d_hidden=2752, max_seq_len=1024,
                  vocab_size=50_304),
    "xl": dict(num_layers=24, num_heads=16, d_model=2048, d_hidden=5504, max_seq_len=2048,
               vocab_size=50_304),
}  # fmt: skip


class RMSNorm(nn.Module):
    """Scale each vector to root mean square 1, then by a learned gain.

    Source: Zhang and Sennrich 2019, eq. 4.

    Args: `dim`, the size of the last dimension; `eps`, added to the mean square.
    """

    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., dim), any float dtype, to its shape and dtype.

        All of it is computed in float32 or wider, the gain included, and rounded once, at the end.
        """
        x_f32 = x.float()  # squares of fp16 overflow beyond 255.9, bf16 keeps 8 bits
        inverse_rms = torch.rsqrt(x_f32.pow(2).mean(-1, keepdim=True) + self.eps)
        return (x_f32 * inverse_rms * self.weight.float()).to(x.dtype)


def rope_tables(seq_len: int, head_dim: int, theta: float = 10_000.0) -> tuple[Tensor, Tensor]:
    """cos_TK and sin_TK: position t turns pair i by t * theta^(-2i/K) radians (Su et al. 2021).

    T is seq_len, K is head_dim. Positions run from 0 to T - 1, pairs from 0 to K/2 - 1. Returns the
    cosines, then the sines, each (T, K). Columns i and i + K/2 belong to pair i, as `rotate_half`
    expects. The angles are computed in float32 or wider, under autocast too. Both tables are float32,
    whatever torch's default dtype is. They are new tensors at each call: no later call changes them,
    and a write to them changes no other tables.
    Raises ValueError for an odd head_dim.
    """
    if head_dim % 2:
        raise ValueError(f"head_dim must be even, because numbers turn in pairs: got {head_dim}")
    inverse_freq = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    angle = torch.outer(torch.arange(seq_len, dtype=torch.float32), inverse_freq)  # (T, K/2)
    angle_TK = torch.cat((angle, angle), dim=-1)
    return angle_TK.cos(), angle_TK.sin()


def rotate_half(x: Tensor) -> Tensor:
    """(..., K) to (..., K): swap the halves of the last dimension, negate the new first half.

    x holds finite numbers, may be empty, and stays as it is. The result is a new tensor in the dtype
    of x, and no later call changes it. The gradient flows back to x.
    Pair i is (x[i], x[i + K/2]), the layout of GPT-NeoX and of Llama in Hugging Face Transformers.
    """
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def apply_rotary_pos_emb(
    q_BHTK: Tensor, k_BHTK: Tensor, cos_TK: Tensor, sin_TK: Tensor
) -> tuple[Tensor, Tensor]:
    """Turn each pair of q and k by the angle of its position (Su et al. 2021, eq. 34).

    q and k are (B, H, T, K); k may have fewer heads than q. cos and sin are (T, K), any rows of
    `rope_tables`, the same for all B and H. Returns a tuple, the turned q and the turned k, each in
    its own shape and dtype. Gradients flow back to q and k. The arguments stay as they are.
    """
    q_turned = q_BHTK * cos_TK + rotate_half(q_BHTK) * sin_TK
    k_turned = k_BHTK * cos_TK + rotate_half(k_BHTK) * sin_TK
    # float32 tables promote a bf16 q; hand back what came in
    return q_turned.to(q_BHTK.dtype), k_turned.to(k_BHTK.dtype)


class MLP(nn.Module):
    """SwiGLU: a SiLU gate times an up projection, then down (Shazeer 2020, eq. 6). No biases."""

    def __init__(self, d_model: int, d_hidden: int):
        super().__init__()
        self.gate_proj = nn.Linear(d_model, d_hidden, bias=False)
        self.up_proj = nn.Linear(d_model, d_hidden, bias=False)
        self.down_proj = nn.Linear(d_hidden, d_model, bias=False)
        self.down_proj.writes_residual = True  # read by GPT._init_weights

    def forward(self, x_BTD: Tensor) -> Tensor:
        """x (B, T, D) to (B, T, D), in the dtype of x, or in that of autocast.

        A unit whose gate (before SiLU) is far below 0 gives 0 and adds 0 to every gradient, even if
        gate times up overflows. The weights get gradients even if x needs none.
        """
        return self.down_proj(F.silu(self.gate_proj(x_BTD)) * self.up_proj(x_BTD))


def causal_attention(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor) -> Tensor:
    """Scaled dot-product attention in which token t reads tokens 0..t (Vaswani et al. 2017, eq. 1).

    q, k and v are (B, H, T, K), of one dtype, and stay as they are. Returns (B, H, T, K) in that
    dtype. The softmax is computed in float32 or wider, as torch's own is in every dtype; the weights
    that come out may be rounded to the dtype of q.
    May hold the whole (B, H, T, T) score matrix; lesson 16 does without it.
    """
    T, K = q_BHTK.shape[-2:]
    scores_BHTT = q_BHTK @ k_BHTK.transpose(-2, -1) / math.sqrt(K)
    future_TT = torch.ones(T, T, dtype=torch.bool, device=q_BHTK.device).triu(diagonal=1)
    scores_BHTT = scores_BHTT.masked_fill(future_TT, float("-inf"))
    # torch's softmax sums in float32 anyway; a hand-written one in bf16 is off by percents
    weights_BHTT = torch.softmax(scores_BHTT.float(), dim=-1).to(q_BHTK.dtype)
    return weights_BHTT @ v_BHTK


def grouped_attention(q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor) -> Tensor:
    """Causal attention in which H / G neighboring query heads share one head of k and v.

    q is (B, H, T, K), k and v are (B, G, T, K), all of one dtype; they stay as they are. H is a
    multiple of G. Query head h reads head h // (H / G) of k and v (Ainslie et al. 2023). Returns
    (B, H, T, K) in that dtype. For G = H this is `causal_attention`; the softmax is taken as there.
    """
    sharers = q_BHTK.shape[1] // k_BGTK.shape[1]
    k_BHTK, v_BHTK = (x.repeat_interleave(sharers, dim=1) for x in (k_BGTK, v_BGTK))
    return causal_attention(q_BHTK, k_BHTK, v_BHTK)


def fused_attention(q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor) -> Tensor:
    """As `causal_attention`, by torch's fused kernel, which never holds the score matrix; k and v may
    have fewer heads, as in `grouped_attention`.

    On a CPU, bfloat16 inputs are computed in float32, also under autocast, because there the
    kernel's backward pass is faster in float32.
    """
    attend = functools.partial(
        F.scaled_dot_product_attention, is_causal=True, enable_gqa=q_BHTK.shape != k_BGTK.shape
    )
    dtype, device = v_BGTK.dtype, v_BGTK.device.type
    if device == "cpu" and dtype == torch.bfloat16:
        with torch.autocast(device, enabled=False):
            q, k, v = (x.float() for x in (q_BHTK, k_BGTK, v_BGTK))
            return attend(q, k, v).to(dtype)
    return attend(q_BHTK, k_BGTK, v_BGTK)


def attend_heads(q_BHTK: Tensor, k_BGTK: Tensor, v_BGTK: Tensor, *, fast: bool) -> Tensor:
    """`fused_attention` if `fast`; else `causal_attention`, or `grouped_attention` where k and v have
    fewer heads than q.
    """
    explicit = causal_attention if k_BGTK.shape == q_BHTK.shape else grouped_attention
    return (fused_attention if fast else explicit)(q_BHTK, k_BGTK, v_BGTK)


class CausalSelfAttention(nn.Module):
    """Multi-head causal self-attention with rotary positions on q and k, never on v."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.head_dim = config.head_dim
        self.attend = functools.partial(attend_heads, fast=config.fast_attention)
        self.q_proj = nn.Linear(config.d_model, config.d_model, bias=False)
        self.k_proj = nn.Linear(config.d_model, config.d_kv, bias=False)
        self.v_proj = nn.Linear(config.d_model, config.d_kv, bias=False)
        self.o_proj = nn.Linear(config.d_model, config.d_model, bias=False)
        self.o_proj.writes_residual = True  # read by GPT._init_weights

    def forward(self, x_BTD: Tensor, cos_TK: Tensor, sin_TK: Tensor) -> Tensor:
        """Project to q, k, v; split into heads; turn q, k; `self.attend`; join; project by o_proj.

        x (B, T, D) to (B, T, D), in the dtype of x. cos and sin are (T, K). Head h of a projection
        is its numbers [h * K : (h + 1) * K]. k and v have d_kv / K heads, maybe fewer than q.
        `self.attend` takes q, k and v, each (B, heads, T, K) and in the dtype of x; a single call for
        all heads is the fastest. The arguments stay as they are.
        """
        B, T, D = x_BTD.shape
        q, k, v = (
            project(x_BTD).view(B, T, -1, self.head_dim).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )  # (B, H, T, K); k and v may have fewer heads, (B, G, T, K)
        q, k = apply_rotary_pos_emb(q, k, cos_TK, sin_TK)
        out = self.attend(q, k, v)
        return self.o_proj(out.transpose(1, 2).reshape(B, T, D))


class TransformerBlock(nn.Module):
    """Pre-norm block: x + attention(norm(x)), then x + MLP(norm(x)). Later lessons wrap it."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.attention_norm = RMSNorm(config.d_model, config.norm_eps)
        self.attention = CausalSelfAttention(config)
        self.mlp_norm = RMSNorm(config.d_model, config.norm_eps)
        self.mlp = MLP(config.d_model, config.d_hidden)

    def forward(self, x_BTD: Tensor, cos_TK: Tensor, sin_TK: Tensor) -> Tensor:
        """x (B, T, D) plus what both branches add to it, in the dtype of x; cos and sin are (T, K).

        Nothing else happens to the stream, neither a norm nor a clamp. A plain + is fine. You may
        also add in a wider dtype and round at the end, but never add in a narrower one. x is not
        written to.
        """
        x_BTD = x_BTD + self.attention(self.attention_norm(x_BTD), cos_TK, sin_TK)
        return x_BTD + self.mlp(self.mlp_norm(x_BTD))


class GPT(nn.Module):
    """Token ids to next-token logits, and the loss when the targets are given.

    The caller shifts: `targets[b, t]` is the token that follows `idx[b, t]`. A window of T + 1
    tokens then yields T predictions from T positions, and no position is computed for nothing.
    """

    cos_TK: Tensor
    sin_TK: Tensor

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.blocks = nn.ModuleList(TransformerBlock(config) for _ in range(config.num_layers))
        self.norm = RMSNorm(config.d_model, config.norm_eps)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tie_embeddings:
            self.head.weight = self.embedding.weight
        cos_TK, sin_TK = rope_tables(config.max_seq_len, config.head_dim, config.rope_theta)
        self.register_buffer(
            "cos_TK", cos_TK, persistent=False
        )  # recomputed, so not in checkpoints
        self.register_buffer("sin_TK", sin_TK, persistent=False)
        self.apply(self._init_weights)

    def _init_weights(self, module: nn.Module) -> None:
        """Called by `apply` on every submodule: draw its weights in place.

        Linear and Embedding: normal, mean 0, std 0.02. The std is 0.02 / sqrt(2 * num_layers) for a
        Linear whose `writes_residual` is true: 2 * num_layers of these add up in the residual stream
        (Radford et al. 2019, section 2.3). Biases, if there are any, are 0. Gains stay 1.
        The draws are torch's, so `torch.manual_seed` repeats them. `requires_grad` stays as it is.
        """
        std = 0.02
        if getattr(module, "writes_residual", False):
            std /= math.sqrt(2 * self.config.num_layers)
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """idx (B, T) int64 to (logits (B, T, V), loss); the loss is None without targets.

        `targets` is (B, T) int64. A target of -100 does not count; at least one target counts. The
        loss is the mean cross-entropy in nats over those that count, taken in float32. idx and
        targets may be slices of one window of tokens, so not contiguous.
        Raises ValueError when T exceeds `max_seq_len`.
        Each block gets T rows of `self.cos_TK` and `self.sin_TK`, usually the first T. Any T
        consecutive rows are right too, since only the distance of two positions has an effect. With
        `config.activation_checkpointing`, and while the model's own `self.training` is true, each
        block runs in a `checkpoint` call of its own, whatever `block.training` is.
        """
        T = idx.shape[1]
        if T > self.config.max_seq_len:
            raise ValueError(
                f"sequence of {T} tokens, but max_seq_len is {self.config.max_seq_len}"
            )
        x_BTD = self.embedding(idx)
        for block in self.blocks:
            args = (x_BTD, self.cos_TK[:T], self.sin_TK[:T])
            if self.config.activation_checkpointing and self.training:
                x_BTD = checkpoint(block, *args, use_reentrant=False)
            else:
                x_BTD = block(*args)
        logits_BTV = self.head(self.norm(x_BTD))
        if targets is None:
            return logits_BTV, None
        return logits_BTV, F.cross_entropy(logits_BTV.flatten(0, 1).float(), targets.flatten())

    @torch.no_grad()
    def generate(
        self,
        idx: Tensor,
        *,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Append `max_new_tokens` sampled tokens to idx (B, T): (B, T + max_new_tokens) int64.

        `next_token_probs` says what the settings do. Only the last `max_seq_len` tokens are read.
        Reads them all again for every token; `course_lib.generation` keeps what it has read.
        """
        for _ in range(max_new_tokens):
            logits_BV = self(idx[:, -self.config.max_seq_len :])[0][:, -1]
            probs_BV = next_token_probs(
                logits_BV, temperature=temperature, top_k=top_k, top_p=top_p
            )
            idx = torch.cat((idx, torch.multinomial(probs_BV, 1, generator=generator)), dim=1)
        return idx


def main() -> None:
    """Build the tiny model, push one random batch through it, print what came out."""
    torch.manual_seed(0)
    config = GPTConfig.preset("tiny", fast_attention=False)  # the path that lessons 02 to 04 write
    tokens = torch.randint(config.vocab_size, (2, 65))
    logits, loss = GPT(config)(tokens[:, :-1], tokens[:, 1:])
    print(
        f"logits {tuple(logits.shape)}  loss {loss:.3f}  (ln V = {math.log(config.vocab_size):.3f})"
    )


if __name__ == "__main__":
    import sys

    # `python -m` runs this file as a second module called __main__; go on in the importable one
    from course_lib import gpt, install_mine

    if "--mine" in sys.argv:
        install_mine()
    gpt.main()
