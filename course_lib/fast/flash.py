"""Attention in tiles: the matrix of all scores is never there.

What it is: a softmax that takes its scores tile by tile, the forward pass over all tiles, a backward
pass that computes the scores again, and the autograd function that joins the two. Plain torch, on
any device. What it leaves out: a kernel of its own, so it saves memory, but each operation on a
tile still reads and writes ordinary tensors; dropout.

Sources: Milakov and Gimelshein 2018 ("Online normalizer calculation for softmax"), algorithm 3;
Dao et al. 2022 ("FlashAttention"), section 3; Dao 2023 ("FlashAttention-2"), section 3.1: divide
once at the end, keep the logsumexp for the backward pass.

Shapes: B batch, H heads, T sequence, K head size. I queries and J keys of one tile: s_BHIJ.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

EMPTY = float("-inf")  # a score that does not count, and the maximum of none


def add_tile(
    peak: Tensor, total: Tensor, mixed: Tensor, scores: Tensor, values: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """One more tile of scores for a softmax that has seen some: the new (peak, total, mixed).

    peak (..., I): the largest score so far, -inf before the first. total (..., I): the sum of
    exp(score - peak). mixed (..., I, K): the sum of exp(score - peak) * value, not divided. The
    tile: scores (..., I, J) and their values (..., J, K). All five have one dtype, and so have the
    results. Values are finite. Sums made with the old peak are scaled to the new one. A score of
    -inf does not count; all others are smaller in size than a quarter of the dtype's largest number.
    A row that has met no other score is at (-inf, 0, 0), and nothing becomes nan. The inputs stay as
    they are.

    Source: Milakov and Gimelshein 2018, algorithm 3, lines 4 and 5.
    """
    new = torch.maximum(peak, scores.amax(dim=-1))
    base = new.masked_fill(new == EMPTY, 0.0)  # -inf minus -inf would be nan
    keep = torch.exp(peak - base)
    weights = torch.exp(scores - base.unsqueeze(-1))
    total = total * keep + weights.sum(dim=-1)
    mixed = mixed * keep.unsqueeze(-1) + weights @ values
    return new, total, mixed


def flash_forward(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    v_BHTK: Tensor,
    *,
    tile: int = 64,
    causal: bool = True,
    num_keys: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention by tiles of `tile` queries and `tile` keys: (out, logsumexp).

    q, k, v: (B, H, T, K), one dtype. Scores are q . k / sqrt(K). If `causal`, token t reads tokens
    0..t only. `num_keys` (B,) int64: keys from that number on are padding, which nobody reads.
    out: (B, H, T, K), dtype of q. logsumexp: (B, H, T), ln of the sum of exp(score) of each row.
    Products, sums and logsumexp are float32, or float64 if q is; only out is rounded, and once.
    A row that reads no key has out 0 and logsumexp -inf. The last tile is shorter where `tile` does
    not divide T. If `causal`, nothing is computed for tiles above the diagonal, not even scores. So
    even an infinity in v reaches no tile of queries before its own. All other inputs are finite,
    padding too. Scores exist for a few tiles at a time, never for a row of tiles.

    Source: Dao et al. 2022, algorithm 1, with the loops as in Dao 2023, algorithm 1.
    """
    accurate, (B, H, T, _) = sums_dtype(q_BHTK), q_BHTK.shape
    out, lse = torch.empty_like(q_BHTK), q_BHTK.new_empty(B, H, T, dtype=accurate)
    for i in tiles(T, tile):
        mixed = torch.zeros_like(q_BHTK[:, :, i], dtype=accurate)
        total = torch.zeros_like(mixed[..., 0])
        peak = torch.full_like(total, EMPTY)
        for j in tiles(i.stop if causal else T, tile):
            s_BHIJ = tile_scores(q_BHTK, k_BHTK, i, j, causal=causal, num_keys=num_keys)
            v_BHJK = v_BHTK[:, :, j].to(accurate)
            peak, total, mixed = add_tile(peak, total, mixed, s_BHIJ, v_BHJK)
        divisor = total.masked_fill(total == 0, 1.0)  # a row that reads nothing
        out[:, :, i] = (mixed / divisor.unsqueeze(-1)).to(out.dtype)
        lse[:, :, i] = peak + divisor.log()
    return out, lse


def flash_backward(
    grad_BHTK: Tensor,
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    v_BHTK: Tensor,
    out_BHTK: Tensor,
    lse_BHT: Tensor,
    *,
    tile: int = 64,
    causal: bool = True,
    num_keys: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v, in their shape and dtype; `grad` is the gradient of out.

    `out` and `lse` are what `flash_forward` returned, with the same options. The weights of a tile
    are computed again, as exp(score - lse): none of them was kept. Products and sums are float32,
    or float64 if q is; each gradient is rounded once. A row that reads no key has out 0 and lse
    -inf. It passes no gradient on; its `grad` is finite too. If `causal`, nothing is computed for
    tiles above the diagonal, not even scores. So an infinity in v reaches dq of no tile of queries
    before its own. Scores, weights and their gradients exist for a few tiles at a time, never for a
    row of tiles.

    Source: Dao et al. 2022, section 3.1 and appendix B.4: the row sums of grad * out replace those
    of weight * (gradient of the weight).
    """
    accurate, T, scale = sums_dtype(q_BHTK), q_BHTK.shape[2], q_BHTK.shape[-1] ** -0.5
    dq, dk, dv = (torch.zeros_like(x, dtype=accurate) for x in (q_BHTK, k_BHTK, v_BHTK))
    lse_BHT = lse_BHT.masked_fill(lse_BHT == EMPTY, 0.0)  # exp(-inf - 0) is 0, as it should be
    dot_BHT = (grad_BHTK.to(accurate) * out_BHTK.to(accurate)).sum(dim=-1)
    for i in tiles(T, tile):
        q_BHIK, g_BHIK = q_BHTK[:, :, i].to(accurate), grad_BHTK[:, :, i].to(accurate)
        for j in tiles(i.stop if causal else T, tile):
            k_BHJK, v_BHJK = k_BHTK[:, :, j].to(accurate), v_BHTK[:, :, j].to(accurate)
            s_BHIJ = tile_scores(q_BHTK, k_BHTK, i, j, causal=causal, num_keys=num_keys)
            p_BHIJ = torch.exp(s_BHIJ - lse_BHT[:, :, i].unsqueeze(-1))
            dp_BHIJ = g_BHIK @ v_BHJK.transpose(-2, -1)
            ds_BHIJ = p_BHIJ * (dp_BHIJ - dot_BHT[:, :, i].unsqueeze(-1)) * scale
            dv[:, :, j] += p_BHIJ.transpose(-2, -1) @ g_BHIK
            dq[:, :, i] += ds_BHIJ @ k_BHJK
            dk[:, :, j] += ds_BHIJ.transpose(-2, -1) @ q_BHIK
    return dq.to(q_BHTK.dtype), dk.to(k_BHTK.dtype), dv.to(v_BHTK.dtype)


class TiledAttention(torch.autograd.Function):
    """`flash_forward` and `flash_backward` as one operation; keeps q, k, v, out and logsumexp."""

    @staticmethod
    def forward(ctx, q_BHTK, k_BHTK, v_BHTK, tile, causal, num_keys):
        out, lse = flash_forward(
            q_BHTK, k_BHTK, v_BHTK, tile=tile, causal=causal, num_keys=num_keys
        )
        ctx.save_for_backward(q_BHTK, k_BHTK, v_BHTK, out, lse, num_keys)
        ctx.options = dict(tile=tile, causal=causal)
        return out

    @staticmethod
    def backward(ctx, grad_BHTK):
        *tensors, num_keys = ctx.saved_tensors
        grads = flash_backward(grad_BHTK, *tensors, num_keys=num_keys, **ctx.options)
        return *grads, None, None, None


def tile_scores(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    i: slice,
    j: slice,
    *,
    causal: bool = True,
    num_keys: Tensor | None = None,
) -> Tensor:
    """(B, H, I, J): scores of the queries `i` and the keys `j`, scaled; -inf where one must not read.

    In the dtype of sums. Options as in `flash_forward`.
    """
    q_BHIK, k_BHJK = (x.to(sums_dtype(x)) for x in (q_BHTK[:, :, i], k_BHTK[:, :, j]))
    s_BHIJ = q_BHIK @ k_BHJK.transpose(-2, -1) * q_BHTK.shape[-1] ** -0.5
    key_J = torch.arange(j.start, j.stop, device=s_BHIJ.device)
    if causal and j.stop > i.start + 1:  # only tiles that the diagonal crosses
        query_I = torch.arange(i.start, i.stop, device=s_BHIJ.device)
        s_BHIJ = s_BHIJ.masked_fill(key_J > query_I.unsqueeze(-1), EMPTY)
    if num_keys is not None:
        s_BHIJ = s_BHIJ.masked_fill(key_J >= num_keys.view(-1, 1, 1, 1), EMPTY)
    return s_BHIJ


def tiles(stop: int, tile: int) -> Iterator[slice]:
    """0..stop - 1 in slices of `tile`, the last one shorter where it does not fit."""
    return (slice(start, min(start + tile, stop)) for start in range(0, stop, tile))


def sums_dtype(x: Tensor) -> torch.dtype:
    """The dtype of sums: 16-bit ones would lose the small terms of a long row."""
    return torch.promote_types(x.dtype, torch.float32)


def refuse_misfits(q: Tensor, k: Tensor, v: Tensor, tile: int, num_keys: Tensor | None) -> None:
    """ValueError unless shapes, dtypes, `tile` and `num_keys` fit together."""
    if tile < 1:
        raise ValueError(f"tile must be at least 1, got {tile}")
    if q.dim() != 4 or not q.shape == k.shape == v.shape:
        got = ", ".join(str(tuple(x.shape)) for x in (q, k, v))
        raise ValueError(f"expected q, k and v of one shape (B, H, T, K), got {got}")
    if not q.dtype == k.dtype == v.dtype or not q.is_floating_point():
        raise ValueError(f"expected one float dtype, got {q.dtype}, {k.dtype}, {v.dtype}")
    if num_keys is not None and num_keys.shape != q.shape[:1]:
        raise ValueError(
            f"num_keys must be ({q.shape[0]},), one number a sequence, got {tuple(num_keys.shape)}"
        )
