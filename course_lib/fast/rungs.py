"""The library's own faster parts, put into a GPT by name: what `--rungs` of the trainers asks for.

What it is: `apply_rungs`, which the trainers and the speed ladder share, and what refuses a part
that this machine does not have. What it leaves out: the parts themselves, each in a file of this
folder, and what they gain (`course bench ladder`).
"""

from collections.abc import Callable, Collection

import torch

from course_lib.fast.chunked_loss import ChunkedLoss
from course_lib.fast.flash_attention import use_flash_attention
from course_lib.fast.fp8 import has_fp8_units, use_fp8
from course_lib.fast.fused_rmsnorm import use_fused_norm, why_no_kernel
from course_lib.fast.padding import pad_vocabulary
from course_lib.gpt import GPT

RUNGS: dict[str, Callable[[GPT], object]] = {
    "padded_vocab": pad_vocabulary,
    "chunked_loss": ChunkedLoss,
    "flash_attention": use_flash_attention,
    "fused_norm": use_fused_norm,
    "fp8": lambda model: use_fp8(model, emulate=True),  # refused before, where it must be
}
"""What each name does to a model, in place."""


def apply_rungs(
    model: GPT, names: Collection[str], device: torch.device, *, emulate: bool = False
) -> GPT:
    """Give `model` the parts called `names`, out of `RUNGS`, in place. Returns the model.

    Before DDP, `fully_shard` or an optimizer is made of it, on any device, "meta" too; `device` is
    where it will compute. Parameters keep their names. All keep their shapes too, but for
    "padded_vocab", which adds rows of zeros to the head, and to the embedding where the two are one.
    The loss stays the same up to rounding, which for "fp8" is to 8 bits. ValueError for another name, and where
    the device cannot run a part; with `emulate` such a part computes the same, slowly.
    """
    if unknown := sorted(set(names) - RUNGS.keys()):
        raise ValueError(f"no rung {unknown[0]!r}; choose from {', '.join(RUNGS)}")
    for name, problem in find_problems(device).items():
        if name in names and not emulate:
            raise ValueError(f"rung {name}: {problem}; leave it out of --rungs here")
    for name, apply in RUNGS.items():
        if name in names:
            apply(model)
    return model


def find_problems(device: torch.device) -> dict[str, str]:
    """The rungs that `device` cannot run, each with the reason."""
    found = {"fused_norm": why_no_kernel(device)}
    if not has_fp8_units(device):
        found["fp8"] = (
            f"8-bit products need a GPU of capability 8.9 or later, this is {device.type}"
        )
    return {name: reason for name, reason in found.items() if reason}
