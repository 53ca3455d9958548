"""Which format a run computes in, what utilization is a share of, and who takes part."""

import time

import pytest
import torch

from course_lib.measure import peak
from course_lib.measure import speed as speed_module
from course_lib.measure.peak import peak_flops
from course_lib.measure.speed import OwnTime, Speed
from course_lib.ranks.world import World
from course_lib.training import precision
from course_lib.training.precision import autocast, compute_dtype, has_bf16_units, takes_tf32

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


@pytest.mark.parametrize(
    ("capability", "words"),
    [((8, 0), {"fp32", "tf32"}), ((9, 0), {"fp32", "tf32"}), ((7, 5), {None})],
)
def test_float32_on_a_gpu_with_units_for_it_is_tf32(capability, words, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    device = torch.device("cuda:0")
    for word in ("fp32", "ieee", "bf16", "fp16"):
        assert takes_tf32(word, device) == (word in words), word
    if "tf32" in words:
        assert takes_tf32("tf32", device) and compute_dtype("tf32", device) == torch.float32
        assert not takes_tf32("auto", device), "auto is bfloat16 there"
    else:
        with pytest.raises(ValueError, match="tf32 needs .* 8.0 or later.*--precision fp32"):
            takes_tf32("tf32", device)


def test_on_a_cpu_tf32_is_refused():
    assert not takes_tf32("fp32", CPU) and not takes_tf32("auto", CPU)
    with pytest.raises(ValueError, match="this run is on cpu"):
        takes_tf32("tf32", CPU)


def test_autocast_changes_products_and_no_weights():
    linear = torch.nn.Linear(4, 4)
    with autocast(torch.bfloat16, CPU):
        assert linear(torch.ones(2, 4)).dtype == torch.bfloat16
    with autocast(torch.float32, CPU):
        assert linear(torch.ones(2, 4)).dtype == torch.float32
    assert linear.weight.dtype == torch.float32


def test_speed_counts_what_runs_between_start_and_stop():
    speed, ranks = Speed(CPU, torch.float32, flops_per_token=10**9, world_size=1), [(7.0, 0.5)]
    assert speed.source == "measured" and speed.row(ranks) == {}
    for before in (1000, 1500):
        speed.start(before)
        speed.stop(before + 250)
    assert speed.tokens == 500
    first = speed.row(ranks)
    assert first["tokens_per_s"] == pytest.approx(first["mfu"] * speed.peak_tokens_per_s)
    assert speed.row(ranks) is first, "no update since: the last row again"


def test_speed_waits_until_the_device_has_done_what_was_queued(monkeypatch):
    """A device with a clock of its own: what is queued takes a second, whoever returns at once."""
    clock = [0.0]
    monkeypatch.setattr(speed_module.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(speed_module, "peak_flops", lambda *_: (1e12, "data sheet"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: clock.append(clock.pop() + 1.0))
    monkeypatch.setattr(speed_module, "peak_megabytes", lambda device: 0.0)
    speed = Speed(torch.device("cuda"), torch.bfloat16, flops_per_token=10**9, world_size=1)
    speed.start(0)
    speed.stop(500)
    assert speed.row([(1.0, 1.0)])["tokens_per_s"] == 500


def test_the_log_names_the_rank_that_holds_most_and_the_one_that_is_slowest():
    speed = Speed(CPU, torch.float32, flops_per_token=10**9, world_size=4)
    speed.start(0)
    speed.stop(10)
    row = speed.row([(500.0, 0.1), (700.0, 0.1), (600.0, 0.3), (500.0, 0.1)])
    assert row["memory_mb"] == 700 and row["slowest_rank"] == 2
    assert row["slowest_ratio"] == pytest.approx(2)


def test_own_time_is_that_of_the_last_update():
    own = OwnTime(CPU, parts=2)
    for seconds in (0.2, 0.0, 0.0):
        with own.measure():
            time.sleep(seconds)
    assert own.seconds() < 0.2, "the first of the three parts is of the update before"


def test_the_peak_is_a_rate_of_this_machine():
    flops, source = peak_flops(CPU, torch.float32)
    assert source == "measured" and 1e8 < flops < 1e14


BF16, FP16 = torch.bfloat16, torch.float16


@pytest.mark.parametrize(
    ("name", "dtype", "teraflops"),
    [
        ("NVIDIA L40S", BF16, 362),
        ("NVIDIA L4", BF16, 121),
        ("NVIDIA H100 80GB HBM3", BF16, 989),
        ("NVIDIA H100 PCIe", BF16, 756),
        ("NVIDIA H100 NVL", FP16, 835),
        ("NVIDIA A100-SXM4-40GB", FP16, 312),
        ("A100-SXM4-40GB", FP16, 312),  # as older drivers say it
        ("Tesla V100-SXM2-16GB", FP16, 125),
        ("Tesla V100-SXM2-16GB", BF16, None),
        ("NVIDIA H100 80GB HBM3", torch.float32, None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", BF16, None),  # a seventh of one
        ("NVIDIA RTX PRO 9000", BF16, None),
    ],
)
def test_a_gpu_is_known_by_its_whole_name_or_measured(name, dtype, teraflops, monkeypatch):
    said = []
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: said.append("freed"))
    monkeypatch.setattr(
        torch.cuda, "reset_peak_memory_stats", lambda device: said.append("peak cleared")
    )
    monkeypatch.setattr(peak, "_measure_rate", lambda device, dtype: said.append("measured") or 7.0)
    found = peak_flops(torch.device("cuda:0"), dtype)
    if teraflops:
        assert found == (teraflops * 1e12, "data sheet") and not said
    else:
        # the matrices of the measurement are none of the run's
        assert found == (7.0, "measured") and said == ["measured", "freed", "peak cleared"]


def test_the_peak_is_measured_with_numbers_that_differ(monkeypatch):
    """Equal bits draw less power, so a GPU would clock higher; and no draw of the run's is taken."""
    seen, state = [], torch.get_rng_state()

    class Stop(Exception):
        pass

    def looks(device):
        raise Stop

    made = torch.randn
    monkeypatch.setattr(torch, "randn", lambda *a, **k: seen.append(made(*a, **k)) or seen[-1])
    monkeypatch.setattr(peak, "synchronize", looks)
    with pytest.raises(Stop):
        peak_flops(CPU, torch.float32)
    assert len(seen) == 2 and all(x.unique().numel() > x.numel() // 2 for x in seen)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_measuring_a_gpu_leaves_its_count_of_memory_alone():
    device = torch.device("cuda", 0)
    torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)  # cuBLAS keeps a workspace
    before = torch.cuda.memory_allocated(device)
    assert peak_flops(device, torch.float32)[1] == "measured"
    assert torch.cuda.max_memory_allocated(device) == before


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
