"""The library's own faster parts in the trainers: what each of them computes stays the same."""

import dataclasses
import re

import pytest
import torch

from course_lib.checkpoints.files import CheckpointError
from course_lib.fast.rungs import RUNGS, apply_rungs
from course_lib.gpt import GPT, GPTConfig
from course_lib.measure.held import Held
from course_lib.runs.options import parse
from course_lib.training.ddp_trainer import IGNORED, DistributedTrainer
from course_lib.training.fsdp_trainer import FSDPTrainer
from course_lib.training.train_config import TrainConfig
from tests.fsdp_runs import REL, V, make, on_ranks, read, settings, single, steps, values

STEPS = 5
CPU = ("padded_vocab", "chunked_loss", "flash_attention")  # what a CPU computes in fair time
SHAPE = dict(vocab_size=V, max_seq_len=16, num_layers=2, num_heads=2, d_model=16, d_hidden=32)
KINDS = {"DDP": DistributedTrainer, "FSDP": FSDPTrainer}

pytestmark = pytest.mark.usefixtures("one_thread")


def losses(kind: type, rungs: str | None, **changes) -> list[float]:
    return [row["loss"] for row in steps(make(settings(rungs=rungs, **changes), kind), STEPS)]


def all_runs() -> dict:
    """Five updates on every rung that a CPU has, by both trainers, and on all of them."""
    return {
        (name, rungs): losses(kind, rungs)
        for name, kind in KINDS.items()
        for rungs in (*CPU, ",".join(CPU))
    }


@pytest.fixture(scope="module")
def curve():
    return [row["loss"] for row in steps(single(), STEPS)]


@pytest.mark.parametrize("ranks", [1, 2])
def test_five_updates_on_each_rung_are_those_of_the_plain_run(curve, ranks):
    for found in values(on_ranks(ranks, all_runs)):
        assert len(found) == 2 * 4
        for where, rows in found.items():
            assert rows == pytest.approx(curve, rel=REL), where


def model_and_batch(names: tuple[str, ...] = (), **changes):
    torch.manual_seed(0)
    model = apply_rungs(
        GPT(GPTConfig(**(SHAPE | changes))), names, torch.device("cpu"), emulate=True
    )
    tokens = torch.randint(V, (2, 17))
    return model, tokens[:, :-1], tokens[:, 1:].clone()


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    "names, allowed", [*(((name,), 2e-6) for name in (*CPU, "fused_norm")), (("fp8",), 0.05),
                       (tuple(set(RUNGS) - {"fp8"}), 2e-6)]
)  # fmt: skip
def test_loss_and_gradients_stay_and_names_too(names, allowed, tied):
    """`allowed`: units of the last place of a loss near 5, or of 8 bits with 3 for the mark."""
    plain, idx, targets = model_and_batch(tie_embeddings=tied)
    changed, _, _ = model_and_batch(names, tie_embeddings=tied)
    found = []
    for model in (plain, changed):
        loss = model(idx, targets=targets)[1]
        loss.backward()
        grads = {n: p.grad[:V] if n in ("embedding.weight", "head.weight") else p.grad
                 for n, p in model.named_parameters()}  # fmt: skip
        found.append((loss.detach(), grads))
    assert abs(found[1][0] - found[0][0]) <= allowed * found[0][0]
    assert list(found[1][1]) == list(found[0][1]), "a checkpoint of one has a place in the other"
    for name, grad in found[0][1].items():
        assert (found[1][1][name] - grad).norm() <= 20 * allowed * grad.norm(), name
    with torch.no_grad():
        torch.testing.assert_close(changed(idx)[0], plain(idx)[0], rtol=20 * allowed, atol=allowed)
        assert changed.generate(idx[:, :3], max_new_tokens=2, temperature=0).shape == (2, 5)


def test_a_loss_in_chunks_has_no_logits_and_stands_targets_that_do_not_count():
    model, idx, targets = model_and_batch(("chunked_loss", "padded_vocab"), tie_embeddings=False)
    logits, loss = model(idx, targets)
    assert logits.shape == (2, 0, V) and loss.dtype == torch.float32
    assert model(idx)[0].shape == (2, 16, V) and model(idx)[1] is None
    assert model(idx, torch.full_like(targets, IGNORED))[1].isnan()
    trainer = single(rungs="chunked_loss")
    parts = [trainer.loader.next_batch() for _ in range(2)]
    parts[1][1][:] = IGNORED
    plain = single()
    found, due = (read(run.train_step(parts)) for run in (trainer, plain))
    assert found == pytest.approx(due, rel=REL)


def test_a_loss_in_chunks_under_autocast_is_as_exact_as_the_whole_one():
    found = {}
    for names in ((), ("chunked_loss",)):
        model, idx, targets = model_and_batch(names)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(idx, targets)[1]
        loss.backward()
        found[names] = loss.item(), model.head.weight.grad
        assert loss.dtype == torch.float32 and model.head.weight.grad.dtype == torch.float32
    (plain, plain_grad), (chunked, grad) = found.values()
    assert chunked == pytest.approx(plain, rel=2**-9)  # one rounding of a logit to 8 bits
    assert (grad - plain_grad).norm() < 0.02 * plain_grad.norm()


def test_a_compiled_model_has_the_loss_in_chunks_too():
    model, idx, targets = model_and_batch(("chunked_loss",))
    loss = model(idx, targets)[1]
    compiled = torch.compile(model, backend="eager")
    for _ in range(2):
        torch.testing.assert_close(compiled(idx, targets)[1], loss)


def test_a_loss_in_chunks_holds_no_matrix_of_logits():
    most = {}
    for names in ((), ("chunked_loss",)):
        model, _, _ = model_and_batch(names, vocab_size=4000, max_seq_len=2048, num_layers=1)
        idx = torch.randint(4000, (2, 2048))
        with Held() as held:
            model(idx, idx)[1].backward()
        most[names] = held.peak
    logits = 4 * 4096 * 4000
    assert most[()] - most["chunked_loss",] > logits, "both hold all else, one holds logits as well"


def resume(kind: type, out: str) -> dict:
    """From each rung to the others, over a checkpoint; and what a padded vocabulary says."""
    found = {}
    for number, (before, after) in enumerate([(None, CPU[1]), (CPU[1], CPU[2]), (CPU[2], None)]):
        config = settings(f"{out}/{number}", rungs=before)
        first = make(config, kind)
        rows = steps(first, 2)
        first.save_checkpoint()
        second = make(dataclasses.replace(config, rungs=after), kind)
        assert second.load_checkpoint() == 2
        found[before, after] = [row["loss"] for row in rows + steps(second, STEPS - 2)]
    for before, after in ((None, CPU[0]), (CPU[0], None)):
        config = settings(f"{out}/padded-{before}", rungs=before)
        make(config, kind).save_checkpoint()
        with pytest.raises((CheckpointError, ValueError), match="other") as refused:
            make(dataclasses.replace(config, rungs=after), kind).load_checkpoint()
        found["words", before] = str(refused.value)
        again = make(config, kind)
        again.load_checkpoint()
        found["same", before] = again.plain_model.head.weight.shape[0]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_goes_on_from_another_rungs_checkpoint_but_not_with_other_rows(curve, kind, tmp_path):
    (found,) = values(on_ranks(1, resume, KINDS[kind], str(tmp_path)))
    for key, value in found.items():
        if key[0] == "words":
            assert "padded_vocab" in value, value
        elif key[0] == "same":
            assert value == (128 if key[1] else V)
        else:
            assert value == pytest.approx(curve, rel=REL), key


@pytest.mark.parametrize(
    "rungs, words",
    [
        ("fused_norm", "rung fused_norm: .*on cpu; leave it out of --rungs"),
        ("fp8", "rung fp8: .*capability 8.9 or later.*leave it out"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_rung_that_is_not_here_is_refused_with_what_to_do(rungs, words, kind):
    with pytest.raises(ValueError, match=words):
        if kind == "DDP":
            single(rungs=rungs)
        else:
            raise ValueError(on_ranks(1, refused, rungs)[0].value)


def refused(rungs: str) -> str:
    with pytest.raises(ValueError) as problem:
        make(settings(rungs=rungs))
    return str(problem.value)


@pytest.mark.parametrize("rungs", ["", "chunked", "fp8,fp8", "fp8, chunked_loss"])
def test_names_are_checked_before_anything_is_built(rungs, capsys):
    with pytest.raises(SystemExit):
        parse(TrainConfig, ["--rungs", rungs], prog="train")
    said = capsys.readouterr().err.splitlines()[-1]
    assert re.search("rungs must be some of padded_vocab, .*, joined by commas", said)
    assert parse(TrainConfig, ["--rungs", "fp8,chunked_loss"]).rung_names == ["fp8", "chunked_loss"]
    assert TrainConfig().rung_names == []
