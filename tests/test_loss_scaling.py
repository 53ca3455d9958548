"""The scaler by hand goes where torch's goes, and rescues what float16 loses."""

import pytest
import torch
from torch import nn

from course_lib.loss_scaling import LARGEST, LossScaler


def gradients(kind: str, size: float) -> torch.Tensor:
    return torch.tensor(
        [size, torch.inf if kind == "inf" else torch.nan if kind == "nan" else size]
    )


def test_scales_go_where_those_of_torch_go():
    """Over runs of good and bad updates, the same scale, the same updates, the same weights."""
    torch.manual_seed(0)
    kinds = [["good", "good", "good", "inf", "nan"][i] for i in torch.randint(5, (200,))]
    ours, theirs = (nn.Parameter(torch.ones(2)) for _ in range(2))
    mine = LossScaler(2.0**10, growth_interval=3)
    stock = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3)
    optimizers = [torch.optim.SGD([p], lr=0.1) for p in (ours, theirs)]
    for number, kind in enumerate(kinds):
        given = gradients(kind, 0.01 * number)
        mine.scale((ours * given).sum()).backward()
        if mine.unscale([ours]):
            optimizers[0].step()
        mine.update()
        stock.scale((theirs * given).sum()).backward()
        stock.step(optimizers[1])
        stock.update()
        for optimizer in optimizers:
            optimizer.zero_grad()
        assert mine.value == stock.get_scale(), f"update {number}"
    assert torch.equal(ours, theirs) and ours.isfinite().all()


def test_float16_loses_a_small_gradient_and_keeps_it_scaled():
    weight = nn.Parameter(torch.ones(1))
    small = torch.tensor([2.0**-26])  # float16 ends at 2**-24

    def learned(scaler: LossScaler) -> float:
        weight.grad = None
        halves = weight.half()  # its gradient is float16 on the way back
        scaler.scale((halves.float() * small).sum()).backward()
        assert scaler.unscale([weight])
        return weight.grad.item()

    assert learned(LossScaler(1.0)) == 0.0
    assert learned(LossScaler(2.0**16)) == small.item()


def test_gradients_are_divided_and_missing_ones_passed_over():
    weight, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    scaler = LossScaler(8.0)
    scaler.scale(weight.sum()).backward()
    assert torch.equal(weight.grad, torch.full((2,), 8.0))
    assert scaler.unscale([weight, unused])
    assert torch.equal(weight.grad, torch.ones(2)) and unused.grad is None
    assert LossScaler().unscale([])


def test_the_scale_has_an_upper_end():
    scaler = LossScaler(LARGEST / 2, growth_interval=1)
    for _ in range(3):
        scaler.unscale([])
        scaler.update()
    assert scaler.value == LARGEST


def test_a_resumed_run_grows_at_the_same_update():
    first, second = LossScaler(growth_interval=4), LossScaler(1.0, growth_interval=4)
    for _ in range(3):
        first.update()
    second.load_state_dict(first.state_dict())
    second.update()
    assert second.value == 2.0**17


@pytest.mark.parametrize("wrong", [
    dict(scale=0.0), dict(growth=1.0), dict(backoff=1.0), dict(growth_interval=0),
])  # fmt: skip
def test_factors_that_could_not_find_a_scale(wrong):
    with pytest.raises(ValueError, match="growth > 1 > backoff"):
        LossScaler(**wrong)
