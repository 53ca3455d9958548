"""The judge and its workers: the same verdicts as in the notebook, and the plumbing between."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from course_lib import checks
from course_lib.checks.suite import LIMIT_S
from course_lib.lab import registry
from grader.course import ROOT
from grader.judge import landlock, zygote_client
from grader.judge.decision import MESSAGE_CHARS, Decision
from grader.judge.judge import Judge
from grader.judge.zygote_client import ZygoteClient, ZygoteError
from tests.answers import answers
from tests.confined import (
    Answer,
    descendants,
    grade,
    judge,
    probe,
    processes,
    shared_client,
    variant,
)
from tests.course import solved
from tests.soak import campaign, fewer, times

IDS = list(registry.exercises())
RIGHT = answers("bytes")[0].text
READY_MADE = {"torch's own", "with torch's own schedulers"}
"""Right answers kept here that call what their card names."""


@campaign
@pytest.mark.parametrize("exercise", IDS)
def test_verdicts_are_those_of_the_notebook(exercise):
    """A mutant scores zero under the code that `test_exercises` sees in the notebook, with other
    inputs than there, and a right answer passes; under `make soak` each of them."""
    for answer, seed in itertools.product(fewer(answers(exercise)), times((7,), range(7, 15))):
        decision = grade(exercise, answer.text, seed=seed)
        assert decision.code == (answer.code or "PASS"), f"{answer.name}: {decision}"
        assert decision.passed == (answer.code is None), f"{answer.name}: {decision}"
        assert not decision.person, f"{answer.name}: {decision}"
        assert "TOUCHED" not in decision.flags, f"{answer.name}: {decision}"
        assert not decision.flags or answer.name in READY_MADE, f"{answer.name}: {decision}"


@pytest.mark.parametrize("exercise", IDS)
def test_the_reference_passes_and_the_stub_is_not_attempted(exercise):
    decision = grade(exercise, solved(exercise))
    assert decision.passed and decision.flags == (), decision
    stub = grade(exercise, registry.exercise(exercise).stub)
    assert (stub.verdict, stub.code) == ("ERROR", "STUB") and "not attempted" in stub.message


@pytest.mark.parametrize("tier", ["landlock", "none"])
def test_the_other_tiers_give_the_same_verdicts(tier):
    over = variant(tier=tier)
    for exercise in IDS:
        decision = grade(exercise, solved(exercise), over=over)
        if checks.suite(exercise).ranks > 1 and tier == "landlock":
            assert decision.code == "NO-RANKS", decision
            continue
        assert decision.passed, decision
        assert grade(exercise, registry.exercise(exercise).stub, over=over).code == "STUB"


def test_each_exercise_gets_a_fresh_worker():
    leave = "import torch\ntorch.left_behind = True\n"
    assert grade("bytes", leave + RIGHT).passed
    assert (
        probe(
            "import torch\ndef training_state_bytes(n):\n    return hasattr(torch, 'left_behind')"
        )
        is False
    )


def test_what_the_notebook_defines_elsewhere_is_there():
    helper = "def four():\n    return 4\n\nraise ValueError\n\nFOUR = four()\n"
    source = RIGHT.replace(" 4 ", " FOUR ")
    assert source != RIGHT
    assert grade("bytes", source, context=helper).passed
    assert grade("bytes", source).code == "RAISED"
    assert grade("bytes", source, context="def broken(:").code == "RAISED"


def test_warnings_and_prints_cost_nothing():
    loud = "import sys, warnings\nwarnings.simplefilter('always')\n"
    noise = "    warnings.warn('NNPACK'); print('x' * 99, file=sys.stderr)\n    return "
    assert grade("bytes", loud + RIGHT.replace("    return ", noise)).passed


@pytest.mark.parametrize("context", ["import os\nos._exit(1)", "while True: pass"])
def test_context_that_never_ends_well_costs_nothing(context):
    assert grade("bytes", RIGHT, context=context, over=variant(), budget_s=1.0).passed


def test_a_suite_that_asks_for_more_time_than_others_gets_it(monkeypatch):
    """1 s of processor time, which no wait for a busy machine adds to, and a fifth of a second a suite."""
    slow = RIGHT.replace("    return ", "    burn()\n    return ", 1)
    burn = "import time\ndef burn():\n    while time.process_time() < 1.0: pass\n"
    late = grade("bytes", slow, context=burn, over=variant(), budget_s=0.2)
    assert late.verdict == "TIMEOUT" and late.flags == ("CLOCK",)
    patient = replace(checks.suite("bytes"), limit_s=200 * LIMIT_S)
    monkeypatch.setattr(checks, "suite", lambda name: patient)
    found = grade("bytes", slow, context=burn, over=variant(), budget_s=0.2)
    assert found.passed and not found.flags, found


def test_a_verdict_without_the_context_that_never_ended_is_one_of_a_clock():
    found = grade("bytes", RIGHT, context="while True: pass", over=variant(), budget_s=0.5)
    assert found.passed and found.flags == ("CLOCK",)


def test_long_and_strange_sources():
    assert grade("bytes", RIGHT + "\n# \U0001f600" + "\U0001f600" * 200_000).passed
    assert grade("bytes", RIGHT + "\n# half a \ud83d").code == "RAISED"
    decision = grade("bytes", RIGHT + "#" * 600_000)
    assert (decision.verdict, decision.code) == ("UNGRADABLE", "TOO-LONG") and decision.person
    assert grade("bytes", "(" * 100_000).verdict == "ERROR"


def test_a_judge_in_a_thread():
    """Where a scheduler runs it: no signal can interrupt a suite there, the budget still holds."""
    found = []
    endless = "def training_state_bytes(n, **sizes):\n    while True: pass"

    def work(source):
        found.append(grade("bytes", source, over=variant(), budget_s=0.5).verdict)

    for source in (RIGHT, endless):
        thread = threading.Thread(target=work, args=(source,))
        thread.start()
        thread.join()
    assert found == ["PASS", "TIMEOUT"]


def test_nothing_piles_up():
    def held(pid):
        return len(os.listdir(f"/proc/{pid}/fd"))

    pids = (os.getpid(), shared_client().process.pid)
    grade("bytes", RIGHT)
    before = [held(pid) for pid in pids]
    for _ in range(12):
        grade("bytes", RIGHT)
        grade("bytes", "import os\nos._exit(1)")
    assert [held(pid) for pid in pids] == before


def test_a_definition_in_the_context_is_not_the_answer():
    assert grade("bytes", "x = 1", context=RIGHT).code == "UNDEFINED"


def test_a_cell_that_fails_below_a_good_definition_counts():
    assert grade("bytes", RIGHT + "\nassert False\n").passed
    assert grade("bytes", "%%time\n" + RIGHT + "\n%timeit training_state_bytes(3)\n!ls\n").passed


FROM_A_NOTEBOOK = {
    "display": RIGHT.replace("    return ", "    display(num_params)\n    return "),
    "the shell": "get_ipython().run_line_magic('matplotlib', 'inline')\n"
                 "get_ipython().events.register('post_run_cell', print)\n" + RIGHT,
    "magics with values": "files = !ls -l\nhow = %timeit -o -n1 1 + 1\n" + RIGHT,
    "help": "sum?\nstr.join??\n?len\n" + RIGHT,
    "a magic in a block": "if True:\n    %time 1 + 1\n" + RIGHT,
    "an await below": RIGHT + "\nimport asyncio\nawait asyncio.sleep(0)\n",
    "an awaited value": "async def four():\n    return 4\nFOUR = await four()\n"
                        + RIGHT.replace(" 4 ", " FOUR "),
    "a line that fails above": "missing(3)\n" + RIGHT,
    "a program above": "import subprocess\nsubprocess.run(['nvidia-smi'])\n" + RIGHT,
    "a feature of all below": "from __future__ import annotations\n"
                              "def other(n: Missing): ...\n" + RIGHT.replace("num_params,", "num_params: Missing,"),
    "compiled": "import torch\n@torch.compile\n" + RIGHT,
    "compiled with options": "import torch\n@torch.compile(dynamic=True)\n" + RIGHT,
}  # fmt: skip


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
def test_what_is_right_in_a_notebook_is_right_here(tier):
    over = variant(tier=tier)
    for name, source in FROM_A_NOTEBOOK.items():
        decision = grade("bytes", source, over=over)
        assert decision.passed, f"{name}: {decision}"
    forward = "    def forward("
    compiled = solved("rmsnorm").replace(forward, f"    @torch.compile\n{forward}")
    assert "@torch.compile" in compiled
    assert grade("rmsnorm", compiled, over=over).passed


def test_a_definition_that_fails_says_why_itself():
    broken = "missing(3)\ndef training_state_bytes(n, size=absent):\n    return n\n1 / 0\n"
    message = grade("bytes", broken).message
    assert "NameError" in message and "line 2 of the cell" in message
    assert grade("bytes", "missing(3)\n" + RIGHT, kind="script").code == "RAISED", "a script ends"


AROUND = """
import grader.judge.worker as worker
def fail(self, args, request): raise AssertionError("false " "words")
worker.AnswerRunner.do_call = fail
"""
OUT = """
import grader.judge.wire as wire
encode = wire.encode
wire.encode = lambda value, **more: encode({**value, "out": "a false check"}, **more)
"""


@pytest.mark.parametrize("source,context", [(AROUND + RIGHT, ""), (RIGHT, AROUND), (RIGHT, OUT)])
def test_no_answer_can_say_that_the_check_failed(source, context):
    decision = grade("bytes", source, context=context)
    assert decision.code in ("RAISED", "PROTOCOL"), decision
    assert not any(
        word in str(decision) for word in ("false words", "a false check", "check itself")
    )


def test_a_result_that_no_check_can_read_is_the_answers_fault_alone(monkeypatch):
    def reads(subject, draw):
        assert [0][subject.call(0)] == 0

    suite = replace(checks.suite("bytes"), checks=(reads,))
    monkeypatch.setattr(checks, "suite", lambda name: suite)
    odd = grade("bytes", "def training_state_bytes(n, **sizes):\n    return 'IndexError'")
    assert (odd.verdict, odd.code, odd.person) == ("ERROR", "ODD-RESULT", ""), odd

    def breaks(subject, draw):
        raise IndexError(subject.call(0))

    suite = replace(suite, checks=(breaks,))
    assert grade("bytes", RIGHT).code == "CHECK-BROKE" and grade("bytes", RIGHT).person


HUGE = {
    "numbers": "torch.zeros(6_000_000)",
    "one number, expanded": "torch.zeros(1).expand(1 << 38)",
    "an array": "np.broadcast_to(np.zeros(1), (1 << 38,))",
    "parts": "list(range(30_000))",
    "a text": "'x' * (2 << 20)",
}


@pytest.mark.parametrize("name", HUGE)
def test_a_result_that_no_check_has_use_for_stays_where_it_is(name):
    found = grade(
        "rmsnorm",
        f"""
import numpy as np
class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
    def forward(self, x):
        return {HUGE[name]}""",
    )
    assert (found.verdict, found.code) == ("LIMIT", "LIMIT-OUTPUT"), found


def test_a_script_is_run_without_its_main_part():
    main = '\nif __name__ == "__main__":\n    training_state_bytes = None\n'
    assert grade("bytes", RIGHT + main, kind="script").passed
    assert not grade("bytes", RIGHT + main).passed


def test_flags_come_along():
    assert grade("bytes", RIGHT, flags=("DUP",)).flags == ("DUP",)


@pytest.mark.parametrize(
    "source,code,words",
    [
        ("def training_state_bytes(n, **sizes):\n    return 1 / 0", "RAISED", "ZeroDivisionError"),
        ("def training_state_bytes(n:", "RAISED", "SyntaxError"),
        ("1 / 0", "RAISED", "line 1 of the cell: 1 / 0"),
        ("", "UNDEFINED", "training_state_bytes"),
        ("training_state_bytes = 7", "RAISED", "TypeError"),
        ("from course_lib.measure.memory import training_state_bytes", "RAISED", "ImportError"),
        ("\0", "RAISED", "Error"),  # a SyntaxError, before Python 3.11.4 a ValueError
        (
            "def training_state_bytes(n, **sizes):\n    raise KeyboardInterrupt",
            "RAISED",
            "Keyboard",
        ),
    ],
)
def test_answers_that_do_not_run(source, code, words):
    decision = grade("bytes", source)
    assert (decision.verdict, decision.code) == ("ERROR", code) and words in decision.message


def test_an_inherited_reference_is_no_answer():
    decision = grade("gpt-forward", "GPT = gpt.GPT")
    assert (decision.verdict, decision.code) == ("ERROR", "REFERENCE")
    assert grade("gpt-forward", "class GPT(gpt.GPT): pass").verdict == "ERROR"


def test_messages_show_no_number_of_this_run():
    """Inputs are hidden: a wrong answer is told what was found, not what went in or came out."""
    for name in ("rmsnorm", "attention", "bytes"):
        for answer in answers(name)[5:12]:
            message = grade(name, answer.text).message
            assert len(message) <= MESSAGE_CHARS
            for label in ("Tried", "Expected", "Got", "Printed", "seed"):
                assert label not in message, message


def test_an_exception_carries_nothing_out():
    leak = "class S3CRET(Exception): pass\ndef training_state_bytes(n, **k):\n"
    leak += "    print('S3CRET')\n    raise S3CRET(f'S3CRET {n}')"
    decision = grade("bytes", leak)
    assert decision.verdict == "ERROR" and decision.code == "RAISED"
    told = decision.message.replace("raise S3CRET(f'S3CRET {n}')", "")  # their own line, quoted
    assert "S3CRET" not in told and "1000" not in told and "raised Exception" in told


def test_unknown_exercises_are_the_callers_mistake():
    with pytest.raises(ValueError, match="did you mean 'rmsnorm'"):
        grade("rmsnrm", "x")


def test_an_outcome_has_one_of_the_verdicts():
    with pytest.raises(ValueError, match="none of PASS"):
        Decision("GOOD", "", "")
    assert len(Decision("PASS", "PASS", "x" * 10**6).message) == MESSAGE_CHARS


def test_no_worker_outlives_its_exercise():
    before = processes()
    for _ in range(3):
        judge().grade("bytes", Answer(RIGHT), seed=1)
    assert len(processes()) <= max(len(before), 1)  # the spare, confined for the next answer


def test_a_nest_that_dies_is_started_again_and_workers_die_with_it():
    own = ZygoteClient(limits=shared_client().limits)
    try:
        worker = own.spawn_worker()
        old = own.process.pid
        os.kill(old, signal.SIGKILL)
        own.process.wait()
        deadline = time.monotonic() + 5
        while os.path.exists(f"/proc/{worker.pid}") and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not os.path.exists(f"/proc/{worker.pid}")
        assert worker.close() == 0
        assert Judge.with_client(own).grade("bytes", Answer(RIGHT), seed=3).passed
        assert own.process.pid != old
    finally:
        own.close()
    assert own.process.poll() is not None


THREADED = """
import threading

threading.Thread(target=threading.Event().wait, daemon=True).start()
"""


def test_a_module_that_starts_a_thread_is_left_to_the_workers(tmp_path, monkeypatch):
    """A fork copies one thread: such a zygote could make no worker for any later answer."""
    (tmp_path / "starts_a_thread.py").write_text(THREADED, encoding="utf-8")
    environment = zygote_client._zygote_environment() | {"PYTHONPATH": str(tmp_path)}
    monkeypatch.setattr(zygote_client, "_zygote_environment", lambda: environment)
    own = ZygoteClient(limits=shared_client().limits)
    try:
        for modules in (("decimal", "starts_a_thread"), ("starts_a_thread",), ()):
            assert own.spawn_worker(modules=modules).close() <= 0
        assert own.threaded == {"starts_a_thread"}
        assert Judge.with_client(own).grade("bytes", Answer(RIGHT), seed=3).passed
    finally:
        own.close()


KILLED = """
import sys
from grader.judge import landlock
from grader.judge.judge import Judge
from tests.confined import Answer
if __name__ == "__main__":
    judge = Judge()
    print(judge._client.process.pid, flush=True)
    judge.grade("bytes", Answer("while True: pass"), seed=1)
"""


def test_a_judge_that_is_killed_leaves_nothing():
    shared_client()  # skips where there is no tier
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        zygote = int(process.stdout.readline())
        deadline = time.monotonic() + 20
        while not (found := descendants(zygote)) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()
    assert found
    while time.monotonic() < deadline and any(map(alive, {zygote, *found})):
        time.sleep(0.02)
    assert not [pid for pid in (zygote, *found) if alive(pid)]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_folder_with_a_forbidden_part_is_readable_but_for_that(tmp_path):
    """As when the course is installed among the other packages."""
    for name in ("torch", "course_lib/lab", "numpy"):
        (tmp_path / "site-packages" / name).mkdir(parents=True)
    forbidden = tmp_path / "site-packages" / "course_lib"
    rules = dict(landlock.cover_folder(tmp_path, [forbidden, tmp_path / "elsewhere"]))
    listed = {str(tmp_path): landlock.READ_DIR, str(forbidden.parent): landlock.READ_DIR}
    whole = {str(forbidden.parent / name): landlock.READ for name in ("torch", "numpy")}
    assert rules == listed | whole
    assert landlock.cover_folder(tmp_path / "x", [forbidden]) == [
        (str(tmp_path / "x"), landlock.READ)
    ]


def test_no_tier_is_a_refusal_that_says_what_to_do(monkeypatch):
    broken = variant()
    broken.refused = {}
    with pytest.raises(ZygoteError, match="course doctor --sandbox.*--unsafe"):
        broken._find_tier(("no such tier",))
