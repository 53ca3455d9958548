"""The scripts that lessons have their readers launch, over all GPUs: word for word, as figures.

Each script is a `%%writefile` cell of book/NN_name.md and writes what it found with
`write_measurement`. Here it runs on the library's own definitions.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from course_lib.ranks.measurement import read_measurement
from grader.course import ROOT
from grader.lesson import LessonSource

SCRIPTS = {
    "ladder_ranks": ("18_ladder", "ladder_ranks.py"),
    "collectives": ("19_collectives", "collective_speed.py"),
    "ddp": ("20_ddp", "ddp_speed.py"),
    "zero": ("22_zero", "zero_stages.py"),
    "fsdp": ("23_fsdp", "fsdp_speed.py"),
    "milestone": ("24_fsdp_checkpoint", "milestone.py"),
}
"""By name of the part: the lesson and its script. "milestone" takes 8 GB of disk while it runs."""


def read_script(lesson: str, script: str) -> str:
    """The text that this cell of the lesson writes. LookupError when the lesson has no such cell."""
    path, head = ROOT / f"book/{lesson}.md", f"%%writefile {script}\n"
    cells = LessonSource(path, path.read_text(encoding="utf-8")).source.cells
    found = [c.source.removeprefix(head) for c in cells if c.source.startswith(head)]
    if len(found) != 1:
        raise LookupError(f"expected one cell with {head.strip()} in {path.name}, got {len(found)}")
    return found[0]


def measure(name: str, dry: bool) -> dict:
    """What the ranks of that part's script found, one on each GPU; `dry`: one rank on the CPU."""
    lesson, script = SCRIPTS[name]
    ranks = 1 if dry else torch.cuda.device_count()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / script
        path.write_text(read_script(lesson, script), encoding="utf-8")
        # no answers of a learner, and ranks that end when torchrun is told to
        own = {"COURSE_HOME": folder, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "3"}
        hidden = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"} if dry else {}
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        process = subprocess.Popen(
            [*torchrun, f"--nproc_per_node={ranks}", script],
            cwd=folder,
            env=os.environ | own | hidden,
        )
        try:
            status = process.wait()
        finally:  # out of time: torchrun passes it on, and no rank is left
            process.terminate()
            process.wait()
        if status:
            raise RuntimeError(f"{script} on {ranks} ranks ended with {status}")
        return read_measurement(path)
