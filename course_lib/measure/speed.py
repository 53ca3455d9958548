"""Tokens per second, share of the peak, memory and the slowest rank: a log's words on the machine.

What it is: a clock that runs while a model is trained, and the part of an update in which a rank waits
for no other. What it leaves out: validation, saving, and everything else that is not training; what
takes the time inside a step (lesson 13).
"""

import contextlib
import resource
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence

import torch

from course_lib.measure.peak import peak_flops
from course_lib.measure.timing import synchronize


class Speed:
    """Counts tokens and seconds between `start` and `stop`; `row` reads and clears the counts.

    A GPU works through a queue, and an update that has been queued is not done. So `stop` waits for
    the device, and all updates since `start` count, however many there were.
    """

    def __init__(
        self, device: torch.device, dtype: torch.dtype, flops_per_token: int, world_size: int
    ):
        peak, self.source = peak_flops(device, dtype)
        self.device = device
        self.peak_tokens_per_s = world_size * peak / flops_per_token
        self.tokens, self.seconds = 0, 0.0
        self.latest: dict[str, float] = {}

    def start(self, tokens_seen: int) -> None:
        """Updates begin, when all ranks together have trained on that many tokens."""
        self.began, self.before = time.perf_counter(), tokens_seen

    def stop(self, tokens_seen: int) -> None:
        """They end with that many; waits until the device has finished them."""
        synchronize(self.device)
        self.seconds += time.perf_counter() - self.began
        self.tokens += tokens_seen - self.before

    def row(self, ranks: Sequence[tuple[float, float]]) -> dict[str, float]:
        """What the log says of the updates since the last row; if there were none, the last row again.

        `ranks`: (`peak_megabytes`, seconds of `OwnTime`) of each rank in order. Returns
        "tokens_per_s" and "mfu" of all ranks together; "memory_mb", the most that a rank has held so
        far; "slowest_rank", the one with the most seconds, and "slowest_ratio", these over the mean
        of all ranks: 1 where all are alike.
        """
        if self.tokens:
            rate, seconds = self.tokens / self.seconds, [own for _, own in ranks]
            self.latest = {
                "tokens_per_s": rate,
                "mfu": rate / self.peak_tokens_per_s,
                "memory_mb": max(held for held, _ in ranks),
                "slowest_rank": seconds.index(max(seconds)),
                "slowest_ratio": max(seconds) * len(seconds) / (sum(seconds) or 1.0),
            }
            self.tokens, self.seconds = 0, 0.0
        return self.latest


class OwnTime:
    """Seconds of the last update that a rank spends on its batches and forward passes.

    With DDP it waits for no other rank in them; with FSDP a forward pass waits in its all-gathers.
    Whole updates take all ranks alike, since each waits for the slowest in the backward pass. `parts`
    is how many parts of an update are measured; the latest so many count. On a GPU a part lies
    between two events in its queue, so measuring waits for nothing; reading does.
    """

    def __init__(self, device: torch.device, parts: int):
        self.device = device
        self._parts: deque[tuple] = deque(maxlen=parts)

    @contextlib.contextmanager
    def measure(self) -> Iterator[None]:
        """What runs inside is one part."""
        began = self._mark()
        yield
        self._parts.append((began, self._mark()))

    def seconds(self) -> float:
        """The parts together, in seconds; waits for the device."""
        synchronize(self.device)
        if self.device.type == "cuda":
            return sum(began.elapsed_time(end) for began, end in self._parts) / 1e3  # was in ms
        return sum(end - began for began, end in self._parts)

    def _mark(self) -> float | torch.cuda.Event:
        if self.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        return event


def peak_megabytes(device: torch.device) -> float:
    """Most memory held at once so far, in 10^6 bytes: of the GPU by tensors, else of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1e6 if sys.platform == "darwin" else most * 1024 / 1e6  # kilobytes on Linux
