"""8-bit layers: the product is that of the rounded numbers, and a model still learns."""

import pytest
import torch
from torch import nn

from course_lib.fast.fp8 import BACKWARD, FORWARD, Fp8Linear, to_fp8, use_fp8
from course_lib.gpt import GPT, GPTConfig


def rounded(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    found, scale = to_fp8(x, dtype)
    return found.double() * scale.double()


@pytest.mark.parametrize("dtype, eps", [(FORWARD, 2**-3), (BACKWARD, 2**-2)])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_rounding_keeps_half_a_step_of_each_number(dtype, eps, size):
    torch.manual_seed(0)
    x = torch.randn(500) * size
    # half a step of the number, or of the smallest normal one: 2^-6 and 2^-14, times the scale
    least = {FORWARD: 2**-6, BACKWARD: 2**-14}[dtype] * to_fp8(x, dtype)[1]
    assert ((rounded(x, dtype) - x).abs() <= eps / 2 * x.abs().clamp(min=least) * 1.001).all()
    assert (rounded(torch.zeros(4), dtype) == 0).all()


def test_forward_and_gradients_are_products_of_the_rounded_numbers():
    torch.manual_seed(0)
    plain = nn.Linear(48, 32, bias=False)
    layer, x, grad = Fp8Linear.from_linear(plain), torch.randn(2, 16, 48), torch.randn(2, 16, 32)
    assert layer.weight is plain.weight
    out = layer(x.requires_grad_())
    dx, dw = torch.autograd.grad(out, (x, layer.weight), grad)
    x8, w8 = rounded(x.detach().flatten(0, 1), FORWARD), rounded(plain.weight.detach(), FORWARD)
    g8 = rounded(grad.flatten(0, 1), BACKWARD)
    for found, wanted in (
        (out.flatten(0, 1), x8 @ w8.T),
        (dx.flatten(0, 1), g8 @ w8),
        (dw, g8.T @ x8),
    ):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)  # float32 sums
    assert out.shape == grad.shape and dx.shape == x.shape
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16


def test_a_model_learns_as_in_float32():
    config = GPTConfig(
        vocab_size=32, max_seq_len=32, num_layers=2, num_heads=2, d_model=32, d_hidden=64
    )
    losses = {}
    for eight in (False, True):
        torch.manual_seed(0)
        model = GPT(config)
        names = [name for name, _ in model.named_parameters()]
        if eight:
            use_fp8(model, emulate=True)
            assert sum(isinstance(m, Fp8Linear) for m in model.modules()) == 2 * 7
        assert [name for name, _ in model.named_parameters()] == names, "checkpoints fit both"
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        tokens = torch.arange(2 * 33).view(2, 33) % 32
        for _ in range(30):
            loss = model(tokens[:, :-1], tokens[:, 1:])[1]
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses[eight] = loss.item()
    assert losses[False] < 1.5 and abs(losses[True] - losses[False]) < 0.2, losses


def test_where_it_cannot_run_it_is_said():
    config = GPTConfig(vocab_size=32, num_layers=1, num_heads=1, d_model=16, d_hidden=32)
    with pytest.raises(ValueError, match="capability 8.9 or later.*emulate=True"):
        use_fp8(GPT(config))
    with pytest.raises(ValueError, match="without a bias"):
        Fp8Linear.from_linear(nn.Linear(16, 16))
    with pytest.raises(ValueError, match="multiples of 16"):
        Fp8Linear.from_linear(nn.Linear(16, 24, bias=False))
    with pytest.raises(ValueError, match="a multiple of 16 rows, got 5"):
        Fp8Linear.from_linear(nn.Linear(16, 16, bias=False))(torch.randn(5, 16))
