"""RMSNorm as one kernel: a row is read once, normalized where it is, and written once.

What it is: a forward and a backward kernel in Triton's language, the autograd function around them,
equal to `gpt.RMSNorm`, and a function that puts it into a GPT. On a GPU with Triton they are
compiled; elsewhere `tiles` interprets them, slowly. What it leaves out: rows that do not fit into
one block, and the tuning of warps.

Source: Zhang and Sennrich 2019, eq. 4, for the function.

Shapes: N rows, D numbers in each. BLOCK is the power of two that holds a row.
"""

import importlib.util

import torch
from torch import Tensor, nn

from course_lib.fast import tiles as tl
from course_lib.gpt import GPT, RMSNorm

LONGEST = 65_536
"""Numbers in a row that one block may hold: more do not fit where a GPU computes."""


@tl.jit
def rmsnorm_kernel(x_ptr, weight_ptr, out_ptr, x_stride, out_stride, D, eps, BLOCK: tl.constexpr):
    """Row number `tl.program_id(0)` of RMSNorm: out = x / sqrt(mean(x^2) + eps) * weight.

    x_ptr, out_ptr: the first number of row 0. A row has D numbers; the next row starts `x_stride`
    numbers later in x, `out_stride` in out. weight_ptr: D numbers. Dtypes: any floats. Arithmetic
    is in float32; the result is rounded once, to the dtype of out. BLOCK: a power of two, at least
    D. Lanes from D on belong to no row: the memory there must not be touched. Each number of x and
    weight is loaded once, each of out stored once.
    """
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < D
    x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
    out = x * inverse_rms * weight
    tl.store(out_ptr + row * out_stride + cols, out.to(out_ptr.dtype.element_ty), mask=inside)


@tl.jit
def rmsnorm_backward_kernel(
    x_ptr,
    weight_ptr,
    grad_ptr,
    dx_ptr,
    dweight_ptr,
    x_stride,
    grad_stride,
    N,
    D,
    eps,
    BLOCK: tl.constexpr,
):
    """Rows program, program + programs, ... : dx, and the sum of their part of dweight.

    With r = 1 / sqrt(mean(x^2) + eps) and g = grad * weight, both by row: dx = r * g - x * r^3 *
    mean(g * x), and dweight is the sum of grad * x * r over rows. dx (N, D) and dweight, (programs,
    D) in float32, lie row after row.
    """
    program = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < D
    weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    dweight = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(program, N, tl.num_programs(0)):
        x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0).to(tl.float32)
        grad = tl.load(grad_ptr + row * grad_stride + cols, mask=inside, other=0.0).to(tl.float32)
        inverse_rms = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
        scaled = x * inverse_rms
        dweight += grad * scaled
        part = grad * weight
        dx = inverse_rms * (part - scaled * (tl.sum(part * scaled, axis=0) / D))
        tl.store(dx_ptr + row * D + cols, dx.to(dx_ptr.dtype.element_ty), mask=inside)
    tl.store(dweight_ptr + program * D + cols, dweight, mask=inside)


class FusedRMSNorm(torch.autograd.Function):
    """Both kernels as one operation; keeps x and the weight, and computes the RMS again."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        x_ND = _rows(x)
        N, D = x_ND.shape
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        ctx.save_for_backward(x_ND, weight)
        ctx.eps = eps
        if N:
            rmsnorm_kernel[(N,)](x_ND, weight, out, x_ND.stride(0), D, D, eps, _block(D))
        return out

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x_ND, weight = ctx.saved_tensors
        N, D = x_ND.shape
        programs = max(1, min(N, 4 * _processors(x_ND)))  # each keeps its part of dweight on chip
        grad_ND, dx_ND = _rows(grad), torch.empty((N, D), dtype=x_ND.dtype, device=x_ND.device)
        dweight = torch.zeros((programs, D), dtype=torch.float32, device=x_ND.device)
        if N:
            rmsnorm_backward_kernel[(programs,)](
                x_ND,
                weight,
                grad_ND,
                dx_ND,
                dweight,
                x_ND.stride(0),
                grad_ND.stride(0),
                N,
                D,
                ctx.eps,
                _block(D),
            )
        return dx_ND.view(grad.shape), dweight.sum(0).to(weight.dtype), None


def fused_rmsnorm(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    """As `gpt.RMSNorm` with this weight: (..., D) to the same shape and dtype, with gradients.

    Rows may lie apart in memory, as those of a slice do; the numbers of a row must lie side by
    side, or x is copied. ValueError for shapes and dtypes that do not fit.
    """
    if x.dim() < 1 or weight.shape != x.shape[-1:]:
        raise ValueError(
            f"expected x (..., D) and a weight (D,), got {tuple(x.shape)} and {tuple(weight.shape)}"
        )
    if not (x.is_floating_point() and weight.is_floating_point()):
        raise ValueError(f"expected float dtypes, got {x.dtype} and {weight.dtype}")
    if not 1 <= x.shape[-1] <= LONGEST:
        raise ValueError(f"expected rows of 1 to {LONGEST:,} numbers, got {x.shape[-1]:,}")
    return FusedRMSNorm.apply(x, weight, eps)


class FusedNorm(nn.Module):
    """`gpt.RMSNorm` by the kernels, around the gain and the epsilon of the norm that it is given."""

    def __init__(self, norm: RMSNorm):
        super().__init__()
        self.weight, self.eps = norm.weight, norm.eps

    def forward(self, x: Tensor) -> Tensor:
        """(..., dim) of any float dtype to the same shape and dtype; the mean is in float32."""
        return fused_rmsnorm(x, self.weight, self.eps)


def use_fused_norm(model: GPT) -> GPT:
    """Put the kernels in place of every `RMSNorm` of `model`, in place. Returns the model.

    Parameters keep their names. Where the kernels can't be compiled they are interpreted, row by row
    and slowly; `why_no_kernel` says so beforehand.
    """
    for part in list(model.modules()):
        for name, norm in list(part.named_children()):
            if isinstance(norm, RMSNorm):
                setattr(part, name, FusedNorm(norm))
    return model


def why_no_kernel(device: torch.device) -> str:
    """Why the kernels aren't compiled for `device`, and what does it; "" where they are."""
    if device.type != "cuda":
        return f"its kernels are compiled for a GPU, and interpreted, row by row, on {device.type}"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed: pip install 'course-lib[triton]' (Linux)"
    return ""


def _rows(x: Tensor) -> Tensor:
    """(N, D), the numbers of each row side by side; a copy only where they are not."""
    x_ND = x.reshape(-1, x.shape[-1])
    return x_ND if x_ND.stride(-1) == 1 else x_ND.contiguous()


def _block(D: int) -> int:
    return tl.next_power_of_2(D)


def _processors(x: Tensor) -> int:
    """Of the device, each of which runs programs of its own; few are enough to interpret."""
    return torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 1
