"""The loss over a large vocabulary, without the matrix of all logits.

What it is: head and cross-entropy as one operation over chunks of tokens. The gradient is known as
soon as the loss is, so each chunk's logits go into both and are dropped. What it leaves out: chunks
of the vocabulary, a kernel of its own.

Sources: Hsu et al. 2024 ("Liger Kernel"), section 3.2 (fused linear cross-entropy); Wijmans et al.
2024 ("Cut your losses in large-vocabulary language models") for how much of a step's memory it is.

Shapes: N tokens (B * T), D model width, V vocabulary, C tokens of one chunk.
"""

import torch
from torch import Tensor, nn

from course_lib.measure.held import Held

IGNORED = -100  # a target that does not count, as in F.cross_entropy


class ChunkedHead(nn.Module):
    """Head and mean cross-entropy over `chunk` tokens at a time. It has no weights of its own.

    Calling it with x (N, D), weight (V, D) and targets (N,) gives the loss; see `chunked_loss`.
    """

    def __init__(self, chunk: int = 1024):
        super().__init__()
        if chunk < 1:
            raise ValueError(f"chunk must be at least 1 token, got {chunk}")
        self.chunk = chunk

    def loss_and_gradients(
        self, x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The mean cross-entropy of the logits x @ weight.T, and its gradients: loss, dx, dweight.

        x (N, D) and weight (V, D) of one float dtype, targets (N,) int64. Autograd is off in here.
        loss is () float32: the mean, in nats, over the targets that are not IGNORED; nan when all
        are. dx (N, D) and dweight (V, D) have the dtype of x; the row of dx is 0 where the target is
        IGNORED. Logits become float32 before the softmax; products are taken in the dtype of x, and
        dweight is summed over the chunks in float32. Of the logits and of their gradient only
        `self.chunk` tokens exist at a time; the last chunk may be shorter.
        """
        count = (targets_N != IGNORED).sum()
        loss = torch.zeros((), dtype=torch.float32, device=x_ND.device)
        dx_ND = torch.empty_like(x_ND)
        dweight_VD = torch.zeros_like(weight_VD, dtype=torch.float32)  # a sum over all chunks
        for x_CD, targets_C, dx_CD in zip(
            x_ND.split(self.chunk),
            targets_N.split(self.chunk),
            dx_ND.split(self.chunk),
            strict=True,
        ):
            logprobs_CV = torch.log_softmax((x_CD @ weight_VD.T).float(), dim=-1)
            counts_C1 = (targets_C != IGNORED).unsqueeze(-1)
            index_C1 = targets_C.clamp(min=0).unsqueeze(-1)
            loss -= (logprobs_CV.gather(1, index_C1) * counts_C1).sum() / count
            dlogits_CV = logprobs_CV.exp_()  # in place: one matrix of C x V float32 at a time
            dlogits_CV.scatter_add_(1, index_C1, -torch.ones_like(index_C1, dtype=torch.float32))
            dlogits_CV = (dlogits_CV.mul_(counts_C1) / count).to(x_ND.dtype)
            dx_CD.copy_(dlogits_CV @ weight_VD)
            dweight_VD += dlogits_CV.T @ x_CD
        return loss, dx_ND, dweight_VD.to(weight_VD.dtype)

    def forward(self, x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor) -> Tensor:
        """The loss, () float32, through which gradients flow to x and weight."""
        return _Known.apply(self, x_ND, weight_VD, targets_N)

    def peak_bytes(self, x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor) -> int:
        """Most bytes that `loss_and_gradients` holds at one time, its arguments not counted."""
        with torch.no_grad(), Held() as held:
            self.loss_and_gradients(x_ND, weight_VD, targets_N)
        return held.peak


class _Known(torch.autograd.Function):
    """Keeps the gradients of x and weight, which are there at the end of forward."""

    @staticmethod
    def forward(ctx, head, x_ND, weight_VD, targets_N):
        loss, *gradients = head.loss_and_gradients(x_ND, weight_VD, targets_N)
        ctx.save_for_backward(*gradients)
        return loss

    @staticmethod
    def backward(ctx, grad):
        dx_ND, dweight_VD = ctx.saved_tensors
        return None, dx_ND * grad, dweight_VD * grad, None


def chunked_loss(
    x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, *, chunk: int = 1024
) -> Tensor:
    """Mean cross-entropy in nats of the logits x @ weight.T against `targets`: () float32.

    x (N, D) and weight (V, D) of one float dtype; targets (N,) int64, IGNORED for those that do not
    count; nan when none does, as in torch. Equal to F.cross_entropy over the whole matrix. Gradients
    flow to x and weight, in their dtypes. Holds chunk * V logits in float32 where the usual head
    holds N * V of them, and as many again for their gradient. ValueError for a chunk below 1 or
    shapes that do not fit.
    """
    if x_ND.dim() != 2 or weight_VD.dim() != 2 or x_ND.shape[1] != weight_VD.shape[1]:
        raise ValueError(
            f"expected x (N, D) and weight (V, D), got {tuple(x_ND.shape)} and "
            f"{tuple(weight_VD.shape)}: flatten B and T first"
        )
    if targets_N.shape != x_ND.shape[:1]:
        raise ValueError(f"expected targets ({x_ND.shape[0]},), got {tuple(targets_N.shape)}")
    return ChunkedHead(chunk)(x_ND, weight_VD, targets_N)
