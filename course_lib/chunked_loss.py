"""The loss over a large vocabulary, without the matrix of all logits.

What it is: head and cross-entropy as one operation over chunks of tokens. The gradient is known as
soon as the loss is, so each chunk's logits go into both and are dropped. What it leaves out: chunks
of the vocabulary, a kernel of its own.

Sources: Hsu et al. 2024 ("Liger Kernel"), section 3.2 (fused linear cross-entropy); Wijmans et al.
2024 ("Cut your losses in large-vocabulary language models") for how much of a step's memory it is.

Shapes: N tokens (B * T), D model width, V vocabulary, C tokens of one chunk.
"""

import torch
from torch import Tensor

IGNORED = -100  # a target that does not count, as in F.cross_entropy


class ChunkedLoss(torch.autograd.Function):
    """See `chunked_loss`. Keeps the gradients of x and weight, which it has at the end of forward."""

    @staticmethod
    def forward(ctx, x_ND, weight_VD, targets_N, chunk):
        count = (targets_N != IGNORED).sum()
        loss = torch.zeros((), dtype=torch.float32, device=x_ND.device)
        dx_ND = torch.empty_like(x_ND)
        dweight_VD = torch.zeros_like(weight_VD, dtype=torch.float32)  # a sum over all chunks
        for x_CD, targets_C, dx_CD in zip(
            x_ND.split(chunk), targets_N.split(chunk), dx_ND.split(chunk), strict=True
        ):
            part, dlogits_CV = loss_and_gradient(x_CD @ weight_VD.T, targets_C)
            loss += part / count
            dlogits_CV = (dlogits_CV / count).to(x_ND.dtype)
            dx_CD.copy_(dlogits_CV @ weight_VD)
            dweight_VD += dlogits_CV.T @ x_CD
        ctx.save_for_backward(dx_ND, dweight_VD.to(weight_VD.dtype))
        return loss

    @staticmethod
    def backward(ctx, grad):
        dx_ND, dweight_VD = ctx.saved_tensors
        return dx_ND * grad, dweight_VD * grad, None, None


def loss_and_gradient(logits_CV: Tensor, targets_C: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of the cross-entropies in nats, (), and its gradient, (C, V); both float32.

    The gradient of one token is softmax(logits) - one_hot(target), and 0 where the target is
    IGNORED, which adds nothing to the sum either.
    """
    logprobs_CV = torch.log_softmax(logits_CV.float(), dim=-1)
    counts_C1 = (targets_C != IGNORED).unsqueeze(-1)
    index_C1 = targets_C.clamp(min=0).unsqueeze(-1)
    loss = -(logprobs_CV.gather(1, index_C1) * counts_C1).sum()
    gradient_CV = logprobs_CV.exp_()  # in place: one matrix of C x V float32 at a time
    gradient_CV.scatter_add_(1, index_C1, torch.full_like(index_C1, -1, dtype=torch.float32))
    return loss, gradient_CV * counts_C1


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
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1 token, got {chunk}")
    if x_ND.dim() != 2 or weight_VD.dim() != 2 or x_ND.shape[1] != weight_VD.shape[1]:
        raise ValueError(f"expected x (N, D) and weight (V, D), got {tuple(x_ND.shape)} and "
                         f"{tuple(weight_VD.shape)}: flatten B and T first")  # fmt: skip
    if targets_N.shape != x_ND.shape[:1]:
        raise ValueError(f"expected targets ({x_ND.shape[0]},), got {tuple(targets_N.shape)}")
    return ChunkedLoss.apply(x_ND, weight_VD, targets_N, chunk)
