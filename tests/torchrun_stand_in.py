"""As much of torchrun as a launcher can see, without torch: a tenth of a second instead of three.

Ranks in sessions of their own, a failed rank ends the others by SIGTERM and half a minute later by
SIGKILL, a signal is passed on, and the report has the form of torch 2.13.
"""

import os
import signal
import subprocess
import sys
import time


class Signal(Exception):
    pass


def raise_signal(number, frame):
    raise Signal(number)


def start(words: list[str]) -> list[subprocess.Popen]:
    count, module = 1, []
    while words[0].startswith("-"):
        word = words.pop(0)
        if word.startswith("--nproc"):
            count = int(word.partition("=")[2])
        elif word == "-m":
            module = ["-m"]
    ranks = []
    for rank in range(count):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)}
        ranks.append(
            subprocess.Popen(
                [sys.executable, "-u", *module, *words],
                start_new_session=True,
                env=os.environ | own | {"TORCHELASTIC_RUN_ID": "stand-in"},
            )
        )
    return ranks


def close(ranks: list[subprocess.Popen], number: int, seconds: float) -> None:
    for rank in ranks:
        if rank.poll() is None:
            print(f"W Sending process {rank.pid} closing signal {number}", flush=True)
            os.killpg(rank.pid, number)
    deadline = time.monotonic() + seconds
    for rank in ranks:
        try:
            rank.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            print(f"W Unable to shutdown process {rank.pid} via {number}", flush=True)
            os.killpg(rank.pid, signal.SIGKILL)
            rank.wait()


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, raise_signal)
    ranks = start(sys.argv[1:])
    try:
        statuses = [None]
        while None in statuses and not any(statuses):
            time.sleep(0.1)
            statuses = [rank.poll() for rank in ranks]
        if not any(statuses):
            return
        close(ranks, signal.SIGTERM, 30)
    except Signal as signaled:
        close(ranks, signaled.args[0], int(os.environ["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]))
    for number, rank in enumerate(ranks):
        if rank.returncode:
            print(
                f"  rank      : {number} (local_rank: {number})\n"
                f"  exitcode  : {rank.returncode} (pid: {rank.pid})"
            )
    sys.exit(1)


if __name__ == "__main__":
    main()
