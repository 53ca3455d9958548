"""One zygote for all tests of the judge, and judges and workers of every kind over it."""

import atexit
import copy
import functools
import os
from dataclasses import dataclass, replace

import pytest

from course_lib.lab.registry import exercise
from grader.judge.judge import Judge, worker_card
from grader.judge.remote import RemoteSubject
from grader.judge.zygote_client import ZygoteClient, ZygoteError


@dataclass(frozen=True)
class Answer:
    source: str
    context: str = ""
    kind: str = "cell"
    flags: tuple[str, ...] = ()


@functools.cache
def _shared_client() -> ZygoteClient | ZygoteError:
    try:
        found = ZygoteClient()
    except ZygoteError as problem:
        return problem
    atexit.register(found.close)
    return found


def shared_client() -> ZygoteClient:
    """The best tier of this machine, or a skip that says why there is none."""
    found = _shared_client()
    if isinstance(found, ZygoteError):
        pytest.skip(str(found))
    return found


def variant(*, tier: str = "", without: str = "", **limits) -> ZygoteClient:
    """The same zygote, workers of another kind. A tier this machine lacks is a skip."""
    other = copy.copy(shared_client())
    other.limits = replace(other.limits, **limits)
    other.without = frozenset(without.split())
    other.spares = False
    other.tier = tier or other.tier
    if tier:
        try:
            other._spawn_in_tier(tier, again=False).close()
        except ZygoteError as problem:
            pytest.skip(f"no tier {tier!r} here: {problem}")
    return other


@functools.cache
def judge() -> Judge:
    return Judge.with_client(shared_client())


def grade(
    name: str,
    source: str,
    *,
    over: ZygoteClient | None = None,
    budget_s: float = 10.0,
    seed: int = 11,
    **more,
):
    one = Judge.with_client(over, budget_s=budget_s) if over else judge()
    return one.grade(name, Answer(source, **more), seed=seed)


def probe(source: str, *, over: ZygoteClient | None = None, budget_s: float = 10.0):
    """What `training_state_bytes(0)` of `source` returns in a worker."""
    worker = (over or shared_client()).spawn_worker()
    try:
        subject = RemoteSubject(worker, budget_s=budget_s, call_s=budget_s)
        subject.prepare(worker_card(exercise("bytes")), "")
        subject.start(source)
        return subject.call(0)
    finally:
        worker.close()


def processes() -> set[int]:
    """Pids of the zygote's workers and of all that came of them, dead ones not yet reaped included."""
    return descendants(shared_client().process.pid)


def descendants(ancestor: int) -> set[int]:
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    parents[int(entry)] = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, new = set(), {ancestor}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new}
        found |= new
    return found
