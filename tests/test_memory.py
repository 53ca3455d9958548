"""The formula of `course_lib.measure.memory` against the bytes that torch really holds."""

import pytest
import torch
from torch import nn

from course_lib.measure.held import bytes_held, most_held
from course_lib.measure.memory import (
    counted_state_bytes,
    saved_bytes,
    tensor_bytes,
    training_state_bytes,
)


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.Linear(40, 8))


def num_params(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    "make, moments",
    [
        (lambda p: torch.optim.AdamW(p, lr=1e-3), 2),
        (lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9), 1),
        (lambda p: torch.optim.SGD(p, lr=1e-3), 0),
    ],
)
def test_float32_training_holds_what_the_formula_says(make, moments):
    net = model()
    optimizer = make(net.parameters())
    net(torch.randn(4, 24)).sum().backward()
    optimizer.step()
    counted = counted_state_bytes(net, optimizer)
    n = num_params(net)
    assert counted == {"weights": 4 * n, "gradients": 4 * n, "optimizer": 4 * n * moments}
    expected = training_state_bytes(
        n, param_bytes=4, grad_bytes=4, master_copy=False, moments=moments
    )
    assert sum(counted.values()) == expected


def test_mixed_precision_with_a_master_copy_holds_16_bytes_a_parameter():
    net = model().bfloat16()
    masters = [p.detach().float().requires_grad_() for p in net.parameters()]
    optimizer = torch.optim.AdamW(masters, lr=1e-3)
    net(torch.randn(4, 24, dtype=torch.bfloat16)).sum().backward()
    for master, p in zip(masters, net.parameters(), strict=True):
        master.grad = p.grad.float()  # for the step only, then freed
    optimizer.step()
    optimizer.zero_grad()
    n = num_params(net)
    counted = counted_state_bytes(net, optimizer)
    assert counted == {"weights": 2 * n, "gradients": 2 * n, "optimizer": 12 * n}
    assert sum(counted.values()) == training_state_bytes(n) == 16 * n


def test_seven_billion_parameters_are_112_gb_in_both_precisions():
    assert training_state_bytes(7_000_000_000) == 112_000_000_000
    full = training_state_bytes(7_000_000_000, param_bytes=4, grad_bytes=4, master_copy=False)
    assert full == 112_000_000_000


def test_a_shared_tensor_counts_once():
    weight = torch.zeros(10)
    assert tensor_bytes([weight, weight, None]) == 40


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_saved_bytes_counts_activations_and_no_weights(device):
    """Two Linears and a ReLU save x, the ReLU's output once, and views of weights that are free."""
    net = nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 8)).to(device)
    x = torch.zeros(3, 5, 24, device=device, requires_grad=True)
    assert saved_bytes(net, x) == 4 * 15 * (24 + 40)


def test_saved_bytes_counts_a_storage_once():
    x = torch.randn(6, 4, requires_grad=True)
    assert saved_bytes(lambda x: (x * x.flip(0).T.T).sum() + x.view(4, 6).pow(2).sum(), x) == 2 * 96


def test_most_held_is_all_that_there_is_and_what_the_call_makes():
    """Storages count once, however many tensors look at them; what was let go counts no more."""
    weight = torch.zeros(1000)
    half = weight[:500]
    nothing = most_held(lambda: None, "cpu")

    def call() -> None:
        first = weight + 1
        del first
        (half + 1) * 2  # two at a time

    assert most_held(call, "cpu") == nothing + weight.nbytes
    more = torch.zeros(50)  # noqa: F841  alive
    assert most_held(call, "cpu") == nothing + weight.nbytes + 200


def test_most_held_sees_a_buffer_that_was_there_and_is_filled_again():
    """FSDP keeps the tensors of its gathered weights, and takes their memory away."""
    buffer = torch.zeros(1000)
    buffer.untyped_storage().resize_(0)
    nothing = most_held(lambda: None, "cpu")

    def call() -> None:
        buffer.untyped_storage().resize_(4000)
        buffer.fill_(1)
        buffer.untyped_storage().resize_(0)

    assert most_held(call, "cpu") == nothing + 4000


def test_a_gradient_counts_though_nobody_has_read_it():
    weight = torch.zeros(1000, requires_grad=True)
    nothing, most = bytes_held("cpu"), most_held(lambda: None, "cpu")
    assert nothing == most
    (weight * 2).sum().backward()
    assert (bytes_held("cpu"), most_held(lambda: None, "cpu")) == (nothing + 4000, most + 4000)


def test_bytes_held_asks_the_allocator_of_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "memory_allocated", {"cuda:1": 3_000}.get)
    assert bytes_held("cuda:1") == 3_000


def test_most_held_asks_the_allocator_of_a_gpu(monkeypatch):
    marks = []
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda d: marks.append("reset"))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda d: marks.append("read") or 5_000)
    assert most_held(lambda: marks.append("call"), "cuda:0") == 5_000
    assert marks == ["reset", "call", "read"]
