"""Every exercise: the stub fails with STUB, the library's code passes, mutants are named rightly,
right answers in another style pass, messages keep their form. A table is printed at the end.

`test_judge_worker` judges the same answers in the judge, with inputs from another seed."""

import functools
import re
import time

import pytest
import torch

from course_lib.checks import expect
from course_lib.checks.report import MAX_LINES, WIDTH, Wrong, number, vector
from course_lib.checks.suite import Suite
from course_lib.lab import checking, registry, terminal
from tests.answers import Answer, answers
from tests.course import solved
from tests.soak import campaign, times

IDS = list(registry.exercises())
ANSWERS = [answer for exercise in IDS for answer in answers(exercise)]


@functools.cache  # one verdict serves several tests
def verdict_on(card, text: str, seed: int = 0):
    return checking.judge(card, terminal.define(card, text, f"<{card.id}>"), seed=seed)


@pytest.mark.parametrize("exercise", IDS)
def test_the_stub_fails_as_a_stub(exercise):
    card = registry.exercise(exercise)
    assert verdict_on(card, card.stub).code == "STUB"


@campaign
@pytest.mark.parametrize("seed", [0, 12345, *times((), range(1, 31))])
@pytest.mark.parametrize("exercise", IDS)
def test_the_reference_passes_whatever_is_drawn(exercise, seed):
    verdict = verdict_on(registry.exercise(exercise), solved(exercise), seed)
    assert verdict.passed, verdict.text()
    assert not any("\n" in content for _, content in verdict.rows), (
        "lines break where they are full"
    )


@pytest.mark.parametrize(
    "exercise, name, seed",
    [("adamw-step", "", 1018), ("adamw-step", "rows only", 1018),
     ("adamw-step", "no step longer than the rate", 1), ("adamw-step", "no step longer than the rate", 6),
     ("adamw-step", "no step longer than the rate", 9006),
     ("grad-scaler", "not below 1", 1001), ("zero-memory", "a float that is made an int", 1001),
     ("shard-batch", "each part sorted", 9011), ("quantize-memory", "through a float", 9000),
     ("grad-scaler", "grows once", 9002), ("chunked-loss", "a sum of losses in 16 bits", 9009),
     ("ring-reduce-scatter", "starts with its own chunk", 9002), ("fused-rmsnorm", "outside of the root", 9015),
     ("train-step", "the mean of means in the log", 9007)],
)  # fmt: skip
def test_what_is_drawn_changes_no_verdict(exercise, name, seed):
    """Draws that did: numbers that cancel, and those at which two mistakes are one. "": the reference."""
    found = {a.name: (a.text, a.code or "PASS") for a in answers(exercise)}
    text, code = found.get(name, (solved(exercise), "PASS"))
    verdict = verdict_on(registry.exercise(exercise), text, seed)
    assert verdict.code == code, verdict.text()


@pytest.mark.parametrize("exercise", [i for i in IDS if "checkpoint" in i])
def test_the_reference_passes_in_a_kernel_that_has_used_a_gpu(exercise, monkeypatch):
    """The GPU's random state is then among those that the library saves."""
    if torch.cuda.is_available():
        torch.cuda.init()
    else:
        state = torch.arange(16, dtype=torch.uint8)
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_rng_state", lambda: state)
        monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state: None)
    verdict = verdict_on(registry.exercise(exercise), solved(exercise), 1)
    assert verdict.passed, verdict.text()


@pytest.mark.parametrize(
    "answer", ANSWERS, ids=lambda a: f"{a.exercise}: {a.code or 'right'}: {a.name}"
)
def test_answers(answer: Answer, record_property):
    verdict = verdict_on(registry.exercise(answer.exercise), answer.text)
    counts = {
        "mutants": answer.code is not None,
        "killed": answer.code is not None and verdict.status == "wrong",
        "named": answer.code is not None and answer.code == verdict.code,
        "right": answer.code is None,
        "accepted": answer.code is None and verdict.passed,
    }
    record_property("answer", [answer.exercise, counts])
    assert verdict.code == (answer.code or "PASS"), verdict.text()


@campaign
@pytest.mark.parametrize(
    "answer", ANSWERS[:: times(200, 1)], ids=lambda a: f"{a.exercise}: {a.name}"
)
def test_a_verdict_depends_on_the_answer_alone(answer: Answer):
    """Not on the numbers and sizes that a seed draws."""
    card = registry.exercise(answer.exercise)
    codes = {seed: verdict_on(card, answer.text, seed).code for seed in range(times(3, 20))}
    assert set(codes.values()) == {answer.code or "PASS"}, codes


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda a: f"{a.exercise}: {a.name}")
def test_messages_keep_their_form(answer: Answer):
    verdict = verdict_on(registry.exercise(answer.exercise), answer.text)
    lines = verdict.text().splitlines()
    assert len(lines) <= MAX_LINES, verdict.text()
    assert max(map(len, lines)) <= WIDTH, verdict.text()
    assert "(shortened)" not in verdict.text(), verdict.text()
    assert f"[{verdict.code}]" in verdict.text()
    rows = dict(verdict.rows)
    assert rows.get("Expected", "") != rows.get("Got", None), verdict.text()
    if not verdict.passed:
        assert any(line.startswith("  Next ") for line in lines[-3:]), verdict.text()
    assert not re.search(r"\b(you forgot|just|obviously|oops|simply)\b", verdict.text().lower())


@pytest.mark.parametrize("exercise", IDS)
def test_enough_answers(exercise):
    found = answers(exercise)
    codes = {a.code for a in found} - {None, "STUB"}
    assert len(codes) >= 5, f"{exercise} has {len(codes)} kinds of mutants"
    assert sum(a.code is None for a in found) >= 2


def test_two_numbers_that_differ_never_look_the_same():
    """Where four digits are not enough, the check is run again and says more of them."""

    def check(subject, draw):
        got = 1 + draw.size(3) * 1e-6
        raise Wrong("NEAR", "not equal", expected=number(1.0), got=f"{number(got)} at index 0")

    suite = Suite("bytes", (check,), tested="p", remember="r", next_step="n")
    rows = dict(suite.run(None).rows)
    assert (rows["Expected"], rows["Got"]) == ("1", "1.000003 at index 0")
    assert number(1.0000001) == "1", "in the next message as before"


@pytest.mark.parametrize(
    "judge", [expect.integer, functools.partial(expect.values, rtol=0, atol=0)]
)
def test_two_mistakes_with_one_result_are_both_named(judge):
    number = int if judge is expect.integer else torch.tensor
    patterns = [
        expect.Pattern(code=code, value=value, finding="f", fits=fits, look="l")
        for code, value, fits in (("A", 12, "a sum."), ("B", 14, "no b."), ("C", 14, "no c."))
    ]
    with pytest.raises(Wrong) as caught:
        judge(number(14), number(16), patterns)
    assert caught.value.code == "B" and dict(caught.value.rows)["Fits"] == "no b; or no c."
    with pytest.raises(Wrong) as caught:
        judge(number(12), number(16), patterns)
    assert dict(caught.value.rows)["Fits"] == "a sum."


def test_checks_compute_in_one_thread():
    """Their inputs are small, and where others use the machine each operation would wait for the
    threads of the others: a check of lesson 12 took a minute on the wall for 7 seconds of work."""

    def check(subject, draw):
        seen.append(torch.get_num_threads())

    seen, before = [], torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        Suite("bytes", (check,), tested="p", remember="r", next_step="n").run(None)
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)


def test_a_message_looks_only_at_what_it_shows():
    """An answer may return a hundred million numbers; six of them are written."""
    before = time.process_time()
    assert vector(torch.ones(1).expand(10**8)) == "[1, 1, 1, 1, 1, 1, ... 99999994 more]"
    assert time.process_time() - before < 5
    assert vector([1.0, 2.5]) == "[1, 2.5]" and vector(torch.empty(0)) == "[]"
