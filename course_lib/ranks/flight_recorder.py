"""torch's flight recorder: the last collectives of each rank, on the disk when one of them hangs.

What it is: the settings that switch it on for NCCL, made before the group is. What it leaves out:
reading the files, which `torchfrtrace FOLDER` does, and gloo, which writes none.

Source: PyTorch tutorials, "Flight Recorder for Debugging Stuck Jobs".
"""

import os
from collections.abc import MutableMapping
from pathlib import Path

import torch

COLLECTIVES = 2000
"""Collectives that are remembered, per rank: some hundred bytes each."""
NAMES = {  # as torch 2.9 and later call them, and as it called them before
    "TORCH_FR_BUFFER_SIZE": "TORCH_NCCL_TRACE_BUFFER_SIZE",
    "TORCH_FR_DUMP_TEMP_FILE": "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "",
}


def record_flight(
    folder: str | Path,
    device: str = "auto",
    environment: MutableMapping[str, str] = os.environ,
) -> bool:
    """Have NCCL's groups of this process write their last collectives to `folder` on a timeout.

    Call it before the group is made. The file of rank 3 is `folder`/rank_3; `folder` is made. Does
    nothing without torchrun, without a GPU, or with `device` "cpu". What `environment` says already
    stays. Returns whether NCCL will record. OSError where the folder can't be made.
    """
    if "RANK" not in environment or device == "cpu" or not torch.cuda.is_available():
        return False
    folder = Path(folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    for (name, old), value in zip(
        NAMES.items(), (str(COLLECTIVES), f"{folder}/rank_", "1"), strict=True
    ):
        if old not in environment:
            environment.setdefault(name, value)
    return True
