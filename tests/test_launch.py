"""Launching: every way in which a run ends, and that no process is left afterwards.

Faults run under a stand-in for torchrun (torchrun_stand_in.py), and the ones that torch decides
under the real one; `make soak` runs all of them under the real one, many times.
"""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from course_lib.lab.launch import folder, magic, plain, plan, processes, start
from course_lib.lab.launch import run as run_module
from course_lib.lab.launch.folder import Run
from course_lib.lab.launch.run import LaunchFailed, LaunchStopped, launch
from course_lib.lab.launch.script import Refused
from grader.cli import main
from grader.course import ROOT
from tests.kernels import execute
from tests.soak import campaign, times

STAND_IN = [sys.executable, str(ROOT / "tests/torchrun_stand_in.py")]
SOON_S = 15  # of wall time on a busy machine; what is waited for takes a second or two


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A course home of this test's own, in which it stands; what it leaves behind is an error."""
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("COURSE_LAUNCH_LIMIT_S", raising=False)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    left = of_home(tmp_path)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, "processes were left"


@pytest.fixture(params=["stand-in", "torchrun"] if os.environ.get("COURSE_SOAK") else ["stand-in"])
def agent(request, monkeypatch):
    """What starts the ranks."""
    if request.param == "stand-in":
        monkeypatch.setattr(start, "_torchrun", lambda: STAND_IN)
    return request.param


def of_home(home: Path) -> list[int]:
    """Processes of any run below that course home."""
    runs = [p for p in processes.runs_with_processes() if Path(p).is_relative_to(home)]
    return [pid for place in runs for pid in processes.of_run(place)]


def gone(home: Path, seconds: float = 2 * SOON_S) -> bool:
    """Whether all processes of that home are gone within so many seconds."""
    deadline = time.monotonic() + seconds
    while of_home(home) and time.monotonic() < deadline:
        time.sleep(0.1)
    left = of_home(home)
    for pid in left:  # what a failed test shows
        print(pid, Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
    return not left


def begun(home: Path, ranks: int, seconds: float = 60) -> Path:
    """The folder of a run, once that many ranks of it have made a step."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for place in folder.folders():
            if len({event["rank"] for event in Run(place).events("step")}) >= ranks:
                return place
        time.sleep(0.1)
    raise AssertionError("the ranks did not begin")


def written(text: str, name: str = "script.py") -> str:
    Path(name).write_text(textwrap.dedent(text))
    return name


def launched(text: str, *options: str, ranks: int = 2, arguments=(), **kwargs) -> Run:
    """Run the script to its end."""
    asked = plan.read([f"--nproc_per_node={ranks}", *options, written(text), *arguments])
    return launch(asked, plain.Page(), **kwargs)


def failed(text: str, *options: str, **kwargs) -> tuple[list[str], dict]:
    """The report of a run that must fail, and its error.json."""
    with pytest.raises(LaunchFailed) as caught:
        launched(text, *options, **kwargs)
    run = caught.value.run
    assert run.summary["outcome"] in ("failed", "limit")
    file = run.folder / "error.json"
    return str(caught.value).splitlines(), json.loads(file.read_text()) if file.exists() else {}


def test_two_ranks_sum_over_gloo_and_what_is_left_can_be_read(home, capsys):
    """The real torchrun, the real gloo."""
    run = launched("""
        import os, torch, torch.distributed as dist
        from course_lib.ranks import world
        from course_lib.runs import heartbeat

        def main(w):
            print("rank", w.rank, "of", w.world_size)
            for step in range(1, 4):
                total = w.sum(torch.ones(2) * (w.rank + 1))
                heartbeat.beat(step, 3, loss=float(total[0]), tokens=step * 100)

        world.run(main)
    """)
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("2 ranks · gloo · CPU") and said[0].endswith("log runs/0001/")
    # on a machine with one GPU it is hidden from ranks on the CPU, and a note says why
    said = [line for line in said if not line.startswith("note: 2 ranks and 1 GPU")]
    command = said[1].removeprefix("CUDA_VISIBLE_DEVICES= ")
    assert command == "torchrun --standalone --nproc_per_node=2 script.py"
    assert said[2:4] == ["[0] rank 0 of 2", "[1] rank 1 of 2"]  # rank by rank, whoever was first
    assert said[4].startswith("2 ranks done in") and said[4].endswith("step 3, loss 3.0000")
    assert run.summary["outcome"] == "done" and run.plan["backend"] == "gloo"
    assert [r["step"] for r in run.summary["ranks"]] == [3, 3]
    assert {e["loss"] for e in run.events("step") if e["step"] == 3} == {3.0}
    assert run.log(1) == "rank 1 of 2\n"
    names = {"plan.json", "rank0.log", "rank1.log", "events.jsonl", "summary.json"}
    assert names <= {p.name for p in run.folder.iterdir()}
    assert folder.latest().folder == run.folder


def test_the_script_runs_as_it_would_without_us(agent, home):
    """It is __main__, finds its neighbors, and what it starts is not watched; stdin is empty."""
    Path("neighbor.py").write_text("value = 7")
    run = launched(
        """
        import os, subprocess, sys, neighbor
        assert __name__ == "__main__" and sys.argv == ["script.py", "--x", "two words"]
        assert os.path.basename(__file__) == "script.py" and neighbor.value == 7
        assert "launch" not in os.environ.get("PYTHONPATH", "")
        assert sys.stdin.read() == ""
        subprocess.run([sys.executable, "-c", "print('child')"], check=True)
        print("to stderr", file=sys.stderr)
    """,
        ranks=1,
        arguments=["--x", "two words"],
    )
    assert run.log() == "child\nto stderr\n"


def test_a_script_may_tell_its_steps_alone(agent, capsys):
    launched("from course_lib.runs.heartbeat import beat\nbeat(7)", ranks=1)
    assert capsys.readouterr().out.splitlines()[-1].endswith(", step 7")


def test_a_sitecustomize_of_the_machine_is_run_all_the_same(agent, home, monkeypatch):
    (home / "site").mkdir()
    (home / "site" / "sitecustomize.py").write_text("import sys\nsys.course_test = 5\n")
    monkeypatch.setenv("PYTHONPATH", str(home / "site"))
    assert launched("import sys; print(sys.course_test)", ranks=1).log() == "5\n"


def test_a_rank_that_raises_is_the_root_although_another_will_not_end(agent, capsys):
    lines, error = failed("""
        import os, pathlib, signal, time
        def chunk(number):
            if os.environ["RANK"] == "1":
                raise IndexError(f"chunk {number} of 4")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        chunk(number=4)
        time.sleep(100)
        pathlib.Path("awake").touch()
    """)
    assert lines[0] == "rank 1 of 2 was the first to fail: IndexError: chunk 4 of 4"
    assert "script.py:5 in chunk: raise IndexError" in lines[2] and "number = 4" in lines[3]
    assert lines[-2:] == [
        "  also   rank 0 stopped because rank 1 did",
        "  log    runs/0001/rank1.log",
    ]
    assert error["rank"] == 1
    said = capsys.readouterr().out
    assert not Path("awake").exists()
    assert said.index("rank 1 of 2 was the first") < said.index("Traceback")


def test_a_killed_rank_and_a_status(agent):
    script = """
        import os, sys, time
        if os.environ["RANK"] == "1":
            {}
        time.sleep(100)
    """
    lines, _ = failed(script.format("os.kill(os.getpid(), 9)"))
    assert lines[0] == "rank 1 of 2 was the first to fail: killed by SIGKILL"
    lines, _ = failed(script.format("print('out of luck'); os._exit(3)"))
    assert lines[0] == "rank 1 of 2 was the first to fail: exit status 3: out of luck"
    lines, _ = failed(script.format("import ctypes; ctypes.string_at(0)"))
    assert lines[0] == "rank 1 of 2 was the first to fail: killed by SIGSEGV"


def test_a_notebooks_variable_is_named_before_and_after(agent, capsys):
    lines, _ = failed("print(model)", names={"model": 1})
    assert "note: script.py uses `model`, which this notebook has" in capsys.readouterr().out
    assert "NameError" in lines[0] and "do not travel to the ranks" in "\n".join(lines)


def test_fifty_megabytes_of_output_go_to_a_file_and_not_to_the_page(agent, capsys):
    run = launched("""
        import sys
        for _ in range(500):
            sys.stdout.write(("x" * 99 + "\\n") * 1000)
        print("end")
    """)
    assert (run.folder / "rank1.log").stat().st_size > 50_000_000
    said = capsys.readouterr().out
    assert len(said) < 20_000 and "[1] end" in said and "more of it in rank0.log" in said


def test_a_wall_limit_ends_it_and_says_where_the_ranks_were(agent):
    lines, _ = failed(
        """
        import os, time
        time.sleep(100)
        if os.environ["RANK"] == "1":
            time.sleep(100)
    """,
        limit_s=times(2, 8),
    )
    assert "the limit of" in lines[0] and "stopped 2 of 2 ranks" in lines[0]
    assert any("ranks 0, 1 at script.py:3: time.sleep(100)" in line for line in lines)


def test_what_a_rank_has_started_ends_with_it(agent, home):
    launched("""
        import subprocess, sys
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"], start_new_session=True)
    """)
    assert not of_home(home)


def test_a_hang_in_a_collective_is_reported_while_it_lasts_and_named_at_the_end(capsys):
    """The real torchrun: it names the victim; we name the rank that did not come."""
    lines, error = failed(
        """
        import datetime, os, time, torch, torch.distributed as dist
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=12))
        dist.barrier()
        if dist.get_rank() == 1:
            time.sleep(100)
        print("on", flush=True); dist.all_reduce(torch.ones(1))
    """,
        quiet_s=2,
    )
    assert lines[0].startswith("rank 1 of 2 was the first to fail: it did not come, it stood at")
    assert "script.py:6: time.sleep(100)" in lines[0] and "rank 0 waited" in "\n".join(lines)
    report = capsys.readouterr().out.split("was the first to fail")[0]
    assert "no sign of life for" in report and "rank 0 in all_reduce, script.py:7" in report
    assert "The others wait for rank 1." in report


def test_a_rank_that_skips_a_collective_is_the_root():
    """The real torchrun: rank 0 alone sees an error, and it is not its own."""
    lines, _ = failed("""
        import datetime, os, torch, torch.distributed as dist
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))
        dist.barrier()
        if dist.get_rank() == 0:
            dist.all_reduce(torch.ones(1))
        os._exit(0)
    """)
    assert lines[0].startswith("rank 1 of 2 was the first to fail: it ended, without an error")
    assert "rank 0 waited for it" in "\n".join(lines)


STEPS = """
    import subprocess, sys, time
    from course_lib.runs.heartbeat import beat
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"], start_new_session=True)
    for step in range(1, 1000):
        time.sleep(0.05)
        beat(step, 1000, loss=1 / step)
"""


def course_launch(*words: str, **kwargs) -> subprocess.Popen:
    command = [sys.executable, "-m", "grader.cli", "launch", *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs
    )


@campaign
def test_ctrl_c_leaves_no_rank_and_says_how_long_it_took(home):
    for _ in range(times(1, 20)):
        process = course_launch(written(STEPS), "--ranks", "2")
        begun(home, 2)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=SOON_S + 10)
        assert process.returncode == 130, said
        assert "stopped 2 of 2 ranks in" in said and "Traceback" not in said
        assert not of_home(home) and folder.latest().summary["outcome"] == "stopped"
        (home / "runs").rename(home / f"runs_{time.time_ns()}")


def test_a_second_ctrl_c_does_not_wait(agent, home, monkeypatch):
    """Ranks that ignore everything: the first interrupt waits for torchrun, the second kills."""
    asked = plan.read(
        [
            "--nproc_per_node=2",
            written("""
        import signal, time
        from course_lib.runs.heartbeat import beat
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        beat(1)
        time.sleep(50)
        open("awake", "w").close()
        time.sleep(100)
    """),
        ]
    )
    monkeypatch.setattr(start, "SHUTDOWN_S", 100)
    code = textwrap.dedent(f"""
        import os, pathlib, signal, time
        events = pathlib.Path("runs/0001/events.jsonl")
        while not events.exists() or events.read_text().count('"step"') < 2:
            time.sleep(0.1)
        os.kill({os.getpid()}, signal.SIGINT)
        time.sleep(1.5)
        os.kill({os.getpid()}, signal.SIGINT)
    """)
    with subprocess.Popen([sys.executable, "-c", code]), pytest.raises(LaunchStopped):
        launch(asked, plain.Page())
    assert not Path("awake").exists()
    assert not of_home(home)


@campaign
def test_a_launcher_that_is_killed_leaves_nobody(home):
    """As a notebook's kernel is, when its memory runs out."""
    for _ in range(times(1, 20)):
        process = course_launch(written(STEPS), "--ranks", "2")
        begun(home, 2)
        process.kill()
        process.communicate()
        assert gone(home)
        (home / "runs").rename(home / f"runs_{time.time_ns()}")


def test_torchrun_killed_is_said_and_leaves_nobody(agent, home):
    lines, _ = failed("""
        import os, time
        if os.environ["RANK"] == "1":
            os.kill(os.getppid(), 9)
        time.sleep(100)
    """)
    assert lines[0] == "torchrun was killed by SIGKILL"


def test_what_an_earlier_kernel_left_is_ended_by_the_next_launch(agent, home, capsys):
    place = home / "runs" / "0001"
    place.mkdir(parents=True)
    (place / "plan.json").write_text("{}")
    orphan = subprocess.Popen(["sleep", "100"], env=os.environ | {"COURSE_RUN": str(place)})
    with folder.create_folder() as other:  # a run of another notebook, which is going on
        neighbor = subprocess.Popen(["sleep", "100"], env=os.environ | {"COURSE_RUN": str(other)})
        launched("pass", ranks=1)
        assert orphan.wait(SOON_S) == -signal.SIGKILL
        assert neighbor.poll() is None
        neighbor.kill()
        neighbor.wait()
    assert "ended 1 processes that an earlier run had left" in capsys.readouterr().out


def test_an_elastic_restart_is_not_taken_for_the_end(monkeypatch):
    """The real torchrun: a failed rank is started again, and has the time it needs."""
    monkeypatch.setattr(run_module, "ENDING_S", 0.1)
    run = launched(
        """
        import os, time
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            raise ValueError("the first time")
        time.sleep(1)
        print("the second time")
    """,
        "--max-restarts=1",
        ranks=1,
    )
    assert run.log().endswith("the second time\n") and "ValueError: the first time" in run.log()
    assert run.summary["outcome"] == "done"


def test_where_environments_are_hidden_recorded_ranks_are_ended(monkeypatch):
    """As of macOS's own programs: a rank leads a group of processes, its number was written down."""

    def hidden(process):
        raise psutil.AccessDenied(process.pid)

    rank = subprocess.Popen(["sh", "-c", "sleep 100 & sleep 100"], start_new_session=True)
    monkeypatch.setattr(psutil.Process, "environ", hidden)
    deadline = time.monotonic() + SOON_S
    while len(processes.of_run("0001", [rank.pid])) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)  # until the shell has started the others
    assert processes.of_run("0001") == [] == processes.of_run("0001", [1 << 40])
    assert processes.sweep("0001", [rank.pid]) >= 2
    assert rank.wait(SOON_S) == -signal.SIGKILL
    assert processes.runs_with_processes() == set() and processes.resident_mb(rank.pid) is None


def test_options_torchrun_does_not_know_are_said():
    """The real torchrun."""
    lines, error = failed("pass", "--nonsense=3", ranks=1)
    assert error["rank"] is None and "unrecognized arguments: --nonsense=3" in "\n".join(lines)


def test_the_command_line(agent, home, capsys, monkeypatch):
    written("import sys; print(sys.argv[1:]); sys.exit(len(sys.argv) - 1)")
    assert main(["launch", "script.py", "--ranks", "1"]) == 0
    assert "[0] []" in capsys.readouterr().out
    assert main(["launch", "script.py", "--ranks"]) == 2
    assert "--ranks needs a value" in capsys.readouterr().err
    assert main(["launch", "--ranks", "1", "script.py", "--ranks"]) == 1
    assert "[0] ['--ranks']" in capsys.readouterr().out
    assert main(["launch", "other.py"]) == 2 and "other.py is not there" in capsys.readouterr().err
    assert main(["launch", "script.py", "--limit", "soon"]) == 2


def test_the_magic_understands_a_line(agent, capsys, monkeypatch):
    written("import sys; print(sys.argv[1:])")
    run = magic.torchrun("--nproc_per_node=1 script.py --text 'two words'")
    assert run.log() == "['--text', 'two words']\n" and run._ipython_display_() is None
    with pytest.raises(Refused, match="cannot be read"):
        magic.torchrun("script.py 'open")
    monkeypatch.setenv("COURSE_LAUNCH_LIMIT_S", "soon")
    with pytest.raises(Refused, match="number of seconds"):
        magic.torchrun("script.py")


def notebook(*cells: str) -> NotebookClient:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    return NotebookClient(book, timeout=120, kernel_name="python3")


def test_an_executed_page_has_plain_text_and_a_failing_rank_fails_the_cell():
    """The real torchrun in a real kernel, as nbconvert and nbgrader run it."""
    client = notebook(
        "import course_lib.lab",
        "%%writefile hello.py\nimport os\nprint('rank', os.environ['RANK'])",
        "run = %torchrun --nproc_per_node=2 hello.py\nrun.summary['outcome']",
        "%%writefile bad.py\nraise ValueError('on every rank')",
        "%torchrun --nproc_per_node=auto bad.py",
        "print('not reached')",
    )
    with pytest.raises(CellExecutionError):
        execute(client)
    _, _, good, _, bad, last = client.nb.cells
    assert all("data" not in o or set(o["data"]) == {"text/plain"} for o in good.outputs)
    text = "".join(o.get("text", "") for o in good.outputs)
    assert "[0] rank 0\n[1] rank 1\n2 ranks done in" in text
    assert good.outputs[-1]["data"]["text/plain"] == "'done'"
    error = bad.outputs[-1]
    assert error["ename"] == "LaunchFailed" and len("".join(error["traceback"])) < 200
    assert "ValueError: on every rank" in "".join(o.get("text", "") for o in bad.outputs)
    assert not last.outputs


def test_a_torchrun_that_aborts_leaves_no_rank_of_a_killed_launcher(home):
    """Python's end can abort a program with native threads, torchrun among them."""
    written(STEPS)
    written(
        f"""
        import os, runpy, signal
        signal.signal(signal.SIGINT, lambda *_: os.abort())
        signal.signal = lambda *_: None  # the stand-in does not set its own
        runpy.run_path({STAND_IN[1]!r}, run_name="__main__")
        """,
        "aborting.py",
    )
    lines = """
        import sys
        from course_lib.lab.launch import plain, plan, run, start
        start._torchrun = lambda: [sys.executable, "aborting.py"]
        run.launch(plan.read(["--nproc_per_node=2", "script.py"]), plain.Page())
    """
    launcher = subprocess.Popen([sys.executable, "-c", textwrap.dedent(lines)])
    begun(home, 2)
    launcher.kill()
    launcher.wait()
    assert gone(home)


@campaign
def test_a_kernel_that_is_restarted_or_killed_leaves_no_rank(home):
    from jupyter_client.manager import start_new_kernel

    for now in (False, True) * times(1, 10):
        manager, client = start_new_kernel(kernel_name="python3", cwd=str(home))
        try:
            written(STEPS)
            client.execute("import course_lib.lab\n%torchrun --nproc_per_node=2 script.py")
            begun(home, 2)
            manager.restart_kernel(now=now)
            assert gone(home)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
        (home / "runs").rename(home / f"runs_{time.time_ns()}")
