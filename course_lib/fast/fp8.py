"""Linear layers whose products are made in 8 bits.

What it is: a linear layer that scales and rounds its inputs to 8 bits, forward and backward, and a
function that puts it into the blocks of a GPT. Weights, sums and results stay in their dtypes. What
it leaves out: scales by row or block, scales of earlier steps, and communication in 8 bits.

It needs units for it (capability 8.9: Ada, Hopper and later) and large layers. At a width of 768 it is
slower than bfloat16 even there (nanochat, dev/LOG.md, "d12 was still slower with FP8").

Source: Micikevicius et al. 2022 ("FP8 Formats for Deep Learning"), section 3: e4m3 for weights and
activations, e5m2 for gradients, which have more range and need fewer marks.
"""

from typing import cast

import torch
from torch import Tensor, nn

from course_lib.gpt import GPT, MLP, CausalSelfAttention

FORWARD, BACKWARD = torch.float8_e4m3fn, torch.float8_e5m2
STEP = 16  # the units take sizes that are multiples of it


def to_fp8(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """`x` in 8 bits and the float32 scale, one for the tensor, to multiply it by to recover `x`.

    The largest number of x becomes the largest of the dtype; a tensor of zeros has a tiny scale.
    """
    largest = torch.finfo(dtype).max
    scale = x.abs().amax().float().clamp(min=1e-12) / largest
    return (x.float() / scale).clamp(-largest, largest).to(dtype), scale


class _Linear(torch.autograd.Function):
    """x @ weight.T, and both gradients, as products of 8-bit matrices summed in float32."""

    @staticmethod
    def forward(ctx, x_ND: Tensor, weight_FD: Tensor, dtype: torch.dtype) -> Tensor:
        x, w = to_fp8(x_ND, FORWARD), to_fp8(weight_FD, FORWARD)
        ctx.save_for_backward(*x, *w)
        ctx.dtypes = x_ND.dtype, weight_FD.dtype
        return _product(x, (w[0].t(), w[1]), dtype)

    @staticmethod
    def backward(ctx, grad_NF: Tensor):
        x, x_scale, w, w_scale = ctx.saved_tensors
        g, g_scale = to_fp8(grad_NF, BACKWARD)
        dx_ND = _product((g, g_scale), (_by_columns(w), w_scale), ctx.dtypes[0])
        dw_FD = _product((g.t().contiguous(), g_scale), (_by_columns(x), x_scale), ctx.dtypes[1])
        return dx_ND, dw_FD, None


def _product(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor], dtype: torch.dtype) -> Tensor:
    return torch._scaled_mm(a[0], b[0], scale_a=a[1], scale_b=b[1], out_dtype=dtype)


def _by_columns(x: Tensor) -> Tensor:
    """The same matrix, column after column in memory, as the units want the second factor."""
    return x.t().contiguous().t()


class Fp8Linear(nn.Linear):
    """`nn.Linear` without a bias, its three products in 8 bits. The weight stays as it is."""

    @classmethod
    def from_linear(cls, linear: nn.Linear) -> "Fp8Linear":
        """A layer around the weight of `linear`; ValueError for a bias or sizes that do not fit."""
        F, D = linear.weight.shape
        if linear.bias is not None or F % STEP or D % STEP:
            raise ValueError(
                f"expected a layer without a bias, of sizes that are multiples of "
                f"{STEP}, got {linear}"
            )
        made = cls(D, F, bias=False, device="meta")
        made.weight = linear.weight
        return made

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) to (..., F), in the dtype of autocast, or of x.

        The rows must be a multiple of 16 where gradients are wanted, else ValueError; where not, as
        when a model writes text token by token, other numbers of rows are multiplied in the dtype of
        the result.
        """
        kind = x.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        x_ND = x.reshape(-1, x.shape[-1])
        if len(x_ND) % STEP and not torch.is_grad_enabled():
            return super().forward(x)
        if len(x_ND) % STEP:
            raise ValueError(
                f"products in 8 bits take a multiple of {STEP} rows, got {len(x_ND)}: change the "
                f"batch or the length, or use the bfloat16 layers"
            )
        return _Linear.apply(x_ND, self.weight, dtype).unflatten(0, x.shape[:-1])


def use_fp8(model: GPT, *, emulate: bool = False) -> GPT:
    """Put 8-bit layers around the weights of the model's blocks, in place. Returns the model.

    Head and embedding stay as they are. Where the model's device has no units for it, ValueError;
    the fallback is to leave the call out, for bfloat16 trains the same model. `emulate` takes any
    device that torch can round on, slowly, to see what 8 bits do to a loss.
    """
    device = model.head.weight.device
    if not emulate and not has_fp8_units(device):
        raise ValueError(
            f"8-bit products need a GPU of capability 8.9 or later, this model is on {device}: "
            f"leave use_fp8 out, or pass emulate=True to see what it does to the loss"
        )
    for part in list(model.modules()):
        if isinstance(part, (CausalSelfAttention, MLP)):
            for name, layer in list(part.named_children()):
                setattr(part, name, Fp8Linear.from_linear(cast(nn.Linear, layer)))
    return model


def has_fp8_units(device: torch.device) -> bool:
    """Whether the device multiplies 8-bit floats in hardware."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 9)
