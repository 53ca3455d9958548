"""An answer in an environment that says something: what it is told counts, not what it finds there."""

import os
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist

LEFT = {"WORLD_SIZE": "7", "LOCAL_WORLD_SIZE": "7", "SLURM_NTASKS": "7", "RANK": "3"}
"""What a launcher leaves in the environment."""


def call_in(answer: Callable, variables: dict[str, str], args: list, named: dict) -> Any:
    """`answer(*args, **named)` where these variables of the environment are set."""
    with patch.dict(os.environ, variables):
        return answer(*args, **named)


def call_anywhere(answer: Callable, args: list, named: dict) -> list[tuple[str, Any]]:
    """What `answer(*args, **named)` gives, by place: with nothing about it, in the environment of a
    launcher, on a machine of 7 GPUs, and on rank 3 of a group of 7, whose other ranks are not there.

    What a call raised comes back as its text.
    """
    found = [("nothing about it", answer(*args, **named))]
    with patch.dict(os.environ, LEFT):
        found.append(("WORLD_SIZE=7 in the environment", _try(answer, args, named)))
    with patch.object(torch.cuda, "device_count", lambda: 7):
        found.append(("7 GPUs", _try(answer, args, named)))
    if _join_group(rank=3, size=7):
        found.append(("a process group of 7 ranks", _try(answer, args, named)))
        dist.destroy_process_group()
    return found


def _join_group(*, rank: int, size: int) -> bool:
    """Put this process, alone or the only rank of a group, on `rank` of a group in which nothing is
    sent; False where it cannot be."""
    if not dist.is_available():
        return False
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        if dist.get_world_size() > 1:
            return False
        dist.destroy_process_group()
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=size)
    return True


def _try(answer: Callable, args: list, named: dict) -> Any:
    try:
        return answer(*args, **named)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
