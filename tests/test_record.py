"""Benchmark records: complete, readable, without a trace of where the project lies."""

import json
import math

import pytest

from benchmarks import record as record_module
from benchmarks.record import record
from grader.course import ROOT


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(record_module, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def test_record_is_complete(results):
    path = record("demo", {"speed_mb_per_s": 1.5})
    content = json.loads(path.read_text())
    assert path == results / "demo.json"
    assert list(content) == ["name", "date", "machine", "versions", "command", "figures"]
    assert content["name"] == "demo" and content["figures"] == {"speed_mb_per_s": 1.5}
    assert content["machine"]["cpu"] and content["machine"]["cores"] >= 1
    assert {"python", "numpy", "tiktoken"} <= set(content["versions"])
    assert content["date"].endswith("+00:00")


def test_command_has_no_folder(results, monkeypatch):
    monkeypatch.setattr(
        "sys.argv", [str(results / "bench.py"), "--size", "3", "--cache", str(results)]
    )
    monkeypatch.setattr("__main__.__spec__", None)
    assert record_module.command() == f"python bench.py --size 3 --cache {results.name}"


def test_lesson_06_shows_what_its_program_wrote():
    page = (ROOT / "book/06_gpt.md").read_text(encoding="utf-8")
    stored = json.loads((ROOT / "benchmarks/results/minutes.json").read_text(encoding="utf-8"))
    for sample in stored["figures"]["samples"]:
        text = "\n".join(line.rstrip() for line in sample["text"].splitlines())
        assert f"```text\n{text}\n```" in page
        assert f"{sample['updates']:,} updates and a training loss of {sample['loss']:.2f}" in page
    assert f"torch {stored['versions']['torch'].partition('+')[0]}" in page
    assert stored["machine"]["cpu"] in page
    bad = json.loads((ROOT / "benchmarks/results/first_weights.json").read_text(encoding="utf-8"))
    assert f"the first {bad['figures']['updates']} updates" in page and bad["figures"]["reached"]


def test_lesson_04_says_what_its_head_reads():
    page = (ROOT / "book/04_attention.md").read_text(encoding="utf-8")
    path = ROOT / "benchmarks/results/heads.json"
    assert path.stat().st_size < 20_000
    found = json.loads(path.read_text(encoding="utf-8"))["figures"]
    tokens, before, after = found["tokens"], found["before"], found["after"]
    assert "".join(tokens).strip() == "if len(self.addresses)!=1:"
    for t, (first, then) in enumerate(zip(before, after, strict=True)):
        assert len(first) == len(then) == t + 1
        assert abs(sum(then) - 1) < 0.05 and max(first) - min(first) < 0.05
    read = [tokens[row.index(max(row))].strip() for row in after]
    dot = tokens.index(".")
    assert (
        set(read[dot:]) == {"("} and read[dot - 1] == "len" and len(read) - tokens.index(")") == 4
    )
    assert round(found["on_open_bracket"] / found["as_far_back"]) == 7 and "seven times" in page
    assert round(found["minutes"]) == 5 and found["heads"] == 16


def test_lesson_15_shows_its_record():
    page = (ROOT / "book/15_compile.md").read_text(encoding="utf-8")
    path = ROOT / "benchmarks/results/compiled_norm.json"
    found = json.loads(path.read_text(encoding="utf-8"))["figures"]
    eager, compiled, first = found["eager_ms"], found["compiled_ms"], found["first_call_s"]
    shown = {"first": first, "eager": eager, "compiled": compiled, "copy": found["copy_ms"]}
    assert json.dumps(shown)[:-1] in page
    assert f"{eager / compiled:.1f} times as fast as the eager one" in page
    assert f"some {round(first * 1e3 / (eager - compiled), -2):,.0f} calls" in page


def test_what_is_not_json_leaves_the_old_record(results):
    path = record("demo", {"loss": 1.0})
    with pytest.raises(ValueError):
        record("demo", {"loss": math.nan})
    assert json.loads(path.read_text())["figures"] == {"loss": 1.0}
