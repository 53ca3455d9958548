"""A batch script of Slurm, tried on this machine alone: what stands for Slurm is thirty lines of shell.

What it is: one machine, one task, the real bash and the real torchrun, and a warning when you say
so. What it leaves out: a queue, other machines, GPUs, and limits of time.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

PROGRAMS = {
    "scontrol": "echo localhost",
    "srun": """
while [[ $1 == --* ]]; do echo "$1" >> "$REHEARSAL/options"; shift; done
set -m
bash -c 'echo $$ > "$REHEARSAL/task.new"; mv "$REHEARSAL/task.new" "$REHEARSAL/task"; exec "$@"' - "$@" &
wait $!
status=$?
kill -9 -- -$! 2> /dev/null  # when the task has ended, what is left of the step is killed
exit $status
""",
}


class RehearsedJob:
    """A running job of `script`, for which this machine plays Slurm; use it as a context.

    `changes` are texts of the script that a rehearsal wants otherwise, each of them found once, or
    ValueError. The working folder is the one that the job is submitted from. ValueError, too, where
    bash or pkill is missing.
    """

    def __init__(self, script: str | Path, changes: Mapping[str, str]):
        text = Path(script).read_text(encoding="utf-8")
        for old, new in changes.items():
            if text.count(old) != 1:
                raise ValueError(f"{script} has {old!r} {text.count(old)} times, expected once")
            text = text.replace(old, new)
        if missing := [name for name in ("bash", "pkill") if not shutil.which(name)]:
            raise ValueError(f"a rehearsal needs {' and '.join(missing)}: install procps and bash")
        self._folder = tempfile.TemporaryDirectory()
        here = Path(self._folder.name)
        for name, lines in PROGRAMS.items():
            (here / name).write_text(f"#!/usr/bin/env bash\n{lines}\n")
            (here / name).chmod(0o755)
        (here / "script").write_text(text)
        number = random.SystemRandom().randrange(2**26)
        told = {
            "SLURM_JOB_NODELIST": "localhost", "SLURM_JOB_ID": str(number), "SLURM_NNODES": "1",
            "SLURM_SUBMIT_DIR": os.getcwd(), "SLURM_JOB_NAME": "gpt", "SLURM_CPUS_PER_TASK": "64",
            "OMP_NUM_THREADS": "1", "REHEARSAL": str(here),
            "PATH": f"{here}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        }  # fmt: skip
        self._said = (here / "said").open("w+")
        self.process = subprocess.Popen(
            ["bash", str(here / "script")], env=os.environ | told, stdin=subprocess.DEVNULL,
            stdout=self._said, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> "RehearsedJob":
        return self

    def __exit__(self, *error) -> None:
        """Whatever of the job is left is killed."""
        for pid in (self.process.pid, *([self.task] if self._path("task").exists() else [])):
            try:
                os.killpg(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        self.process.wait()
        self._said.close()
        self._folder.cleanup()

    def _path(self, name: str) -> Path:
        return Path(self._folder.name) / name

    @property
    def task(self) -> int:
        """The process that Slurm has started on the machine."""
        return int(self._path("task").read_text())

    @property
    def options(self) -> list[str]:
        """What srun was told."""
        return self._path("options").read_text().split()

    def wait_for_lines(self, path: str | Path, count: int, *, limit_s: float = 600) -> None:
        """Until the file `path` has so many lines. RuntimeError when the job ends before that, or
        `limit_s` are over; it says what the job printed."""
        ends = time.monotonic() + limit_s
        while not (Path(path).exists() and len(Path(path).read_text().splitlines()) >= count):
            if self.process.poll() is not None or time.monotonic() > ends:
                raise RuntimeError(
                    f"{path} never had {count} lines; the job said:\n{self.read_output()}"
                )
            time.sleep(0.1)

    def send_warning(self, number: int = signal.SIGUSR2) -> None:
        """Send the signal to the task, as Slurm does, and to nobody else."""
        os.kill(self.task, number)

    def read_output(self) -> str:
        """What the job has printed so far."""
        return self._path("said").read_text(errors="replace")

    def wait(self, limit_s: float = 600) -> int:
        """Until the job has ended; its status."""
        return self.process.wait(limit_s)
