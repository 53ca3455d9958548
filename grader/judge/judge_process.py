"""A process that holds one judge and grades notebooks one after the other, and how to reach it.

    python -P -m grader.judge.judge_process OPTIONS     requests on stdin, replies on stdout

A request is a line of JSON and then the notebook's bytes; a reply is a line of JSON, and the first
line says that the judge is ready. The process ends when its stdin does, so it never outlives the
process that started it, however that one ended. A judge in a process of its own has the main
thread, which time limits need; when it dies, the run goes on with another; and the process that
reads a thousand notebooks does not load torch.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import IO

JUDGE = "grader.judge.judge:Judge"
STUCK_S = 600.0  # far beyond the judge's own budgets: then it is the judge that hangs
LINE = 4 << 20  # bytes of a reply: verdicts are short, free text is capped


class JudgeDied(RuntimeError):
    """The process ended instead of answering."""


@dataclass(frozen=True)
class Options:
    """How a judge is made. `judge` is "module:class"; the others are its arguments."""

    judge: str = JUDGE
    unsafe: bool = False
    budget_s: float = 10.0


class JudgeProcess:
    """A judge in another process. Not thread-safe: one request at a time.

    It is usable after `wait_until_ready`, which waits for torch to be imported there.
    """

    def __init__(self, options: Options = Options()):
        # -P: the current folder may hold a torch.py that was submitted beside a notebook
        module = "grader.judge.judge_process"
        command = [sys.executable, "-P", "-m", module, json.dumps(asdict(options))]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}  # one core each; there are as many judges
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            start_new_session=True,  # Ctrl-C goes to the parent alone, which then closes stdin
        )
        self.reader = self._process.stdout
        """Readable when there is a reply, or when the process has died."""
        self.tier = ""

    def wait_until_ready(self) -> str:
        """Wait for the judge and return its tier. ValueError when it refuses to start here."""
        self.tier = self._read_reply()["tier"]
        return self.tier

    def send_notebook(
        self, data: bytes, *, name: str, seed: int, lesson: str | None = None
    ) -> None:
        """Send one notebook. JudgeDied when the process has ended."""
        request = {"name": name, "seed": seed, "lesson": lesson, "size": len(data)}
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n" + data)
            self._process.stdin.flush()
        except OSError:
            raise JudgeDied("the judge's process is gone") from None

    def read_result(self) -> dict:
        """`Result.json` of the notebook sent last; JudgeDied when the process ended."""
        return self._read_reply()

    def grade(self, data: bytes, *, name: str, seed: int, lesson: str | None = None) -> dict:
        """`send_notebook`, then `read_result`."""
        self.send_notebook(data, name=name, seed=seed, lesson=lesson)
        return self.read_result()

    def _read_reply(self) -> dict:
        waiting = select.poll()
        waiting.register(self.reader, select.POLLIN)
        if not waiting.poll(STUCK_S * 1000):
            self.close(patience_s=0)
            raise JudgeDied("no answer in time")
        line = self.reader.readline(LINE)
        if not line.endswith(b"\n"):
            raise JudgeDied("the judge's process ended without an answer")
        reply = json.loads(line)
        if "error" in reply:
            raise ValueError(reply["error"])
        return reply

    def close(self, patience_s: float = 5) -> None:
        """End the process and wait for it."""
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.reader.close()

    def __enter__(self) -> "JudgeProcess":
        return self

    def __exit__(self, *_) -> None:
        self.close()


def serve_requests(options: Options, requests: IO[bytes], replies: IO[bytes]) -> int:
    """Grade what comes in until `requests` ends; returns the exit status."""
    from grader.judge.grade import grade_submission
    from grader.judge.submission import read_submission

    module, _, name = options.judge.partition(":")
    with contextlib.ExitStack() as stack:
        try:
            make = getattr(import_module(module), name)
            judge = make(unsafe=options.unsafe, budget_s=options.budget_s)
            judge = stack.enter_context(judge)
        except (ValueError, OSError, RuntimeError, ImportError, AttributeError) as problem:
            _send_reply(replies, {"error": str(problem) or type(problem).__name__})
            return 2
        _send_reply(replies, {"tier": judge.tier})
        while line := requests.readline():
            request = json.loads(line)
            data = requests.read(request["size"])
            submission = read_submission(data, request["lesson"], name=request["name"])
            _send_reply(replies, grade_submission(submission, judge, request["seed"]).json())
    return 0


def _send_reply(replies: IO[bytes], values: dict) -> None:
    replies.write(json.dumps(values).encode() + b"\n")
    replies.flush()


def main() -> int:
    """Keeps the real stdout for replies; whatever else is printed goes to stderr."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        return serve_requests(Options(**json.loads(sys.argv[1])), sys.stdin.buffer, replies)
    except BrokenPipeError:  # the one who started us was killed: nobody is left to tell
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
