"""What ranks measure together: the slowest counts, and old figures are not read as new ones."""

import os
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from course_lib.measure.timing import Timing
from course_lib.ranks import local_ranks, measurement
from course_lib.ranks.measurement import describe_world, read_measurement, write_measurement
from course_lib.ranks.world import World


def of_rank(seconds: dict[str, tuple[float, ...]]) -> dict:
    """`time_over_ranks` on a rank whose own stopwatch says `seconds`."""
    measurement.side_by_side = lambda functions, **how: {
        name: Timing(found) for name, found in seconds.items()
    }
    return measurement.time_over_ranks(dict.fromkeys(seconds), World.of_group())


def test_each_run_takes_as_long_as_on_its_slowest_rank():
    fast, slow = {"a": (1.0, 5.0, 3.0), "b": (7.0,) * 3}, {"a": (2.0, 1.0, 4.0), "b": (6.0,) * 3}
    for rank in local_ranks.run(of_rank, [(fast,), (slow,)]):
        assert rank.value["a"].seconds == (2.0, 5.0, 4.0) and rank.value["a"].median == 4.0
        assert rank.value["b"].median == 7.0
        assert [own.median for own in rank.value["a"].ranks] == [3.0, 2.0]


def see_who_is_late(folder: str) -> list[bool]:
    """At each run of the second function: whether rank 1 has ended its run of the first."""
    done, ended = 0, []

    def first() -> None:
        nonlocal done
        done += 1
        if dist.get_rank() == 1:
            time.sleep(0.2)
            Path(folder, str(done)).touch()

    def second() -> None:
        ended.append(Path(folder, str(done)).exists())

    functions = {"first": first, "second": second}
    measurement.time_over_ranks(functions, World.of_group(), warmup=0, rounds=3)
    return ended


def test_no_rank_begins_a_run_before_all_have_ended_the_one_before(tmp_path):
    for rank in local_ranks.run(see_who_is_late, [(str(tmp_path),)] * 2, seconds=60):
        assert rank.value == [True] * 3


def count_calls() -> tuple[int, list[int]]:
    calls = []

    def function() -> None:
        calls.append(1)
        dist.all_reduce(torch.ones(1))

    found = measurement.time_over_ranks({"sum": function}, World.of_group(), warmup=2, rounds=5)
    assert all(seconds > 0 for seconds in found["sum"].seconds)
    return len(calls), [len(found["sum"].seconds)]


def test_warm_up_runs_do_not_count():
    assert [rank.value for rank in local_ranks.run(count_calls, [()] * 2)] == [(7, [5])] * 2


def largest_of(values: list[float]) -> list[float]:
    return measurement.largest_over_ranks(values, World.of_group())


def test_of_each_number_the_fullest_rank_counts_on_every_rank():
    found = local_ranks.run(largest_of, [([1, 5.5],), ([2, 3],), ([0, 4],)])
    assert [rank.value for rank in found] == [[2, 5.5]] * 3
    assert measurement.largest_over_ranks([7, 8], World()) == [7, 8]


def test_a_world_of_one_needs_no_group():
    found = measurement.time_over_ranks({"": lambda: None}, World(), warmup=0, rounds=3)
    assert len(found[""].seconds) == 3 and not dist.is_initialized()


def time_sizes() -> tuple[list[int], list[tuple[int, int]], dict[int, int]]:
    """Of this rank: the sizes in the order of its calls, its timings, and each size's sum of ones."""
    calls, sums = [], {}

    def make(part: World):
        def function() -> None:
            calls.append(part.world_size)
            sums[part.world_size] = int(part.sum(torch.ones(1)))

        return function

    found = measurement.time_world_sizes(make, World.of_group(), turns=2, rounds=3)
    for n, timing in found.items():
        assert [len(own.seconds) for own in timing.ranks] == [6] * n
        slowest = torch.tensor([own.seconds for own in timing.ranks], dtype=torch.float64)
        assert list(timing.seconds) == slowest.amax(0).tolist()
    return calls, [(n, len(timing.seconds)) for n, timing in found.items()], sums


def test_sizes_of_a_world_take_turns_and_each_has_its_own_group():
    first, second, third = (rank.value for rank in local_ranks.run(time_sizes, [()] * 3))
    # four calls a turn, of which the first does not count
    assert first[0] == ([1] * 4 + [2] * 4 + [3] * 4) * 2
    assert first[1:] == ([(1, 6), (2, 6), (3, 6)], {1: 1, 2: 2, 3: 3})
    assert second == (([2] * 4 + [3] * 4) * 2, [(2, 6), (3, 6)], {2: 2, 3: 3})
    assert third == ([3] * 8, [(3, 6)], {3: 3})


def test_the_only_size_of_a_world_of_one_is_one():
    found = measurement.time_world_sizes(lambda part: lambda: None, World(), turns=2, rounds=1)
    assert list(found) == [1] and len(found[1].seconds) == 2 and not dist.is_initialized()


def test_the_world_is_told_in_one_line(monkeypatch):
    assert describe_world(World(world_size=2)) == "2 ranks on the CPU, gloo: ratios only"
    assert describe_world(World()).startswith("1 rank on the CPU")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100")
    eight = World(world_size=8, device=torch.device("cuda:3"))
    assert describe_world(eight) == "8 x NVIDIA H100, NCCL"


def test_figures_come_back_with_what_they_were_measured_on(tmp_path):
    script = tmp_path / "speed.py"
    script.write_text("")
    with pytest.raises(
        ValueError, match=r"no .*speed.json yet: run the cell with %torchrun .*auto"
    ):
        read_measurement(script)
    write_measurement(script, {"rows": [{"ms": 1.5}]}, World(rank=1, world_size=2))
    assert not script.with_suffix(".json").exists(), "rank 0 alone writes"
    write_measurement(script, {"rows": [{"ms": 1.5}]}, World(world_size=2))
    found = read_measurement(script)
    assert found["rows"] == [{"ms": 1.5}] and (found["ranks"], found["device"]) == (2, "cpu")
    assert found["world"] == describe_world(World(world_size=2))
    with pytest.raises(ValueError, match="JSON"):
        write_measurement(script, {"ms": float("nan")}, World())
    assert read_measurement(script) == found, "the old file is whole"


def test_figures_of_a_script_that_has_changed_are_refused(tmp_path):
    script = tmp_path / "speed.py"
    script.write_text("")
    write_measurement(script, {}, World())
    later = script.with_suffix(".json").stat().st_mtime + 10
    os.utime(script, (later, later))
    with pytest.raises(ValueError, match=r"older than .*speed.py.*%torchrun .*again"):
        read_measurement(script)


def send_on_a_silent_mesh(shape: tuple[int, ...]) -> tuple[list[float], bool]:
    names = ("replicate", "shard")[-len(shape) :]
    real = init_device_mesh("cpu", shape, mesh_dim_names=names)
    mesh = measurement.silence_mesh(real)
    assert (mesh.shape, mesh.mesh_dim_names) == (real.shape, real.mesh_dim_names)
    x = torch.full((1,), 1.0 + dist.get_rank())
    if dist.get_rank() == 0:  # and nobody waits for the other
        for group in mesh.get_all_groups():
            dist.all_reduce(x, group=group)
    same = [dist.get_process_group_ranks(m.get_group("shard")) for m in (mesh, real)]
    return x.tolist(), same[0] == same[1]


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_on_a_silent_mesh_nothing_is_sent(shape):
    found = [
        rank.value for rank in local_ranks.run(send_on_a_silent_mesh, [(shape,)] * 2, seconds=60)
    ]
    assert found == [([1.0], True), ([2.0], True)]
