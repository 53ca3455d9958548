"""Timing and roofline: what is counted, what is left out, and the arithmetic of both ceilings."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from course_lib.measure.roofline import (
    Ceilings,
    Cost,
    elementwise,
    matmul,
    matmul_roof,
    measured_ceilings,
)
from course_lib.measure.timing import Timing, side_by_side, stopwatch, time_it
from course_lib.probes.clock import FakeDevice


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still unless a test moves it."""
    now = [0.0]
    monkeypatch.setattr("course_lib.measure.timing.time.perf_counter", lambda: now[0])
    return now


def test_the_warm_up_does_not_count(clock):
    calls = []

    def slow_at_first():
        calls.append(None)
        clock[0] += 10 if len(calls) <= 2 else 1

    assert time_it(slow_at_first, warmup=2, repeats=5).seconds == (1.0,) * 5
    assert len(calls) == 7


def test_several_take_turns():
    order = []
    found = side_by_side({n: lambda n=n: order.append(n) for n in "ab"}, warmup=1, rounds=3)
    assert "".join(order) == "ab" * 4 and {n: len(t.seconds) for n, t in found.items()} == {
        "a": 3,
        "b": 3,
    }


def test_what_comes_before_a_run_comes_before_each_that_counts():
    order = []
    functions = {n: lambda n=n: order.append(n) for n in "ab"}
    side_by_side(functions, warmup=1, rounds=2, before=lambda: order.append("-"))
    assert "".join(order) == "ab" + "-a-b" * 2


def test_median_and_spread():
    found = Timing((0.004, 0.001, 0.002, 0.003, 0.100))
    assert found.median == 0.003 and found.spread == (0.002, 0.004)
    assert str(found) == "3 ms (2 to 4, 5 runs)"
    assert Timing((2.0, 1.0)).spread == (1.0, 2.0)


@pytest.mark.parametrize("wrong", [dict(repeats=0), dict(warmup=-1)])
def test_no_runs(wrong):
    with pytest.raises(ValueError, match="1 run or more"):
        time_it(lambda: None, **wrong)


def test_an_error_comes_through():
    with pytest.raises(ZeroDivisionError):
        time_it(lambda: 1 / 0)


def test_flops_are_those_that_torch_counts():
    with FlopCounterMode(display=False) as counter:
        torch.zeros(3, 5) @ torch.zeros(5, 7)
    assert matmul(3, 5, 7).flops == counter.get_total_flops()
    assert matmul(3, 5, 7, number_bytes=4).num_bytes == 4 * (15 + 35 + 21)


def test_which_roof_is_lower():
    machine = Ceilings(flops_per_s=100.0, bytes_per_s=10.0)
    assert machine.ridge == 10
    thin, thick = Cost(50, 10), Cost(1000, 10)
    assert (machine.attainable(thin), machine.attainable(thick)) == (50, 100)
    assert (machine.seconds(thin), machine.seconds(thick)) == (1, 10)
    for cost in (thin, thick):
        assert cost.flops / machine.seconds(cost) == machine.attainable(cost)


def test_a_norm_is_below_the_ridge_of_any_machine_and_a_large_product_above():
    norm = elementwise(1 << 20, reads=1, writes=1, flops=4)
    assert norm.intensity == 1 and matmul(4096, 4096, 4096).intensity > 1000


def test_ceilings_of_this_machine():
    found = measured_ceilings(size=256, copied_bytes=1 << 24)
    assert 1e8 < found.flops_per_s < 1e14 and 1e8 < found.bytes_per_s < 1e13


def test_a_stopwatch_waits_for_the_queue_before_and_after_each_run():
    bench = FakeDevice([9.0, 1.0, 2.0, 6.0], launch=0.01)
    bench.busy_until += 5
    found = stopwatch(bench.function, warmup=1, repeats=3, wait=bench.wait, clock=bench.clock)
    assert found == pytest.approx((2.01, 1.01, 6.01))


def test_a_stopwatch_of_an_even_number_of_runs():
    bench = FakeDevice([1.0, 2.0, 4.0, 9.0])
    assert stopwatch(bench.function, warmup=0, repeats=4, clock=bench.clock) == (3.0, 1.0, 9.0)


@pytest.mark.parametrize("wrong", [dict(repeats=0), dict(warmup=-1)])
def test_a_stopwatch_without_runs_calls_nothing(wrong):
    with pytest.raises(ValueError, match="1 run or more"):
        stopwatch(lambda: pytest.fail("called"), **wrong)


def test_the_roof_of_a_product_is_that_of_its_cost():
    for shape in ((3, 5, 7), (1, 64, 64), (512, 512, 512)):
        machine, cost = Ceilings(1e3, 40.0), matmul(*shape, number_bytes=4)
        roof = matmul_roof(*shape, number_bytes=4, flops_per_s=1e3, bytes_per_s=40.0)
        assert (roof["flops"], roof["bytes"]) == (cost.flops, cost.num_bytes)
        assert (roof["intensity"], roof["ridge"]) == (cost.intensity, machine.ridge)
        assert roof["attainable"] == machine.attainable(cost)
