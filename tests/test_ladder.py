"""The speed ladder: slow ways give the same batches, every rung the same training, gains their law."""

import dataclasses
import json
import math
import random
from argparse import Namespace

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from benchmarks import ladder as program
from course_lib.data.corpus import Corpus
from course_lib.data.tokenizer import Tokenizer
from course_lib.lab import bench
from course_lib.ladder import climb as climbing
from course_lib.ladder.climb import climb, gains_of, plan
from course_lib.ladder.gains import amdahl, rung_gains
from course_lib.ladder.report import table
from course_lib.ladder.rung_data import SlowEncoder, WindowedText
from course_lib.ladder.rungs import BESIDE, LADDER, SHAPES, Bench, Rungs, float32_products, not_here
from course_lib.measure.step_memory import peak_bytes
from course_lib.ranks import local_ranks
from grader.cli import main
from grader.course import ROOT

CPU = torch.device("cpu")
ODD = "x = 1\n\n\n\t  if a:\n\n    it's  ok   \n é 漢字 \U0001f600 ''' \r\n end"


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    return WindowedText.default(tmp_path_factory.mktemp("words"), seq_len=32, characters=60_000)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return Bench(SHAPES["tiny"], CPU, tmp_path_factory.mktemp("small"))


# --- data ------------------------------------------------------------------------------------


def test_the_slow_encoder_gives_the_tokenizers_ids():
    slow, fast = SlowEncoder.course(), Tokenizer.course()
    source = next(iter(Corpus.default().pieces()))[:30_000]
    for text in ("", " ", "a", ODD, source):
        assert slow.encode(text) == fast.encode(text)


def test_every_way_gives_the_same_batch(words):
    for number in range(30):
        first, *others = (
            words.batch(number, 3, file=f, gathered=g) for f in (False, True) for g in (False, True)
        )
        assert first[0].shape == (3, 32) and first[0].dtype == torch.int64
        assert torch.equal(first[0][:, 1:], first[1][:, :-1])
        for other in others:
            assert torch.equal(first[0], other[0]) and torch.equal(first[1], other[1]), number


def test_the_last_window_fits_and_white_space_is_cut_alike(tmp_path):
    words = WindowedText((ODD + "\n\n  ") * 8, tmp_path, seq_len=9)
    for start in range(words.num_starts):
        token = words.pieces[start]
        made = words.slow.encode(words._text(start))[:10]
        assert made == words.tokens[token : token + 10].tolist()
    with pytest.raises(ValueError, match="use more text"):
        WindowedText("short", tmp_path, seq_len=9)


# --- gains -----------------------------------------------------------------------------------


def test_amdahl():
    assert amdahl(0.5, 2) == pytest.approx(4 / 3) and amdahl(0.0, 9) == 1 and amdahl(1.0, 9) == 9
    assert amdahl(0.9, math.inf) == pytest.approx(10)
    for share, speedup in ((-0.1, 2), (1.1, 2), (0.5, 0), (math.nan, 2)):
        with pytest.raises(ValueError, match="expected a share"):
            amdahl(share, speedup)


@pytest.mark.parametrize("seed", range(20))
def test_separate_parts_lie_between_the_two_products(seed):
    draw = random.Random(seed)
    parts = {name: draw.uniform(1, 50) for name in "abcde"}
    faster = {name: draw.uniform(1.1, 9) for name in parts}

    def step(rungs) -> float:
        return 3 + sum(t / (faster[n] if n in rungs else 1) for n, t in parts.items())

    names = list(parts)
    found = rung_gains(
        step(""),
        {n: step([n]) for n in names},
        {n: step(set(names) - {n}) for n in names},
        {n: step(names[: i + 1]) for i, n in enumerate(names)},
    )
    last = math.prod(found["last"].values())
    assert found["product"] <= found["total"] <= last
    assert math.prod(found["in_place"].values()) == pytest.approx(found["total"])
    assert sum(found["saved"].values()) == pytest.approx(step("") - step(names))


def test_a_ladder_without_rungs():
    nothing = {"tf32": None}
    found = rung_gains(2.0, nothing, nothing, nothing)
    assert found["total"] == found["product"] == 1 and found["last"] == nothing
    assert rung_gains(2.0, {}, {}, {})["total"] == 1


# --- steps -----------------------------------------------------------------------------------


def test_the_plan_has_each_rung_three_times():
    steps = plan(["tokens", "bf16", "update", "chunked"])
    top = Rungs(tokens=True, bf16=True, update=True)
    assert steps["ground", ""] == Rungs() and steps["climbed", "update"] == top
    assert steps["alone", "bf16"] == Rungs(bf16=True)
    assert steps["without", "bf16"] == Rungs(tokens=True, update=True)
    assert steps["climbed", "bf16"] == Rungs(tokens=True, bf16=True)
    assert steps["beside", "chunked"] == Rungs(tokens=True, bf16=True, update=True, chunked=True)
    assert len(steps) == 1 + 3 * 3 + 1
    assert ("beside", "autotune") not in plan(["tokens", "autotune"])  # nothing is compiled


@pytest.mark.parametrize("name", [*LADDER[:2], *LADDER[3:5], *LADDER[6:], "chunked"])
def test_every_rung_trains_alike(small, name):
    """Not only nearly: what a switch must not change at all, it does not."""

    def losses(rungs):
        small.restart(rungs)
        return [float(small.step(rungs, number)) for number in range(4)]

    ground, found = losses(Rungs()), losses(Rungs(**{name: True}))
    assert found == pytest.approx(ground, abs=climbing.ALLOWED[name == "bf16"])
    if name in ("tokens", "gather", "no_wait"):
        assert found == ground
    assert losses(Rungs()) == ground  # whatever has run in between


def test_a_step_without_waiting_gives_a_tensor(small):
    assert isinstance(small.step(Rungs(), 0), float)
    assert isinstance(small.step(Rungs(no_wait=True), 0), torch.Tensor)


def test_models_share_their_weights(small):
    for rungs in (Rungs(), Rungs(attention=True), Rungs(chunked=True)):
        small.step(rungs, 0)
    held = {
        p.data_ptr()
        for m in small.models.values()
        if m.head is not None
        for n, p in m.named_parameters()
        if "blocks.0.mlp.up" in n
    }
    assert len(held) <= 2  # one for each vocabulary


def step_apart(folder: str, wraps: bool) -> torch.Tensor:
    """A weight of this rank after two steps on batches that no other rank has."""
    how = {"wrap": DistributedDataParallel} if wraps else {}
    here, rungs = Bench(SHAPES["tiny"], CPU, folder, **how), Rungs(tokens=True, vocabulary=True)
    for number in range(2):
        here.step(rungs, 2 * number + dist.get_rank())
    return here._weights(rungs).head.weight.detach()


def test_what_a_step_calls_can_be_wrapped_in_ddp(tmp_path):
    folders = [tmp_path / str(rank) for rank in range(2)]
    for folder in folders:
        folder.mkdir()
    for wraps in (True, False):
        ranks = local_ranks.run(step_apart, [(str(folder), wraps) for folder in folders])
        assert torch.equal(*(rank.value for rank in ranks)) == wraps


def test_restart_takes_nan_out_of_padded_rows(small):
    rungs = Rungs(vocabulary=True)
    with torch.no_grad():
        small._weights(rungs).head.weight.fill_(math.nan)
    small.restart(rungs)
    weight = small._weights(rungs).head.weight
    assert weight.isfinite().all() and (weight[SHAPES["tiny"].model.vocab_size :] == 0).all()


def test_precision_of_products_is_put_back():
    before = torch.get_float32_matmul_precision()
    with pytest.raises(RuntimeError), float32_products(True):
        assert torch.get_float32_matmul_precision() == "high"
        raise RuntimeError
    assert torch.get_float32_matmul_precision() == before


def test_max_autotune_can_be_left_out(monkeypatch):
    quick = dataclasses.replace(SHAPES["tiny"], compiles=True, autotunes=False)
    monkeypatch.setattr("course_lib.ladder.rungs.compiler_problem", lambda device: "")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    assert not_here(quick, torch.device("cuda"))["autotune"] == "left out of this run"
    assert "autotune" not in not_here(SHAPES["full"], torch.device("cuda"))
    asked = Namespace(**vars(program.parser().parse_args(["--shape", "cpu", "--no-autotune"])))
    assert not program.chosen(asked)[0].autotunes


def test_what_a_cpu_has_not_is_said_with_a_reason():
    missing = not_here(SHAPES["tiny"], CPU)
    assert {"tf32", "autotune", "compile"} <= missing.keys() and all(missing.values())


def test_peak_memory_counts_what_is_let_go():
    most = peak_bytes(lambda: torch.ones(30_000_000).sum(), CPU)
    assert most is None or 90e6 < most < 400e6


# --- climbing --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    kept = []
    folder = tmp_path_factory.mktemp("climb")
    found = climb(SHAPES["tiny"], CPU, folder, rounds=2, keep=lambda f: kept.append(dict(f)))
    return found, kept


def test_a_climb_is_complete_and_json(figures):
    found, kept = figures
    assert [k["rounds"] for k in kept] == [1, 2] and found["rounds"] == 2
    json.dumps(found, allow_nan=False)
    here = [n for n in LADDER if n not in found["not_here"]]
    assert list(found["climbed"]) == list(found["alone"]) == list(found["without"]) == here
    assert all(found["climbed"][n]["same_curve"] for n in here)
    assert math.prod(found["gains"]["in_place"][n] for n in here) == pytest.approx(
        found["gains"]["total"]
    )
    assert found["gains"]["alone"]["tf32"] is None
    text = table(found)
    assert "not here: a GPU's units" in text and "the whole ladder" in text


def test_an_interrupt_keeps_the_rounds_that_were_complete(tmp_path, monkeypatch):
    real, rounds = climbing._one_round, []

    def interrupted(bench, kinds, number):
        rounds.append(number)
        if number == 1:
            raise KeyboardInterrupt
        return real(bench, kinds, number)

    monkeypatch.setattr(climbing, "_one_round", interrupted)
    monkeypatch.setattr(climbing, "LADDER", ("tokens", "gather"))
    found = climb(SHAPES["tiny"], CPU, tmp_path, rounds=5)
    assert found["interrupted_after_rounds"] == found["rounds"] == 1
    monkeypatch.setattr(climbing, "_one_round", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        climb(SHAPES["tiny"], CPU, tmp_path, rounds=5)


def test_a_rung_that_fails_is_not_here_and_the_others_go_on(tmp_path, monkeypatch):
    real = Bench.step

    def step(self, rungs, number):
        if rungs.attention:  # "without tokens" has it too, and is not to blame
            raise RuntimeError("no kernel for this\nmore")
        return real(self, rungs, number)

    monkeypatch.setattr(Bench, "step", step)
    monkeypatch.setattr(climbing, "LADDER", ("tokens", "attention"))
    found = climb(SHAPES["tiny"], CPU, tmp_path, rounds=1)
    assert found["not_here"]["attention"] == "RuntimeError: no kernel for this"
    assert list(found["climbed"]) == ["tokens"]
    monkeypatch.setattr(Bench, "step", lambda *a: (_ for _ in ()).throw(RuntimeError("memory")))
    with pytest.raises(ValueError, match="on the ground does not run"):
        climb(SHAPES["tiny"], CPU, tmp_path, rounds=1)


def test_a_step_that_makes_nan_is_another_curve():
    checked = {"losses": [9.0, None], "peak_bytes": None}
    timing = climbing.Timing((0.1,))
    row = climbing._row(SHAPES["tiny"], timing, checked, [9.0, 8.9], Rungs(bf16=True), 1e9)
    assert not row["same_curve"] and row["loss_off_by"] is None
    far = {"losses": [9.0, 8.7], "peak_bytes": 1}
    assert not climbing._row(SHAPES["tiny"], timing, far, [9.0, 8.9], Rungs(), 1e9)["same_curve"]


def test_gains_of_a_machine_without_a_rung():
    steps = plan(["tokens", "update"])
    found = gains_of(steps, {r: 1.0 + i for i, r in enumerate(dict.fromkeys(steps.values()))})
    assert found["alone"]["bf16"] is None and found["alone"]["tokens"] is not None
    assert set(found["alone"]) == set(LADDER) and not set(BESIDE) & set(found["alone"])


# --- the command -----------------------------------------------------------------------------


def test_the_list_names_every_program_and_measures_nothing(capsys):
    assert main(["bench"]) == 0
    said = capsys.readouterr().out
    for path in (ROOT / "benchmarks").glob("*.py"):
        assert (f"  {path.stem} " in said) == (path.stem not in bench.NOT_PROGRAMS), path.stem


def test_help_of_a_program_without_options_does_not_run_it(capsys, monkeypatch):
    monkeypatch.setattr(bench.subprocess, "Popen", lambda *a, **k: pytest.fail("it was started"))
    without = [p.name for p in bench.programs(ROOT).values() if not p.has_options]
    assert "checks" in without
    for name in without:
        assert main(["bench", name, "--help"]) == 0
        assert "takes no options" in capsys.readouterr().out
    assert main(["bench", without[0], "--rounds", "3"]) == 2
    assert main(["bench", "nothing"]) == 2
    assert "there are " in capsys.readouterr().err


def test_no_folder_of_benchmarks_is_said(tmp_path):
    with pytest.raises(ValueError, match="come with the course's folder"):
        bench.run(Namespace(root=tmp_path, name=None, options=[]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rounds", "0"], "--rounds must be"),
        (["--batch", "-1"], "--batch must be"),
        (["--shape", "full", "--device", "cpu"], "many hours"),
    ],
)
def test_bad_options_of_the_ladder(options, said, capsys):
    assert program.main(options) == 2
    assert said in capsys.readouterr().err


def test_full_without_a_gpu_says_what_to_do(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert program.main(["--shape", "full"]) == 2
    assert "a machine with a GPU" in capsys.readouterr().err


def test_record_and_picture_are_written(tmp_path, monkeypatch, figures, capsys):
    def measured(shape, device, rounds, keep):
        keep(figures[0])
        return figures[0]

    monkeypatch.setattr(program, "measured", measured)
    assert program.main(["--shape", "tiny", "--out", str(tmp_path / "new")]) == 0
    record = json.loads((tmp_path / "new" / "ladder_tiny.json").read_text())
    assert record["figures"]["rounds"] == 2 and record["machine"]["cpu"]
    assert "<svg" in (tmp_path / "new" / "ladder_tiny.svg").read_text()[:1000]
