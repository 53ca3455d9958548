"""`muon_step` against torch.optim.Muon, and the trainer with `--optimizer muon`."""

import math

import pytest
import torch

from course_lib.gpt import GPT, GPTConfig
from course_lib.training import adamw, muon
from course_lib.training.fsdp_config import FSDPConfig
from course_lib.training.muon import Muon, muon_step
from course_lib.training.train_config import TrainConfig
from tests.test_trainer import batches, trainer


def known(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    """A matrix with singular values 1, 0.7 and 0.3, where bfloat16 moves a step by 2 percent at most."""
    torch.manual_seed(seed)
    left, right = (torch.linalg.qr(torch.randn(n, 3))[0] for n in (rows, columns))
    return (left * torch.tensor([1, 0.7, 0.3])) @ right.T


@pytest.mark.parametrize("shape", [(3, 5), (6, 3), (3, 3)])
def test_it_is_torchs_up_to_bfloat16(shape):
    theirs = torch.nn.Parameter(torch.randn(shape))
    param, m = theirs.detach().clone(), torch.zeros(shape)
    optimizer = torch.optim.Muon(
        [theirs], lr=0.02, weight_decay=0.3, adjust_lr_fn="match_rms_adamw"
    )
    length = 0.2 * math.sqrt(max(shape)) * 0.02
    for step in range(1, 6):
        theirs.grad = step * known(*shape)
        param, m = muon_step(param, theirs.grad, m, lr=0.02, weight_decay=0.3)
        optimizer.step()
        assert (param - theirs.detach()).abs().max() < step * 0.04 * length
        torch.testing.assert_close(m, optimizer.state[theirs]["momentum_buffer"])


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (1, 5), (5, 1), (1, 1)])
def test_singular_values_come_out_near_one_whatever_the_gradient(shape):
    torch.manual_seed(1)
    zero = torch.zeros(shape)
    for scale in (1e-4, 1.0, 1e4):
        new, _ = muon_step(zero, scale * torch.randn(shape), zero, lr=1.0, weight_decay=0)
        sizes = torch.linalg.svdvals(new / (0.2 * math.sqrt(max(shape))))
        assert ((sizes > 0.67) & (sizes < 1.22)).all()


def test_a_silent_matrix_stays_and_what_is_no_matrix_is_refused():
    param, zero = torch.randn(3, 4), torch.zeros(3, 4)
    new, m = muon_step(param, zero, zero, lr=0.1, weight_decay=0.0)
    assert torch.equal(new, param) and not m.any()
    for shape in ((4,), (2, 3, 4)):
        with pytest.raises(ValueError, match="use adamw_step"):
            muon_step(*[torch.ones(shape)] * 3, lr=0.1, weight_decay=0.0)


def test_each_parameter_is_in_one_group_and_frozen_ones_are_in_none():
    model = GPT(GPTConfig(vocab_size=64, num_layers=2, num_heads=2, d_model=16, d_hidden=32,
                          max_seq_len=8, tie_embeddings=False))  # fmt: skip
    model.blocks[1].mlp.up_proj.weight.requires_grad_(False)
    names = {id(p): name for name, p in model.named_parameters()}
    groups = Muon(model, lr=0.1, betas=(0.9, 0.95), weight_decay=0.3).param_groups
    inside, ends, gains = ([names[id(p)] for p in group["params"]] for group in groups)
    assert ends == ["embedding.weight", "head.weight"] and len(inside) == 13
    assert all(name.startswith("blocks.") for name in inside) and len(gains) == 5
    assert sorted([*inside, *ends, *gains, "blocks.1.mlp.up_proj.weight"]) == sorted(names.values())
    assert [group["weight_decay"] for group in groups] == [0.3, 0.3, 0.0]


def test_a_run_with_muon_is_resumed_to_the_bit(tmp_path):
    whole = trainer(tmp_path / "whole", optimizer="muon", max_steps=6)
    row = whole.fit()
    first = trainer(tmp_path / "parts", optimizer="muon", max_steps=6)
    for _ in range(3):
        first.train_step([first.loader.next_batch()])
    first.save_checkpoint()
    second = trainer(tmp_path / "parts", optimizer="muon", max_steps=6)
    assert second.fit()["loss"] == row["loss"] and second.step == 6
    for name, weight in second.weights().items():
        assert torch.equal(weight, whole.weights()[name]), name
    assert "by Muon" in second.describe()


@pytest.mark.parametrize("saved, now", [("adamw", "muon"), ("muon", "adamw")])
def test_the_checkpoint_of_another_optimizer_is_refused_and_nothing_changes(tmp_path, saved, now):
    run = trainer(tmp_path, optimizer=saved)
    run.train_step(batches(1))
    run.save_checkpoint()
    other = trainer(tmp_path, optimizer=now)
    before = other.weights()
    with pytest.raises(ValueError, match=f"--optimizer {saved} to go on"):
        other.load_checkpoint()
    assert other.step == 0
    assert all(torch.equal(before[n], w) for n, w in other.weights().items())


def test_a_checkpoint_of_before_there_was_a_choice_is_adamws(tmp_path):
    run = trainer(tmp_path)
    run.train_step(batches(1))
    run.save_checkpoint()
    state = run.read_checkpoint()
    del state["config"]["optimizer"]
    run.write_checkpoint(state)
    assert trainer(tmp_path).load_checkpoint() == 1


def test_both_steps_of_a_learner_are_called(monkeypatch):
    called = []
    for module, name in ((muon, "muon_step"), (muon, "adamw_step")):
        own = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *a, f=own, n=name, **k: called.append(n) or f(*a, **k)
        )
    trainer(optimizer="muon").train_step(batches(1))
    assert {*called} == {"muon_step", "adamw_step"}
    assert muon.adamw_step is not adamw.adamw_step


def test_the_sharded_trainer_says_why_it_has_no_muon():
    assert TrainConfig(optimizer="muon").optimizer == "muon"
    with pytest.raises(
        ValueError, match=r"optimizer muon .*ddp_trainer, or pass --optimizer adamw"
    ):
        FSDPConfig(optimizer="muon")
