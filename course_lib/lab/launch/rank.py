"""What happens in torchrun and in every rank before their own first line (inside/sitecustomize.py).

In a rank: output goes to its own log, SIGUSR1 writes where it stands, an exception is written down
before the process ends, and the rank ends when torchrun does. In torchrun: a thread waits
for the end of whoever launched it, a killed notebook kernel for example, and then ends the run.

Standard library alone, and little of it: every rank pays for this before it starts.
"""

import atexit
import faulthandler
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import TextIO

from course_lib.runs import heartbeat
from course_lib.runs.launcher import end_with_launcher

WATCH = "COURSE_WATCH"  # descriptor of a pipe whose other end the launcher holds
GRACE_S = 6.0  # for torchrun to end its ranks, before they are killed
NUM_FRAMES, NUM_NAMES = 12, 8


def begin() -> None:
    """Set up this process: a rank, torchrun itself, or neither, which is left alone."""
    if "TORCHELASTIC_RUN_ID" in os.environ and "RANK" in os.environ:
        _hide_from_children()
        _begin_rank(Path(os.environ[heartbeat.VARIABLE]), os.environ["RANK"])
    elif WATCH in os.environ:
        descriptor = int(os.environ.pop(WATCH))
        os.set_inheritable(descriptor, False)
        threading.Thread(target=_end_with_launcher, args=(descriptor,), daemon=True).start()


def _hide_from_children() -> None:
    """Workers of a data loader and other children of a rank start as they always do."""
    here = str(Path(__file__).parent / "inside")
    others = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != here]
    os.environ["PYTHONPATH"] = os.pathsep.join(others)
    if not others:
        del os.environ["PYTHONPATH"]


def _begin_rank(folder: Path, rank: str) -> None:
    log = os.open(folder / f"rank{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)  # a file takes any amount; a pipe that nobody reads would stop the rank
    os.dup2(log, 2)
    os.close(log)
    faulthandler.enable()
    _answer_signals((folder / f"stacks{rank}.txt").open("a"))
    end_with_launcher()
    sys.excepthook = _record
    heartbeat.say("start", pid=os.getpid())  # last: who reads it may send SIGUSR1 from now on


def _answer_signals(stacks: TextIO) -> None:
    """SIGUSR1 writes the frames of all threads to `stacks`.

    A thread writes them, which waits for its turn to run Python. The signal's own handler must not
    (`faulthandler.register`), since it may come in the middle of a call, when the newest frame is
    half made, and reading that one ends the process.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)  # gets the numbers of signals
    atexit.register(signal.signal, signal.SIGUSR1, signal.SIG_IGN)  # or Python's end lets it kill

    def write_frames() -> None:
        while numbers := os.read(reader, 64):
            if signal.SIGUSR1 in numbers:
                faulthandler.dump_traceback(file=stacks, all_threads=True)

    threading.Thread(target=write_frames, daemon=True).start()


def _record(kind: type[BaseException], error: BaseException, trace) -> None:
    """The excepthook of a rank: writes down what happened, for us and for torchrun, then prints.

    The others lose their connection when this process ends, so this line is always the earlier.
    """
    if not issubclass(kind, KeyboardInterrupt):
        frames, last = _frames(trace)
        heartbeat.say(
            "error", type=kind.__name__, text=str(error)[:2000], frames=frames, names=_names(last)
        )
        _tell_torchrun(kind, error, trace)
    sys.__excepthook__(kind, error, trace)


def _frames(trace) -> tuple[list[list], FrameType | None]:
    """[file, line, function] of the innermost calls, outermost first, and the script's last frame.

    The script's own: the innermost that is not of an installed package.
    """
    found, last = [], None
    while trace is not None:
        code = trace.tb_frame.f_code
        found.append([code.co_filename, trace.tb_lineno, code.co_name])
        if "site-packages" not in code.co_filename and "<frozen" not in code.co_filename:
            last = trace.tb_frame
        trace = trace.tb_next
    return found[-NUM_FRAMES:], last


def _names(frame: FrameType | None) -> dict[str, str]:
    """The frame's simple variables: numbers and texts as they are, tensors by shape and dtype."""
    found = {}
    for name, value in dict(frame.f_locals if frame else {}).items():
        if name.startswith("_"):
            continue
        if isinstance(value, (bool, int, float, str)):
            found[name] = repr(value)[:60]
        elif hasattr(value, "shape") and hasattr(value, "dtype"):
            found[name] = f"{tuple(value.shape)} {value.dtype}".replace("torch.", "")
    return dict(list(found.items())[:NUM_NAMES])


def _tell_torchrun(kind: type[BaseException], error: BaseException, trace) -> None:
    """What torch's @record does, for a script that does not use it."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not file:
        return
    import traceback

    extra = {
        "py_callstack": "".join(traceback.format_exception(kind, error, trace)),
        "timestamp": str(int(time.time())),
    }
    message = {"message": f"{kind.__name__}: {error}", "extraInfo": extra}
    try:
        Path(file).write_text(json.dumps({"message": message}))
    except OSError:
        return


def _end_with_launcher(descriptor: int) -> None:
    """In torchrun: wait for the end of the launcher, then end the run, in order and then surely.

    Surely is the work of a process of its own. torchrun may abort as its Python ends (-6, seen
    once, under load), and nothing that is registered with `atexit` runs then.
    """
    while os.read(descriptor, 1):
        pass
    import subprocess

    told = (os.environ[heartbeat.VARIABLE], os.getpid(), GRACE_S)
    line = f"from course_lib.lab.launch import processes; processes.end_run(*{told!r})"
    environment = {k: v for k, v in os.environ.items() if k != heartbeat.VARIABLE}
    subprocess.Popen([sys.executable, "-c", line], env=environment, start_new_session=True)
    os.kill(os.getpid(), signal.SIGINT)
