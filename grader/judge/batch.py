"""`course grade PATH...`: a class through as many judges as there are cores.

The parent reads files, hands them out and is the only one who writes results; each worker is a
`JudgeProcess` with a judge of its own. What is already in the results file is not graded again.
"""

import argparse
import json
import os
import selectors
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from grader.judge import notebook
from grader.judge.arrivals import find_arrivals
from grader.judge.cluster import grade_on_cluster
from grader.judge.folders import describe_left_out, find_notebooks
from grader.judge.grade import UNGRADABLE, Result, result_from_json
from grader.judge.job import TRIES, Job, make_failed_result
from grader.judge.judge_process import STUCK_S, JudgeDied, JudgeProcess, Options
from grader.judge.outcome import RunOutcome, describe_gone, format_result
from grader.judge.prose import make_one_line
from grader.judge.store import Store, cache_key


def run(args: argparse.Namespace) -> int:
    """The subcommand: 0 when everything was decided, 1 when an exercise was not or notebooks are
    left, 2 when a notebook could not be graded."""
    left_out: Counter[str] = Counter()
    paths = [] if args.watch else find_notebooks(args.path, left_out)
    if not 0.1 <= args.budget <= STUCK_S / 10:
        raise ValueError(f"--budget is {args.budget:g}, must be 0.1 to {STUCK_S / 10:g} seconds")
    options = Options(unsafe=args.unsafe, budget_s=args.budget)
    if args.unsafe:
        print(
            "course grade: --unsafe runs answers without a sandbox, with all your rights; "
            "what they compute is still compared outside of them, and all else is their own word: "
            "memory, collectives, every flag but those read in the text, and your files",
            file=sys.stderr,
        )
    with Store(args.out, seed=args.seed, folders=args.path) as store:
        if args.watch:
            return _watch_folders(store, options, args)
        _grade_paths(paths, store, options, args)
        _set_gone_aside(paths, store)
        outcome = RunOutcome()
        for result in store.read_marked(map(str, paths)):
            outcome.add(result)
            _print_result(result, args)
        return _end_run(outcome, left_out, store, args)


def _print_result(result: Result, args) -> None:
    print(json.dumps(result.json()) if args.json else format_result(result), flush=args.watch)


def _set_gone_aside(paths: list[Path], store: Store) -> None:
    """Say once what was graded and is no longer in the folder, and count it no longer."""
    if said := describe_gone(store.set_gone_aside(paths), store.path):
        print(f"course grade: {said}", file=sys.stderr)


def _end_run(outcome: RunOutcome, left_out: Counter[str], store: Store, args) -> int:
    """Print what all came to and return the exit status; rows of JSON have stdout for themselves."""
    out = sys.stderr if args.json else sys.stdout
    if not args.json:
        print(outcome.make_summary(store.path))
    for line in outcome.list_open():
        print(line, file=out)
    if said := describe_left_out(left_out):
        print(f"course grade: {said}", file=sys.stderr)
    return outcome.status


def _grade_paths(paths: list[Path], store: Store, options: Options, args) -> None:
    """Grade what has no result yet; a terminal sees how far it is and how long it will take."""
    bar = tqdm(total=len(paths), unit="notebook", disable=None, file=sys.stderr)
    with bar:
        jobs = find_jobs(paths, store, options, done=lambda: _pass_over(bar))
        for result in _grade_jobs(jobs, store, options, args):
            bar.update()
            bar.set_postfix_str(make_one_line(Path(result.notebook).name[:30]))
        late = [path for path in paths if store.get(str(path)).timed]
        bar.total += len(late)
        again = find_jobs(late, store, options, done=lambda: _pass_over(bar))
        for _ in _grade_jobs(again, store, options, args, alone=True):
            bar.update()


def _pass_over(bar: tqdm) -> None:
    """Leave out a notebook whose result is stored: counted, it would promise too high a speed."""
    bar.total -= 1


def _watch_folders(store: Store, options: Options, args) -> int:
    """Grade what arrives until Ctrl-C, which is how it ends: as a run over the same folder does."""
    names = ", ".join(map(str, args.path))
    print(f"watching {names}; results in {store.path}; Ctrl-C ends it", file=sys.stderr)
    left_out: Counter[str] = Counter()
    unsaid: set[str] = set()
    """Notebooks that are graded now, and whose rows are still to be printed."""

    def find_present() -> list[Path]:
        left_out.clear()
        return find_notebooks(args.path, left_out, may_be_empty=True)

    try:
        for paths in find_arrivals(find_present):
            unsaid |= {*map(str, paths)}
            _grade_paths(paths, store, options, args)
            for result in store.read_marked(map(str, paths)):
                _print_result(result, args)
                unsaid.discard(result.notebook)
            _set_gone_aside(find_present(), store)
    except KeyboardInterrupt:
        print(f"\nended; the same command goes on from {store.path}", file=sys.stderr)
        store.read_lines(store.seed)
    present, outcome = find_present(), RunOutcome()
    _set_gone_aside(present, store)
    graded = [one for one in present if store.holds(str(one), _read_job(one, store, options)[0])]
    outcome.waiting = len(present) - len(graded)
    for result in store.read_marked(map(str, graded)):
        outcome.add(result)
        if result.notebook in unsaid:
            _print_result(result, args)
    return _end_run(outcome, left_out, store, args)


def _grade_jobs(
    jobs, store: Store, options: Options, args, *, alone: bool = False
) -> Iterator[Result]:
    if args.dask or args.scheduler:
        return grade_on_cluster(jobs, store, options, args.scheduler, args.workers, alone=alone)
    workers = 1 if alone else args.workers or os.cpu_count() or 1
    return grade_in_processes(jobs, store, options, workers=workers)


def find_jobs(paths: Iterable[Path], store: Store, options: Options, *, done=lambda: None):
    """A job for each notebook that has no stored result; a file is read when its turn comes."""
    for path in paths:
        name = str(path)
        key, data, problem = _read_job(path, store, options)
        if problem:
            if not store.has(name, key):
                store.add(key, Result(name, UNGRADABLE, reason=problem, seed=store.seed))
            done()
        elif store.has(name, key):
            done()
        else:
            yield Job(name, data, key)


def _read_job(path: Path, store: Store, options: Options) -> tuple[str, bytes, str]:
    """The key of a notebook's result, its bytes, and why it cannot be graded if that is known."""
    data, problem = b"", ""
    try:
        data = notebook.read_file(path)
        if len(data) > notebook.MAX_BYTES:
            notebook.parse_cells(data)  # says so
    except notebook.NotebookError as found:
        problem = str(found)
    # The name takes part: it can decide which lesson the notebook is
    made = problem.encode() if problem else path.stem.encode() + b"\0" + data
    return cache_key(made, lesson=None, seed=store.seed, options=options), data, problem


def grade_in_processes(
    jobs: Iterable[Job], store: Store, options: Options, *, workers: int
) -> Iterator[Result]:
    """Grade `jobs` in `workers` processes; each result is stored before it is yielded."""
    with _JudgePool(options, workers) as pool:
        for job, values in pool.grade_jobs(iter(jobs), store.seed):
            result = result_from_json(values) if values else make_failed_result(job, store.seed)
            store.add(job.key, result)
            yield result


class _JudgePool:
    """Several judges in processes of their own, the job of each, and when it began."""

    def __init__(self, options: Options, size: int):
        if size < 1:
            raise ValueError(f"--workers is {size}, must be at least 1")
        self.options, self.size = options, size
        self.selector = selectors.DefaultSelector()
        self.jobs: dict[JudgeProcess, Job | None] = {}
        """The job of each judge; None while it has not yet said that it is ready."""
        self.since: dict[JudgeProcess, float] = {}
        self.started = False

    def grade_jobs(self, jobs: Iterator[Job], seed: int) -> Iterator[tuple[Job, dict | None]]:
        """Pairs of a job and its `Result.json`, as they finish; None when judges died on the job."""
        queue: deque[Job] = deque()
        self.seed = seed
        while True:
            self._start_judges(jobs, queue)
            if not self.jobs:
                return
            for judge in self._wait_for_judges():
                yield from self._take_reply(judge, jobs, queue)

    def _start_judges(self, jobs: Iterator[Job], queue: deque[Job]) -> None:
        """Start judges while there is work for them: none when every result is in the cache."""
        while len(self.jobs) < self.size:
            if len(queue) <= sum(job is None for job in self.jobs.values()):
                if (job := next(jobs, None)) is None:
                    return
                queue.append(job)
            judge = JudgeProcess(self.options)
            self.selector.register(judge.reader, selectors.EVENT_READ, judge)
            self.jobs[judge], self.since[judge] = None, time.monotonic()

    def _wait_for_judges(self) -> list[JudgeProcess]:
        """The judges that have sent something, have died, or have been silent for too long."""
        found = [event.data for event, _ in self.selector.select(timeout=STUCK_S / 10)]
        late = time.monotonic() - STUCK_S
        return found + [h for h, since in self.since.items() if since < late and h not in found]

    def _take_reply(
        self, judge: JudgeProcess, jobs: Iterator[Job], queue: deque[Job]
    ) -> Iterator[tuple[Job, dict | None]]:
        """Read what a judge sent and send it the next job; yields the job that ended, if any."""
        job = self.jobs[judge]
        stuck = time.monotonic() - self.since[judge] > STUCK_S
        try:
            if stuck:
                judge.close(patience_s=0)
                raise JudgeDied("no answer in time")
            if job is None:
                judge.wait_until_ready()
                self.started = True
            else:
                yield job, judge.read_result()
            self._send_job(judge, jobs, queue)
        except JudgeDied as death:
            job = self.jobs.get(judge)
            self._end_judge(judge)
            if not self.started:
                raise ValueError(f"no judge can be started: {death}") from None
            if job is not None and job.tries + 1 < TRIES:
                queue.appendleft(replace(job, tries=job.tries + 1))
            elif job is not None:
                yield job, None

    def _send_job(self, judge: JudgeProcess, jobs: Iterator[Job], queue: deque[Job]) -> None:
        """Send the next job to a judge, or end the judge when none is left."""
        job = queue.popleft() if queue else next(jobs, None)
        if job is None:
            self._end_judge(judge)
            return
        self.jobs[judge], self.since[judge] = job, time.monotonic()
        judge.send_notebook(job.data, name=job.name, seed=self.seed, lesson=job.lesson)

    def _end_judge(self, judge: JudgeProcess, patience_s: float = 5) -> None:
        self.selector.unregister(judge.reader)
        del self.jobs[judge], self.since[judge]
        judge.close(patience_s)

    def __enter__(self) -> "_JudgePool":
        return self

    def __exit__(self, kind, *_) -> None:
        for judge in list(self.jobs):
            self._end_judge(judge, patience_s=0.2 if kind else 5)  # Ctrl-C ends it now
        self.selector.close()
