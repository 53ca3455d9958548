"""A loss that is nan: find the first module that made one, and see what does not repair it.

    python book/reference/programs/not_a_number.py

Two planted faults: a mask that closes its diagonal too, and a batch in which no target counts.
"""

import torch
from torch import Tensor, nn

from course_lib import gpt
from course_lib.gpt import GPT, GPTConfig
from course_lib.training.ddp_trainer import IGNORED


def first_bad(model: nn.Module, idx: Tensor, targets: Tensor) -> str:
    """The innermost module whose output is the first that is not finite; "the loss", or "none"."""
    bad: list[str] = []

    def look(name: str):
        def hook(module, args, output):
            tensors = output if isinstance(output, tuple) else (output,)
            if not all(t.isfinite().all() for t in tensors if isinstance(t, Tensor)):
                bad.append(name)  # modules end from the inside out, so the first is the innermost

        return hook

    hooks = [m.register_forward_hook(look(n)) for n, m in model.named_modules() if n]
    loss = model(idx, targets)[1]
    for hook in hooks:
        hook.remove()
    return bad[0] if bad else "none" if loss.isfinite() else "the loss"


def no_diagonal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention whose mask takes the diagonal as well: token 0 sees nothing."""
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    closed = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(diagonal=0)
    return scores.masked_fill(closed, float("-inf")).softmax(-1) @ v


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    shape = dict(vocab_size=64, num_layers=2, num_heads=2, d_model=32, d_hidden=64)
    model = GPT(GPTConfig(**shape, fast_attention=False))
    idx = torch.randint(64, (2, 8))
    print("healthy:", first_bad(model, idx, idx))

    nothing = torch.full_like(idx, IGNORED)
    print("no target counts:", first_bad(model, idx, nothing))

    right, gpt.causal_attention = gpt.causal_attention, no_diagonal
    print("mask takes the diagonal:", first_bad(model, idx, idx))
    model(idx, idx)[1].backward()
    gpt.causal_attention = right

    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    grad = model.embedding.weight.grad
    print(f"clipping it: norm {norm.item()}, finite gradients left: {bool(grad.isfinite().any())}")


if __name__ == "__main__":
    main()
