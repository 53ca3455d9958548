"""Before a launch: what was asked, what the machine has, what the script lacks. Starts nothing."""

import os
import socket
import subprocess
import sys
import textwrap

import pytest

from course_lib.lab.launch import folder, gpus, plan, preflight, script
from course_lib.lab.launch.script import Refused


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def decided(line: str, **machine) -> plan.Plan:
    return plan.decide(
        plan.read(line.split()), **({"gpus": 0, "why_none": "no GPU found"} | machine)
    )


@pytest.mark.parametrize(
    ("line", "machine", "ranks", "backend", "place"),
    [
        ("--nproc_per_node=auto t.py", {}, 2, "gloo", "CPU (no GPU found)"),
        ("--nproc_per_node=auto t.py", {"cores": 64}, 4, "gloo", "CPU (no GPU found)"),
        ("--nproc_per_node=auto t.py", {"gpus": 8}, 8, "nccl", "GPUs 0-7"),
        ("--nproc-per-node auto t.py", {"gpus": 1}, 1, "nccl", "GPU 0"),
        ("--nproc_per_node=2 t.py", {"gpus": 1}, 2, "gloo", "CPU (1 GPU)"),
        ("--nproc_per_node=8 t.py", {"gpus": 4}, 4, "nccl", "GPUs 0-3"),
        ("--nproc_per_node=2 t.py", {"gpus": 4}, 2, "nccl", "GPUs 0-1"),
        ("--nproc_per_node=cpu t.py", {"gpus": 4}, 2, "gloo", "CPU (as asked)"),
        ("--nproc_per_node=3 t.py --device cpu", {"gpus": 2}, 3, "gloo", "CPU (as asked)"),
        ("--nproc_per_node=gpu t.py", {"gpus": 2}, 2, "nccl", "GPUs 0-1"),
        ("t.py", {}, 1, "gloo", "CPU (no GPU found)"),
    ],
)
def test_ranks_and_backend_follow_from_what_there_is(line, machine, ranks, backend, place):
    chosen = decided(line, **machine)
    assert (chosen.ranks, chosen.backend, chosen.place) == (ranks, backend, place)
    # ranks never share a GPU: on the CPU although there are some, they must not see them
    hidden = backend == "gloo" and bool(machine.get("gpus")) and "--device" not in line
    assert chosen.hide_gpus is hidden
    assert chosen.command.startswith("CUDA_VISIBLE_DEVICES= ") is hidden


def test_fewer_ranks_or_another_backend_than_asked_is_said():
    (note,) = decided("--nproc_per_node=8 t.py", gpus=4).notes
    assert "asked for 8 ranks" in note and "4 GPUs" in note
    (note,) = decided("--nproc_per_node=2 t.py", gpus=1).notes
    assert "NCCL needs a GPU for each" in note
    (note,) = decided("--nproc_per_node=64 t.py", free_gb=3.0).notes
    assert "3.0 GB" in note
    assert not decided("--nproc_per_node=2 t.py", gpus=2).notes


def test_the_command_is_a_line_for_a_terminal():
    chosen = decided("--nproc_per_node=auto --max-restarts 2 train.py --text 'a'")
    assert chosen.command.startswith(
        "torchrun --standalone --nproc_per_node=2 --max-restarts 2 train"
    )
    assert chosen.line("runs/0142") == (
        "2 ranks · gloo · CPU (no GPU found) · correctness is the same, timings are not · "
        "log runs/0142/"
    )
    spaced = plan.decide(plan.read(["train.py", "--text", "two words"]), gpus=0)
    assert spaced.command.endswith("--text 'two words'")


def test_who_says_where_ranks_meet_is_left_alone():
    for options in ("--standalone", "--rdzv-endpoint=localhost:0", "--master_port 29501"):
        assert decided(f"{options} t.py").arguments.count("--standalone") == (
            1 if options == "--standalone" else 0
        )


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--nproc_per_node=0 t.py", "1 or more"),
        ("--nproc_per_node=many t.py", "'many'"),
        ("--nproc_per_node=gpu t.py", "no GPU found"),
        ("--nproc_per_node=2", "script is missing"),
        ("", "script is missing"),
        ("--nproc_per_node", "needs a value"),
        ("--nnodes=2 t.py", "one machine"),
    ],
)
def test_what_makes_no_sense_is_refused(line, says):
    with pytest.raises(Refused, match=says):
        decided(line)


def test_modules_and_their_options():
    asked = plan.read(
        "--nproc_per_node=2 -m course_lib.training.ddp_trainer --model_size tiny".split()
    )
    assert asked.module and asked.script == "course_lib.training.ddp_trainer"
    assert asked.arguments == ("--model_size", "tiny")
    found = script.read(asked.script, module=True)
    assert found.path.name == "ddp_trainer.py" and "class DistributedTrainer" in found.text
    with pytest.raises(Refused, match="no module course_lib.nothing"):
        script.read("course_lib.nothing", module=True)


def test_a_missing_script_is_refused_with_what_is_near(tmp_path):
    (tmp_path / "train.py").write_text("")
    with pytest.raises(Refused, match="Did you mean train.py"):
        script.read("trian.py")
    with pytest.raises(Refused, match="%%writefile other_script.py"):
        script.read("other_script.py")


def test_a_script_that_does_not_parse_is_refused_once_not_once_a_rank(tmp_path):
    (tmp_path / "t.py").write_text("import os\nfor x in [1, 2]\n    pass\n")
    with pytest.raises(Refused, match=r"t.py, line 2: (.|\n)*for x in \[1, 2\]"):
        script.read("t.py")


def names_missing(text: str) -> list[str]:
    return script.find_undefined_names(script.Script("t.py", False, None, textwrap.dedent(text)))


def test_names_that_nobody_defines_are_found():
    assert names_missing("""
        import torch as t, os.path
        from a import b as c

        class K(c.Base):
            width: int = 1
            def f(self, q):
                global made
                made = 1
                def g():
                    return q + __class__.width + model
                return [z + y for z in range(q) for y in g()]

        def main(world: "World") -> None:
            try:
                x = config
            except t.Error as error:
                print(error, made, K, os, super().f)
            for i in x:
                (w := i)
            match w:
                case {"a": first, **rest}:
                    print(first, rest)
            return w, (lambda k, *a: k + a)(1)

        if __name__ == "__main__":
            main(lr, __file__)
        """) == ["config", "lr", "model"]


@pytest.mark.parametrize("text", ["from x import *\nprint(a)", "exec('a = 1')\nprint(a)"])
def test_no_name_is_suspected_where_it_cannot_be_known(text):
    assert names_missing(text) == []


def test_a_notebooks_variable_is_said_before_the_start(tmp_path):
    (tmp_path / "t.py").write_text("print(model, nowhere)\n")
    chosen, _ = preflight.look(plan.read(["t.py"]), {"model": 1})
    first, second = (n for n in chosen.notes if "t.py" in n)
    assert "`model`" in first and "this notebook has and the ranks do not" in first
    assert "`nowhere`" in second and "nowhere defines" in second


def test_a_taken_port_is_refused_and_its_holder_named(tmp_path):
    (tmp_path / "t.py").write_text("")
    with socket.socket() as held:
        held.bind(("", 0))
        held.listen()
        port = held.getsockname()[1]
        with pytest.raises(Refused, match=f"port {port} is taken") as caught:
            preflight.look(plan.read([f"--master-port={port}", "t.py"]))
        if sys.platform == "linux":
            assert str(os.getpid()) in str(caught.value)
    preflight.look(plan.read([f"--master-port={port}", "t.py"]))  # free again
    with pytest.raises(Refused, match="1 to 65535"):
        preflight.look(plan.read(["--master-port=many", "t.py"]))


def test_preflight_asks_neither_torch_nor_the_gpus_for_their_memory():
    (script_file := "t.py") and open(script_file, "w").close()
    code = (
        "import sys; from course_lib.lab.launch import plan, preflight, run, magic, terminal\n"
        "preflight.look(plan.read(['--nproc_per_node=2', 't.py']))\n"
        "assert 'torch' not in sys.modules and 'IPython' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_cuda_visible_devices_chooses_as_cuda_does():
    four = [gpus.Gpu(name) for name in "abcd"]
    assert gpus.chosen(four, None) == four
    assert [g.name for g in gpus.chosen(four, "2,0")] == ["c", "a"]
    assert [g.name for g in gpus.chosen(four, "1, 9, 2")] == [
        "b"
    ]  # what follows a wrong one is lost
    assert len(gpus.chosen(four, "GPU-1f0e,MIG-77")) == 2
    assert gpus.chosen([], "0") == []


def test_hidden_gpus_are_said(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpus.usable() == ([], "CUDA_VISIBLE_DEVICES is empty")


class Nvml:
    """nvidia-ml-py on a machine with one GPU that answers everything but its load."""

    class NVMLError(Exception):
        pass

    class NVMLError_LibraryNotFound(NVMLError):
        pass

    class Memory:
        total, used = 150e9, 3e9

    class Process:
        pid = 4321

    def __init__(self, problem: Exception | None = None):
        self.problem = problem

    def nvmlInit(self):
        if self.problem:
            raise self.problem

    def nvmlDeviceGetCount(self):
        return 1

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetName(self, handle):
        return b"H200"

    def nvmlDeviceGetMemoryInfo(self, handle):
        return self.Memory

    def nvmlDeviceGetUtilizationRates(self, handle):
        raise self.NVMLError

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return [self.Process]


def test_nvml_tells_which_gpus_there_are(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(gpus, "pynvml", Nvml())
    (gpu,) = gpus.gauges()
    assert gpu.text() == "H200, 3.0 of 150.0 GB used" and gpu.holders == (4321,)
    monkeypatch.setattr(gpus, "torch_has_cuda", lambda: True)
    assert gpus.usable() == ([gpu], "")
    monkeypatch.setattr(gpus, "torch_has_cuda", lambda: False)
    assert gpus.usable() == ([], "this torch is built without CUDA")


@pytest.mark.parametrize(
    "problem, why",
    [
        (Nvml.NVMLError_LibraryNotFound(), "no NVIDIA driver found"),
        (Nvml.NVMLError("Unknown Error"), "number of GPUs unknown: NVML says Unknown Error"),
    ],
)
def test_without_a_driver_no_gpu_is_used_and_that_is_said(monkeypatch, tmp_path, problem, why):
    (tmp_path / "t.py").write_text("")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(gpus, "pynvml", Nvml(problem))
    monkeypatch.setattr(gpus, "torch_has_cuda", lambda: True)
    assert gpus.gauges() == [] and gpus.usable() == ([], why)
    chosen, _ = preflight.look(plan.read(["--nproc_per_node=auto", "t.py"]))
    assert (chosen.backend, chosen.place) == ("gloo", f"CPU ({why})")
    with pytest.raises(Refused, match=why):
        preflight.look(plan.read(["--nproc_per_node=gpu", "t.py"]))


def test_the_installed_nvml_has_what_is_asked_and_answers_on_this_machine(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    asked = [name for name in vars(Nvml) if name.startswith(("nvml", "NVML"))]
    assert [name for name in asked if not hasattr(gpus.pynvml, name)] == []
    found, why = gpus.usable()
    assert bool(found) != bool(why)


@pytest.mark.parametrize(
    "known, used",
    [
        ({}, False),
        ({"total_gb": 150.0, "used_gb": 0.6, "busy_percent": 0}, False),
        ({"total_gb": 150.0, "used_gb": 40.0}, True),
        ({"busy_percent": 3}, True),
        ({"holders": (7,)}, True),
    ],
)
def test_a_gpu_is_used_whoever_can_be_seen(known, used):
    """In a container NVML names no process of another one."""
    assert gpus.Gpu(**known).is_used == used


@pytest.mark.parametrize("count, holders", [(2, ()), (8, ()), (8, (4321,))])
def test_auto_takes_every_gpu_that_there_is(monkeypatch, tmp_path, count, holders):
    """One rank on each, a used one too: who holds it is said."""
    (tmp_path / "t.py").write_text("")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(gpus, "torch_has_cuda", lambda: True)
    monkeypatch.setattr(gpus, "pynvml", Nvml())
    monkeypatch.setattr(Nvml, "nvmlDeviceGetCount", lambda self: count)
    monkeypatch.setattr(Nvml.Memory, "used", 3e9 if holders else 0.0)
    running = [Nvml.Process] if holders else []
    monkeypatch.setattr(
        Nvml,
        "nvmlDeviceGetComputeRunningProcesses",
        lambda self, handle: running if handle == 5 else [],
    )
    chosen, _ = preflight.look(plan.read(["--nproc_per_node=auto", "t.py"]))
    assert (chosen.ranks, chosen.backend, chosen.place) == (count, "nccl", f"GPUs 0-{count - 1}")
    assert f"--nproc_per_node={count}" in chosen.arguments and not chosen.hide_gpus
    assert any(note.startswith("GPU 5: H200") for note in chosen.notes) is bool(holders)


def test_gpus_are_used_with_a_word_on_who_holds_them(monkeypatch, tmp_path):
    (tmp_path / "t.py").write_text("")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(gpus, "torch_has_cuda", lambda: True)
    monkeypatch.setattr(gpus, "pynvml", Nvml())
    monkeypatch.setattr(Nvml.Process, "pid", os.getpid())
    chosen, _ = preflight.look(plan.read(["--nproc_per_node=auto", "t.py"]))
    assert (chosen.ranks, chosen.backend) == (1, "nccl")
    assert chosen.notes == ("GPU 0: H200, 3.0 of 150.0 GB used, held by this notebook",)
    monkeypatch.setattr(Nvml.Memory, "used", 90e9)
    monkeypatch.setattr(Nvml, "nvmlDeviceGetComputeRunningProcesses", lambda self, handle: [])
    chosen, _ = preflight.look(plan.read(["--nproc_per_node=auto", "t.py"]))
    assert chosen.notes == (
        "GPU 0: H200, 90.0 of 150.0 GB used, held by somebody who cannot be seen from here",
    )


def test_run_folders_are_numbered_locked_and_pruned(monkeypatch):
    monkeypatch.setattr(folder, "KEPT", 2)
    with folder.create_folder() as first:
        folder.write_json(first / "plan.json", {})
        assert folder.is_going_on(first)
        for _ in range(4):
            with folder.create_folder() as later:
                folder.write_json(later / "plan.json", {})
    assert not folder.is_going_on(first)
    assert [p.name for p in folder.folders()] == ["0001", "0004", "0005"]  # 1 was still going on
    assert folder.latest().folder.name == "0005"


def test_other_folders_below_runs_are_not_touched():
    ours = folder.runs_folder()
    for name in ("ddp", "0000", "data"):
        (ours / name).mkdir()
    for _ in range(3):
        with folder.create_folder() as made:
            folder.write_json(made / "plan.json", {})
    folder.prune(keep=0)
    assert sorted(p.name for p in ours.iterdir()) == ["0000", "data", "ddp"]


def test_no_run_yet_is_said():
    with pytest.raises(ValueError, match="nothing was launched yet"):
        folder.latest()
