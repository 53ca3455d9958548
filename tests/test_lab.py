"""What a learner meets: check, hint, solution, predict, mine, and everything that can go wrong."""

import importlib
import json
import linecache
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from course_lib.checks.report import MAX_LINES, WIDTH, Verdict
from course_lib.checks.subject import OutOfTime
from course_lib.lab import checking, events, hinting, mine, prediction, registry, source, terminal
from course_lib.runs import run_log
from grader.cli import main
from grader.course import ROOT
from tests.answers import answers
from tests.course import lessons, solved

RIGHT = answers("rmsnorm")[0].text


@pytest.fixture(autouse=True)
def learner(course_home):
    """A home of the learner's own, empty."""
    return course_home


def cell(text: str, name: str = "<cell>") -> dict:
    """The namespace after the lesson's imports and this cell, as in a kernel."""
    scope = {"__name__": "__main__"}
    exec(registry.exercise("rmsnorm").setup, scope)
    text = textwrap.dedent(text)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), scope)
    return scope


def run_check(scope: dict, name: str = "rmsnorm", **kwargs) -> str:
    """What `check(name)` in that namespace says, passed or failed."""
    try:
        exec(f"check({name!r}, **kwargs)", scope | {"check": checking.check, "kwargs": kwargs})
    except checking.CheckFailed as failed:
        return str(failed)
    return "passed"


def norm(body: str, head: str = "") -> str:
    """An RMSNorm with this forward body."""
    return (
        head + "class RMSNorm(nn.Module):\n    def __init__(self, dim, eps=1e-5):\n"
        "        super().__init__()\n        self.eps = eps\n"
        "        self.weight = nn.Parameter(torch.ones(dim))\n\n    def forward(self, x):\n"
        + textwrap.indent(textwrap.dedent(body), " " * 8)
    )


def test_no_wall_of_ids():
    whose = dict.fromkeys(registry.exercises(), "reference") | {"rmsnorm": "yours"}
    with pytest.raises(ValueError) as refused:
        registry.exercise("nosuch")
    for text in (mine.describe(whose), str(refused.value)):
        assert "rmsnorm" in text and max(map(len, text.splitlines())) <= 100


def test_a_reader_that_leaves_early_is_no_error():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "grader.cli", "review", "--list"]
    with os.fdopen(write) as pipe:
        done = subprocess.run(command, cwd=ROOT, stdout=pipe, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_decorated_answer_is_kept_too(learner, capsys):
    text = RIGHT.replace(
        "    def forward(", "    @torch.autocast('cpu', enabled=False)\n    def forward("
    )
    assert text != RIGHT and run_check(cell(text)) == "passed"
    assert "mine/rmsnorm.py" in capsys.readouterr().out
    assert "autocast" in (learner / "mine/rmsnorm.py").read_text()


def test_a_pass_is_kept_and_recorded(learner, capsys):
    assert run_check(cell(RIGHT)) == "passed"
    assert "[PASS]" in capsys.readouterr().out
    kept = (learner / "mine/rmsnorm.py").read_text()
    assert "class RMSNorm" in kept and "from torch import nn" in kept
    (event,) = events.read()
    assert (event["kind"], event["item"], event["result"], event["code"]) == (
        "check",
        "rmsnorm",
        "pass",
        "PASS",
    )
    assert RIGHT not in json.dumps(event), "the record holds a digest, never code"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("NONE", norm("pass")),
        ("TYPE", norm("return x.tolist()")),
        ("SHAPE", norm("return x[..., :1]")),
        ("DTYPE", norm("return x.double()")),
        ("NAN", norm("return x * float('nan')")),
        ("RAISED", norm("return undefined_name * x")),
        ("RAISED", norm("raise SystemExit(0)")),
        ("STUB", registry.exercise("rmsnorm").stub),
    ],
)
def test_each_kind_of_broken_answer_has_one_clear_message(code, text, capsys):
    said = run_check(cell(text))
    assert f"[{code}]" in said.splitlines()[0] + said.splitlines()[1]
    assert len(said.splitlines()) <= MAX_LINES and max(map(len, said.splitlines())) <= WIDTH
    assert "Traceback" not in said and "site-packages" not in said


def test_a_deleted_import_is_said(capsys):
    scope = cell(norm("return torch.nn.functional.rms_norm(x, self.weight.shape)"))
    del scope["torch"]
    said = run_check(scope)
    assert "NameError: name 'torch' is not defined" in said and "import" in said


def test_a_cell_out_of_order():
    assert "[UNDEFINED]" in run_check({"__name__": "__main__"})


def test_the_library_is_no_answer():
    assert "[REFERENCE]" in run_check(cell("from course_lib.gpt import RMSNorm"))


def test_a_check_says_the_line_that_raised():
    assert "line 8 of the cell: return x + torch.ones(3, 5, 7)" in run_check(
        cell(norm("return x + torch.ones(3, 5, 7)"))
    )


def test_ten_thousand_lines_are_one_row(capsys):
    said = run_check(cell(norm("for i in range(10_000):\n    print('line', i)\nreturn x")))
    assert "Printed" in said and "9999 more lines" in said
    assert len(said.splitlines()) <= MAX_LINES
    assert "line 5000" not in capsys.readouterr().out


def test_an_endless_loop_ends(monkeypatch):
    from dataclasses import replace

    from course_lib import checks
    from course_lib.checks import rmsnorm

    quick = replace(rmsnorm.SUITES[0], limit_s=0.3)
    monkeypatch.setattr(rmsnorm, "SUITES", (quick,))
    monkeypatch.setattr(importlib.import_module("course_lib.checks.suite"), "PATIENCE", 100)
    assert checks.suite("rmsnorm") is quick
    said = run_check(
        cell(norm("while True:\n    try:\n        pass\n    except Exception:\n        pass"))
    )
    assert "[TIMEOUT]" in said and "stopped after 0.3 seconds" in said


def test_a_right_answer_is_not_late_on_a_busy_machine_and_a_sleeper_is(monkeypatch):
    """The clocks are the test's own: much time passes, the answer has computed little."""
    suite = importlib.import_module("course_lib.checks.suite")

    cpu, wall = iter([0.0, 0.1, 0.1, 0.1]), iter([0.0, 9.0, 9.9])
    monkeypatch.setattr(suite, "cpu_seconds_with_children", lambda: next(cpu))
    monkeypatch.setattr(suite.time, "monotonic", lambda: next(wall))
    done = []
    with suite.time_limit(2.0):  # 5 times as long, for what waits
        signal.raise_signal(signal.SIGALRM)
        signal.raise_signal(signal.SIGALRM)
        done.append(True)
    assert done
    cpu, wall = iter([0.0, 0.1]), iter([0.0, 10.0])
    with pytest.raises(OutOfTime) as late, suite.time_limit(2.0):
        signal.raise_signal(signal.SIGALRM)
    assert late.value.waited
    cpu, wall = iter([0.0, 2.0]), iter([0.0])
    with pytest.raises(OutOfTime) as late, suite.time_limit(2.0):
        signal.raise_signal(signal.SIGALRM)
    assert not late.value.waited


def test_an_answer_that_sleeps_is_told_so(monkeypatch):
    from dataclasses import replace

    from course_lib.checks import rmsnorm

    quick = replace(rmsnorm.SUITES[0], limit_s=0.2)
    monkeypatch.setattr(rmsnorm, "SUITES", (quick,))
    said = run_check(cell("import time\n" + norm("time.sleep(1000)\nreturn x")))
    assert "[TIMEOUT]" in said and "stopped after 1 seconds" in said and "a sleep" in said


def test_a_fault_of_the_check_is_not_blamed_on_the_answer(monkeypatch):
    from dataclasses import replace

    from course_lib.checks import rmsnorm

    def broken(subject, draw):
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(rmsnorm, "SUITES", (replace(rmsnorm.SUITES[0], checks=(broken,)),))
    said = run_check(cell(RIGHT))
    assert "[CHECK-BROKE]" in said and "course's fault" in said


def test_random_state_is_left_alone(capsys):
    scope = cell(RIGHT)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    run_check(scope)
    assert torch.equal(before, torch.get_rng_state())


def test_an_unknown_exercise_gets_a_suggestion():
    with pytest.raises(ValueError, match="did you mean 'rmsnorm'"):
        checking.check("rmsnrom")


def test_what_only_another_cell_defines_is_named_and_not_kept(learner, capsys):
    scope = cell(norm("return helper(x, self)"))
    scope["helper"] = lambda x, m: torch.nn.functional.rms_norm(
        x.float(), m.weight.shape, m.weight.float(), m.eps
    ).to(x.dtype)
    assert run_check(scope) == "passed"
    assert "helper from another cell" in capsys.readouterr().out
    assert not (learner / "mine/rmsnorm.py").exists()


def test_install_puts_the_learners_code_into_the_library(learner, capsys):
    text = norm(
        "return MARK * F.rms_norm(x, self.weight.shape, self.weight, self.eps)", head="MARK = 1.0\n"
    )
    card = registry.exercise("rmsnorm")
    mine.save(card, text, cell(text))
    program = (
        "import torch\nfrom course_lib import gpt\nfrom course_lib.lab import mine\n"
        "whose = mine.install()\nassert whose['rmsnorm'] == 'yours'\n"
        "assert gpt.RMSNorm.forward.__module__ == 'mine.rmsnorm'\n"
        "gpt.GPT(gpt.GPTConfig.preset('tiny'))(torch.zeros(1, 4, dtype=torch.long))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "yours     rmsnorm" in done.stdout and "reference" in done.stdout


def test_install_imports_no_module_for_answers_that_are_not_there(learner):
    """A rank that a lesson launches starts with it, and the trainers take seconds to import."""
    text = norm("return F.rms_norm(x, self.weight.shape, self.weight, self.eps)")
    mine.save(registry.exercise("rmsnorm"), text, cell(text))
    program = (
        "import sys\nfrom course_lib.lab import mine\nwhose = mine.install(quiet=True)\n"
        "assert whose['rmsnorm'] == 'yours' and whose['fsdp-policy'] == 'reference'\n"
        "assert 'course_lib.gpt' in sys.modules and 'course_lib.training' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_model_runs_with_the_first_answer(learner):
    """As lesson 01 promises: what is open is the library's, and a line says so."""
    text = norm("return F.rms_norm(x, self.weight.shape, self.weight, self.eps)")
    mine.save(registry.exercise("rmsnorm"), text, cell(text))
    done = subprocess.run(
        [sys.executable, "-m", "course_lib.gpt", "--mine"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    first, second, last = done.stdout.splitlines()
    assert first == "yours     rmsnorm"
    assert second.startswith(f"reference {len(registry.exercises()) - 1} exercises, the first")
    assert "loss" in last


def test_every_solution_saved_makes_the_model_the_learners(learner):
    """All references saved as if they were the learner's: the program gives the same loss."""
    for lesson in lessons():
        for exercise in lesson.exercises.values():
            card, scope = registry.exercise(exercise.id), {"__name__": "__main__"}
            exec(card.setup, scope)
            for (
                done
            ) in lesson.exercises.values():  # a later cell may use an earlier one of its lesson
                linecache.cache[done.id] = (
                    1,
                    None,
                    done.solution.splitlines(keepends=True),
                    done.id,
                )
                exec(compile(done.solution, done.id, "exec"), scope)
            mine.save(card, exercise.solution, scope)
    both = [
        subprocess.run(
            [sys.executable, "-m", "course_lib.gpt", *flags], capture_output=True, text=True
        )
        for flags in ([], ["--mine"])
    ]
    assert both[1].returncode == 0, both[1].stderr
    assert both[0].stdout.splitlines()[-1] == both[1].stdout.splitlines()[-1]
    assert "reference" not in both[1].stdout

    (learner / "text").mkdir()
    for module in (json, linecache, textwrap):
        (learner / "text" / f"{module.__name__}.py").write_bytes(Path(module.__file__).read_bytes())
    train = [sys.executable, "-m", "course_lib.training.ddp_trainer", "--model_size", "tiny", "--max_steps", "3",
             "--seq_len", "32", "--data", "text", "--cache", "tokens", "--valid_fraction", "0.4",
             "--precision", "fp32", "--device", "cpu"]  # fmt: skip
    for flags in (["--out", "reference"], ["--out", "own", "--mine"]):
        done = subprocess.run([*train, *flags], cwd=learner, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("yours") and "load-checkpoint" in done.stdout.splitlines()[0]
    reference, own = (run_log.read(learner / out / "log.csv") for out in ("reference", "own"))
    assert [r["loss"] for r in reference] == [r["loss"] for r in own]


def test_hints_open_one_at_a_time(capsys):
    hints = registry.exercise("rmsnorm").hints

    def said(level=None) -> str:
        hinting.hint("rmsnorm", level)
        return capsys.readouterr().out

    assert hints[0] in said()
    waiting = said()
    assert (
        hints[0] in waiting
        and hints[1] not in waiting
        and "opens after another failing check" in waiting
    )
    run_check(cell(norm("pass")))
    capsys.readouterr()
    assert hints[1] in said()
    assert hints[2] in said(3)
    assert [e["hint"] for e in events.read() if e["kind"] == "hint"] == [1, 2, 3]
    with pytest.raises(ValueError, match="levels 1 to 3"):
        hinting.hint("rmsnorm", 4)


def test_the_solution_is_the_librarys_and_is_recorded(capsys):
    hinting.solution("rmsnorm")
    assert "rsqrt" in capsys.readouterr().out
    assert events.read()[-1]["kind"] == "solution"


def test_a_prediction_is_shown_beside_the_measurement(capsys):
    prediction.predict("speed", None)
    prediction.predict("speed", 3.0, unit="x")
    prediction.reveal("speed", 2.0, unit="x")
    out = capsys.readouterr().out
    assert "No guess yet" in out and "measured 2 x   predicted 3.0 x" in out


def test_what_nobody_measured_is_called_computed(capsys):
    prediction.reveal("gigabytes", 112.0, unit="GB", computed=True)
    assert capsys.readouterr().out == "computed 112 GB\n"
    assert events.read()[-1]["measured"] == 112.0


def test_grading_leaves_no_trace(learner, monkeypatch, capsys):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    run_check(cell(RIGHT))
    prediction.predict("speed", 3.0)
    assert not any(learner.iterdir())


def test_free_names_are_what_the_cell_takes_from_outside():
    text = (
        "import math\ndef f(x):\n    y = helper(x)\n"
        "    return math.sqrt(y) + torch.ones(1) + len(Z)\n"
    )
    assert source.free_names(text) >= {"helper", "torch", "Z", "len"}
    assert not source.free_names(text) & {"math", "x", "y", "f"}


def test_the_same_check_in_a_terminal(learner, capsys):
    (learner / "answer.py").write_text(RIGHT)
    assert main(["check", "rmsnorm", "--file", str(learner / "answer.py")]) == 0
    (learner / "answer.py").write_text(norm("return x"))
    assert main(["check", "rmsnorm", "--file", str(learner / "answer.py")]) == 1
    assert "[RMS-IDENTITY]" in capsys.readouterr().out
    (learner / "answer.py").write_text("def f(:")
    assert main(["check", "rmsnorm", "--file", str(learner / "answer.py")]) == 2
    assert "line 1" in capsys.readouterr().err
    assert main(["check", "rmsnorm", "--file", str(learner / "missing.py")]) == 2
    assert main(["check", "rmsnorm"]) == 2
    assert "no notebook" in capsys.readouterr().err


def test_what_raised_is_shown_with_its_line_and_with_what_was_tried():
    said = run_check(cell(norm("return x[7]")))
    assert "[RAISED]" in said and "Tried     float32 (" in said, said
    assert "Look at   line" in said and "return x[7]" in said


def test_what_raised_on_a_rank_is_shown_with_its_line_and_with_what_was_tried():
    text = solved("ddp-sync").replace("means = []", "means = [] if world_size == 1 else grads[99]")
    card = registry.exercise("ddp-sync")
    said = checking.judge(card, terminal.define(card, text, "<cell>")).text()
    assert "[RAISED]" in said and "of the cell: means = []" in said, said
    assert re.search(r"Tried +2 ranks; rank \d with ", said), said


def test_a_pass_in_a_terminal_is_kept_like_one_in_a_notebook(learner, capsys):
    (learner / "answer.py").write_text(RIGHT)
    assert main(["check", "rmsnorm", "--file", str(learner / "answer.py")]) == 0
    assert "Kept      mine/rmsnorm.py" in capsys.readouterr().out
    code = "from course_lib.lab import mine; print(mine.install())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "rmsnorm" in done.stdout, done.stderr


def test_a_terminal_is_told_commands(learner, capsys):
    for text in (norm("return x"), "x = 1"):
        (learner / "answer.py").write_text(text)
        assert main(["check", "rmsnorm", "--file", str(learner / "answer.py")]) == 1
        said = capsys.readouterr().out
        assert "course check rmsnorm" in said and "cell" not in said and 'hint("' not in said
    assert main(["hint", "rmsnorm", "2"]) == main(["hint", "rmsnorm"]) == 0
    assert "course hint rmsnorm 3 opens it now" in capsys.readouterr().out
    assert main(["hint", "rmsnorm", "3"]) == main(["hint", "rmsnorm"]) == 0
    assert "course hint rmsnorm --solution shows the code" in capsys.readouterr().out
    assert main(["hint", "rmsnorm", "--solution"]) == 0
    assert "class RMSNorm" in capsys.readouterr().out


def test_the_terminal_reads_the_notebook(learner, capsys):
    (learner / "notebooks").mkdir()
    (learner / "notebooks/01_rmsnorm.ipynb").write_bytes(
        (ROOT / "solutions/01_rmsnorm.ipynb").read_bytes()
    )
    assert main(["check", "rmsnorm"]) == 0
    assert main(["hint", "rmsnorm"]) == 0


def test_terminal_definitions_do_not_leak_the_setup(learner):
    card = registry.exercise("rmsnorm")
    assert terminal.define(card, "x = 1", "<x>") is None


def test_html_and_text_say_the_same():
    verdict = checking.judge(registry.exercise("rmsnorm"), cell(norm("return x"))["RMSNorm"])
    page = verdict.html()
    assert "role='status'" in page and verdict.code in page
    for _, content in verdict.rows:
        assert content.split("\n")[0][:20].replace("'", "&#x27;") in page


def test_tables_in_a_message_keep_their_columns_and_code_is_code():
    rows = (("Got", "key    0  1  2\nquery  1  0  0"), ("Look at", "the `dim` of `mean`, not < 1"))
    page = Verdict(exercise="x", rows=rows).html()
    table, prose = re.findall(r"<td style='([^']*)'>", page)
    assert "monospace" in table and "monospace" not in prose
    assert "<code>dim</code> of <code>mean</code>, not &lt; 1" in page and "`" not in page


def test_a_learners_message_names_no_seed():
    said = checking.judge(registry.exercise("rmsnorm"), cell(norm("return x"))["RMSNorm"]).text()
    assert "[RMS" in said and "seed" not in said


def test_course_help_needs_no_torch():
    program = (
        "import sys\nfrom grader import cli\ncli.parser().format_help()\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_after_a_cell_with_a_syntax_error_the_check_judges_no_older_definition(tmp_path):
    """In IPython, which keeps what was typed: no definition yet, then an older one."""
    cells = (
        registry.exercise("rmsnorm").setup + "\nfrom course_lib.lab import check",
        "class RMSNorm(nn.Module:\n    pass",
        "check('rmsnorm')",
        RIGHT,
        "check('rmsnorm')",
        RIGHT.replace("class RMSNorm(nn.Module)", "x = 0\nclass RMSNorm(nn.Module"),
        "check('rmsnorm')",
        RIGHT.replace("self.eps = eps", "self.eps = 2 * eps"),
        "check('rmsnorm')",
    )
    program = (
        "import json, sys\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "for cell in json.load(sys.stdin):\n"
        "    print('=====')\n"
        "    shell.run_cell(cell, store_history=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(cells),
        capture_output=True,
        text=True,
        env={**os.environ, "COURSE_HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path / "ipython")},
    )
    said = done.stdout.split("=====\n")[1:]
    assert all("[SYNTAX]" in said[n] and "[PASS]" not in said[n] for n in (2, 6)), done.stdout
    assert "line 1: class RMSNorm(nn.Module:" in said[2] and "line 2: class" in said[6]
    assert "[PASS]" in said[4] and "[SYNTAX]" not in said[8], "each of these cells ran"
