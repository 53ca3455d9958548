"""The scaler by hand goes where torch's goes, and rescues what float16 loses."""

import math

import pytest
import torch
from torch import nn

from course_lib.training.loss_scaling import LARGEST, LossScaler


def gradients(kind: str, size: float) -> torch.Tensor:
    return torch.tensor(
        [size, torch.inf if kind == "inf" else torch.nan if kind == "nan" else size]
    )


@pytest.mark.parametrize("max_norm", [math.inf, 0.3])
def test_scales_go_where_those_of_torch_go(max_norm):
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
        mine.step(optimizers[0], max_norm)
        mine.update()
        stock.scale((theirs * given).sum()).backward()
        stock.unscale_(optimizers[1])
        nn.utils.clip_grad_norm_([theirs], max_norm)
        stock.step(optimizers[1])
        stock.update()
        for optimizer in optimizers:
            optimizer.zero_grad()
        assert mine.value == stock.get_scale(), f"update {number}"
    assert torch.equal(ours, theirs) and ours.isfinite().all()


def test_float16_loses_a_small_gradient_and_keeps_it_scaled():
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    small = torch.tensor([2.0**-26])  # float16 ends at 2**-24

    def learned(scaler: LossScaler) -> float:
        nn.init.zeros_(weight)
        optimizer.zero_grad()
        halves = weight.half()  # its gradient is float16 on the way back
        scaler.scale((halves.float() * small).sum()).backward()
        scaler.step(optimizer)
        return -weight.item()

    assert learned(LossScaler(1.0)) == 0.0
    assert learned(LossScaler(2.0**16)) == small.item()


def test_gradients_are_divided_and_missing_ones_passed_over():
    weight, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    scaler = LossScaler(8.0)
    scaler.scale(weight.sum()).backward()
    assert torch.equal(weight.grad, torch.full((2,), 8.0))
    norm = scaler.step(torch.optim.SGD([weight, unused], lr=0.5), max_norm=1.0)
    assert norm == pytest.approx(math.sqrt(2)) and unused.grad is None
    assert weight.tolist() == pytest.approx([1 - 0.5 / math.sqrt(2)] * 2)
    assert unused.tolist() == [1, 1]


def test_the_scale_has_an_upper_end():
    scaler = LossScaler(LARGEST / 2, growth_interval=1)
    for _ in range(3):
        scaler.update()
    assert scaler.value == LARGEST


def test_a_rehearsal_leaves_out_what_is_not_finite():
    scaler = LossScaler(4.0, growth_interval=2)
    one, bad = torch.ones(2), torch.tensor([1.0, math.nan])
    found = scaler.rehearse([[one, None], [one, None], [bad, None], [one, None]])
    assert [row["scale"] for row in found] == [4, 8, 4, 4]
    assert [row["norm"] for row in found] == [pytest.approx(2**0.5)] * 2 + [
        None,
        pytest.approx(2**0.5),
    ]
    assert [row["weights"][0].tolist() for row in found] == [[-1, -1], [-2, -2], [-2, -2], [-3, -3]]
    assert all(row["weights"][1].tolist() == [0] for row in found)


def test_a_resumed_run_grows_at_the_same_update():
    first, second = LossScaler(growth_interval=4), LossScaler(1.0, growth_interval=4)
    for _ in range(3):
        first.update()
    second.load_state_dict(first.state_dict())
    second.update()
    assert second.value == 2.0**17


@pytest.mark.parametrize(
    "wrong",
    [
        dict(scale=0.0),
        dict(growth=1.0),
        dict(backoff=1.0),
        dict(growth_interval=0),
    ],
)
def test_factors_that_could_not_find_a_scale(wrong):
    with pytest.raises(ValueError, match="growth > 1 > backoff"):
        LossScaler(**wrong)
