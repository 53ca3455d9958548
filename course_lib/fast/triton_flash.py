"""Attention in tiles as kernels of a GPU: what flash.py says in torch, in Triton's language.

What it is: one kernel for the forward pass, two for the backward pass, the autograd function that
joins them, and what refuses inputs they do not take. A tile of scores lives in the registers of
one program and never in the GPU's memory. What it leaves out: dropout, float64, grouped queries,
and a search for the best sizes of tiles; `Tiles` is an argument, and benchmarks/gpu.py times some.

Triton is an extra: `pip install "course-lib[triton]"`, Linux only. On a CPU the kernels run in its
interpreter, slowly, when TRITON_INTERPRET=1 stands in the environment before Python starts. That of
Triton 3.6 fails at their loops with numpy 2.4 and later; that of 3.9 does not.

Sources: Dao 2023 ("FlashAttention-2"), algorithms 1 and 2; Tillet, Kung and Cox 2019 ("Triton").

Shapes: B batch, H heads, T sequence, K head size; I queries and J keys of one tile. Programs count
by tile (axis 0) and by head of a sequence (axis 1).
"""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import Tensor

from course_lib.fast.flash import refuse_misfits

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:  # everything else here can still be read, and asked why not
    triton, tl = None, SimpleNamespace(constexpr=float)

# A GPU has an instruction for 2^x and none for e^x: inside the kernels scores are times log2(e).
LOG2_E = tl.constexpr(math.log2(math.e))


@dataclass(frozen=True)
class Tiles:
    """Sizes of one program. Queries and keys are powers of 2, at least 16."""

    queries: int = 64
    """I, rows of scores in a tile."""
    keys: int = 64
    """J, columns of scores in a tile."""
    warps: int = 4
    """Groups of 32 threads that share one program."""
    stages: int = 3
    """Tiles of keys, or of queries, in the chip's shared memory at once: all but one on the way."""

    @classmethod
    def choose_for(cls, q: Tensor) -> "Tiles":
        """Sizes whose tiles fit into 99 KB of shared memory, for `q` (B, H, T, K)."""
        if q.dtype == torch.float32:
            return cls(32, 32, stages=2)
        return cls(stages=3 if q.shape[-1] <= 64 else 2)


def _jit(function):
    return triton.jit(function) if triton else function


@_jit
def _load(x, rows, cols, T, K, stride_t):
    """x[rows, cols] of one head; 0 where a tile reaches beyond it."""
    inside = (rows[:, None] < T) & (cols[None, :] < K)
    return tl.load(x + rows[:, None] * stride_t + cols[None, :], mask=inside, other=0.0)


@_jit
def _store(x, tile, rows, cols, T, K, stride_t):
    inside = (rows[:, None] < T) & (cols[None, :] < K)
    where = x + rows[:, None] * stride_t + cols[None, :]
    tl.store(where, tile.to(x.dtype.element_ty), mask=inside)


@_jit
def _add_tile(
    peak,
    total,
    mixed,
    q_IK,
    k,
    v,
    rows,
    start,
    cols,
    read,
    T,
    K,
    stride_t,
    scale,
    CAUSAL: tl.constexpr,
    HIDES: tl.constexpr,
    UNIT: tl.constexpr,
    J: tl.constexpr,
):
    """`flash.add_tile` for the keys from `start`; HIDES says that some of them do not count."""
    keys = start + tl.arange(0, J)
    k_JK = _load(k, keys, cols, T, K, stride_t).to(UNIT)
    # "ieee": by default float32 inputs lose 13 bits, as TF32
    s_IJ = tl.dot(q_IK, tl.trans(k_JK), input_precision="ieee") * (scale * LOG2_E)
    if HIDES:
        counts = keys[None, :] < read
        if CAUSAL:
            counts = counts & (keys[None, :] <= rows[:, None])
        s_IJ = tl.where(counts, s_IJ, float("-inf"))
    new = tl.maximum(peak, tl.max(s_IJ, 1))
    base = tl.where(new == float("-inf"), 0.0, new)  # -inf minus -inf would be nan
    keep = tl.exp2(peak - base)
    p_IJ = tl.exp2(s_IJ - base[:, None])
    v_JK = _load(v, keys, cols, T, K, stride_t).to(UNIT)
    mixed = mixed * keep[:, None] + tl.dot(p_IJ.to(UNIT), v_JK, input_precision="ieee")
    return new, total * keep + tl.sum(p_IJ, 1), mixed


@_jit
def _forward(
    q,
    k,
    v,
    num_keys,
    out,
    lse,
    T,
    K,
    H,
    stride_b,
    stride_h,
    stride_t,
    scale,
    CAUSAL: tl.constexpr,
    UNIT: tl.constexpr,
    I: tl.constexpr,
    J: tl.constexpr,
    COLS: tl.constexpr,
):
    """One tile of queries of one head, over all keys that it reads."""
    number, head = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1)  # longest rows first
    base = (head // H).to(tl.int64) * stride_b + (head % H) * stride_h
    rows, cols = number * I + tl.arange(0, I), tl.arange(0, COLS)
    q_IK = _load(q + base, rows, cols, T, K, stride_t).to(UNIT)
    peak = tl.full((I,), float("-inf"), tl.float32)
    total, mixed = tl.zeros((I,), tl.float32), tl.zeros((I, COLS), tl.float32)
    read = tl.load(num_keys + head // H)
    stop = tl.minimum(read, (number + 1) * I) if CAUSAL else read
    whole = tl.minimum(read, number * I + 1) // J * J if CAUSAL else read // J * J
    for start in range(0, whole, J):  # tiles in which every key counts for every query
        peak, total, mixed = _add_tile(
            peak,
            total,
            mixed,
            q_IK,
            k + base,
            v + base,
            rows,
            start,
            cols,
            read,
            T,
            K,
            stride_t,
            scale,
            CAUSAL,
            False,
            UNIT,
            J,
        )
    for start in range(whole, stop, J):
        peak, total, mixed = _add_tile(
            peak,
            total,
            mixed,
            q_IK,
            k + base,
            v + base,
            rows,
            start,
            cols,
            read,
            T,
            K,
            stride_t,
            scale,
            CAUSAL,
            True,
            UNIT,
            J,
        )
    divisor = tl.where(total == 0.0, 1.0, total)  # a row that reads nothing
    _store(out + base, mixed / divisor[:, None], rows, cols, T, K, stride_t)
    tl.store(lse + head.to(tl.int64) * T + rows, peak + tl.log2(divisor), mask=rows < T)


@_jit
def _backward_q(
    q,
    k,
    v,
    num_keys,
    out,
    lse,
    grad,
    dots,
    dq,
    T,
    K,
    H,
    stride_b,
    stride_h,
    stride_t,
    scale,
    CAUSAL: tl.constexpr,
    UNIT: tl.constexpr,
    I: tl.constexpr,
    J: tl.constexpr,
    COLS: tl.constexpr,
):
    """dq of one tile of queries; and `dots`, the rows' sums of grad * out, for the other kernel."""
    number, head = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1)
    base = (head // H).to(tl.int64) * stride_b + (head % H) * stride_h
    rows, cols = number * I + tl.arange(0, I), tl.arange(0, COLS)
    at = head.to(tl.int64) * T + rows
    q_IK = _load(q + base, rows, cols, T, K, stride_t).to(UNIT)
    g_IK = _load(grad + base, rows, cols, T, K, stride_t).to(UNIT)
    o_IK = _load(out + base, rows, cols, T, K, stride_t).to(tl.float32)
    dot_I = tl.sum(g_IK.to(tl.float32) * o_IK, 1)
    tl.store(dots + at, dot_I, mask=rows < T)
    lse_I = tl.load(lse + at, mask=rows < T, other=0.0)
    lse_I = tl.where(lse_I == float("-inf"), 0.0, lse_I)
    dq_IK = tl.zeros((I, COLS), tl.float32)
    read = tl.load(num_keys + head // H)
    stop = tl.minimum(read, (number + 1) * I) if CAUSAL else read
    for start in range(0, stop, J):
        keys = start + tl.arange(0, J)
        k_JK = _load(k + base, keys, cols, T, K, stride_t).to(UNIT)
        v_JK = _load(v + base, keys, cols, T, K, stride_t).to(UNIT)
        s_IJ = tl.dot(q_IK, tl.trans(k_JK), input_precision="ieee") * (scale * LOG2_E)
        counts = keys[None, :] < read
        if CAUSAL:
            counts = counts & (keys[None, :] <= rows[:, None])
        p_IJ = tl.where(counts, tl.exp2(s_IJ - lse_I[:, None]), 0.0)
        dp_IJ = tl.dot(g_IK, tl.trans(v_JK), input_precision="ieee")
        ds_IJ = p_IJ * (dp_IJ - dot_I[:, None])
        dq_IK += tl.dot(ds_IJ.to(UNIT), k_JK, input_precision="ieee")
    _store(dq + base, dq_IK * scale, rows, cols, T, K, stride_t)


@_jit
def _backward_kv(
    q,
    k,
    v,
    num_keys,
    lse,
    grad,
    dots,
    dk,
    dv,
    T,
    K,
    H,
    stride_b,
    stride_h,
    stride_t,
    scale,
    CAUSAL: tl.constexpr,
    UNIT: tl.constexpr,
    I: tl.constexpr,
    J: tl.constexpr,
    COLS: tl.constexpr,
):
    """dk and dv of one tile of keys, over all queries that read it."""
    number, head = tl.program_id(0), tl.program_id(1)
    base = (head // H).to(tl.int64) * stride_b + (head % H) * stride_h
    keys, cols = number * J + tl.arange(0, J), tl.arange(0, COLS)
    k_JK = _load(k + base, keys, cols, T, K, stride_t).to(UNIT)
    v_JK = _load(v + base, keys, cols, T, K, stride_t).to(UNIT)
    dk_JK, dv_JK = tl.zeros((J, COLS), tl.float32), tl.zeros((J, COLS), tl.float32)
    read = tl.load(num_keys + head // H)
    first = number * J // I * I if CAUSAL else 0
    last = tl.where(number * J < read, T, first)  # a tile of padding: nobody reads it
    for start in range(first, last, I):
        rows = start + tl.arange(0, I)
        q_IK = _load(q + base, rows, cols, T, K, stride_t).to(UNIT)
        g_IK = _load(grad + base, rows, cols, T, K, stride_t).to(UNIT)
        at = head.to(tl.int64) * T + rows
        lse_I = tl.load(lse + at, mask=rows < T, other=0.0)
        dot_I = tl.load(dots + at, mask=rows < T, other=0.0)
        s_JI = tl.dot(k_JK, tl.trans(q_IK), input_precision="ieee") * (scale * LOG2_E)
        p_JI = tl.exp2(s_JI - lse_I[None, :])
        if CAUSAL:
            p_JI = tl.where(keys[:, None] <= rows[None, :], p_JI, 0.0)
        dv_JK += tl.dot(p_JI.to(UNIT), g_IK, input_precision="ieee")
        dp_JI = tl.dot(v_JK, tl.trans(g_IK), input_precision="ieee")
        ds_JI = p_JI * (dp_JI - dot_I[None, :])
        dk_JK += tl.dot(ds_JI.to(UNIT), q_IK, input_precision="ieee")
    counts = keys[:, None] < read  # what stands in other rows is of no use, and may be infinite
    _store(dk + base, tl.where(counts, dk_JK * scale, 0.0), keys, cols, T, K, stride_t)
    _store(dv + base, tl.where(counts, dv_JK, 0.0), keys, cols, T, K, stride_t)


class TritonAttention(torch.autograd.Function):
    """The three kernels as one operation; keeps q, k, v, out and logsumexp."""

    @staticmethod
    def forward(ctx, q_BHTK, k_BHTK, v_BHTK, num_keys, causal, tiles):
        """(out, logsumexp) as `flash.flash_forward`; the second is to base 2, for the backward pass."""
        ctx.options = _options(q_BHTK, causal, tiles)
        q_BHTK, k_BHTK, v_BHTK = (_laid_out(x, q_BHTK) for x in (q_BHTK, k_BHTK, v_BHTK))
        B, H, T, K = q_BHTK.shape
        out, lse = torch.empty_like(q_BHTK), q_BHTK.new_empty(B, H, T, dtype=torch.float32)
        grid = (triton.cdiv(T, ctx.options["I"]), B * H)
        _forward[grid](
            q_BHTK,
            k_BHTK,
            v_BHTK,
            num_keys,
            out,
            lse,
            T,
            K,
            H,
            *q_BHTK.stride()[:3],
            K**-0.5,
            **ctx.options,
        )
        ctx.save_for_backward(q_BHTK, k_BHTK, v_BHTK, num_keys, out, lse)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, grad_BHTK, _):
        q, k, v, num_keys, out, lse = ctx.saved_tensors
        (B, H, T, K), o, grad = q.shape, ctx.options, _laid_out(grad_BHTK, q)
        dots, (dq, dk, dv) = torch.empty_like(lse), (torch.empty_like(x) for x in (q, k, v))
        sizes = (T, K, H, *q.stride()[:3], K**-0.5)
        by_queries, by_keys = ((triton.cdiv(T, o[axis]), B * H) for axis in "IJ")
        _backward_q[by_queries](q, k, v, num_keys, out, lse, grad, dots, dq, *sizes, **o)
        _backward_kv[by_keys](q, k, v, num_keys, lse, grad, dots, dk, dv, *sizes, **o)
        return dq, dk, dv, None, None, None


def triton_attention(
    q_BHTK: Tensor,
    k_BHTK: Tensor,
    v_BHTK: Tensor,
    *,
    causal: bool = True,
    num_keys: Tensor | None = None,
    tiles: Tiles | None = None,
    with_logsumexp: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """As `flash_attention`, in kernels: `out`, or (out, logsumexp) when asked for.

    float32, bfloat16 or float16, and K of at most 128; gradients flow to q, k and v, not from the
    logsumexp. ValueError for what does not fit, and where the kernels cannot run, with what to do.
    """
    refuse_misfits(q_BHTK, k_BHTK, v_BHTK, 1, num_keys)
    if reason := why_not(q_BHTK):
        raise ValueError(reason)
    B, _, T, _ = q_BHTK.shape
    if num_keys is None:
        num_keys = torch.full((B,), T, dtype=torch.int32, device=q_BHTK.device)
    num_keys = num_keys.to(torch.int32).clamp(0, T)
    tiles = tiles or Tiles.choose_for(q_BHTK)
    out, lse = TritonAttention.apply(q_BHTK, k_BHTK, v_BHTK, num_keys, causal, tiles)
    return (out, lse * math.log(2)) if with_logsumexp else out


def why_not(x: Tensor) -> str:
    """Why the kernels do not take `x`, and what does; "" when they do."""
    slower = "course_lib.fast.flash_attention.flash_attention computes the same in plain torch"
    if triton is None:
        return f"Triton is not installed: pip install 'course-lib[triton]' (Linux); {slower}"
    if not x.is_cuda and not _interprets():
        return (
            f"Triton's kernels run on a GPU, got a tensor on {x.device.type}: start Python with "
            f"TRITON_INTERPRET=1 to have them interpreted; {slower}"
        )
    if x.dtype not in (torch.float32, torch.bfloat16, torch.float16) or x.shape[-1] > 128:
        return (
            f"the kernels take float32, bfloat16 or float16 and a head size of at most 128, "
            f"got {x.dtype} and {x.shape[-1]}; {slower}"
        )
    return ""


def _interprets() -> bool:
    """Whether the kernels above are Triton's interpreter's: decided when this file was imported."""
    return not isinstance(_forward, triton.JITFunction)


def _laid_out(x: Tensor, like: Tensor) -> Tensor:
    """`x` with the strides of `like`, where these leave no holes; a copy if it has others."""
    wanted = torch.empty_like(like)
    if wanted.stride() == x.stride() and x.stride(-1) == 1:
        return x
    return x.contiguous() if wanted.stride(-1) != 1 else wanted.copy_(x)


def _options(q: Tensor, causal: bool, tiles: Tiles) -> dict:
    """What the kernels are compiled for. Interpreted in float32: bfloat16 is wrong there."""
    units = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
    unit = tl.float32 if _interprets() else units.get(q.dtype, tl.float32)
    cols = max(16, triton.next_power_of_2(q.shape[-1]))
    return dict(
        CAUSAL=causal,
        UNIT=unit,
        I=tiles.queries,
        J=tiles.keys,
        COLS=cols,
        num_warps=tiles.warps,
        num_stages=tiles.stages,
    )
