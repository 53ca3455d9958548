"""Proofs of the review items of 24_fsdp_checkpoint."""

import tempfile
from pathlib import Path

import torch

from course_lib.checkpoints import manifest
from course_lib.checkpoints.files import CheckpointError
from tests.reviews import checkpoint_bytes_per_parameter, yes

ARGUED = {
    "fsdp-save-checkpoint-2": "bytes held by rank are checked by the exercise's suite",
    "fsdp-save-checkpoint-3": "what is a collective and what is not",
}


def fsdp_save_checkpoint_1(n):
    return n.n * checkpoint_bytes_per_parameter() / n.R


def fsdp_load_resharded_1(n):
    parts = torch.arange(n.n).chunk(n.R)  # as FSDP2 cuts
    return len(parts[n.R - 1]) if len(parts) == n.R else 0


def fsdp_load_resharded_2(n):
    saved, wanted = (torch.arange(n.n).chunk(ranks) for ranks in (n.R, n.Q))
    return int(torch.isin(wanted[n.q], saved[n.r]).sum())


def fsdp_load_resharded_3(n):
    with tempfile.TemporaryDirectory() as folder:
        part, target = Path(folder) / "step_1.part", Path(folder) / "step_1"
        part.mkdir()
        for name in ("__0_0.distcp", "__1_0.distcp", ".metadata"):
            (part / name).write_bytes(b"abc")
        manifest.publish(part, target, manifest.describe(part, [p.name for p in part.iterdir()]))
        if "no manifest" in n.what:
            (target / manifest.NAME).unlink()
        if "shorter" in n.what:
            (target / "__0_0.distcp").write_bytes(b"ab")
        if "only one" in n.what:
            (target / "__0_0.distcp").unlink()
        try:
            manifest.compare(target, manifest.read(target)["files"])
        except CheckpointError:
            return "no"
        return yes(manifest.find_published(Path(folder), "step_*"))
