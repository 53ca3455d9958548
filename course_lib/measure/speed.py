"""Tokens per second, share of the peak, and memory: what a log says about the machine.

What it is: a stopwatch that runs during updates alone. What it leaves out: validation, saving, and
everything else that is not training; time inside a step (lesson 11).
"""

import resource
import sys
import time

import torch

from course_lib.measure.peak import peak_flops


class Speed:
    """Counts tokens and seconds between `start` and `stop`; `row` reads and clears the counts."""

    def __init__(
        self, device: torch.device, dtype: torch.dtype, flops_per_token: int, world_size: int
    ):
        peak, self.source = peak_flops(device, dtype)
        self.device = device
        self.peak_tokens_per_s = world_size * peak / flops_per_token
        self.tokens, self.seconds, self.latest = 0, 0.0, {}

    def start(self) -> None:
        """An update begins, its batches included."""
        self.began = time.perf_counter()

    def stop(self, num_tokens: int) -> None:
        """It has ended, and all ranks together trained on that many tokens."""
        self.seconds += time.perf_counter() - self.began
        self.tokens += num_tokens

    def row(self) -> dict[str, float]:
        """ "tokens_per_s" and "mfu" of all ranks together, "memory_mb" of this one, at most so far.

        The updates since the last row count; without any, the last row is returned again.
        """
        if self.tokens:
            rate = self.tokens / self.seconds
            self.latest = {
                "tokens_per_s": rate,
                "mfu": rate / self.peak_tokens_per_s,
                "memory_mb": peak_megabytes(self.device),
            }
            self.tokens, self.seconds = 0, 0.0
        return self.latest


def peak_megabytes(device: torch.device) -> float:
    """Most memory held at once so far, in 10^6 bytes: of the GPU by tensors, else of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1e6 if sys.platform == "darwin" else most * 1024 / 1e6  # kilobytes on Linux
