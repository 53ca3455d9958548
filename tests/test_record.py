"""Benchmark records: complete, readable, without a trace of where the project lies."""

import ast
import json
import math

import jupytext
import pytest
import torch
from torch import Tensor

from benchmarks import record as record_module
from benchmarks.record import record
from course_lib import gpt
from course_lib.data.corpus import Corpus
from course_lib.data.tokenizer import Tokenizer
from course_lib.generation import load_writer, read_heads
from course_lib.gpt import GPT, causal_attention
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
    minute = json.loads((ROOT / "benchmarks/results/first_minute.json").read_text(encoding="utf-8"))
    nats = minute["figures"]["default_nats"]
    below = 1 + next(i for i, loss in enumerate(nats) if loss < math.log(8192))
    assert f"at update {below} and keeps jumping back" in page
    assert max(nats[below:]) > math.log(8192)


def test_a_leaking_mask_does_what_the_readme_and_lesson_04_say():
    path = ROOT / "benchmarks/results/leak.json"
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
    right, leaking = figures["causal"], figures["leaking"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    said = f"fell to {leaking['training_loss']:.2f} (with the right mask it was {right['training_loss']:.2f})"
    assert f"{figures['updates']} updates" in readme and said in readme
    start, _, rest = leaking["text"].partition("name ")
    written = readme.partition("and it wrote `")[2].partition("`")[0]
    assert f"`{start.strip()} name`" in readme and written and rest.startswith(written)
    assert leaking["next_token_loss"] > right["next_token_loss"] > right["unread_loss"]
    assert leaking["unread_loss"] < right["training_loss"] < right["unread_loss"]
    page = (ROOT / "book/04_attention.md").read_text(encoding="utf-8")
    assert f"After {figures['updates']} updates" in page


def test_the_seeds_of_lesson_05_do_what_it_says():
    path = ROOT / "benchmarks/results/norms_seeds.json"
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
    stuck = {}
    for place in ("front", "stream"):
        for warmup in (0, 50, 100):
            alike = figures[f"{place}_warmup_{warmup}_tokens_cosine"]
            losses = figures[f"{place}_warmup_{warmup}_nats"]
            assert len(alike) == len(losses) == figures["seeds"] == 8
            for cosine, loss in zip(alike, losses, strict=True):
                assert (cosine == 1) == (loss > 3.05) and (loss < 2.5 or cosine == 1)
            stuck[place, warmup] = alike.count(1)
    assert not any(stuck["front", warmup] for warmup in (0, 50, 100)), "they don't need any"
    assert stuck["stream", 0] == 6 > stuck["stream", 50] == 4, "with four of eight it isn't enough"
    for warmup in (0, 50, 100):
        ends = [
            [
                loss
                for cosine, loss in zip(
                    figures[f"{key}_tokens_cosine"], figures[f"{key}_nats"], strict=True
                )
                if cosine < 1
            ]
            for key in (f"front_warmup_{warmup}", f"stream_warmup_{warmup}")
        ]
        front, stream = (sum(losses) / len(losses) for losses in ends)
        assert abs(front - stream) < 0.05, "who gets free ends about as low, after the same warmup"
    assert stuck["stream", 100] == 0 and figures["stream_warmup_50_tokens_cosine"][0] < 1, "lucky"
    mean = {key: sum(figures[f"{key}_nats"]) / 8 for key in ("front_warmup_0", "front_warmup_100")}
    long = sum(figures["stream_warmup_100_nats"]) / 8
    assert abs(long - mean["front_warmup_100"]) < 0.02, "as low after such a warmup"
    assert mean["front_warmup_0"] < long - 0.05, "without it they end lower still"


def test_the_runs_that_lesson_05_watches_do_what_it_says():
    """Seed 2 as the page trains it: alike to the end without a warmup, and free again with 100."""
    cells = jupytext.read(ROOT / "book/05_block.md").cells
    code = [
        node
        for c in cells
        if c.cell_type == "code" and "exercise" not in c.metadata
        for node in ast.parse(c.source).body
    ]
    wanted = ("NormOnStream", "compare_tokens", "watch")
    parts = [node for node in code if getattr(node, "name", None) in wanted]
    assert sorted(node.name for node in parts) == sorted(wanted)
    names = {name: value for name, value in vars(gpt).items() if not name.startswith("__")}
    text = Corpus.default().text()[:1_000_000].encode("ascii", "replace")
    names |= {
        "turns": gpt.rope_tables(64, 16),
        "characters": torch.frombuffer(bytearray(text), dtype=torch.uint8).long(),
    }
    exec(compile(ast.Module(parts, []), "05_block.md", "exec"), names)
    likeness, losses = names["watch"](2, 0)
    assert likeness[5:, -1].min() > 0.98, "alike after some fifteen updates, and to the end"
    assert abs(sum(losses[60:]) / 60 - 3.077) < 0.1, "it only wavers around the gray line"
    likeness, losses = names["watch"](2, 100)
    assert likeness[:, -1].max() > 0.98 and likeness[-1, -1] < 0.6, "alike, and apart again"
    assert sum(losses[100:]) / 20 < 2.9


def test_lesson_23_says_what_one_rank_costs_on_a_gpu():
    path = ROOT / "benchmarks/results/gpu_wrappers.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    ms = {row["name"]: round(row["ms"]) for row in stored["figures"]["rows"]}
    shape, page = stored["figures"]["shape"], (ROOT / "book/23_fsdp.md").read_text(encoding="utf-8")
    assert "H100" in stored["machine"]["devices"][0] and shape["preset"] == "134m"
    assert (
        f"{shape['batch']} sequences of {shape['seq_len']} tokens, {ms['ddp']} ms with DDP" in page
    )
    assert f"took {ms['bare']} ms" in page and f"and {ms['fsdp']} ms with FSDP (measured)" in page


def test_lesson_04_says_what_its_head_reads():
    page = (ROOT / "book/04_attention.md").read_text(encoding="utf-8")
    path = ROOT / "benchmarks/results/heads.json"
    found = json.loads(path.read_text(encoding="utf-8"))["figures"]
    on, tokenizer = found["weight_on"], Tokenizer.course()
    assert (
        f"{on['open']} on average, is that of head {found['head']} in block {found['block']}"
        in page
        and f"closed `(` {on['inner_closed']} and the open one {on['inner_open']}" in page
        and f"its {found['heads']} heads" in page
    )

    def read(
        model: GPT, text: str, block: int = found["block"], head: int = found["head"]
    ) -> tuple[list[str], Tensor]:
        idx = tokenizer.encode(text)
        q, k = read_heads(model, torch.tensor([idx]))
        weights = causal_attention(q, k, torch.eye(len(idx), q.shape[-1]).expand_as(q))
        return [tokenizer.decode([i]).strip() for i in idx], weights[
            block - 1, head - 1, :, : len(idx)
        ]

    trained = load_writer()
    torch.manual_seed(0)
    line, before = read(GPT(trained.config), "        if len(self.addresses)!=1:")
    for t, row in enumerate(before):
        assert max(row[: t + 1]) - min(row[: t + 1]) < 0.06, "nearly the plain average"
    _, after = read(trained, "        if len(self.addresses)!=1:")
    bracket, end = line.index("("), line.index(")")
    for t in range(bracket, end):
        assert (after[t, bracket] > 0.9) == (line[t] != "."), line[t]
    assert len(line) - end == 4 and max(after[end:, bracket]) < 0.5
    assert after[-2:].argmax(-1).tolist() == [end, end]
    line, weights = read(trained, "        return max(sizes[0], other")
    assert line[weights[-1].argmax()] == "("
    line, weights = read(trained, "        return max(len(x), other")
    assert weights[-1].argmax() == line.index("len") + 1 and weights[-1].max() > 0.6
    closed = {}
    for outer in ("f", "g", "max", "len", "print"):
        for inner in ("f", "g", "max", "len", "print"):
            line, weights = read(trained, f"        {outer}({inner}(x), y")
            brackets = [j for j, token in enumerate(line) if token == "("]
            first, second = weights[-1, brackets].tolist()
            closed[outer, inner] = second > first
            assert inner != "print" or second > 0.88
    assert sum(closed.values()) > 20 and not closed["f", "g"] and closed["f", "print"]
    line, weights = read(trained, "        self.name", block=2, head=2)
    assert line[weights[-1].argmax()] == "."


def test_lesson_07_says_how_long_its_model_was_trained():
    found = json.loads((ROOT / "benchmarks/results/writer.json").read_text(encoding="utf-8"))
    page = (ROOT / "book/07_generate.md").read_text(encoding="utf-8")
    assert f"for {found['figures']['updates']:,} updates" in page


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
