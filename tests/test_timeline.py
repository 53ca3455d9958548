"""What a trace says of computing and communicating: by hand, and from torch's own profiler."""

import gzip
import itertools
import json

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from course_lib.measure.timeline import Timeline, merge_spans, read_timeline, sum_spans
from course_lib.measure.trace import RECORDED, chrome_trace
from course_lib.ranks import local_ranks


def write_trace(path, *events: tuple[str, str, float, float]):
    """A trace of (category, name, start, duration) in microseconds."""
    rows = [
        {"ph": "X", "cat": cat, "name": name, "ts": 1000 + ts, "dur": dur, "pid": 1, "tid": 1}
        for cat, name, ts, dur in events
    ]
    text = json.dumps({"traceEvents": [*rows, {"ph": "M", "name": "process_name"}]})
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def test_spans_that_touch_are_one():
    assert merge_spans([(5, 6), (0, 2), (1, 3), (3, 4)]) == [(0, 4), (5, 6)]
    assert sum_spans([(5, 6), (0, 2), (1, 3), (3, 4)]) == 5


def test_exposed_is_what_no_computing_covers():
    line = Timeline(compute=[(0, 10), (14, 15)], communication=[(2, 4), (8, 13)])
    assert (line.seconds, line.communication_s, line.exposed_s) == (15, 7, 3)
    assert Timeline([(0, 10)], [(2, 4)]).exposed_s == 0


def test_a_gpus_kernels_count_and_not_the_calls_that_queue_them(tmp_path):
    path = write_trace(
        tmp_path / "gpu.json.gz",
        ("cpu_op", "aten::mm", 0, 500),
        ("user_annotation", "nccl:all_reduce", 0, 500),
        ("kernel", "sm90_xmma_gemm_bf16", 100, 60),
        ("kernel", "void at::native::vectorized_elementwise_kernel", 150, 50),
        ("gpu_memcpy", "Memcpy DtoD", 200, 10),
        ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage)", 190, 70),
    )
    line = read_timeline(path)
    flat = [x for row in (line.compute, line.communication) for span in row for x in span]
    assert flat == pytest.approx([0, 110e-6, 90e-6, 160e-6])
    assert line.exposed_s == pytest.approx(50e-6)


def test_what_is_before_the_recorded_call_is_left_out(tmp_path):
    path = write_trace(
        tmp_path / "gpu.json",
        ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0, 90),  # a barrier
        ("user_annotation", RECORDED, 100, 60),
        ("kernel", "sm90_xmma_gemm_bf16", 120, 40),
        ("gpu_user_annotation", RECORDED, 120, 70),  # where its kernels are, not where it began
        ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 150, 30),
    )
    line = read_timeline(path)
    assert line.communication_s == pytest.approx(30e-6)
    assert (line.compute[0][0], line.exposed_s) == (0, pytest.approx(20e-6))


def test_a_trace_without_either_is_refused(tmp_path):
    with pytest.raises(ValueError, match="empty.json has no kernels.*chrome_trace"):
        read_timeline(write_trace(tmp_path / "empty.json", ("cpu_op", "detach", 0, 1)))


def test_a_barrier_is_between_an_unrecorded_call_and_the_recorded_one(tmp_path):
    done = []

    def work():
        done.append("work")
        torch.ones(3) + 1

    def barrier():
        done.append("barrier")
        torch.ones(3) * 2

    path = chrome_trace(work, tmp_path / "step.json", barrier=barrier)
    assert done == ["work", "barrier", "work"]
    events = json.loads(path.read_text())["traceEvents"]
    at = {event["name"]: event["ts"] for event in events if event.get("ph") == "X"}
    assert [event.get("name") for event in events].count("aten::add") == 1
    assert at["aten::mul"] < at[RECORDED] < at["aten::add"]


def profile_steps(path: str) -> dict:
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(3)])
    wrapped = DistributedDataParallel(model, bucket_cap_mb=0.01)

    def step() -> None:
        wrapped(torch.ones(8, 64)).sum().backward()

    step()
    step()
    line = read_timeline(chrome_trace(step, path, barrier=dist.barrier))
    return {"compute": sum_spans(line.compute), "communication": line.communication_s,
            "exposed": line.exposed_s, "seconds": line.seconds}  # fmt: skip


def test_the_profiler_of_this_torch_shows_gloo_beside_backward(tmp_path):
    ranks = local_ranks.run(profile_steps, [(str(tmp_path / f"{r}.json"),) for r in range(2)])
    for found in (rank.value for rank in ranks):
        assert found["compute"] > 0 and found["communication"] > 0
        spans = found["exposed"], found["communication"], found["seconds"]
        assert spans[0] >= 0 and all(a <= b + 1e-12 for a, b in itertools.pairwise(spans))
