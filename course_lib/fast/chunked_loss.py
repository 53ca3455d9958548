"""The loss over a large vocabulary, without the matrix of all logits.

What it is: head and cross-entropy as one operation over chunks of tokens, and the hooks that put it
into a GPT. The gradient is known as soon as the loss is, so each chunk's logits go into both and are
dropped. What it leaves out: chunks of the vocabulary, a kernel of its own.

Sources: Hsu et al. 2024 ("Liger Kernel"), section 3.2 (fused linear cross-entropy); Wijmans et al.
2024 ("Cut your losses in large-vocabulary language models") for how much of a step's memory it is.

Shapes: N tokens (B * T), D model width, V vocabulary, C tokens of one chunk.
"""

import torch
from torch import Tensor, nn

from course_lib.gpt import GPT

IGNORED = -100  # a target that does not count, as in F.cross_entropy


class ChunkedHead(nn.Module):
    """Head and mean cross-entropy over `chunk` tokens at a time. It has no weights of its own.

    Calling it with x (N, D), weight (V, D) and targets (N,) gives the loss; see `chunked_loss`.
    ValueError for a chunk below 1.
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

        x (N, D) and weight (V, D): one float dtype, finite, and so are all logits, in ignored rows
        too. targets (N,): int64. The caller has switched autograd off. loss: () float32, the mean in
        nats over the targets that are not IGNORED. dx (N, D) and dweight (V, D): dtype of x. A row
        of dx is 0 where the target is IGNORED. When all targets are IGNORED, loss is nan and both
        gradients are 0.

        All products, the logits too, are taken in the dtype of x. Logits become float32 before the
        softmax, and their gradient stays float32 until it is multiplied. dweight is summed over the
        chunks in float32. No tensor of logits or of their gradient has more than `self.chunk` rows.
        Those of a chunk are gone by the end of the next chunk. The last chunk may be shorter.
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
            dlogits_CV = logprobs_CV.exp_()  # from here on in place
            dlogits_CV.scatter_add_(1, index_C1, -torch.ones_like(index_C1, dtype=torch.float32))
            dlogits_CV = dlogits_CV.mul_(counts_C1).div_(count.clamp(min=1)).to(x_ND.dtype)
            dx_CD.copy_(dlogits_CV @ weight_VD)
            dweight_VD += dlogits_CV.T @ x_CD
            del logprobs_CV, dlogits_CV  # else they live until the next chunk's have been made
        return loss, dx_ND, dweight_VD.to(weight_VD.dtype)

    def forward(self, x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor) -> Tensor:
        """The loss, () float32, through which gradients flow to x and weight."""
        return _Known.apply(self, x_ND, weight_VD, targets_N)


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


class ChunkedLoss:
    """Gives `model` a loss in chunks, in place: its head gets no tokens, and `chunked_loss` gets all.

    From then on `model(idx, targets)` returns (logits of no token, (B, 0, V); the same loss, ()
    float32). Without targets it returns the logits of all tokens, as before. Parameters stay as they
    are. Inside, head and loss are computed in the dtype of autocast, or of the last norm's output.

    Args: `model`, before it is wrapped or compiled; `chunk`, tokens whose logits exist at a time.
    """

    def __init__(self, model: GPT, chunk: int = 1024):
        self.chunk, self.targets, self.x_BTD = chunk, None, None
        model.register_forward_pre_hook(self._keep_targets, with_kwargs=True)
        model.head.register_forward_pre_hook(self._keep_inputs)
        model.register_forward_hook(self._add_loss)

    def _keep_targets(self, model: GPT, args: tuple, given: dict) -> tuple[tuple, dict]:
        """Before the model: it gets `idx` alone, and does not compute a loss of its own."""
        idx, self.targets = (*args, *given.values(), None)[:2]
        return (idx,), {}

    def _keep_inputs(self, head: nn.Module, args: tuple[Tensor]) -> tuple[Tensor] | None:
        """Before the head, of a model with targets: it gets no token."""
        if self.targets is None:
            return None
        (self.x_BTD,) = args
        return (self.x_BTD[:, :0],)

    def _add_loss(self, model: GPT, args: tuple, out: tuple[Tensor, None]):
        """After the model: the loss, from what the head did not get."""
        x_BTD, targets, self.x_BTD, self.targets = self.x_BTD, self.targets, None, None
        if targets is None or x_BTD is None:
            return out
        kind = x_BTD.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x_BTD.dtype
        x_ND = x_BTD.flatten(0, 1).to(dtype)
        weight_VD = model.head.weight[: model.config.vocab_size].to(dtype)  # without padded rows
        return out[0], chunked_loss(x_ND, weight_VD, targets.flatten(), chunk=self.chunk)
