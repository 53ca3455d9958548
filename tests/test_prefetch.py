"""Prefetched batches are the loader's, an exact resume included, and faults come through."""

import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

from course_lib.checkpoints import single_file
from course_lib.data.batches import BatchLoader
from course_lib.data.prefetch import CopyStream, Prefetched
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.train_config import TrainConfig

TOKENS = (np.arange(3000) * 7919 % 97).astype(np.uint16)


def plain(**changes) -> BatchLoader:
    return BatchLoader(TOKENS, **(dict(batch_size=3, seq_len=8, seed=5) | changes))


def batches(loader, count: int) -> list[list]:
    return [[part.tolist() for part in loader.next_batch()] for _ in range(count)]


def test_the_same_batches_and_the_same_states():
    bare, ahead = plain(), Prefetched(plain())
    for _ in range(7):
        assert ahead.state_dict() == bare.state_dict()
        assert batches(ahead, 1) == batches(bare, 1)


def test_what_was_ahead_is_neither_lost_nor_repeated():
    ahead = Prefetched(plain())
    batches(ahead, 3)
    ahead._ahead.result()  # the fourth is there, and nobody has seen it
    state, wanted = ahead.state_dict(), batches(plain(), 9)[3:]
    for loader in (Prefetched(plain()), plain(), ahead):  # another one, the bare one, the same one
        loader.load_state_dict(state)
        assert batches(loader, 6) == wanted


def test_the_next_batch_is_fetched_meanwhile():
    loader, calls = plain(), []
    fetch = loader.next_batch

    def noted():
        calls.append(threading.current_thread().name)
        return fetch()

    loader.next_batch = noted
    ahead = Prefetched(loader)
    assert not calls, "nobody has asked for a batch yet"
    ahead.next_batch()
    ahead._ahead.result(10)
    assert len(calls) == 2 and all(name.startswith("prefetch") for name in calls)
    assert ahead.state_dict()["next_window"] == 3 and loader.next_window == 6


def test_an_exception_comes_in_its_turn_and_the_batch_is_tried_again():
    loader = plain()
    fetch, calls = loader.next_batch, []

    def failing():
        calls.append(1)
        batch = fetch()
        if len(calls) == 3:
            raise OSError("the disk is gone")
        return batch

    loader.next_batch = failing
    ahead = Prefetched(loader)
    found = batches(ahead, 2)
    with pytest.raises(OSError, match="the disk is gone"):
        ahead.next_batch()
    assert ahead.state_dict()["next_window"] == 6
    assert found + batches(ahead, 3) == batches(plain(), 5)


def test_a_state_of_another_text_is_refused_and_changes_nothing():
    ahead = Prefetched(plain())
    found = batches(ahead, 2)
    with pytest.raises(ValueError, match="seed 6"):
        ahead.load_state_dict(plain(seed=6).state_dict())
    assert found + batches(ahead, 2) == batches(plain(), 4)


def test_close_ends_the_thread_and_so_does_forgetting():
    ahead = Prefetched(plain())
    ahead.next_batch()
    (thread,) = ahead._thread._threads
    assert thread.is_alive()
    ahead.close()
    ahead.close()
    assert not thread.is_alive()
    ahead = Prefetched(plain())
    ahead.next_batch()
    (thread,) = ahead._thread._threads
    del ahead
    thread.join(10)
    assert not thread.is_alive()


def test_a_program_that_ends_without_a_word_does_not_hang():
    program = """
import numpy
from course_lib.data.batches import BatchLoader
from course_lib.data.prefetch import CopyStream, Prefetched
Prefetched(BatchLoader(numpy.arange(99, dtype=numpy.uint16), batch_size=1, seq_len=8)).next_batch()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_pinned_memory_without_cuda_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="pass pinned=False"):
        Prefetched(plain(), pinned=True)


class Stream:
    """A stand-in for a stream of a GPU, and for the tensors that it moves: what is asked of them."""

    def __init__(self, name: str, said: list):
        self.name, self.said = name, said

    def record_event(self):
        self.said.append(f"{self.name} marks the end")
        return "the end"

    def wait_event(self, event):
        self.said.append(f"{self.name} waits for {event}")

    def __enter__(self):
        self.said.append(f"on {self.name}:")

    def __exit__(self, *error):
        self.said.append("as before:")


class HostTensor:
    is_cuda = False

    def __init__(self, said: list):
        self.said = said

    def pin_memory(self):
        self.said.append("pinned")
        return self

    def to(self, device, *, non_blocking):
        self.said.append(f"copied to {device}, {non_blocking=}")
        return self

    def record_stream(self, stream):
        self.said.append(f"kept for {stream.name}")


def test_a_copy_has_a_stream_of_its_own_and_only_later_work_waits_for_it(monkeypatch):
    said = []
    computing, copying = Stream("computing", said), Stream("copying", said)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: copying)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: computing)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stream)
    (batch,) = CopyStream(torch.device("cuda:1")).copy(HostTensor(said))
    assert batch.said == [
        "on copying:",
        "pinned",
        "copied to cuda:1, non_blocking=True",
        "copying marks the end",
        "as before:",
        "computing waits for the end",
        "kept for computing",
    ]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_copy_begins_before_the_work_that_is_queued_is_done():
    device, host = torch.device("cuda"), torch.arange(1000)
    copies = CopyStream(device)
    copies.copy(host)  # makes the stream's memory
    torch.cuda.synchronize()
    torch.cuda._sleep(2_000_000_000)  # cycles: a second or so on the stream of the computation
    moved = copies.copy(host)[0]
    copies._stream.synchronize()
    assert not torch.cuda.current_stream().query(), "the copy has waited for the computation"
    assert torch.equal(moved.cpu(), host)


def test_on_a_cpu_nothing_is_copied():
    x = torch.ones(3)
    assert all(y is x for y in CopyStream(torch.device("cpu")).copy(x, x))


def trainer(out, **changes) -> DistributedTrainer:
    config = TrainConfig(
        model_size="tiny",
        seq_len=16,
        batch_size=2,
        max_steps=6,
        precision="fp32",
        device="cpu",
        save_every=3,
        eval_every=2,
        eval_batches=1,
        out=str(out),
        **changes,
    )
    return DistributedTrainer(config, TOKENS, vocab_size=97, valid_tokens=TOKENS)


def losses(run: DistributedTrainer, steps: int) -> list[float]:
    return [run.train_step(run.next_batches())["loss"] for _ in range(steps)]


def test_a_run_and_its_resume_are_the_same_to_the_bit(tmp_path):
    wanted = losses(trainer(tmp_path), 6)
    run = trainer(tmp_path, prefetch=True)
    assert losses(run, 3) == wanted[:3] and isinstance(run.loader, Prefetched)
    path = run.save_checkpoint()
    assert losses(run, 3) == wanted[3:]
    for prefetch in (False, True):  # from the prefetched run, with the switch and without it
        run = trainer(tmp_path, prefetch=prefetch)
        assert run.load_checkpoint(path) == 3 and losses(run, 3) == wanted[3:]


def test_a_whole_run_with_validation(tmp_path):
    row = trainer(tmp_path, prefetch=True).fit()
    assert (
        row["step"] == 6 and row["valid_loss"] < 6 and single_file.steps(tmp_path / "checkpoints")
    )
