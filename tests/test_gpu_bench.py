"""The GPU's figures by one command: each part runs, tiny, on a CPU; failures cost one part."""

import dataclasses
import json
import signal
import sys
import threading
from types import SimpleNamespace

import pytest
import torch

from benchmarks import attention, gpu
from benchmarks.on_gpu import lessons

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("name", list(gpu.PARTS))
def test_each_part_runs_on_a_cpu_and_is_json(name, tmp_path):
    gpu.work(name, True, tmp_path)
    found = json.loads((tmp_path / f"gpu_{name}.json").read_text())["figures"]
    assert found
    for row in found["rows"] if isinstance(found.get("rows"), list) else ():
        assert all(row[key] > 0 for key in ("ms", "step_ms") if key in row)
    for formula, held, most in found.get("bytes_per_parameter", ()):
        assert 0 <= held - formula < 0.1 < most - held, "a stage of ZeRO has left something behind"
    assert torch.distributed.is_initialized() is False, "the group of one rank is closed"


def test_attention_ways_agree_and_have_a_picture(tmp_path):
    figures = attention.measure(attention.DRY, "cpu", say=lambda text: None)
    names = {row["name"] for row in figures["rows"]}
    assert {"explicit", "tiled", "sdpa math"} <= names and "triton at 64" in figures["not_measured"]
    assert all(row["difference"] < 1e-5 for row in figures["rows"])
    attention.draw(figures, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_longest_lengths_are_left_out_and_named():
    sizes = dataclasses.replace(attention.DRY, longest={"explicit": 32})
    rows, missing = attention.at_length(sizes, 64, "cpu")
    assert missing["explicit"] == "not tried beyond 32 tokens"
    assert "explicit" not in {row["name"] for row in rows}


def programs(monkeypatch, **by_name: str) -> None:
    monkeypatch.setattr(gpu, "PARTS", dict.fromkeys(by_name, (None, 1.0)))
    monkeypatch.setattr(gpu, "command", lambda name, *_: [sys.executable, "-c", by_name[name]])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


def test_a_part_that_fails_costs_itself_alone(monkeypatch, tmp_path, capsys):
    programs(monkeypatch, bad="raise SystemExit('the driver is too old')", good="print('fine')")
    monkeypatch.setattr(gpu, "PARTS", dict.fromkeys(("bad", "good"), (None, 60.0)))
    assert gpu.main(["bad", "good", "--out", str(tmp_path)]) == 1
    bad, good = capsys.readouterr().out.splitlines()
    assert "ended with 1: the driver is too old" in bad and good.endswith("done")
    assert (tmp_path / "gpu_good.log").read_text() == "fine\n"


SLOW = """
import time
try:
    print("begun", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("kept two rounds")
"""


def test_ctrl_c_ends_the_part_and_keeps_what_it_said(monkeypatch, tmp_path, capsys):
    programs(monkeypatch, slow=SLOW, later="")
    monkeypatch.setattr(gpu, "PARTS", dict.fromkeys(("slow", "later"), (None, 60.0)))
    mine = threading.get_ident()
    threading.Timer(4, signal.pthread_kill, [mine, signal.SIGINT]).start()
    assert gpu.main(["slow", "later", "--out", str(tmp_path)]) == 130
    assert (tmp_path / "gpu_slow.log").read_text() == "begun\nkept two rounds\n"
    (said,) = capsys.readouterr().out.splitlines()
    assert said.startswith("slow") and "interrupted" in said


def test_a_part_out_of_time_is_asked_to_end(monkeypatch, tmp_path):
    programs(monkeypatch, slow=SLOW)
    assert gpu.run("slow", False, tmp_path, 4) == "not done after 4 s"
    assert (tmp_path / "gpu_slow.log").read_text() == "begun\nkept two rounds\n"


def test_without_a_gpu_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main([]) == 2
    assert "torch sees no GPU here" in capsys.readouterr().err


@pytest.mark.parametrize("given, words", [(["--dry"], "pass --out"), (["speed"], "no part speed")])
def test_bad_words(given, words, capsys):
    with pytest.raises(SystemExit) as stopped:
        gpu.main(given)
    assert stopped.value.code == 2 and words in capsys.readouterr().err


def test_parts_over_all_gpus_are_left_out_where_there_is_one(monkeypatch, tmp_path, capsys):
    programs(monkeypatch, nccl="", ladder="", **dict.fromkeys(lessons.SCRIPTS, ""))
    monkeypatch.setattr(gpu, "PARTS", dict.fromkeys(("nccl", *lessons.SCRIPTS), (None, 60.0)))
    for count in (1, 2):
        monkeypatch.setattr(torch.cuda, "device_count", lambda count=count: count)
        assert gpu.main(["--out", str(tmp_path)]) == 0
        done = {line.split()[0] for line in capsys.readouterr().out.splitlines() if "done" in line}
        assert done == {"nccl", "ladder"} | (set(lessons.SCRIPTS) if count > 1 else set())


def test_scripts_of_lessons_take_no_time_from_the_ladder(monkeypatch, tmp_path):
    now, seconds = [0.0], {}

    def run(name, dry, out, limit):
        seconds[name] = limit
        now[0] += limit
        return ""

    monkeypatch.setattr(gpu, "run", run)
    monkeypatch.setattr(gpu, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert gpu.main([*lessons.SCRIPTS, "ladder", "--out", str(tmp_path)]) == 0
    assert seconds == dict.fromkeys(lessons.SCRIPTS, gpu.LESSON_S) | {"ladder": gpu.LIMIT_S}


def test_each_lesson_has_the_script_that_is_measured():
    for lesson, script in lessons.SCRIPTS.values():
        compile(lessons.read_script(lesson, script), script, "exec")
    with pytest.raises(LookupError, match="nothing.py in 19_collectives.md, got 0"):
        lessons.read_script("19_collectives", "nothing.py")
