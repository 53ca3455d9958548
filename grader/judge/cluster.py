"""`course grade --dask` and `--scheduler A`: the same judges, on the workers of a Dask cluster.

Dask moves notebooks and results and knows nothing of grading: each of its workers keeps judges in
processes of their own (`JudgeProcess`), as a run on one machine does. Every worker must hold the very same
course; one that does not refuses, so a verdict never depends on where it was reached.
"""

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain, islice
from typing import Any

from grader.judge.grade import Result, result_from_json
from grader.judge.job import make_failed_result
from grader.judge.judge_process import JudgeDied, JudgeProcess, Options
from grader.judge.store import Store, environment_digest

AHEAD = 2  # notebooks in flight for each thread of the cluster: enough to keep it busy
STARTUP_S = 60


def grade_on_cluster(
    jobs: Iterable,
    store: Store,
    options: Options,
    address: str | None,
    workers: int | None,
    *,
    alone: bool = False,
) -> Iterator[Result]:
    """Grade `jobs` on the cluster at `address`, or on one started here with `workers` workers; with
    `alone` one after the other.

    ValueError when Dask is not installed, nothing answers at `address`, or a worker has another
    version of the course.
    """
    jobs = iter(jobs)
    first = next(jobs, None)
    if first is None:  # everything is in the results file: no cluster is needed
        return
    dask = _import_dask()
    with _connect_client(dask, address, workers) as client:
        try:
            ahead = 1 if alone else AHEAD * max(sum(client.nthreads().values()), 1)
            yield from _stream_results(dask, client, chain([first], jobs), store, options, ahead)
        finally:
            with contextlib.suppress(Exception):  # the cluster may be gone, its judges with it
                client.run(end_judges)


def _stream_results(
    dask, client, jobs: Iterator, store: Store, options: Options, ahead: int
) -> Iterator[Result]:
    def submit_job(job):
        future = client.submit(
            judge_on_worker,
            job.data,
            job.name,
            job.lesson,
            store.seed,
            asdict(options),
            environment_digest(),
            pure=False,
            retries=1,
        )
        pending[future.key] = job
        return future

    pending: dict[str, Any] = {}
    flying = dask.as_completed([submit_job(job) for job in islice(jobs, ahead)])
    for future in flying:
        job = pending.pop(future.key)
        result = _take_result(dask, future) or make_failed_result(job, store.seed)
        store.add(job.key, result)
        for following in islice(jobs, 1):
            flying.add(submit_job(following))
        yield result


def _take_result(dask, future) -> Result | None:
    """The result of a finished job; None when the cluster's worker or its judge died on it."""
    try:
        return result_from_json(future.result())
    except (JudgeDied, dask.KilledWorker, dask.CancelledError):
        return None


def _import_dask():
    try:
        import distributed
    except ImportError:
        raise ValueError(
            "--dask and --scheduler need Dask: pip install distributed, here and on the workers"
        ) from None
    distributed.KilledWorker = distributed.scheduler.KilledWorker
    return distributed


@contextlib.contextmanager
def _connect_client(dask, address: str | None, workers: int | None):
    with contextlib.ExitStack() as stack:
        if address is None:
            # threads_per_worker=1: a judge takes a core; dashboard_address: no port is opened
            address = stack.enter_context(
                dask.LocalCluster(
                    n_workers=workers or os.cpu_count(),
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address=None,
                )
            )
        try:
            client = stack.enter_context(dask.Client(address, timeout=STARTUP_S))
            client.wait_for_workers(1, timeout=STARTUP_S)
        except (OSError, TimeoutError) as error:
            raise ValueError(f"no cluster with a worker at {address}: {error}") from None
        yield client


# What follows runs on the workers.

_LOCK = threading.Lock()
_IDLE: list[JudgeProcess] = []
"""A worker's judges that have nothing to do; at most as many as it has threads."""


def judge_on_worker(
    data: bytes, name: str, lesson: str | None, seed: int, options: dict, expected: str
) -> dict:
    """`Result.json` of one notebook, from a judge of this worker."""
    if environment_digest() != expected:
        raise ValueError(
            "a worker of the cluster has another version of the course, of Python or "
            "of torch: install the same on all machines"
        )
    with _LOCK:
        judge = _IDLE.pop() if _IDLE else None
    if judge is None:
        judge = JudgeProcess(Options(**options))
    try:
        if not judge.tier:
            judge.wait_until_ready()
        values = judge.grade(data, name=name, lesson=lesson, seed=seed)
    except BaseException:
        judge.close(patience_s=0)
        raise
    with _LOCK:
        _IDLE.append(judge)
    return values


def end_judges() -> None:
    """End this worker's judges."""
    with _LOCK:
        while _IDLE:
            _IDLE.pop().close()
