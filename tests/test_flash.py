"""Attention in tiles equals the explicit one, forward and backward, and holds no matrix of scores."""

import pytest
import torch

from course_lib.fast.flash import add_tile, flash_backward, flash_forward
from course_lib.fast.flash_attention import flash_attention
from course_lib.gpt import causal_attention
from course_lib.measure.held import Held
from course_lib.measure.memory import saved_bytes
from tests.soak import campaign, times


def drawn(seed: int) -> tuple[list[torch.Tensor], torch.Tensor, dict]:
    """q, k, v in float64, a gradient, and options: tiles that fit and tiles that do not."""
    random = torch.Generator().manual_seed(seed)

    def size(most: int) -> int:
        return 1 + int(torch.randint(most, (), generator=random))

    B, H, T, K = size(3), size(3), size(40), size(12)
    *qkv, grad = torch.randn(4, B, H, T, K, generator=random, dtype=torch.float64) * size(4)
    num_keys = torch.randint(T + 1, (B,), generator=random) if seed % 3 == 0 else None
    return qkv, grad, dict(tile=size(48), causal=seed % 2 == 0, num_keys=num_keys)


def explicit(q, k, v, *, causal: bool, num_keys=None):
    """The whole matrix of scores; a row that reads nothing is 0."""
    T, K = q.shape[-2:]
    hidden = torch.zeros(q.shape[0], 1, T, T, dtype=torch.bool)
    if causal:
        hidden = hidden | torch.ones(T, T, dtype=torch.bool).triu(1)
    if num_keys is not None:
        hidden = hidden | (torch.arange(T) >= num_keys.view(-1, 1, 1, 1))
    scores = (q @ k.transpose(-2, -1) / K**0.5).masked_fill(hidden, -1e30)
    weights = torch.softmax(scores, -1).masked_fill(hidden, 0.0)
    return weights @ v


def gradients(function, tensors, grad) -> list[torch.Tensor]:
    """The result and the gradients of the three inputs."""
    tensors = [x.clone().requires_grad_() for x in tensors]
    out = function(*tensors)
    return [out.detach(), *torch.autograd.grad(out, tensors, grad)]


@campaign
def test_two_hundred_shapes_in_float64():
    for seed in range(times(200, 5000)):
        qkv, grad, options = drawn(seed)
        rest = {name: value for name, value in options.items() if name != "tile"}
        found = gradients(lambda *x, o=options: flash_attention(*x, **o), qkv, grad)
        wanted = gradients(lambda *x, o=rest: explicit(*x, **o), qkv, grad)
        for name, a, b in zip(("out", "dq", "dk", "dv"), found, wanted, strict=True):
            # relative to the largest number: gradients of draws 4 times as large reach 10^3
            torch.testing.assert_close(
                a, b, rtol=0, atol=1e-10 * max(1, b.abs().max()), msg=lambda m, n=name: f"{n}: {m}"
            )


@campaign
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bits_lose_one_rounding_of_the_result(dtype):
    """Tiles are computed in float32. What is rounded is the result, by eps / 2 of itself; and `out`,
    which enters each ds by the row's sum of grad * out: eps / 2 of that sum, times weights <= 1."""
    eps = torch.finfo(dtype).eps
    for seed in range(times(200, 5000)):
        qkv, grad, options = drawn(seed)
        rest = {name: value for name, value in options.items() if name != "tile"}
        low = [x.to(dtype) for x in qkv]
        found = gradients(lambda *x, o=options: flash_attention(*x, **o), low, grad.to(dtype))
        exact = [x.double() for x in low]
        wanted = gradients(lambda *x, o=rest: explicit(*x, **o), exact, grad.to(dtype).double())
        sums = (grad * wanted[0]).abs().sum(-1).max() * max(x.abs().max() for x in exact)
        assert all(x.dtype == dtype for x in found)
        for a, b, more in zip(found, wanted, (0, sums, sums, 0), strict=True):
            bound = eps * b.abs() + eps * more + 1e-4 * b.abs().max().clamp(min=1)
            assert ((a.double() - b).abs() <= bound).all()


def test_it_is_the_attention_of_the_model():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 3, 50, 8)
    torch.testing.assert_close(flash_attention(q, k, v, tile=16), causal_attention(q, k, v))


def test_logsumexp_is_that_of_the_rows():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 9, 4, dtype=torch.float64)
    scores = q @ k.transpose(-2, -1) / 2
    _, lse = flash_forward(q, k, v, tile=4, causal=False)
    torch.testing.assert_close(lse, scores.logsumexp(-1))


def test_scores_far_apart_neither_overflow_nor_vanish():
    start = torch.full((1,), -torch.inf), torch.zeros(1), torch.zeros(1, 1)
    first = add_tile(*start, torch.tensor([[500.0]]), torch.ones(1, 1))
    _, total, mixed = add_tile(
        *first, torch.tensor([[-500.0, 501.0]]), torch.tensor([[7.0], [2.0]])
    )
    weight = 1 / (1 + torch.tensor(-1.0).exp())  # of 501 against 500; that of -500 is e^-1001
    torch.testing.assert_close(mixed / total, 2 * weight + (1 - weight).view(1, 1))
    peak, total, mixed = add_tile(*start, torch.full((1, 3), -torch.inf), torch.ones(3, 1))
    assert peak == -torch.inf and total == 0 and mixed == 0


def test_a_row_that_reads_nothing_is_zero_and_stays_so_in_gradients():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 1, 6, 4)
    num_keys = torch.tensor([0, 4])
    out, lse = flash_forward(q, k, v, tile=4, num_keys=num_keys)
    assert (out[0] == 0).all() and (lse[0] == -torch.inf).all() and lse[1].isfinite().all()
    grads = flash_backward(torch.ones_like(q), q, k, v, out, lse, tile=4, num_keys=num_keys)
    assert all((g[0] == 0).all() and g.isfinite().all() for g in grads)
    assert (grads[2][1, :, 4:] == 0).all()  # padding learns nothing


def test_memory_grows_with_the_length_and_not_with_its_square():
    def peak(function, T: int) -> int:
        q, k, v = (torch.randn(1, 1, T, 8, requires_grad=True) for _ in range(3))
        with Held() as held:
            function(q, k, v).sum().backward()
        return held.peak

    lengths = (256, 512, 1024)
    tiled = [peak(lambda *x: flash_attention(*x, tile=32), T) for T in lengths]
    whole = [peak(causal_attention, T) for T in lengths]
    assert tiled[2] < 2.01 * tiled[1] < 4.05 * tiled[0], tiled
    assert whole[2] > 3.9 * whole[1] > 15 * whole[0] and whole[2] > 50 * tiled[2], (tiled, whole)


def test_what_is_kept_for_backward():
    B, H, T, K = 2, 3, 64, 8
    q, k, v = (torch.randn(B, H, T, K, requires_grad=True) for _ in range(3))
    kept = saved_bytes(lambda: flash_attention(q, k, v, tile=16))
    assert kept == 4 * B * H * T * (4 * K + 1)  # q, k, v, out; one logsumexp a row


def test_tiles_above_the_diagonal_are_not_computed(monkeypatch):
    q, k, v = torch.randn(3, 1, 1, 64, 4)
    seen = []

    def counted(peak, total, mixed, scores, values):
        seen.append(tuple(scores.shape[-2:]))
        return add_tile(peak, total, mixed, scores, values)

    monkeypatch.setattr("course_lib.fast.flash.add_tile", counted)
    flash_forward(q, k, v, tile=16)
    assert seen == [(16, 16)] * (1 + 2 + 3 + 4)
    flash_forward(q, k, v, tile=16, causal=False)
    assert len(seen) == 10 + 16


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(tile=0), "tile must be at least 1"),
        (dict(k=torch.zeros(1, 1, 3, 4)), "of one shape"),
        (dict(v=torch.zeros(1, 1, 5, 4).half()), "one float dtype"),
        (dict(num_keys=torch.tensor([1, 2])), "one number a sequence"),
    ],
)
def test_what_does_not_fit_is_said(change, words):
    given = dict.fromkeys("qkv", torch.zeros(1, 1, 5, 4)) | change
    q, k, v = (given.pop(name) for name in "qkv")
    with pytest.raises(ValueError, match=words):
        flash_attention(q, k, v, **given)
