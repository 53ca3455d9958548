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
from grader.judge.grade import UNGRADABLE, Result, result_from_json
from grader.judge.job import TRIES, Job, make_failed_result
from grader.judge.judge_process import STUCK_S, JudgeDied, JudgeProcess, Options
from grader.judge.prose import make_one_line
from grader.judge.store import Store, cache_key

COPIES = ".ipynb_checkpoints"  # Jupyter's own
MOST = 10  # kinds of files that are told one by one


def run(args: argparse.Namespace) -> int:
    """The subcommand: 0 when everything was graded, 1 when an exercise could not be, 2 when a
    notebook could not be."""
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
        results = store.read_marked(map(str, paths))
        status = _print_results(results, store, as_json=args.json)
    if left_out:
        files = [f"{number} {make_one_line(kind)}" for kind, number in left_out.most_common(MOST)]
        more = left_out.total() - sum(dict(left_out.most_common(MOST)).values())
        files += [f"{more} of other kinds"] * bool(more)
        print(f"course grade: left out as no notebooks: {', '.join(files)}", file=sys.stderr)
    return status


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
    """Grade what arrives until Ctrl-C, which is how it ends: with 0, and every result stored."""
    names = ", ".join(map(str, args.path))
    print(f"watching {names}; results in {store.path}; Ctrl-C ends it", file=sys.stderr)
    try:
        for paths in find_arrivals(lambda: _find_present(args.path)):
            _grade_paths(paths, store, options, args)
            for result in store.read_marked(map(str, paths)):
                line = json.dumps(result.json()) if args.json else _format_result(result)
                print(line, flush=True)
    except KeyboardInterrupt:
        print(f"\nended; the same command goes on from {store.path}", file=sys.stderr)
    return 0


def _find_present(paths: Iterable[Path]) -> list[Path]:
    """As `find_notebooks`, but a folder may still be empty, or without its notebook."""
    found: dict[Path, None] = {}
    for path in paths:
        try:
            named = (one for one in find_notebooks([path]) if one.suffix.lower() == ".ipynb")
            found |= dict.fromkeys(
                one for one in named if not one.name.startswith(".") and not one.is_dir()
            )
        except ValueError:
            if not path.is_dir():
                raise
    return list(found)


def _grade_jobs(
    jobs, store: Store, options: Options, args, *, alone: bool = False
) -> Iterator[Result]:
    if args.dask or args.scheduler:
        return grade_on_cluster(jobs, store, options, args.scheduler, args.workers, alone=alone)
    workers = 1 if alone else args.workers or os.cpu_count() or 1
    return grade_in_processes(jobs, store, options, workers=workers)


def find_notebooks(paths: Iterable[Path], left_out: Counter[str] | None = None) -> list[Path]:
    """What is to have a row: the notebooks in these files and folders, each once, in a stable order.

    So that nobody vanishes, that is also what looks like a notebook and is none (a link, a folder
    called x.ipynb), a folder that cannot be read, and one beside the others without any notebook.
    All other files are counted in `left_out`, by kind. ValueError for what is not there.
    """
    left_out = Counter() if left_out is None else left_out
    found: dict[Path, None] = {}
    for path in paths:
        if not os.path.lexists(path):
            raise ValueError(f"{path} does not exist; give notebooks or folders of notebooks")
        if path.is_dir() and not path.is_symlink():
            inside = _search_folder(path, left_out)
            if not inside:
                raise ValueError(f"no notebook (*.ipynb) in {path}")
            found |= dict.fromkeys(sorted(inside))
        else:
            found[path] = None
    return list(found)


def _search_folder(top: Path, left_out: Counter[str]) -> list[Path]:
    found: list[Path] = []
    holding: set[Path] = set()
    """Folders right below `top` with a file in them."""

    def keep_closed(problem: OSError) -> None:
        found.append(Path(problem.filename))

    for name, folders, files in os.walk(top, onerror=keep_closed):
        folder = Path(name)
        if COPIES in folders:
            folders.remove(COPIES)
            left_out[f"in {COPIES}"] += len(os.listdir(folder / COPIES))
        found += [
            folder / one for one in folders if _is_notebook(one) or (folder / one).is_symlink()
        ]
        found += [folder / one for one in files if _is_notebook(one)]
        others = (Path(one).suffix for one in files if not _is_notebook(one))
        left_out.update(kind or "without extension" for kind in others)
        if files and folder != top:
            holding.add(top / folder.relative_to(top).parts[0])
    seen = {top / path.relative_to(top).parts[0] for path in found if path != top}
    return found + sorted(holding - seen)


def _is_notebook(name: str) -> bool:
    """Whether a file is called like a notebook, be it `X.IPYNB` or a browser's `x.ipynb.txt`; what
    macOS writes beside a file is not."""
    return ".ipynb" in name.lower() and not name.startswith("._")


def find_jobs(paths: Iterable[Path], store: Store, options: Options, *, done=lambda: None):
    """A job for each notebook that has no stored result; a file is read when its turn comes."""
    for path in paths:
        name = str(path)
        try:
            data = notebook.read_file(path)
            if len(data) > notebook.MAX_BYTES:
                notebook.parse_cells(data)  # says so
        except notebook.NotebookError as problem:
            result = Result(name, UNGRADABLE, reason=str(problem), seed=store.seed)
            given = cache_key(str(problem).encode(), lesson=None, seed=store.seed, options=options)
            if not store.has(name, given):
                store.add(given, result)
            done()
            continue
        # The name takes part: it can decide which lesson the notebook is
        given = cache_key(
            path.stem.encode() + b"\0" + data, lesson=None, seed=store.seed, options=options
        )
        if store.has(name, given):
            done()
        else:
            yield Job(name, data, given)


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


def _print_results(results: Iterable[Result], store: Store, *, as_json: bool) -> int:
    """Print the results and return the exit status."""
    count, bad, people, late, undecided, tiers = 0, 0, 0, 0, 0, set()
    for result in results:
        count, bad = count + 1, bad + (result.status == UNGRADABLE)
        people += any(row.person for row in result.exercises.values()) or bool(result.texts)
        late += result.timed
        undecided += result.undecided
        tiers |= {result.tier} - {""}
        print(json.dumps(result.json()) if as_json else _format_result(result))
    if not as_json:
        print(
            f"{count} notebooks, {bad} ungradable, {people} with something for a person to read, "
            f"{late} stopped by a clock twice, {undecided} exercises that cannot be graded here; "
            f"sandbox tier {', '.join(sorted(tiers)) or 'not used'}; results in {store.path}"
        )
    return 2 if bad else 1 if undecided else 0


def _format_result(result: Result) -> str:
    name = make_one_line(result.notebook.encode(errors="backslashreplace").decode())
    if result.status == UNGRADABLE:
        return f"{name:<44} ungradable: {result.reason}"
    lost = [
        f"{i} {row.verdict} {row.code}"
        for i, row in result.exercises.items()
        if row.verdict != "PASS"
    ]
    flags = sorted({flag for row in result.exercises.values() for flag in row.flags})
    got = ["?"] * bool(result.undecided)
    got = [f"{result.score:g}", *got] if result.score or not got else got
    score = f"{'+'.join(got)}/{result.max_score:g}"
    return f"{name:<44} {score:>6}  {'; '.join([*lost, *flags])}".rstrip()
