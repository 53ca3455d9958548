"""Answers that need several ranks: the same suite in the notebook and in the confined worker."""

import contextlib
import threading
import time
from dataclasses import replace

import pytest
import torch

from course_lib import checks
from course_lib.checks import subject
from course_lib.checks.report import Wrong
from course_lib.checks.subject import LocalSubject
from course_lib.checks.suite import Suite
from grader.judge.judge import Judge
from grader.judge.submission import Answer
from grader.judge.zygote_client import ZygoteError
from tests import judges
from tests.confined import descendants, variant

HEAD = "import os, time, torch\nimport torch.distributed as dist\n"
ANSWERS = {
    "by the library": ("PASS", "def training_state_bytes(x):\n    dist.all_reduce(x)\n    return x"),
    "by gathering": ("ALL-REDUCE", """
def training_state_bytes(x):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x)
    return sum(parts)"""),
    "no message at all": ("SUM", "def training_state_bytes(x):\n    return x * 3"),
    "keeps too much": ("HELD", """
def training_state_bytes(x):
    global kept
    kept = torch.zeros(100_000)
    dist.all_reduce(x)
    return x"""),
    "one rank stays away": ("RANKS-STUCK", """
def training_state_bytes(x):
    if dist.get_rank() == 0:
        time.sleep(100)
    dist.all_reduce(x)
    return x"""),
    "one rank raises": ("RAISED", """
def training_state_bytes(x):
    if dist.get_rank() == 1:
        raise IndexError("chunk 3 of 3")
    dist.all_reduce(x)
    return x"""),
    "one rank dies": ("RAISED", """
def training_state_bytes(x):
    if dist.get_rank() == 1:
        os._exit(0)
    dist.all_reduce(x)
    return x"""),
}  # fmt: skip


def summed(subject, draw, probe=None) -> None:
    """Three ranks: values, one all-reduce of the tensor's size, nothing kept but the result."""
    inputs = [draw.randn(5) for _ in range(3)]
    ranks = subject.run_ranks([(x,) for x in inputs], probe=probe)
    for rank in ranks:
        if not torch.allclose(rank.value, sum(inputs)):
            raise Wrong("SUM", "the sum differs")
    if any(rank.collectives != [("allreduce", 20)] for rank in ranks):
        raise Wrong("ALL-REDUCE", "not one all-reduce", got=str(ranks[0].collectives)[:60])
    if any(rank.held_bytes > 200 for rank in ranks):
        raise Wrong("HELD", "more than the result is kept", got=f"{ranks[0].held_bytes} bytes")


SUITE = Suite("bytes", (summed,), tested="p", remember="r", next_step="n", ranks=3, limit_s=12.0)


@pytest.fixture(scope="module")
def judge():
    with Judge(budget_s=12.0) as judge:
        if judge.tier != "namespaces":
            pytest.skip(f"several ranks need namespaces, the tier here is {judge.tier}")
        yield judge


@pytest.fixture(autouse=True)
def suite(monkeypatch):
    monkeypatch.setattr(checks, "suite", lambda name: SUITE)
    monkeypatch.setattr(subject, "RANKS_S", 4.0)


@pytest.mark.parametrize("name", ANSWERS)
def test_both_sides_agree(judge, name):
    code, source = ANSWERS[name]
    decision = judge.grade("bytes", Answer(HEAD + source), seed=5)
    assert decision.code == code, decision
    assert decision.flags == (("CLOCK",) if code == "RANKS-STUCK" else ())
    scope = {}
    exec(HEAD + source, scope)
    local = LocalSubject(scope["training_state_bytes"])
    assert checks.suite("bytes").run(local, seed=5).code == code


@pytest.mark.parametrize("name", ["by the library", "no message at all", "one rank raises"])
def test_both_sides_agree_on_an_answer_that_is_driven(judge, name, monkeypatch):
    """`operator.call(answer, x)` on each rank is the same as the answer itself."""

    def driven(subject, draw):
        return summed(subject, draw, "operator:call")

    monkeypatch.setattr(checks, "suite", lambda name: replace(SUITE, checks=(driven,)))
    test_both_sides_agree(judge, name)


DRIVEN = {
    "right": ("PASS", "return 2 * x"), "wrong": ("TWICE", "return x"),
    "raises": ("RAISED", "raise IndexError(3)"), "has no end": ("TIMEOUT", "time.sleep(100)"),
    "dies": ("CRASHED", "os._exit(3)"),
}  # fmt: skip


def twice(subject, draw) -> None:
    if subject.probe("operator:call", 21) != 42:
        raise Wrong("TWICE", "it is not doubled")


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
@pytest.mark.parametrize("name", DRIVEN)
def test_what_is_driven_alone_needs_no_ranks(tier, name, judge, monkeypatch):
    """`subject.probe`: every tier grades it, as the notebook does."""
    code, body = DRIVEN[name]
    suite = Suite("bytes", (twice,), tested="p", remember="r", next_step="n", limit_s=3.0)
    monkeypatch.setattr(checks, "suite", lambda name: suite)
    monkeypatch.setattr(subject, "RANKS_S", 2.0)
    source = HEAD + f"def training_state_bytes(x):\n    {body}"
    with judge_of(tier, judge) as one:
        assert one.tier == tier
        assert one.grade("bytes", Answer(source), seed=5).code == code
    scope = {}
    exec(source, scope)
    here = suite.run(LocalSubject(scope["training_state_bytes"]), seed=5).code
    assert here == ("RAISED" if code == "CRASHED" else code), "a notebook's process goes on"


@contextlib.contextmanager
def judge_of(tier, judge):
    if tier == judge.tier:
        yield judge
    else:
        with judges.landlock(budget_s=12.0) as other:
            yield other


@pytest.mark.parametrize("forks,code", [(24, "LIMIT-MEMORY"), (2, "PASS")])
def test_all_processes_of_an_answer_share_its_memory(forks, code, monkeypatch):
    """Each within its own limit, out of its session, and without a parent."""
    monkeypatch.setattr(subject, "RANKS_S", 30.0)
    source = (
        HEAD
        + f"""
def training_state_bytes(x):
    if dist.get_rank() == 0:
        for _ in range({forks}):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    held = b"x" * (50 << 20)
                    time.sleep(1000)
                os._exit(0)
        time.sleep({100 if forks > 2 else 1})
    dist.all_reduce(x)
    return x"""
    )
    over = variant(tier="namespaces", memory_bytes=512 << 20)
    decision = Judge.with_client(over, budget_s=12.0).grade("bytes", Answer(source), seed=5)
    assert decision.code == code, decision


def test_no_process_of_it_is_left(judge):
    """Counted under this zygote alone: other tests start zygotes of their own meanwhile.

    What lost its parent still counts: the first process of the worker's namespace adopts it.
    """
    zygote = judge._client.process.pid
    before = descendants(zygote)
    forks = (
        HEAD
        + """
def training_state_bytes(x):
    if os.fork() == 0:
        os.setsid()
        time.sleep(1000)
    dist.all_reduce(x)
    return x"""
    )
    seen = set()
    with watched(zygote, seen):
        judge.grade("bytes", Answer(forks), seed=5)
    assert len(seen - before) >= 6, "three ranks and what each forked"
    ends = time.monotonic() + 5
    while (
        len(left := descendants(zygote) - before) > 1
    ):  # the spare of the next answer may be there
        assert time.monotonic() < ends, left
        time.sleep(0.1)


@contextlib.contextmanager
def watched(zygote: int, seen: set[int]):
    """Adds to `seen` whatever runs under `zygote`, every few milliseconds."""
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.005):
            seen.update(descendants(zygote))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_the_world_outside_is_still_out_of_reach(judge):
    """Sockets are allowed for the ranks; they end at the loopback of their own namespace."""
    reaches = (
        HEAD
        + """
import socket
def training_state_bytes(x):
    reached = socket.socket().connect_ex(("127.0.0.1", PORT))
    dist.all_reduce(x)
    return x * (1 if reached else 0)"""
    )
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        source = reaches.replace("PORT", str(server.getsockname()[1]))
        assert judge.grade("bytes", Answer(source), seed=5).verdict == "PASS"


def test_a_tier_without_ranks_asks_for_a_person(judge, monkeypatch):
    def none(**wanted):
        raise ZygoteError("several processes need the tier 'namespaces'")

    monkeypatch.setattr(judge._client, "spawn_worker", none)
    decision = judge.grade("bytes", Answer(HEAD), seed=5)
    assert decision.verdict == "UNGRADABLE" and "needs 3 ranks" in decision.person
