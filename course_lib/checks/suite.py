"""A suite: what a right answer to one exercise must do, in teaching order.

Checks run in order and the first failure ends the run: it runs; shape and dtype; no NaN; a property
the learner can reason about; values against an oracle; edge cases; cost. Inputs come from a `Draw`.
Learners always get seed 0; grading draws a fresh seed, which changes sizes and numbers, never the
specification.
"""

import contextlib
import importlib
import io
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from course_lib.checks.report import DIGITS, Verdict, Wrong
from course_lib.checks.subject import AnswerError, OutOfTime, Subject
from course_lib.ranks.local_ranks import PATIENCE
from course_lib.runs.machine import cpu_seconds_with_children

LIMIT_S = 10.0
DYNAMO = "torch._dynamo"  # torch.optim, checkpoint() and torch's DDP load it on first use: seconds


class Draw:
    """Seeded inputs. Two draws with one seed give the same numbers in the same order."""

    def __init__(self, seed: int = 0):
        self.seed = seed
        self._generator = torch.Generator().manual_seed(seed)

    def randn(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Standard normal numbers."""
        return torch.randn(shape, generator=self._generator).to(dtype)

    def randint(self, low: int, high: int, shape: Sequence[int]) -> Tensor:
        """int64 numbers in [low, high)."""
        return torch.randint(low, high, tuple(shape), generator=self._generator)

    def size(self, *choices: int) -> int:
        """One of `choices`; the first of them for seed 0, so messages to learners stay the same."""
        return choices[0] if self.seed == 0 else choices[int(self.randint(0, len(choices), (1,)))]


Check = Callable[[Subject, Draw], None]


@dataclass(frozen=True)
class Suite:
    """The checks of one exercise and what a pass says."""

    exercise: str
    checks: tuple[Check, ...]
    tested: str
    """What passing shows, one sentence."""
    remember: str
    """One number or fact worth keeping."""
    next_step: str
    """One thing to try."""
    ranks: int = 0
    """Most ranks that a check of it runs at once; 1 for one that only uses `subject.probe`."""
    sends_much: bool = False
    """Its ranks send so many bytes that from outside a count of them says something of the answer."""
    limit_s: float = LIMIT_S
    """Seconds that the whole suite may compute; where it waits, `PATIENCE` times as many."""
    loads: tuple[str, ...] = ()
    """Modules that answers load on first use, slowly: imported before the time limit begins."""

    def __post_init__(self):
        if self.ranks > 1 and DYNAMO not in self.loads:  # once here, not on each rank
            object.__setattr__(self, "loads", (*self.loads, DYNAMO))

    def run(self, subject: Subject, *, seed: int = 0, number: str = "", title: str = "") -> Verdict:
        """Run the checks on `subject`; never raises for anything the answer does."""
        base = Verdict(
            exercise=self.exercise, number=number, title=title, seed=seed, total=len(self.checks)
        )
        for name in self.loads:
            importlib.import_module(name)
        if self.ranks:
            subject.prepare_ranks()
        began = time.perf_counter()
        printed = io.StringIO()
        with one_thread(), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            verdict = self._run(subject, base)
        return replace(
            verdict,
            rows=_with_printed(verdict, printed.getvalue()),
            seconds=time.perf_counter() - began,
            own_seconds=getattr(subject, "seconds", 0.0),
        )

    def _run(self, subject: Subject, base: Verdict) -> Verdict:
        reached = 0
        try:
            with time_limit(self.limit_s):
                for check in self.checks:
                    reached += 1
                    _run_check(check, subject, base.seed)
        except Wrong as wrong:
            verdict = replace(
                base, code=wrong.code, finding=wrong.finding, rows=wrong.rows, preset=wrong.preset
            )
        except AnswerError as failure:
            verdict = _error_verdict(base, failure)
        except OutOfTime as late:
            verdict = _timeout_verdict(base, self.limit_s, waited=late.waited)
        except Exception as error:  # ours, not the learner's
            verdict = _broken_verdict(base, error)
        else:
            rows = (("Tested", self.tested), ("Remember", self.remember), ("Try", self.next_step))
            return replace(base, status="passed", reached=reached, rows=rows)
        return replace(
            verdict, reached=reached, rows=(*verdict.rows, ("Next", _next_steps(verdict)))
        )


def _run_check(check: Check, subject: Subject, seed: int) -> None:
    """Run one check; again with more digits where its message shows the same number twice."""
    try:
        with torch.random.fork_rng(devices=[]):
            check(subject, Draw(seed))
    except Wrong as wrong:
        if wrong.looks_the_same():
            digits = DIGITS.set(9)
            try:
                with torch.random.fork_rng(devices=[]):
                    check(subject, Draw(seed))
            except Wrong as closer:
                if closer.code == wrong.code:
                    raise closer from None
            finally:
                DIGITS.reset(digits)
        raise


@contextlib.contextmanager
def one_thread():
    """torch computes in one thread. Inputs are small, and on a busy machine each operation would
    wait for threads that are not given a core: minutes on the wall for seconds of work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def time_limit(seconds: float):
    """Raise `OutOfTime` in the body when `seconds` have passed and it has computed for so long, its
    ended children included; when it only waits, after `PATIENCE` times as long.

    So a right answer is never late because others use the machine. Only the main thread can be
    interrupted.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return
    began, used = time.monotonic(), cpu_seconds_with_children()

    def look(signum, frame):
        if cpu_seconds_with_children() - used >= seconds:
            raise OutOfTime
        if time.monotonic() - began >= PATIENCE * seconds:
            raise OutOfTime(waited=True)

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)  # again and again, should one be swallowed
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _error_verdict(base: Verdict, failure: AnswerError) -> Verdict:
    error = failure.error
    if isinstance(error, NotImplementedError):
        return replace(
            base,
            code="STUB",
            finding="not written yet",
            rows=(
                ("Expected", "code in place of `raise NotImplementedError`"),
                (
                    "Look at",
                    "the docstring in the cell: it says what comes in and what must go out.",
                ),
            ),
        )
    frame, said = _learner_frame(error), str(error).strip().splitlines()
    rows = [("Tried", failure.tried)] if failure.tried else []
    rows.append(("Got", f"{type(error).__name__}: {said[0][:200] if said else ''}"))
    line = f"line {frame.lineno} of the cell: {(frame.line or '').strip()}" if frame else ""
    if line or failure.line:
        rows.append(("Look at", line or failure.line))
    if isinstance(error, NameError):
        rows.append(("Fits", "an import that was removed, or a cell above that has not run."))
    return replace(
        base, code="RAISED", finding=f"the code raised {type(error).__name__}", rows=tuple(rows)
    )


def _learner_frame(error: BaseException) -> traceback.FrameSummary | None:
    """The last frame that is neither ours nor a library's: a cell or the learner's file."""
    ours = str(Path(__file__).resolve().parents[1])
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(ours) and "site-packages" not in frame.filename
    ]
    return frames[-1] if frames else None


def _timeout_verdict(base: Verdict, limit_s: float, *, waited: bool) -> Verdict:
    fits = "a loop or a recursion without end, or Python loops over every element."
    if waited:
        fits = "a sleep, or a wait for what never comes: input, a lock, another process."
    return replace(
        base,
        code="TIMEOUT",
        finding=f"stopped after {limit_s * (PATIENCE if waited else 1):g} seconds",
        rows=(
            ("Expected", "an answer well under a second for these small inputs"),
            ("Fits", fits),
        ),
    )


def _broken_verdict(base: Verdict, error: Exception) -> Verdict:
    where = traceback.extract_tb(error.__traceback__)[-1]
    finding = "the check itself failed"
    return replace(
        base,
        status="broken",
        code="CHECK-BROKE",
        finding=finding,
        rows=(
            ("Got", f"{type(error).__name__}: {str(error)[:200]}"),
            (
                "Look at",
                f"{Path(where.filename).name}:{where.lineno}; this is the course's fault, "
                "please report it.",
            ),
        ),
    )


def _next_steps(verdict: Verdict) -> str:
    steps = ["run this cell again after the change", f'hint("{verdict.exercise}")']
    if verdict.preset:
        name, preset = verdict.preset.split(":")
        steps.append(f'figure("{name}", "{preset}")')
    if verdict.seed:  # a learner's own checks all use 0
        steps.append(f"seed {verdict.seed}")
    return " \N{MIDDLE DOT} ".join(steps)


def _with_printed(verdict: Verdict, printed: str) -> tuple[tuple[str, str], ...]:
    if not printed.strip() or verdict.passed:
        return verdict.rows
    lines = printed.strip().splitlines()
    first = lines[0][:60] + (f" ... {len(lines) - 1} more lines" if len(lines) > 1 else "")
    *rows, last = verdict.rows
    return (*rows, ("Printed", first), last)
