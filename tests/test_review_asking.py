"""`course review` and `review()`: what is said, what is recorded, and everything that goes wrong."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from course_lib import lab
from course_lib.lab import events
from course_lib.lab.reviews import asking, notebook, sitting
from course_lib.lab.reviews.items import items
from course_lib.lab.reviews.sitting import AGAIN, EASY, GOOD, HARD, Sitting, rate
from grader.cli import main


def now() -> datetime:
    """Asked anew each time, as the program does: a run of the tests may last past midnight."""
    return datetime.now(UTC)


@pytest.fixture(autouse=True)
def learner(course_home):
    """A home of the learner's own, empty."""
    return course_home


def passed(*exercises: str, days: float = 3, **fields) -> None:
    """Put passes into the record, some days ago."""
    file = events.path()
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as record:
        for exercise in exercises:
            event = {
                "v": 1,
                "t": events.stamp(now() - timedelta(days=days)),
                "kind": "check",
                "item": exercise,
                "result": "pass",
                "code": "PASS",
            } | fields
            record.write(json.dumps(event) + "\n")


def type_in(monkeypatch, *lines: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def reviews() -> list[dict]:
    return [event for event in events.read() if event["kind"] == "review"]


def right(one: Sitting) -> str:
    """What to type for the question at hand."""
    return items()[one.due[one.place].item].variant(0).accept.right


def test_nothing_passed_yet(capsys):
    assert main(["review"]) == 0 and main(["review", "--list"]) == 0
    said = capsys.readouterr().out
    assert "Reviews come with the exercises that you pass." in said
    assert "passing an exercise creates its reviews" in said


def test_nothing_due_yet(capsys):
    passed("bytes", days=0)
    assert main(["review"]) == 0
    soon = now() + timedelta(days=2)
    assert f"Next: 3 reviews on {soon.day} {soon:%b %Y}." in capsys.readouterr().out


def test_a_piped_sitting(monkeypatch, capsys):
    passed("bytes")
    answers = [right(sitter) for sitter in [Sitting()] for sitter.place in range(3)]
    type_in(
        monkeypatch,
        answers[0],
        "5",
        "none" if answers[1] in ("yes", "no") else "7",
        answers[1],
        "",
        "?",
    )
    assert main(["review"]) == 0
    said = capsys.readouterr().out
    first, second, third = reviews()
    assert first["rating"] == EASY and first["result"] == "pass" and first["confidence"] == 5
    assert first["exercise"] == "bytes" and first["variant"] == 0 and first["concepts"]
    assert first["secs"] < 20 and "Right." in said
    assert third["rating"] == AGAIN and third["result"] == "fail" and "confidence" not in third
    assert "The answer:" in said and "3 answered" in said and "Next:" in said
    assert second["item"] != first["item"]


def test_bad_input_is_explained_and_costs_nothing(monkeypatch, capsys):
    passed("bytes")
    type_in(monkeypatch, "some", "", "lots", "s")
    assert main(["review", "--limit", "2"]) == 0
    said = capsys.readouterr().out
    assert "expected" in said and "got 'some'" in said and "got nothing" in said
    assert said.count("Left for later.") == 2 and reviews() == []
    assert "3 more are due" in said


def test_a_pipe_that_never_ends_is_not_asked_for_ever(monkeypatch, capsys):
    passed("bytes", "adamw-step")
    type_in(monkeypatch, *["bananas"] * 500)
    assert main(["review"]) == 0 and reviews() == []


def test_the_end_of_the_input_keeps_what_was_answered(monkeypatch, capsys):
    passed("bytes")
    type_in(monkeypatch, "?")
    assert main(["review"]) == 0
    assert "The input has ended" in capsys.readouterr().out and len(reviews()) == 1


def test_ctrl_c_keeps_what_was_answered(learner):
    passed("bytes")
    process = subprocess.Popen(
        [sys.executable, "-m", "grader.cli", "review"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
    )
    process.stdin.write("?\n")
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not reviews() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Stopped. What you answered is kept." in out
    assert "1 answered" in out and "Traceback" not in err and len(reviews()) == 1


def test_words_are_graded_by_the_learner(monkeypatch, capsys):
    one = Sitting(levels=lambda *_: {})
    passed("apply-rope")
    one = Sitting(levels=lambda *_: dict.fromkeys(("half-split-layout", "rotation"), 3))
    one.due = [due for due in one.due if due.item == "apply-rope-3"]
    type_in(monkeypatch, "", "4", "perhaps", "h")
    assert asking.ask(one) == 0
    said = capsys.readouterr().out
    assert "A value is summed" in said and "expected n, h, y or e, got 'perhaps'" in said
    (event,) = reviews()
    assert (event["rating"], event["result"], event["confidence"]) == (HARD, "pass", 4)


@pytest.mark.parametrize(
    ("typed", "rating"), [("n", AGAIN), ("no", AGAIN), ("y", GOOD), ("e", EASY), ("s", None)]
)
def test_grades_of_words(monkeypatch, typed, rating):
    passed("apply-rope")
    one = Sitting(levels=lambda *_: dict.fromkeys(("half-split-layout", "rotation"), 3))
    one.due = [due for due in one.due if due.item == "apply-rope-3"]
    type_in(monkeypatch, "my reason", "", typed)
    asking.ask(one)
    assert [event["rating"] for event in reviews()] == ([] if rating is None else [rating])


@pytest.mark.parametrize(
    ("passes", "secs", "confidence", "rating"),
    [
        (False, 1, 5, AGAIN),
        (True, 30, None, GOOD),
        (True, 91, 5, HARD),
        (True, 5, None, GOOD),
        (True, 5, 3, GOOD),
        (True, 20, 4, EASY),
        (True, 21, 5, GOOD),
    ],
)
def test_ratings(passes, secs, confidence, rating):
    assert rate(passes, secs, confidence) == rating


def test_confidence_that_is_none_is_left_out(monkeypatch, capsys):
    passed("bytes")
    type_in(monkeypatch, right(Sitting()), "very")
    main(["review", "--limit", "1"])
    assert "expected 1 to 5, got 'very': left out" in capsys.readouterr().out
    assert "confidence" not in reviews()[0]


@pytest.mark.parametrize("limit", ["0", "-3"])
def test_a_limit_below_one_is_refused(limit, capsys):
    assert main(["review", "--limit", limit]) == 2
    assert "from 1 to 8" in capsys.readouterr().err


def test_eight_a_day_over_several_runs(monkeypatch, capsys):
    passed("bytes", "rmsnorm", "swiglu", "init-weights")
    for limit, total in (("3", 3), ("100", 8), ("8", 8)):
        type_in(monkeypatch, *["?"] * 20)
        assert main(["review", "--limit", limit]) == 0
        assert len(reviews()) == total
    said = capsys.readouterr().out
    assert "That is 8 today, which is enough; 5 wait for tomorrow." in said
    assert len({event["item"] for event in reviews()}) == 8


def test_each_time_another_variant(monkeypatch):
    passed("swiglu", days=40)
    seen = []
    for day in range(4):
        one = Sitting(clock=lambda day=day: now() + timedelta(days=day))
        one.due = [due for due in one.due if due.item == "swiglu-1"]
        if question := one.question():
            seen.append(question.variant.question)
            with events.path().open("a") as record:
                stamp = events.stamp(now() + timedelta(days=day))
                record.write(
                    json.dumps(
                        {
                            "v": 1,
                            "t": stamp,
                            "kind": "review",
                            "item": "swiglu-1",
                            "rating": 1,
                            "result": "fail",
                        }
                    )
                    + "\n"
                )
    assert len(seen) >= 3 and len(set(seen)) == len(seen)


def test_a_list_says_what_is_due_and_what_waits(capsys):
    passed("bytes", days=9)
    passed("attention")
    passed("init-weights", days=0)
    assert main(["review", "--list"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Due now: 3. Left for today: 8 of 8." in said and "7 days ago bytes-1" in said
    assert "In the next seven days: 2. Later: 0." in said
    assert "Waiting: attention-1, attention-2, attention-3, attention-4, until" in said
    assert "(exercise apply-rope)" in said and reviews() == []


def test_strange_records_are_explained(capsys, monkeypatch):
    passed("bytes")
    passed("swiglu", days=-700)
    with events.path().open("a") as record:
        stamp = events.stamp(now() - timedelta(days=1))
        record.write(
            json.dumps(
                {
                    "v": 1,
                    "t": stamp,
                    "kind": "review",
                    "item": "moon-1",
                    "rating": 3,
                    "result": "pass",
                }
            )
            + "\n{half a li"
        )
    type_in(monkeypatch)
    assert main(["review"]) == 0 and main(["review", "--list"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("1 event is dated after now") == 2 and "moon-1" in said


def test_a_full_disk_costs_the_record_and_is_said(monkeypatch, capsys):
    passed("bytes")
    events._warn_once.cache_clear()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(events, "_append", full)
    type_in(monkeypatch, "?", "?", "?")
    assert main(["review"]) == 0
    said = capsys.readouterr()
    assert "3 answered" in said.out and "No space left on device" in said.err


def test_nothing_is_asked_or_recorded_while_grading(monkeypatch, capsys):
    passed("bytes")
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    type_in(monkeypatch, "?")
    assert main(["review"]) == 0
    lab.review()
    assert capsys.readouterr().out == "" and reviews() == []


def test_review_is_a_function_whatever_was_imported_before(monkeypatch, capsys):
    from course_lib.lab import review

    assert review is lab.review is notebook.review
    passed("bytes")
    type_in(monkeypatch, "?")
    review(1)
    assert "1 of 1" in capsys.readouterr().out and len(reviews()) == 1
    with pytest.raises(ValueError, match="from 1 to 8"):
        review(0)


def form(*exercises: str, limit: int | None = None) -> notebook.Form:
    passed(*exercises)
    return notebook.Form(Sitting(limit))


def test_the_form_asks_judges_and_ends():
    one = form("bytes", limit=2)
    card = one.widget.card
    assert card["phase"] == "ask" and card["title"].startswith("1 of 2") and card["question"]
    one.receive({"do": "answer", "typed": "much", "confidence": 2})
    assert one.widget.card["phase"] == "ask" and "expected" in one.widget.card["problem"]
    one.receive({"do": "answer", "typed": right(one.sitting), "confidence": 5})
    assert one.widget.card["phase"] == "told" and one.widget.card["verdict"] == "Right."
    assert one.widget.card["answer"] and "comes back on" in one.widget.card["coming"]
    assert reviews()[0]["rating"] == EASY
    one.receive({"do": "next"})
    one.receive({"do": "unknown", "confidence": 5})
    assert one.widget.card["verdict"] == "The answer:" and reviews()[1]["rating"] == AGAIN
    assert "confidence" not in reviews()[1]
    one.receive({"do": "next"})
    assert one.widget.card["phase"] == "end" and "2 answered, 1 right" in one.widget.card["text"]


def test_the_form_lets_words_be_graded():
    passed("apply-rope")
    levels = dict.fromkeys(("half-split-layout", "rotation"), 3)
    one = Sitting(levels=lambda *_: levels)
    one.due = [due for due in one.due if due.item == "apply-rope-3"]
    shown = notebook.Form(one)
    assert shown.widget.card["format"] == "" and shown.widget.card["choices"] == []
    shown.receive({"do": "reveal", "confidence": 4})
    assert shown.widget.card["phase"] == "grade" and "summed" in shown.widget.card["answer"]
    shown.receive({"do": "grade", "rating": 9})
    assert reviews() == []
    shown.receive({"do": "grade", "rating": 2})
    assert shown.widget.card["phase"] == "told"
    assert (reviews()[0]["rating"], reviews()[0]["confidence"]) == (HARD, 4)


def test_messages_that_do_not_fit_are_passed_over():
    one = form("bytes", limit=1)
    before = one.widget.card
    for message in ({}, {"do": "next"}, {"do": "grade", "rating": 3}, {"do": "fly"}, {"do": None}):
        one.receive(message)
    assert one.widget.card == before and reviews() == []
    one.receive({"do": "unknown"})
    one.receive({"do": "unknown"})  # a second click
    one.receive({"do": "later"})
    assert len(reviews()) == 1 and one.widget.card["phase"] == "told"


def test_later_in_the_form_records_nothing():
    one = form("bytes", limit=1)
    one.receive({"do": "later"})
    assert one.widget.card["phase"] == "end" and reviews() == []


def test_a_notebook_without_a_reader_shows_what_is_due(monkeypatch):
    passed("bytes")
    shown = notebook._bundle(Sitting(), "the list")
    assert shown["text/plain"] == "the list"
    assert "application/vnd.jupyter.widget-view+json" in shown
    monkeypatch.setenv("COURSE_FIGURES", "static")
    assert notebook._bundle(Sitting(), "the list") == {"text/plain": "the list"}
    monkeypatch.delenv("COURSE_FIGURES")
    monkeypatch.setitem(sys.modules, "anywidget", None)
    assert "course review" in notebook._bundle(Sitting(), "the list")["text/plain"]


def test_the_form_keeps_its_keys_from_jupyterlab_and_labels_its_fields():
    source = notebook.MODULE.read_text(encoding="utf-8")
    assert 'e.key !== "Escape" && e.stopPropagation()' in source
    assert "innerHTML" not in source and 'role: "status"' in source
    assert 'role: "radiogroup", "aria-labelledby"' in source and "import" not in source


def test_levels_come_from_the_ledger():
    passed("apply-rope", concepts=["rotary-embedding", "relative-position"])
    levels = sitting.levels_of(events.read(), now())
    assert levels["rotary-embedding"] >= 2 and levels.get("half-split-layout", 0) == 0
