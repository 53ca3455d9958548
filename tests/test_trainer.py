"""The trainer: groups, schedule, accumulation, exact resume, two ranks as one."""

import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import torch

from course_lib.checkpoints import single_file
from course_lib.checkpoints.files import CheckpointError
from course_lib.measure import speed
from course_lib.ranks import local_ranks
from course_lib.ranks.traffic import Traffic
from course_lib.ranks.world import World
from course_lib.runs import run_log
from course_lib.training import ddp_trainer
from course_lib.training.ddp_trainer import IGNORED, DistributedTrainer, TrainingDiverged
from course_lib.training.train_config import TrainConfig
from tests.soak import campaign, times

V = 97
TOKENS = np.random.default_rng(0).integers(0, V, 4000).astype(np.uint16)
TOKENS[1::2] = (TOKENS[0::2] * 3 + 1) % V  # every second token follows from the one before
VALID = TOKENS[:900]


pytestmark = pytest.mark.usefixtures("one_thread")


def settings(out="unused", **changes) -> TrainConfig:
    return TrainConfig(
        **(
            dict(
                model_size="tiny",
                seq_len=32,
                batch_size=4,
                max_steps=12,
                precision="fp32",
                warmup_steps=3,
                eval_every=6,
                eval_batches=2,
                save_every=4,
                out=str(out),
                device="cpu",
                sample_tokens=0,
            )
            | changes
        )
    )


def trainer(out="unused", **changes) -> DistributedTrainer:
    return DistributedTrainer(settings(out, **changes), TOKENS, vocab_size=V, valid_tokens=VALID)


def batches(count: int, rows: int = 4, T: int = 32) -> list:
    generator = torch.Generator().manual_seed(1)
    made = [torch.randint(V, (rows, T + 1), generator=generator) for _ in range(count)]
    return [(window[:, :-1], window[:, 1:].clone()) for window in made]


def gradients(run: DistributedTrainer, parts: list) -> dict[str, torch.Tensor]:
    """What one train_step accumulates: the optimizer is stopped before it uses it."""
    kept = {}

    def look(optimizer, args, kwargs):
        kept.update({n: p.grad.clone() for n, p in run.plain_model.named_parameters()})

    hook = run.optimizer.register_step_pre_hook(look)
    run.train_step(parts)
    hook.remove()
    return kept


def test_matrices_decay_and_gains_do_not_each_parameter_once():
    run = trainer()
    decayed, plain = run.optimizer.param_groups
    assert decayed["weight_decay"] == 0.1 and plain["weight_decay"] == 0.0
    assert all(p.dim() >= 2 for p in decayed["params"])
    assert all(p.dim() == 1 for p in plain["params"])
    ids = [id(p) for group in run.optimizer.param_groups for p in group["params"]]
    assert sorted(ids) == sorted({id(p) for p in run.plain_model.parameters()})
    assert decayed["betas"] == (0.9, 0.95) and decayed["fused"]


def test_the_schedule_climbs_falls_and_stays():
    run = trainer(max_steps=100, warmup_steps=10, lr=1e-3, min_lr=1e-4)
    assert run.get_lr(0) == pytest.approx(1e-4)  # the first update already learns
    assert run.get_lr(9) == pytest.approx(1e-3)
    assert run.get_lr(10) == pytest.approx(1e-3)
    assert run.get_lr(55) == pytest.approx((1e-3 + 1e-4) / 2)
    assert run.get_lr(100) == run.get_lr(1000) == pytest.approx(1e-4)
    assert all(run.get_lr(s) >= run.get_lr(s + 1) for s in range(10, 100))
    for warmup in (10, 15):  # all of the run is warmup, and then it ends
        run = trainer(max_steps=10, warmup_steps=warmup, lr=1e-3, min_lr=1e-4)
        assert run.get_lr(9) == pytest.approx(1e-3 * 10 / warmup)
        assert run.get_lr(10) == run.get_lr(20) == pytest.approx(1e-4)


def test_the_schedule_is_torchs_cosine():
    run = trainer(max_steps=60, warmup_steps=0, lr=2e-3, min_lr=2e-4)
    p = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([p], lr=2e-3)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 60, eta_min=2e-4)
    for step in range(60):
        assert run.get_lr(step) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        theirs.step()


def test_equal_micro_batches_are_the_big_batch():
    parts = batches(4)
    whole = [tuple(torch.cat(side) for side in zip(*parts, strict=True))]
    small, big = gradients(trainer(), parts), gradients(trainer(), whole)
    for name in big:
        # float32 sums of 512 tokens in another order: a few units of the last place of the largest
        torch.testing.assert_close(small[name], big[name], rtol=1e-4, atol=1e-6)


def test_unequal_micro_batches_are_the_big_batch_too():
    """Targets that don't count make the micro-batches unequal: 128, 20 and 0 tokens of 128."""
    parts = batches(3)
    parts[1][1][:, 5:] = -100
    parts[2][1][:] = -100
    whole = [tuple(torch.cat(side) for side in zip(*parts, strict=True))]
    small, big = gradients(trainer(), parts), gradients(trainer(), whole)
    for name in big:
        torch.testing.assert_close(small[name], big[name], rtol=1e-4, atol=1e-6)
    wrong = sum(trainer().model(*part)[1] for part in parts[:2]) / 2
    right = trainer().train_step(parts)["loss"]
    assert abs(wrong.item() - right) > 1e-3, "the mean of means is another number"


def test_a_step_reports_the_norm_before_clipping_and_obeys_the_limit():
    run = trainer(grad_clip=0.05)
    found = run.train_step(batches(1))
    assert found["grad_norm"] > 0.05
    clipped = gradients(run, batches(1))
    assert sum(g.pow(2).sum() for g in clipped.values()).sqrt() == pytest.approx(0.05, rel=1e-3)


# Printed by this test's own run on one thread of an x86-64 CPU; another CPU may round the last digits.
GOLDEN = [
    4.65327549, 4.59355736, 4.42003441, 4.53028774, 4.44974422, 4.43430662,
    4.38321877, 4.21935177, 4.34352922, 4.24449492, 4.30976152, 4.29227161,
]  # fmt: skip


def test_the_golden_curve(tmp_path):
    trainer(tmp_path).fit()
    losses = [row["loss"] for row in run_log.read(tmp_path / "log.csv")]
    assert len(losses) == 12
    assert losses == pytest.approx(GOLDEN, rel=2e-5)


class Killed(Exception):
    pass


@campaign
@pytest.mark.parametrize("moment", times([1, 8], [1, 5, 8, 11]))
def test_a_resumed_run_repeats_the_losses_to_the_bit(tmp_path, moment, monkeypatch):
    trainer(tmp_path / "whole").fit()
    run, step = trainer(tmp_path / "cut"), DistributedTrainer.train_step

    def dies(self, parts):
        if self.step == moment:
            raise Killed
        return step(self, parts)

    monkeypatch.setattr(DistributedTrainer, "train_step", dies)
    with pytest.raises(Killed):
        run.fit()
    monkeypatch.undo()
    torch.rand(3)  # whatever else happened in this process
    trainer(tmp_path / "cut", seed=1337).fit()
    whole, cut = (run_log.read(tmp_path / name / "log.csv") for name in ("whole", "cut"))
    for name in ("step", "loss", "valid_loss", "lr", "grad_norm", "tokens"):
        assert [r.get(name) for r in whole] == [r.get(name) for r in cut], name


def test_a_finished_run_is_not_trained_again(tmp_path):
    trainer(tmp_path).fit()
    before = (tmp_path / "log.csv").read_bytes()
    assert trainer(tmp_path).fit() == {}
    assert (tmp_path / "log.csv").read_bytes() == before


def test_nan_stops_the_run_and_is_never_saved(tmp_path, monkeypatch):
    run, step = trainer(tmp_path), DistributedTrainer.train_step

    def breaks(self, parts):
        if self.step == 6:
            self.plain_model.norm.weight.data[0] = math.nan
        return step(self, parts)

    monkeypatch.setattr(DistributedTrainer, "train_step", breaks)
    with pytest.raises(TrainingDiverged, match="step 7.*checkpoint of step 4 is good.*--lr"):
        run.fit()
    assert single_file.steps(tmp_path / "checkpoints") == [4]


def test_nan_between_two_rows_of_the_log_is_found_before_anything_is_saved(tmp_path, monkeypatch):
    run, step = trainer(tmp_path, log_every=5, eval_every=0), DistributedTrainer.train_step

    def breaks(self, parts):
        if self.step == 5:
            self.plain_model.norm.weight.data[0] = math.nan
        return step(self, parts)

    monkeypatch.setattr(DistributedTrainer, "train_step", breaks)
    with pytest.raises(TrainingDiverged, match="steps 6 to 8: loss nan.*checkpoint of step 4 is"):
        run.fit()
    assert single_file.steps(tmp_path / "checkpoints") == [4]
    assert [row["step"] for row in run_log.read(tmp_path / "log.csv")] == [5]


@pytest.fixture
def known_peak(monkeypatch):
    """A CPU takes minutes to say how fast it multiplies float16."""
    monkeypatch.setattr(speed, "peak_flops", lambda device, dtype: (1e12, "data sheet"))


@pytest.mark.parametrize("steps, said", [(4, "every update.*down to 4096"), (40, "update after")])
def test_float16_that_never_steps_ends_with_a_message(tmp_path, steps, said, known_peak):
    """A gradient that is nan for good: the scaler skips each update, and no run may call it success."""
    run = trainer(tmp_path, precision="fp16", seq_len=8, max_steps=steps, save_every=0)
    run.plain_model.norm.weight.register_hook(lambda grad: grad * math.nan)
    with pytest.raises(TrainingDiverged, match=f"float16 has skipped {said}"):
        run.fit()
    assert run.step < 32 and not single_file.steps(tmp_path / "checkpoints")


def test_a_run_in_tf32_says_so_and_leaves_the_switch_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(ddp_trainer, "takes_tf32", lambda precision, device: True)
    run, step, seen = trainer(tmp_path, max_steps=1), DistributedTrainer.train_step, []

    def looks(self, parts):
        seen.append(torch.get_float32_matmul_precision())
        return step(self, parts)

    monkeypatch.setattr(DistributedTrainer, "train_step", looks)
    assert "float32 with TF32 products" in run.describe()
    run.fit()
    assert seen == ["high"] and torch.get_float32_matmul_precision() == "highest"


def test_float16_that_skips_now_and_then_goes_on(tmp_path, known_peak):
    run = trainer(tmp_path, precision="fp16", seq_len=8, max_steps=4)
    run.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)  # too high by far, it is halved
    run.optimizer.register_step_post_hook(lambda *_: run.scaler._scale.fill_(2.0**10))
    assert run.fit()["step"] == 4 and run.scaler.get_scale() < 2.0**40


def test_an_answer_that_returns_floats_trains_as_before(tmp_path, monkeypatch):
    step = DistributedTrainer.train_step

    def reads(self, parts):
        return {name: float(value) for name, value in step(self, parts).items()}

    found = trainer(tmp_path / "tensors", max_steps=3).fit()
    monkeypatch.setattr(DistributedTrainer, "train_step", reads)
    told = trainer(tmp_path / "floats", max_steps=3).fit()
    for name in ("step", "loss", "grad_norm", "lr", "tokens", "valid_loss"):
        assert found[name] == told[name] and type(told[name]) in (int, float)


def test_other_checkpoints_are_refused_and_nothing_changes(tmp_path):
    trainer(tmp_path, max_steps=4).fit()
    path = tmp_path / "checkpoints/step_00000004.pt"
    other = DistributedTrainer(settings(tmp_path / "x"), TOKENS % 50, vocab_size=50)
    before = other.plain_model.embedding.weight.clone()
    with pytest.raises(CheckpointError, match="of another model: 1 of|of another model: 2 of"):
        other.load_checkpoint(path)
    assert torch.equal(before, other.plain_model.embedding.weight) and other.step == 0
    with pytest.raises(ValueError, match="seq_len 32, this loader has 16"):
        trainer(tmp_path / "y", seq_len=16).load_checkpoint(path)
    torch.save({"model": other.plain_model.state_dict()}, tmp_path / "bare.pt")
    with pytest.raises(CheckpointError, match="lacks loader, optimizer"):
        other.load_checkpoint(tmp_path / "bare.pt")


def test_what_a_wrapper_saved_is_loaded(tmp_path):
    run = trainer(tmp_path)
    run.train_step(batches(1))
    run.save_checkpoint()
    state = run.read_checkpoint()
    state["model"] = {f"module._orig_mod.{k}": v for k, v in state["model"].items()}
    run.write_checkpoint(state)
    fresh = trainer(tmp_path)
    assert fresh.load_checkpoint() == fresh.step == 1
    assert fresh.train_step(batches(1)) == run.train_step(batches(1))


COMMAND = ["-m", "course_lib.training.ddp_trainer", "--model_size", "tiny", "--device", "cpu", "--seq_len", "64",
           "--precision", "fp32", "--warmup_steps", "2", "--eval_batches", "2", "--sample_tokens", "8"]  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A folder with three small files, so that no test reads all of Python's library."""
    folder = tmp_path_factory.mktemp("text")
    for name in ("argparse", "ast", "bisect", "calendar"):
        source = sys.modules.get(name) or __import__(name)
        (folder / f"{name}.py").write_bytes(open(source.__file__, "rb").read())
    return folder


def program(text, out, *more, launcher=()):
    command = [sys.executable, *launcher, *COMMAND, "--data", text, "--cache", out.parent / "tokens",
               "--valid_fraction", "0.3", "--out", out, *more]  # fmt: skip
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        list(map(str, command)), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_two_ranks_train_as_one_does(text, tmp_path):
    """The same global batch of 8 sequences: 8 on one process, 4 each on two."""
    one = program(text, tmp_path / "one", "--max_steps", 6, "--batch_size", 4, "--global_batch", 8)
    said, errors = one.communicate(timeout=300)
    assert one.returncode == 0, errors
    assert "tokens per step" in said and "def " in said
    ranks = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    two = program(
        text,
        tmp_path / "two",
        "--max_steps",
        6,
        "--batch_size",
        4,
        "--global_batch",
        8,
        launcher=ranks,
    )
    said, errors = two.communicate(timeout=300)
    assert two.returncode == 0, errors
    assert said.count("tokens per step") == 1 and "2 cpu ranks" in said, "one rank speaks"
    a, b = (run_log.read(tmp_path / name / "log.csv") for name in ("one", "two"))
    assert [r["step"] for r in a] == [r["step"] for r in b] == [1, 2, 3, 4, 5, 6]
    for name in ("loss", "lr", "grad_norm", "tokens", "valid_loss"):
        # float32 sums in another order grow a little from step to step
        assert [r.get(name) for r in a] == [
            value if value is None else pytest.approx(value, rel=1e-4)
            for value in (r.get(name) for r in b)
        ], name


@campaign
def test_kill_nine_and_resume(text, tmp_path):
    """Kills of a run that saves after every step, at random moments, in saves too."""
    steps = ("--max_steps", 30, "--save_every", 1, "--batch_size", 2)
    whole = program(text, tmp_path / "whole", *steps)
    assert whole.wait(timeout=300) == 0
    kills = times(3, 20)
    draw = random.Random(0)
    for wait in sorted(draw.randrange(2, 26) for _ in range(kills)):
        run = program(text, tmp_path / "cut", *steps)
        log = tmp_path / "cut" / "log.csv"
        ends = time.monotonic() + 120
        while time.monotonic() < ends and run.poll() is None:
            if log.exists() and len(log.read_text().splitlines()) > wait:
                break
            time.sleep(0.01)
        time.sleep(draw.random() * 0.1)
        assert run.poll() is None, run.communicate()[1]
        os.kill(run.pid, signal.SIGKILL)
        run.communicate()
    last = program(text, tmp_path / "cut", *steps)
    said, errors = last.communicate(timeout=300)
    assert last.returncode == 0, errors
    assert re.search(r"continuing from step \d+", said)
    a, b = (run_log.read(tmp_path / name / "log.csv") for name in ("whole", "cut"))
    assert [r["loss"] for r in a] == [r["loss"] for r in b]


@pytest.mark.parametrize(
    "given, words",
    [
        (("--data", "/nowhere"), "expected a folder of text files"),
        (("--max_steps", "0"), "max_steps must be at least 1"),
        (("--global_batch", "7"), "global_batch must be a multiple"),
        (("--precision", "fp16"), "fp16 trains on GPUs"),
    ],
)
def test_bad_input_is_said_in_a_line(text, tmp_path, given, words):
    run = program(text, tmp_path / "out", *given)
    _, errors = run.communicate(timeout=120)
    assert run.returncode == 2
    assert words in errors and "Traceback" not in errors, errors


def test_the_log_is_there_as_csv_picture_and_record(tmp_path):
    trainer(tmp_path, max_steps=4).fit()
    rows = run_log.read(tmp_path / "log.csv")
    assert set(rows[-1]) == set(run_log.COLUMNS)
    assert rows[-1]["mfu"] > 0 and rows[-1]["memory_mb"] > 50
    assert rows[-1]["slowest_rank"] == 0 and rows[-1]["slowest_ratio"] == 1
    assert (tmp_path / "curves.png").stat().st_size > 1000
    record = json.loads((tmp_path / "checkpoints/step_00000004.json").read_text())
    assert record["step"] == 4


def test_a_full_disk_stops_the_run_with_a_sentence(text, tmp_path):
    """A limit on the size of files stands for the full disk."""
    limited = (
        "import resource, signal, sys, runpy; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000));"
        "sys.argv = ['ddp_trainer', *sys.argv[1:]];"
        "runpy.run_module('course_lib.training.ddp_trainer', run_name='__main__')"
    )
    command = [sys.executable, "-c", limited, *COMMAND[2:], "--data", str(text), "--max_steps", "2",
               "--cache", str(tmp_path / "tokens"), "--out", str(tmp_path / "run")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("stopped after step 2, could not write below")
    assert "free some space" in last and "Traceback" not in done.stderr


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_batch_in_which_no_target_counts_is_refused_and_changes_nothing(world_size):
    def work(rank):
        world = World.of_group("cpu") if world_size > 1 else World()
        run = DistributedTrainer(settings(), TOKENS, vocab_size=V, world=world)
        (idx, targets), *_ = batches(1)
        before = run.weights()
        with pytest.raises(ValueError, match="no target counts on any rank"):
            run.train_step([(idx, torch.full_like(targets, IGNORED))])
        same = all(torch.equal(x, before[name]) for name, x in run.weights().items())
        fresh = run.step == 0 and run.tokens_seen == 0 and not run.optimizer.state
        only_here = targets if rank == 0 else torch.full_like(targets, IGNORED)
        found = run.train_step([(idx, only_here)])  # one rank's targets are enough
        return same and fresh and found["loss"] > 1 and run.tokens_seen == targets.numel()

    if world_size == 1:
        assert work(0)
    else:
        done = local_ranks.run(work, [(0,), (1,)], seconds=60)
        assert all(rank.value for rank in done)


def sent_and_kept(rank: int) -> tuple[list, int, int]:
    """What an update sends, how many blocks of memory the gradients lie in, and how many they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a program does not begin with torch's warnings
        run = DistributedTrainer(settings(), TOKENS, vocab_size=V, world=World.of_group())
    found: list[int] = []

    def look(optimizer, args, kwargs):
        grads = [p.grad for p in run.plain_model.parameters()]
        found.extend((len({g.untyped_storage().data_ptr() for g in grads}), len(grads)))

    for _ in range(2):  # in the second update DDP orders its buckets anew, and says so to all
        run.train_step(run.next_batches())
    run.optimizer.register_step_pre_hook(look)
    with Traffic() as traffic:
        run.train_step(run.next_batches())
    return traffic.seen, *found


def test_ddp_sends_gradients_and_two_sums_and_copies_no_gradient():
    """No broadcast of buffers, which are equal everywhere; and gradients are parts of what is sent."""
    for rank in local_ranks.run(sent_and_kept, [(0,), (1,)], seconds=60):
        sent, blocks, grads = rank.value
        assert {name for name, _ in sent} == {"allreduce"}
        assert [b for _, b in sent if b <= 8] == [8, 8], "the targets that count, the loss"
        assert blocks < grads
