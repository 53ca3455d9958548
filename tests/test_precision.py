"""Which format a run computes in, what utilization is a share of, and who takes part."""

import pytest
import torch

from course_lib.measure.peak import peak_flops
from course_lib.measure.speed import Speed
from course_lib.ranks.world import World
from course_lib.training import precision
from course_lib.training.precision import autocast, compute_dtype, has_bf16_units

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("amx", "avx512", "maker", "wanted"),
    [
        (True, True, "GenuineIntel", torch.bfloat16),
        (False, True, "AuthenticAMD", torch.bfloat16),
        (False, True, "GenuineIntel", torch.float32),
        (False, False, "AuthenticAMD", torch.float32),
        (False, True, "", torch.float32),
    ],
)
def test_auto_takes_16_bits_only_where_they_are_faster(amx, avx512, maker, wanted, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512)
    monkeypatch.setattr(precision, "_processor", lambda: f"vendor_id : {maker}")
    assert compute_dtype("auto", CPU) == wanted
    assert has_bf16_units(CPU) == (amx or avx512)


def test_a_word_is_taken_as_it_is():
    assert compute_dtype("auto", CPU) in (torch.float32, torch.bfloat16)
    assert compute_dtype("fp32", CPU) == torch.float32
    assert compute_dtype("bf16", CPU) == torch.bfloat16


def test_other_formats_are_refused():
    with pytest.raises(ValueError, match="must be auto"):
        compute_dtype("fp8", CPU)


def test_autocast_changes_products_and_no_weights():
    linear = torch.nn.Linear(4, 4)
    with autocast(torch.bfloat16, CPU):
        assert linear(torch.ones(2, 4)).dtype == torch.bfloat16
    with autocast(torch.float32, CPU):
        assert linear(torch.ones(2, 4)).dtype == torch.float32
    assert linear.weight.dtype == torch.float32


def test_speed_counts_what_runs_between_start_and_stop():
    speed = Speed(CPU, torch.float32, flops_per_token=10**9, world_size=1)
    assert speed.source == "measured" and speed.row() == {}
    speed.start()
    speed.stop(500)
    first = speed.row()
    assert first["tokens_per_s"] == pytest.approx(first["mfu"] * speed.peak_tokens_per_s)
    assert speed.row() is first, "no update since: the last row again"


def test_the_peak_is_a_rate_of_this_machine():
    flops, source = peak_flops(CPU, torch.float32)
    assert source == "measured" and 1e8 < flops < 1e14


def test_a_world_of_one_needs_no_group(monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    world = World.from_environment("cpu")
    x = torch.arange(3.0)
    total = world.sum(x)
    assert torch.equal(total, x) and total.data_ptr() != x.data_ptr()
    assert world.gather("a") == ["a"] and world.broadcast(3) == 3 and world.is_first
    world.barrier()
    world.close()


def test_devices_that_are_not_there_are_named():
    with pytest.raises(ValueError, match="auto, cpu or cuda"):
        World.from_environment("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="wants GPU 0, and this machine has 0"):
            World.from_environment("cuda")
