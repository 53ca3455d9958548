"""One notebook on its way to a judge, on this machine or on a cluster."""

from dataclasses import dataclass

from grader.judge.grade import UNGRADABLE, Result

TRIES = 2


@dataclass(frozen=True)
class Job:
    """One notebook to be graded."""

    name: str
    data: bytes
    key: str
    lesson: str | None = None
    tries: int = 0


def make_failed_result(job: Job, seed: int) -> Result:
    """The result of a notebook on which `TRIES` judges died: ungradable, a person must look."""
    reason = f"the judge's process died {TRIES} times on it; a person must look"
    return Result(job.name, UNGRADABLE, reason=reason, seed=seed, failed=True)
