"""AdamW by hand: one update of one tensor, as a pure function.

What it is: the arithmetic that `torch.optim.AdamW` does for each tensor of a model, with the state
in the arguments and in the result, so the weights come in detached. What it leaves out: groups, the
learning rate's schedule, and the fused kernel, which does the same in one pass over memory.

Sources: Kingma and Ba 2015 ("Adam"), algorithm 1; Loshchilov and Hutter 2019 ("Decoupled Weight
Decay Regularization"), algorithm 2.
"""

from torch import Tensor


def adamw_step(
    param: Tensor,
    grad: Tensor,
    m: Tensor,
    v: Tensor,
    step: int,
    *,
    lr: float,
    betas: tuple[float, float],
    weight_decay: float,
    eps: float = 1e-8,
) -> tuple[Tensor, Tensor, Tensor]:
    """Update number `step` of one tensor: the new (param, m, v).

    `param`, `grad`, `m`, `v` and the results all have one shape and one float dtype. The arithmetic
    is in that dtype or a wider one. Don't turn lr, betas, weight_decay and eps into tensors, which
    would round them to that dtype. The caller keeps autograd from recording. The
    arguments stay as they are. `m` and `v` are the running means of the gradient and of its square, 0
    before the first update and without correction. `betas` are the shares of the old `m` and `v` that
    an update keeps. `step` counts from 1, or ValueError. The decay takes lr * weight_decay of the old
    `param`. `eps` is added to the root of the corrected v. `m` and `v` are finite.
    Give inf and nan in `grad` no special treatment, since the caller looks for those.
    """
    if step < 1:
        raise ValueError(f"step counts updates from 1, got {step}")
    beta1, beta2 = betas
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**step)  # the weights of a mean that began at 0 do not add up to 1 yet
    v_hat = v / (1 - beta2**step)
    # decay beside the step, not inside grad: there v would divide it away
    return (1 - lr * weight_decay) * param - lr * m_hat / (v_hat.sqrt() + eps), m, v
