"""Utilization: by the formula, beside the FLOPs that torch counts, and in both conventions."""

import pytest

from course_lib.gpt import GPTConfig
from course_lib.measure.flops import flops_per_token, flops_per_token_counted
from course_lib.measure.utilization import mfu


@pytest.mark.parametrize("name", ["tiny", "small"])
def test_a_device_that_does_nothing_else_is_at_one(name):
    config = GPTConfig.preset(name)
    rate = 1e12 / flops_per_token_counted(config, 32)
    assert mfu(rate, config, 32, 1e12) == pytest.approx(1)


def test_both_conventions_at_134_million():
    config = GPTConfig.preset("134m", tie_embeddings=False)
    by = {c: mfu(1e5, config, 512, 1e15, convention=c) for c in ("matmul", "all")}
    flops = {c: flops_per_token(config, 512, c) for c in by}
    assert by["all"] / by["matmul"] == pytest.approx(flops["all"] / flops["matmul"])
    assert by["all"] > by["matmul"]


def test_several_devices_have_one_rate_together():
    config = GPTConfig.preset("tiny")
    assert mfu(8e3, config, 64, 1e12, world_size=8) == pytest.approx(mfu(1e3, config, 64, 1e12))
    with pytest.raises(ValueError, match="convention"):
        mfu(1.0, config, 64, 1.0, convention="flops")
