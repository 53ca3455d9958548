"""The loss in chunks equals torch's over the whole matrix, and holds a chunk of it."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.fast.chunked_loss import chunked_loss
from course_lib.measure.held import Held


def drawn(N: int, D: int, V: int, dtype=torch.float32, ignored: float = 0.0):
    torch.manual_seed(N)
    x, weight = torch.randn(N, D, dtype=dtype), torch.randn(V, D, dtype=dtype) / D**0.5
    targets = torch.randint(V, (N,)).masked_fill(torch.rand(N) < ignored, -100)
    return x.requires_grad_(), weight.requires_grad_(), targets


def whole(x, weight, targets):
    return F.cross_entropy((x @ weight.T).float(), targets)


@pytest.mark.parametrize("chunk", [1, 4, 7, 20, 64])
@pytest.mark.parametrize("ignored", [0.0, 0.5])
def test_equal_to_the_whole(chunk, ignored):
    x, weight, targets = drawn(20, 6, 33, ignored=ignored)
    found, wanted = chunked_loss(x, weight, targets, chunk=chunk), whole(x, weight, targets)
    torch.testing.assert_close(found, wanted)
    for a, b in zip(
        *(torch.autograd.grad(3 * l, (x, weight)) for l in (found, wanted)), strict=True
    ):
        torch.testing.assert_close(a, b)


def test_sixteen_bits():
    """The gradient of a logit is rounded to bf16 once, as in the usual head: eps / 2 of each term."""
    x, weight, targets = drawn(64, 16, 50, dtype=torch.bfloat16)
    exact = [t.detach().double().requires_grad_() for t in (x, weight)]
    found, wanted = chunked_loss(x, weight, targets, chunk=16), whole(*exact, targets)
    assert found.dtype == torch.float32
    assert abs(found.item() - wanted.item()) < 0.01  # logits near 1 in 8 bits: 0.004 each
    for a, b in zip(
        torch.autograd.grad(found, (x, weight)), torch.autograd.grad(wanted, exact), strict=True
    ):
        assert a.dtype == torch.bfloat16
        assert (a.double() - b).norm() < 0.02 * b.norm()


def test_nothing_counts():
    x, weight, targets = drawn(4, 3, 5)
    assert chunked_loss(x, weight, torch.full_like(targets, -100)).isnan()


def test_it_holds_a_chunk():
    def peak(function, N: int) -> int:
        x, weight, targets = drawn(N, 4, 2000)
        with Held() as held:
            function(x, weight, targets).backward()
        return held.peak

    chunk = 4 * 32 * 2000  # bytes of one chunk's logits in float32
    small, large = (peak(lambda *a: chunked_loss(*a, chunk=32), N) for N in (128, 512))
    assert large - small < chunk / 8 and large < 8 * chunk
    assert peak(whole, 512) > 2 * 16 * chunk


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(chunk=0), "at least 1 token"),
        (dict(x=torch.zeros(2, 4, 3)), "flatten B and T first"),
        (dict(targets=torch.zeros(3, dtype=torch.long)), "expected targets"),
    ],
)
def test_what_does_not_fit_is_said(change, words):
    x, weight, targets = drawn(4, 3, 5)
    given = dict(x=x, targets=targets, chunk=2) | change
    with pytest.raises(ValueError, match=words):
        chunked_loss(given["x"], weight, given["targets"], chunk=given["chunk"])
