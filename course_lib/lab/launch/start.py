"""torchrun as a process of its own: started, watched over, and ended so that no rank is left.

The order in which a run ends, measured with torch 2.13: SIGINT lets torchrun pass it on to the
ranks, which may clean up for SHUTDOWN_S; then torchrun kills them; a rank that even that leaves
alive, and whatever a rank has started, is killed by what is in its environment.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from course_lib.lab.launch import processes
from course_lib.lab.launch.plan import Plan
from course_lib.lab.launch.rank import WATCH
from course_lib.runs.heartbeat import VARIABLE

SHUTDOWN_S = 3  # for ranks to clean up, torchrun's --shutdown-timeout
AFTER_S = 3.0  # for torchrun itself, then everything is killed

# of another launch, or of the notebook this process belongs to
FOREIGN = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK",
           "ROLE_NAME", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
           "JPY_PARENT_PID", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"}  # fmt: skip


class Agent:
    """The running torchrun of one launch."""

    def __init__(self, plan: Plan, folder: Path):
        """Start it. Its own words go to torchrun.log, those of the ranks to rank0.log and on."""
        self.folder, self.began = folder, time.monotonic()
        ours, self._alive = os.pipe()  # the other end closes with this process, however it ends
        try:
            with (folder / "torchrun.log").open("wb") as log:
                self._process = subprocess.Popen(
                    [*_torchrun(), *plan.arguments],
                    env=_environment(plan, folder, ours),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(ours,),
                    start_new_session=True,  # Ctrl-C and the kernel's interrupts come to us alone
                )
        finally:
            os.close(ours)

    @property
    def pid(self) -> int:
        """torchrun's process id."""
        return self._process.pid

    def wait(self, seconds: float) -> int | None:
        """Its exit status, as soon as it has ended within that time; else None."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, recorded: Iterable[int] = ()) -> int:
        """End the run in order; how many processes had to be killed. A second Ctrl-C is not lost."""
        recorded = [*recorded, self.pid]
        try:
            processes.send_signal(self.pid, signal.SIGINT)
            self.wait(SHUTDOWN_S + AFTER_S)
        finally:  # on a second interrupt as well
            killed = self.sweep(recorded)
        return killed

    def end_ranks(self, recorded: Iterable[int] = ()) -> set[int]:
        """Kill the ranks and what they have started; torchrun sees it and ends by itself."""
        left = {pid for pid in processes.of_run(self.folder, recorded) if pid != self.pid}
        return {pid for pid in left if processes.send_signal(pid, signal.SIGKILL)}

    def sweep(self, recorded: Iterable[int] = ()) -> int:
        """Kill everything of the run that is still there; how many processes that were."""
        killed = processes.sweep(self.folder, [*recorded, self.pid])
        self._process.poll()
        return killed

    def close(self) -> None:
        """Nothing is left to be watched over."""
        os.close(self._alive)


def _torchrun() -> list[str]:
    """The torchrun of this environment, whatever PATH says."""
    beside = Path(sys.executable).with_name("torchrun")
    if beside.is_file() and os.access(beside, os.X_OK):
        return [str(beside)]
    return [sys.executable, "-m", "torch.distributed.run"]


def _environment(plan: Plan, folder: Path, watch: int) -> dict[str, str]:
    """This process's environment, without what belongs to it alone."""
    own = {
        k: v
        for k, v in os.environ.items()
        if k not in FOREIGN and not k.startswith("TORCHELASTIC_")
    }
    if "matplotlib_inline" in own.get("MPLBACKEND", ""):
        del own["MPLBACKEND"]  # it draws into a notebook, and the ranks have none
    inside = str(Path(__file__).parent / "inside")
    own |= {
        VARIABLE: str(folder),
        WATCH: str(watch),
        "PYTHONPATH": os.pathsep.join(filter(None, [inside, own.get("PYTHONPATH")])),
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(SHUTDOWN_S),
        "NO_COLOR": "1",  # logs are read in panels and pages
    }
    return own | {"CUDA_VISIBLE_DEVICES": ""} if plan.hide_gpus else own
