"""One nest for all tests of the judge, and judges and workers of every kind over it."""

import atexit
import copy
import functools
import os
from dataclasses import dataclass, replace

import pytest

from course_lib.lab.registry import exercise
from grader.judge.judge import Judge, _card
from grader.judge.nursery import Nursery, NurseryError
from grader.judge.remote import RemoteSubject


@dataclass(frozen=True)
class Answer:
    source: str
    context: str = ""
    kind: str = "cell"
    flags: tuple[str, ...] = ()


@functools.cache
def _nursery() -> Nursery | NurseryError:
    try:
        found = Nursery()
    except NurseryError as problem:
        return problem
    atexit.register(found.close)
    return found


def nursery() -> Nursery:
    """The best tier of this machine, or a skip that says why there is none."""
    found = _nursery()
    if isinstance(found, NurseryError):
        pytest.skip(str(found))
    return found


def variant(*, tier: str = "", without: str = "", **limits) -> Nursery:
    """The same nest, workers of another kind. A tier this machine lacks is a skip."""
    other = copy.copy(nursery())
    other.limits = replace(other.limits, **limits)
    other.without = frozenset(without.split())
    other.spares = False
    other.tier = tier or other.tier
    if tier:
        try:
            other._spawn(tier, again=False).close()
        except NurseryError as problem:
            pytest.skip(f"no tier {tier!r} here: {problem}")
    return other


@functools.cache
def judge() -> Judge:
    return Judge.over(nursery())


def grade(
    name: str,
    source: str,
    *,
    over: Nursery | None = None,
    budget_s: float = 10.0,
    seed: int = 11,
    **more,
):
    one = Judge.over(over, budget_s=budget_s) if over else judge()
    return one.grade(name, Answer(source, **more), seed=seed)


def probe(source: str, *, over: Nursery | None = None, budget_s: float = 10.0):
    """What `training_state_bytes(0)` of `source` returns in a worker."""
    worker = (over or nursery()).spawn()
    try:
        subject = RemoteSubject(worker, budget_s=budget_s, call_s=budget_s)
        subject.prepare(_card(exercise("bytes")), "")
        subject.start(source)
        return subject.call(0)
    finally:
        worker.close()


def processes() -> set[int]:
    """Pids of the nest's workers and of all that came of them, dead ones not yet reaped included."""
    return descendants(nursery().process.pid)


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
