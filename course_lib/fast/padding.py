"""A vocabulary padded to a size that a GPU multiplies well, and a loss that does not notice.

What it is: a head with more rows than there are tokens, whose extra logits never leave it, and a
function that gives it to a GPT. What it leaves out: a gain where the size is a multiple already, or
on a CPU; `course bench ladder` measures it.

Source: NVIDIA, "Matrix Multiplication Background User's Guide", on dimensions that are multiples of
16 bytes and, on an A100, of 128 bytes: 64 numbers of 16 bits.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.gpt import GPT


class PaddedHead(nn.Module):
    """A linear head of V outputs, computed as one of V rounded up to `multiple`.

    `weight` is (padded, D): the rows of `head`, then zeros, which take no gradient but 0. ValueError
    for a multiple below 1 and for a head with a bias.
    """

    def __init__(self, head: nn.Linear, multiple: int = 64):
        super().__init__()
        if multiple < 1:
            raise ValueError(f"multiple must be at least 1, got {multiple}")
        if head.bias is not None:
            raise ValueError("expected a head without a bias, as GPT's is")
        self.vocab_size = head.out_features
        more = -self.vocab_size % multiple
        self.weight = nn.Parameter(F.pad(head.weight.detach(), (0, 0, 0, more)))

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) to (..., V): the padded product is cut to the tokens there are."""
        return F.linear(x, self.weight)[..., : self.vocab_size]


def pad_vocabulary(model: GPT, multiple: int = 64) -> GPT:
    """Give `model` a padded head, and its embedding the same rows where the two are one. Returns the model.

    In place, before an optimizer or DDP is made of it. Logits keep their shape (B, T, V), and loss
    and gradients their values. Checkpoints hold the padded rows: pad a model before it loads one.
    """
    tied = model.head.weight is model.embedding.weight
    head = PaddedHead(model.head, multiple)
    setattr(model, "head", head)  # noqa: B010  GPT says a Linear, and this is called like one
    if tied:
        model.embedding.weight = head.weight
        model.embedding.num_embeddings = len(head.weight)
    return model
