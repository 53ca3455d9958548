"""The end of a session, `course ledger`, forgetting, and what `course lab` says on start."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from course_lib.lab import check, end_session, events, jupyter, predict, progress, reveal
from course_lib.lab.checking import CheckFailed
from course_lib.lab.ledger import ending, forgetting, page, summary
from course_lib.lab.registry import exercises
from grader.cli import main
from tests.learner import Learner, at

NOW = datetime.now(UTC).replace(microsecond=0)


pytestmark = pytest.mark.usefixtures("course_home")


def store(learner: Learner) -> None:
    """The learner's events as this machine's record."""
    events.path().parent.mkdir(exist_ok=True)
    events.path().write_text("".join(json.dumps(e) + "\n" for e in learner.events))


def kinds() -> list[str]:
    return [event["kind"] for event in events.read()]


@pytest.fixture
def recent() -> Learner:
    """Someone who passed one exercise ten minutes ago."""
    learner = Learner()
    learner.check(NOW - timedelta(minutes=10), "rmsnorm", "RMS-NO-EPS", confidence=5)
    learner.check(NOW - timedelta(minutes=5), "rmsnorm", confidence=4)
    store(learner)
    return learner


def test_the_summary_has_the_form():
    learner = Learner()
    learner.check(at(0), "attention", "ATT-LEAK-1", preset="attention:leak-1")
    learner.check(at(0, 9.1), "rmsnorm")
    learner.check(at(8), "attention", "ATT-LEAK-1", preset="attention:leak-1", confidence=5)
    learner.review(at(8, 9.2), "rmsnorm-3", confidence=4)
    learner.review(at(8, 9.3), "rmsnorm-1", passed=False)
    learner.hint(at(8, 9.4), "swiglu")
    learner.check(at(8, 9.5), "swiglu")
    learner.add(at(8, 9.6), "predict", item="x", guess=100.0, confidence=4)
    learner.add(at(8, 9.7), "reveal", item="x", measured=109.0)
    state = learner.state(at(8, 9.8))
    session = state.sessions[-1]
    assert summary.summary(state, session) == "\n".join(
        (
            "Session 2 · 42 min · 1 check passed, 1 open",
            "  Moved up   upcasting 3→4 (passed after 8 days) · gating 0→2 (with help) · SiLU 0→2",
            "             (with help)",
            '  Returned   ATT-LEAK-1, second session → blind spot; 5-min remedy: figure("attention"),',
            "             preset leak-1 · RMS normalization 3→2 (review failed)",
            "  Calibration sure 3 times, right 2",
            "  Next time  2 reviews due now (3 min), then 4.1 causal_attention",
        )
    )
    assert summary.in_your_words(session).startswith("  In your words: which of your own problems")


def test_the_summary_of_a_quiet_session_has_the_form_too():
    learner = Learner()
    learner.hint(at(0), "get-lr")
    state = learner.state(at(0))
    lines = summary.summary(state, state.sessions[0]).splitlines()
    assert [line[:13] for line in lines] == [
        "Session 1 · 1",
        "  Moved up   ",
        "  Returned   ",
        "  Calibration",
        "  Next time  ",
    ]
    assert lines[1].endswith("learning rate schedule 0→1 (a hint) · warmup 0→1 (a hint)")
    assert lines[2].endswith(" nothing") and "check(..., confidence=4)" in lines[3]
    assert "0.1 training_state_bytes" in lines[-1]


@pytest.mark.parametrize(
    ("guess", "measured", "right"),
    [
        (2.0, 1.9, 1),
        (2.0, 1.7, 0),
        ("never", " Never", 1),
        ("never", 3, 0),
        (0, 0, 1),
        (None, 1, 0),
    ],
)
def test_a_prediction_is_right_within_a_tenth(guess, measured, right):
    learner = Learner()
    learner.add(at(0), "predict", item="x", guess=guess, confidence=5)
    learner.add(at(0), "reveal", item="x", measured=measured)
    (session,) = learner.state(at(0)).sessions
    assert summary.calibration(session) == f"sure once, right {right}"


def test_ending_in_a_notebook(recent, capsys):
    end_session()
    said = capsys.readouterr().out
    assert said.startswith("Session 1 · 5 min · 1 check passed, 0 open\n")
    assert "sure 2 times, right 1" in said and said.rstrip().endswith("learning_ledger.md")
    assert "In your words: what would go wrong first" in said and " ______\n" in said
    assert kinds() == ["check", "check", "session"]
    end_session()
    assert "it has ended, and nothing was done since" in capsys.readouterr().out
    assert kinds() == ["check", "check", "session"]
    end_session("gráfico\n图 <!-- x -->")
    assert [s.notes for s in ending.now_state().sessions] == [["gráfico\n图 <!-- x -->"]]
    assert "> gráfico\n> 图 <\\!-- x --\\>\n" in page.path().read_text()


def test_nothing_to_end(capsys):
    end_session()
    assert "Nothing is recorded yet" in capsys.readouterr().out and kinds() == []


def test_while_nbgrader_runs_nothing_happens(recent, monkeypatch, capsys):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    end_session("author")
    assert capsys.readouterr().out == "" and len(kinds()) == 2 and not page.path().exists()


def test_without_a_terminal_nothing_is_asked(recent, monkeypatch, capsys):
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))
    assert main(["end-session"]) == 0
    assert " ______" in capsys.readouterr().out
    assert main(["end-session", "--note", "Satz"]) == 0
    assert ending.now_state().sessions[-1].notes == ["Satz"]


@pytest.mark.parametrize(
    ("typed", "kept"), [("  ja, 因为 ", ["  ja, 因为 "]), ("  ", []), (None, [])]
)
def test_on_a_terminal_the_sentence_is_asked(typed, kept, recent, monkeypatch, capsys):
    asked = []

    def answer(prompt):
        asked.append(prompt)
        if typed is None:
            raise EOFError
        return typed

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", answer)
    assert main(["end-session"]) == 0
    assert len(asked) == 1 and asked[0].startswith("  In your words: ")
    assert ending.now_state().sessions[-1].notes == kept


def test_a_full_disk_says_that_the_sentence_was_not_kept(recent, monkeypatch, capsys):
    monkeypatch.setattr(events.os, "write", lambda handle, line: 3)
    end_session("mein Satz")
    said = capsys.readouterr()
    assert "mein Satz" in said.out and "could not be kept" in said.err


def test_a_page_that_cannot_be_written_is_said(recent, capsys):
    page.path().write_bytes("x".encode("utf-16"))
    assert main(["end-session", "--note", "Satz"]) == 1
    assert "learning_ledger.md is as it was: " in capsys.readouterr().err
    assert ending.now_state().sessions[-1].notes == ["Satz"]


def test_confidence_may_be_given_and_must_be_1_to_5(capsys):
    predict("doubled", 2.0, confidence=5)
    predict("other", 2.0)
    reveal("doubled", 1.0)
    assert [e.get("confidence") for e in events.read()] == [5, None, None]
    for call in (lambda: predict("x", 1, confidence=6), lambda: check("rmsnorm", confidence=0)):
        with pytest.raises(ValueError, match="from 1 .a guess. to 5"):
            call()
    with pytest.raises(CheckFailed):
        check("rmsnorm", confidence=2)
    assert events.read()[-1]["confidence"] == 2 and events.read()[-1]["code"] == "UNDEFINED"


def test_a_check_in_the_terminal_is_recorded(course_home, capsys):
    (course_home / "answer.py").write_text("class RMSNorm(nn.Module):\n    pass\n")
    command = ["check", "rmsnorm", "--file", str(course_home / "answer.py"), "--confidence", "5"]
    assert main(command) == 1
    (event,) = events.read()
    assert (event["item"], event["result"], event["confidence"]) == ("rmsnorm", "fail", 5)
    assert event["src"].startswith("sha256:") and "class" not in json.dumps(event)


def test_the_state_at_a_glance(recent, capsys):
    assert main(["ledger"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        f"1 of {len(exercises())} exercises passed, 0 of 6 milestones, no review due\n"
    )
    assert "level 3, solved alone: RMS normalization, upcasting" in said
    assert not page.path().exists(), "reading writes nothing"
    with events.path().open("ab") as file:
        file.write(b'{"half')
    assert main(["ledger", "rebuild"]) == 0
    assert "1 of its lines are no events" in capsys.readouterr().err and page.path().exists()


def test_another_folder_is_not_taken_for_a_learner_without_passes(course_home, capsys):
    assert main(["ledger"]) == 2
    said = capsys.readouterr()
    assert "run this in the course folder" in said.err and "exercises passed" not in said.out


def test_a_clock_that_ran_ahead_is_explained(recent, capsys):
    recent.review(NOW + timedelta(days=400), "rmsnorm-1")
    store(recent)
    assert main(["ledger"]) == 0
    assert "dated after now" in capsys.readouterr().err


def test_forgetting_asks_first(recent, monkeypatch, capsys):
    assert main(["ledger", "forget"]) == 2
    assert "--yes" in capsys.readouterr().err and len(kinds()) == 2
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, left in (("", 2), ("n", 2), ("y", 1)):
        monkeypatch.setattr("builtins.input", lambda _, answer=answer: answer)
        main(["ledger", "forget"])
        assert len(kinds()) == left


def test_forgetting_keeps_what_the_learner_wrote(recent, course_home, capsys):
    end_session("mein Satz 句")
    assert main(["ledger", "export", "csv"]) == 0
    page.path().write_text(page.path().read_text() + "eigene Zeile\n")
    (course_home / "learning/journal").mkdir()
    (course_home / "learning/journal/entry.md").write_text("Eintrag")
    assert main(["ledger", "forget", "--yes"]) == 0
    said = capsys.readouterr().out
    assert "Removed 2 events" in said and "1 sentence of yours" in said
    assert "still in learning/export" in said
    assert kinds() == ["note", "forget"]
    state = ending.now_state()
    assert set(state.levels.values()) == {0} and state.sessions[-1].notes == ["mein Satz 句"]
    text = page.path().read_text()
    assert "eigene Zeile" in text and "> mein Satz 句" in text and "**: level" not in text
    assert (course_home / "learning/journal/entry.md").read_text() == "Eintrag"
    assert main(["ledger", "forget", "--yes"]) == 0
    assert "nothing to forget" in capsys.readouterr().out


def test_forgetting_everything_says_what_it_removed(recent, course_home, capsys):
    end_session("Satz")
    (course_home / "mine").mkdir()
    elsewhere = course_home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept.md").touch()
    (course_home / "learning/link").symlink_to(elsewhere)
    assert main(["ledger", "forget", "--everything", "--yes"]) == 0
    said = capsys.readouterr().out
    assert "Removed learning/events.jsonl" in said and "Removed learning/learning_ledger.md" in said
    assert list((course_home / "learning").iterdir()) == [] and (course_home / "mine").exists()
    assert (elsewhere / "kept.md").exists()


def test_forgetting_on_a_full_disk_forgets_nothing(recent, monkeypatch, capsys):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(events.os, "replace", full)
    assert main(["ledger", "forget", "--yes"]) == 2
    assert len(kinds()) == 2
    assert forgetting.folder().is_dir()


def test_course_lab_says_where_the_learner_stands(recent, capsys):
    progress.greet()
    assert capsys.readouterr().out == (
        f"1 of {len(exercises())} exercises passed, 0 of 6 milestones, no review due\n"
    )
    events.path().unlink()
    progress.greet()
    assert capsys.readouterr().out == "", "nothing before there is a record"


def test_a_fault_in_the_ledger_does_not_stop_course_lab(recent, monkeypatch, capsys):
    monkeypatch.setattr(ending, "now_state", lambda: 1 / 0)
    progress.greet()
    assert "progress is not shown" in capsys.readouterr().err


def test_the_server_starts_before_the_progress_is_worked_out(monkeypatch, tmp_path):
    order = []

    class Server:
        pid, returncode = 1, 0

        def __init__(self, *args, **kwargs):
            order.append("server")

        def wait(self, timeout=None):
            return 0

        def poll(self):
            return 0

    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/00_start.ipynb").write_text("{}")
    monkeypatch.setattr(jupyter.subprocess, "Popen", Server)
    monkeypatch.setattr(jupyter, "greet", lambda: order.append("progress"))
    monkeypatch.setattr(jupyter, "_add_workspace", lambda: None)
    monkeypatch.setattr(jupyter.signal, "signal", lambda *args: None)
    assert jupyter.run(None) == 0 and order == ["server", "progress"]


def test_the_ledger_needs_no_torch():
    program = (
        "import sys\nfrom course_lib.lab.ledger import ending, exports, forgetting, terminal, web\n"
        "ending.now_state()\nassert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
