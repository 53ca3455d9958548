"""The next batch is fetched while this one is trained on, and copied while the GPU computes.

What it is: a loader around a loader, whose thread fetches one batch ahead and, for a GPU, puts it into
pinned memory; and the stream on which a batch travels from there to the GPU. What it leaves out: more
than one batch ahead, which helps only where fetching takes longer than training now and then.

The trap is the state: the loader inside is one batch further than training is. So the state is taken
with each batch, and the one that counts is that of the batch last handed out.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import torch
from torch import Tensor

Batch = tuple[Tensor, Tensor]


class Loader(Protocol):
    """What is wrapped: `course_lib.data.batches.BatchLoader`, or one like it."""

    def next_batch(self) -> Batch: ...
    def state_dict(self) -> dict: ...
    def load_state_dict(self, state: dict) -> None: ...


class Prefetched:
    """The batches of `loader`, in its order, each fetched before it is asked for.

    Args: `loader`, which nobody else may use from now on; `pinned`, whether batches come in pinned
    memory, from which `CopyStream` copies without a copy on the host. ValueError for pinned batches
    without CUDA.
    """

    def __init__(self, loader: Loader, *, pinned: bool = False):
        if pinned and not torch.cuda.is_available():
            raise ValueError("pinned memory needs CUDA, and there is none: pass pinned=False")
        self.loader, self.pinned = loader, pinned
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
        self._ahead: Future | None = None
        self._state = loader.state_dict()

    def next_batch(self) -> Batch:
        """The next (idx, targets). What the loader raises is raised here, in its turn.

        After an exception the state is as before it, and the next call tries that batch again.
        """
        ahead = self._ahead or self._thread.submit(self._fetch)
        self._ahead = None
        batch, self._state = ahead.result()
        self._ahead = self._thread.submit(self._fetch)
        return batch

    def state_dict(self) -> dict:
        """Where the sequence stands after the batch last handed out, as the loader says it."""
        return self._state

    def load_state_dict(self, state: dict) -> None:
        """Go on where `state` was taken, by this or by the bare loader; what was ahead is dropped.

        The loader's ValueError comes through; the sequence then goes on as if nobody had asked.
        """
        self._wait()
        try:
            self.loader.load_state_dict(state)
        except Exception:
            self.loader.load_state_dict(self._state)
            raise
        self._state = self.loader.state_dict()

    def close(self) -> None:
        """End the thread, once the batch under way is there; another call does nothing more."""
        self._wait()
        self._thread.shutdown()

    def _fetch(self) -> tuple[Batch, dict]:
        before = self.loader.state_dict()
        try:
            batch = self.loader.next_batch()
            if self.pinned:
                batch = batch[0].pin_memory(), batch[1].pin_memory()
        except Exception:
            self.loader.load_state_dict(before)
            raise
        return batch, self.loader.state_dict()

    def _wait(self) -> None:
        """Until the thread leaves the loader alone."""
        if self._ahead is not None and not self._ahead.cancel():
            self._ahead.exception()
        self._ahead = None


class CopyStream:
    """Copies of host tensors on `device`, beside what a GPU is computing; on a CPU nothing is copied.

    A copy has a stream of its own. It begins when it is asked for, even if updates are still queued,
    and only work that is queued afterwards waits for it. The host waits for neither, provided
    that the tensor is in pinned memory; one that is not is first copied there, on the host.
    """

    def __init__(self, device: torch.device):
        self.device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def copy(self, *tensors: Tensor) -> list[Tensor]:
        """The tensors on the device, in order, for use on the current stream alone."""
        if self._stream is None:
            return [x.to(self.device) for x in tensors]
        current = torch.cuda.current_stream(self.device)
        with torch.cuda.stream(self._stream):
            there = [
                (x if x.is_cuda else x.pin_memory()).to(self.device, non_blocking=True)
                for x in tensors
            ]
            copied = self._stream.record_event()
        current.wait_event(copied)
        for x in there:
            x.record_stream(current)  # or its memory is used again when Python drops it, too early
        return there
