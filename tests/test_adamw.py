"""`adamw_step` against torch.optim.AdamW, and the properties that lesson 09 speaks of."""

import math

import pytest
import torch

from course_lib.training.adamw import adamw_step

PLAIN = dict(lr=0.01, betas=(0.9, 0.999), weight_decay=0.0)


def start(*shape: int, seed: int = 0, dtype=torch.float32):
    torch.manual_seed(seed)
    param = torch.randn(shape, dtype=dtype)
    return param, torch.zeros_like(param), torch.zeros_like(param)


def torchs(param, grads, **options):
    """The parameter and its state after one update of torch's optimizer for each gradient."""
    theirs = torch.nn.Parameter(param.clone())
    optimizer = torch.optim.AdamW([theirs], foreach=False, **options)
    for grad in grads:
        theirs.grad = grad.clone()
        optimizer.step()
    state = optimizer.state[theirs]
    return theirs.detach(), state["exp_avg"], state["exp_avg_sq"]


@pytest.mark.parametrize("betas", [(0.9, 0.95), (0.9, 0.999), (0.0, 0.5), (0.5, 0.0)])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_it_is_torchs_to_float32_rounding(betas, weight_decay):
    options = dict(lr=3e-3, betas=betas, weight_decay=weight_decay, eps=1e-8)
    first, m, v = start(7, 5)
    sizes = 10.0 ** torch.linspace(-4, 3, 35).reshape(7, 5)  # each weight has its own scale
    grads = [sizes * torch.randn(7, 5) for _ in range(50)]
    param = first
    for step, grad in enumerate(grads, start=1):
        param, m, v = adamw_step(param, grad, m, v, step, **options)
    theirs = torchs(first, grads, **options)
    # 50 updates, each rounded to 2**-24 of a weight in another order of operations
    torch.testing.assert_close(param, theirs[0], rtol=50 * 2**-23, atol=50 * 2**-23 * 3e-3)
    torch.testing.assert_close(m, theirs[1], rtol=1e-5, atol=1e-6 * sizes.max().item())
    torch.testing.assert_close(v, theirs[2], rtol=1e-5, atol=0)


def test_the_first_step_is_lr_whatever_the_gradient():
    param, m, v = start(6)
    grad = torch.tensor([1e-4, -1e-2, 1.0, -30.0, 1e3, 1e4])
    new, _, _ = adamw_step(param, grad, m, v, 1, **PLAIN)
    torch.testing.assert_close(new, param - 0.01 * grad.sign(), rtol=0, atol=2e-6)


def test_the_toy_of_eight_parameters():
    """Eight weights 1 to 8: each first step is lr, where a step without correction is 3.16 lr."""
    param, m, v = torch.arange(1.0, 9.0), torch.zeros(8), torch.zeros(8)
    grad = torch.tensor([0.15, 0.05, 0.1, 0.2, 0.05, 0.1, 0.25, -0.05])
    new, m, v = adamw_step(param, grad, m, v, 1, **PLAIN)
    assert new.tolist() == pytest.approx([0.99, 1.99, 2.99, 3.99, 4.99, 5.99, 6.99, 8.01], abs=1e-6)
    bare = 0.01 * m / (v.sqrt() + 1e-8)
    assert (bare / (param - new)).tolist() == pytest.approx([math.sqrt(10)] * 8, rel=1e-4)
    decayed, _, _ = adamw_step(param, grad, 0 * m, 0 * v, 1, **(PLAIN | dict(weight_decay=0.01)))
    assert decayed[0].item() == pytest.approx(0.9899, abs=1e-6)


def test_no_step_is_longer_than_the_bound():
    """|m| / sqrt(v) <= (1 - b1) / sqrt(1 - b2) / sqrt(1 - b1^2 / b2), by Cauchy and Schwarz.

    It is reached by gradients that grow by b2 / b1 an update after a silence of zeros.
    """
    b1, b2 = 0.9, 0.999
    bound = (1 - b1) / math.sqrt(1 - b2) / math.sqrt(1 - b1**2 / b2)
    assert bound == pytest.approx(7.27, abs=0.01)
    param, m, v = start(1, dtype=torch.float64)
    longest = 0.0
    for i in range(200):
        grad = torch.full_like(param, (b2 / b1) ** i * 1e-3)
        new, m, v = adamw_step(param, grad, m, v, 100_000 + i, **PLAIN)
        longest = max(longest, ((param - new).abs() / 0.01).item())
        param = new
    assert 0.999 * bound < longest <= bound


def test_decay_stands_beside_the_step():
    """A silent weight shrinks by lr * weight_decay, however loud its gradients were before."""
    param, m, v = torch.tensor([1.0, 1.0]), torch.zeros(2), torch.tensor([0.0, 1e6])
    options = PLAIN | dict(weight_decay=0.1)
    new, m, _ = adamw_step(param, torch.zeros(2), m, v, 1, **options)
    assert new.tolist() == pytest.approx([0.999, 0.999], abs=1e-7)
    assert m.tolist() == [0, 0]


def test_arguments_stay():
    given = start(3)
    kept = [t.clone() for t in given]
    adamw_step(given[0], torch.ones(3), *given[1:], 1, **PLAIN)
    assert all(torch.equal(a, b) for a, b in zip(kept, given, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_shape_and_dtype_go_through(dtype):
    param, m, v = start(2, 3, dtype=dtype)
    out = adamw_step(param, torch.ones_like(param), m, v, 1, **PLAIN)
    assert all(t.shape == (2, 3) and t.dtype == dtype for t in out)


@pytest.mark.parametrize("step", [0, -1])
def test_updates_count_from_one(step):
    param, m, v = start(2)
    with pytest.raises(ValueError, match=f"from 1, got {step}"):
        adamw_step(param, param, m, v, step, **PLAIN)
