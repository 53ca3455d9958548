"""An update that is not logged never waits for the device; one that is reads its numbers then."""

import dataclasses

import pytest
import torch

from course_lib.ranks import local_ranks
from course_lib.ranks.world import World
from course_lib.runs.run_log import RunLog
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.fsdp_config import FSDPConfig
from course_lib.training.fsdp_trainer import FSDPTrainer
from tests.device_waits import DeviceWaits
from tests.test_trainer import TOKENS, V, settings


def local_parts(model: torch.nn.Module) -> list[torch.Tensor]:
    return [
        getattr(x, "_local_tensor", x).detach() for x in (*model.parameters(), *model.buffers())
    ]


def test_waits_are_seen():
    """What the other tests count on: reading what was computed from the tensor, and nothing else."""
    weight, host = torch.ones(3, requires_grad=True), torch.ones(3)
    with DeviceWaits([weight]) as waits:
        loss = (weight * host).sum()
        loss.backward()
        host.sum().item(), host.tolist()
        assert not waits.seen
        moved = torch.zeros(3)
        moved += weight.grad
        loss.item(), moved.tolist(), loss.detach().cpu(), bool(loss > 0), moved.numpy()
    assert [seen.partition(":")[0] for seen in waits.seen] == [
        "_local_scalar_dense", "tolist", "cpu", "_local_scalar_dense", "numpy"
    ]  # fmt: skip


def make(kind, **changes):
    """A trainer on this rank."""
    config = settings(grad_accumulation=2, **changes)
    if kind is FSDPTrainer:
        config = FSDPConfig(**dataclasses.asdict(config))
    return kind(config, TOKENS, vocab_size=V, world=World.of_group("cpu"))


def waits_of_updates(kind, precision: str) -> list[str]:
    """What three updates of two micro-batches wait for, on this rank."""
    run = make(kind, precision=precision)
    run.train_step(run.next_batches())  # makes the optimizer's state and DDP's buckets
    with DeviceWaits(local_parts(run.plain_model)) as waits:
        for _ in range(3):
            found = run.train_step(run.next_batches())
    assert run.step == 4 and all(float(x) > 0 for x in found.values())
    return waits.seen


def steps_with_waits(kind, out) -> list[int]:
    """Behind which of nine updates `fit` waits; it logs each third, and saves the last."""
    run, seen = make(kind, out=f"{out}/{kind.__name__}", max_steps=9, log_every=3, save_every=0), {}
    waits, next_batches = DeviceWaits(local_parts(run.plain_model)), run.next_batches

    def noted():
        seen[run.step] = len(waits.seen)  # before the update after that step
        return next_batches()

    run.next_batches = noted
    run._log = lambda: RunLog(None, total=9)  # a rank of a test has no terminal for a bar
    with waits:
        run.fit()
    seen[run.step] = len(waits.seen)
    return [step for step in range(1, 10) if seen[step] > seen[step - 1]]


def all_cases(out) -> tuple:
    kinds = DistributedTrainer, FSDPTrainer
    updates = [
        waits_of_updates(kind, precision) for kind in kinds for precision in ("fp32", "fp16")
    ]
    return updates, [steps_with_waits(kind, out) for kind in kinds]


@pytest.mark.parametrize("ranks", [1, 2])
def test_only_a_step_that_is_logged_waits(ranks, tmp_path):
    """With DDP and FSDP, in float32 and with a loss scale; the last step is saved as well."""
    for rank in local_ranks.run(all_cases, [(str(tmp_path),)] * ranks, seconds=90):
        updates, steps = rank.value
        assert updates == [[]] * 4
        assert steps == [[3, 6, 9]] * 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("changes", [{}, {"precision": "fp16"}, {"prefetch": True}])
def test_torch_sees_no_wait_in_an_update_on_a_gpu(changes):
    config = settings(device="cuda", grad_accumulation=2, **({"precision": "bf16"} | changes))
    run = DistributedTrainer(config, TOKENS, vocab_size=V, world=World.from_environment("cuda"))
    for _ in range(2):
        run.train_step(run.next_batches())
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            run.train_step(run.next_batches())
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert run.step == 5


def last_row(rank: int) -> dict:
    """What `fit` returns on a rank that says it took 1 second, or 2 on rank 1."""
    run = make(DistributedTrainer, max_steps=2, save_every=0)
    run._log = lambda: RunLog(None, total=2)
    run.own_time.seconds = lambda: 1.0 + rank
    run.save_checkpoint = lambda: None  # saving has tests of its own
    return run.fit()


def test_a_row_names_the_slowest_of_two_ranks():
    first, second = (rank.value for rank in local_ranks.run(last_row, [(0,), (1,)], seconds=60))
    assert first["slowest_rank"] == 1 and first["slowest_ratio"] == pytest.approx(4 / 3)
    assert first["loss"] == second["loss"] and "memory_mb" not in second, "rank 0 writes the log"
