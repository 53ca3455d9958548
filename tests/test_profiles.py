"""Reading nsys's tables, ranges and traces, and what is said where the tool or the GPU is missing."""

import gzip
import json
import subprocess
import sys

import pytest
import torch

from course_lib.measure import nsys
from course_lib.measure.snapshot import memory_snapshot
from course_lib.measure.trace import WARM_UP, StepTrace, chrome_trace, mark_range

HEAD = "Generating SQLite file step.sqlite from step.nsys-rep\nProcessing [step.sqlite] with [x.py]...\n"
KERNELS = HEAD + (
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    "20.0,2000000,4,500000.0,400000.0,300000,900000,1000.0,"
    '"void at::native::elementwise_kernel<(int)128, (int)4>(int, T2)"\n'
    "80.0,8000000,2,4000000.0,4000000.0,3900000,4100000,9.0,nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT\n"
    "\nProcessing [step.sqlite] with [y.py]...\nTime (%),Total Time (ns),Instances,Name\n1,1,1,other\n"
)
RANGES = (
    "Time (%),Total Time (ms),Instances,Avg (ms),Med (ms),Min (ms),Max (ms),StdDev (ms),Style,Range\n"
    "100.0,1.5,3,0.5,0.5,0.4,0.6,0.1,PushPop,:forward\n"
)


def test_kernels_longest_first():
    product, rest = nsys.read(KERNELS)
    assert (product.count, product.total_s, product.mean_s) == (2, 0.008, 0.004)
    assert product.multiplies and not rest.multiplies
    assert rest.name.endswith("(int, T2)") and rest.total_s == 0.002  # commas inside a name


def test_ranges_and_another_unit():
    (row,) = nsys.read(RANGES)
    assert row == nsys.Row("forward", 3, pytest.approx(1.5e-3), pytest.approx(0.5e-3))
    assert nsys.read(RANGES.replace("(ms)", "[us]"))[0].total_s == pytest.approx(1.5e-6)


def test_a_report_without_data_has_no_rows():
    assert nsys.read(HEAD + "SKIPPED: step.sqlite does not contain CUDA kernel data.") == []


@pytest.mark.parametrize("text", ["", "ImportError: no module", "Total Time (ns),Calls\n1,2\n"])
def test_text_that_is_no_table(text):
    with pytest.raises(ValueError, match="expected"):
        nsys.read(text)


def program(folder, body: str):
    """A stand-in for nsys: what it prints is what the real one printed elsewhere."""
    path = folder / "nsys"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_nsys_is_asked_and_its_words_come_through(tmp_path, monkeypatch):
    recording = tmp_path / "step.nsys-rep"
    with pytest.raises(ValueError, match="no recording"):
        nsys.stats(recording)
    recording.write_text("")
    with pytest.raises(ValueError, match="report must be one of"):
        nsys.stats(recording, "gpukernsum")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="nsys is not on the PATH"):
        nsys.stats(recording)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "table").write_text(KERNELS)
    program(tmp_path, f'echo "$@" > {tmp_path}/asked; cat {tmp_path}/table')
    assert len(nsys.stats(recording, "cuda_gpu_kern_sum:nvtx-name")) == 2
    asked = (tmp_path / "asked").read_text().split()
    assert asked[:3] == ["stats", "--report", "cuda_gpu_kern_sum:nvtx-name"]
    assert asked[3:5] == ["--format", "csv"] and asked[-1] == str(recording)
    program(tmp_path, "echo 'cannot open the file' >&2; exit 3")
    with pytest.raises(ValueError, match="ended with 3: cannot open the file"):
        nsys.stats(recording)


@pytest.mark.parametrize("name", ["step.json", "below/step.json.gz"])
def test_a_trace_holds_the_ranges(tmp_path, name):
    def work():
        with mark_range("outer"), mark_range("inner"):
            torch.ones(3) + 1

    path = chrome_trace(work, tmp_path / name)
    read = gzip.open if name.endswith("gz") else open
    with read(path, "rt") as stream:
        events = [event.get("name") for event in json.load(stream)["traceEvents"]]
    assert {"outer", "inner", "aten::add"} <= set(events)


def run_updates(trace: StepTrace, count: int) -> str:
    for number in range(1, count + 1):
        with mark_range(f"update {number}"):
            torch.ones(3) + 1
        trace.step()
    return trace.close()


@pytest.mark.parametrize(
    "updates, said, inside",
    [
        (9, "trace of 2 updates in", [4, 5]),
        (5, "trace of 2 updates in", [4, 5]),
        (4, "trace of 1 update in", [4]),
        (3, "no trace: it begins after 3 updates, and there were 3", None),
        (0, "no trace", None),
    ],
)
def test_a_trace_of_updates_has_those_after_the_first(tmp_path, updates, said, inside):
    trace = StepTrace(tmp_path / "run" / "trace.json.gz", 2)
    assert WARM_UP == 3 and run_updates(trace, updates).startswith(said)
    assert trace.close().startswith(said), "again"
    assert trace.path.exists() == (inside is not None)
    if inside:
        with gzip.open(trace.path, "rt") as stream:
            events = [event.get("name", "") for event in json.load(stream)["traceEvents"]]
        assert [e for e in events if e.startswith("update")] == [f"update {n}" for n in inside]
    assert not torch.autograd._profiler_enabled()


def test_no_trace_unless_asked_for(tmp_path):
    assert run_updates(StepTrace(tmp_path / "trace.json.gz", 0), 9) == ""
    assert not list(tmp_path.iterdir())


def test_a_range_without_a_profile_changes_nothing():
    with pytest.raises(KeyError), mark_range("ours"):
        raise KeyError
    assert not torch.autograd._profiler_enabled()


def test_traces_that_cannot_be(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="a trace is .json"):
        chrome_trace(lambda: None, tmp_path / "step.txt")
    monkeypatch.setattr(torch.profiler, "kineto_available", lambda: False)
    with pytest.raises(ValueError, match="without its profiler"):
        chrome_trace(lambda: None, tmp_path / "step.json")


def test_a_snapshot_without_cuda_names_what_counts_here(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="saved_bytes"), memory_snapshot(tmp_path / "m.pickle"):
        pytest.fail("the block ran")


def test_a_snapshot_is_written_when_the_block_fails(tmp_path, monkeypatch):
    """The recorder is torch's; which calls it gets, and in which order, is ours."""
    said = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", lambda **o: said.append(o))
    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", said.append)
    path = tmp_path / "m.pickle"
    with pytest.raises(torch.OutOfMemoryError), memory_snapshot(path, max_entries=7):
        raise torch.OutOfMemoryError
    assert said == [{"max_entries": 7, "clear_history": True}, str(path), {"enabled": None}]


def test_a_trace_prints_nothing(tmp_path):
    program = (
        "import sys, torch\nfrom course_lib.measure.trace import chrome_trace\n"
        "chrome_trace(lambda: torch.ones(3) + 1, sys.argv[1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "a.json"], capture_output=True, text=True
    )
    assert (tmp_path / "a.json").exists() and "profiler_st" not in done.stdout + done.stderr
