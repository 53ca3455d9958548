"""`course doctor`: what this machine has, what will run on it, what will not, and what to do.

Torch is asked in a process of its own, so that a broken installation is a line in the report and
not a crash of it. Nothing here touches the network.
"""

import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from course_lib.lab.home import home, lessons
from course_lib.runs.machine import usable_cores

TORCH_RANGE = ((2, 11), (2, 14))
PATIENCE = 60  # seconds for a first import of torch from a cold disk

ASK_TORCH = """
import json, torch, torch.distributed as dist
on = dist.is_available()
gpus = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
print(json.dumps({
    "version": torch.__version__, "threads": torch.get_num_threads(),
    "gloo": on and dist.is_gloo_available(), "nccl": on and dist.is_nccl_available(),
    "gpus": [{"name": torch.cuda.get_device_name(i),
              "gib": torch.cuda.get_device_properties(i).total_memory / 2**30,
              "bf16": torch.cuda.get_device_capability(i) >= (8, 0)} for i in gpus]}))
"""


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    name: str
    state: str
    """"ok", "warn" or "missing"."""
    text: str
    todo: str = ""
    """What to do next; empty when there is nothing to do."""


def run(args) -> int:
    """`course doctor [--json]`; exit status 1 when something that every lesson needs is missing."""
    torch = subprocess.Popen(
        [sys.executable, "-c", ASK_TORCH], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    findings = [_run_probe(*probe) for probe in PROBES]
    asked, problem = _read_torch(torch)
    findings[2:2] = _torch_findings(asked, problem)
    works, fails = outlook(asked, findings)
    if getattr(args, "json", False):
        report = {"findings": [asdict(f) for f in findings], "runs": works, "does_not_run": fails}
        print(json.dumps(report, indent=1))
    else:
        print(report_text(findings, works, fails))
    return int(any(finding.state == "missing" for finding in findings))


def report_text(findings: list[Finding], works: list[str], fails: list[str]) -> str:
    """The report as lines of text; what to do stands under the line it belongs to."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:<8}{finding.name:<11} {finding.text}")
        if finding.todo:
            lines.append(f"{'':<20}-> {finding.todo}")
    for title, entries in (("Will run here", works), ("Will not run here", fails)):
        lines += ["", title, *(f"  - {entry}" for entry in entries or ["nothing"])]
    return "\n".join(lines)


def outlook(torch: dict | None, findings: list[Finding]) -> tuple[list[str], list[str]]:
    """What will run on this machine, and what will not, each with its reason."""
    state = {finding.name: finding.state for finding in findings}
    gpus = torch["gpus"] if torch else []
    bf16 = any(gpu["bf16"] for gpu in gpus)
    table = (
        (bool(torch), "lessons and checks on one device", "every lesson: torch does not start"),
        (torch and torch["gloo"], "several ranks on the CPU (gloo)", "several ranks: no gloo"),
        (bool(gpus), "training on a GPU", "training on a GPU: none was found"),
        (len(gpus) > 1 and torch["nccl"], f"{len(gpus)} ranks on GPUs (NCCL)",
         "ranks on GPUs of their own (NCCL): needs two GPUs; the same code runs on CPU ranks"),
        (bf16, "bf16 at full speed", "timings in bf16: needs a GPU of capability 8.0 or more"),
        (state.get("jupyter") == "ok", "course lab", "course lab: JupyterLab is incomplete"),
        (state.get("nbgrader") == "ok", "grading with nbgrader", "grading with nbgrader"),
    )  # fmt: skip
    return [yes for good, yes, _ in table if good], [no for good, _, no in table if not good]


def _read_torch(process: subprocess.Popen) -> tuple[dict | None, str]:
    """What torch said of itself, or None and the last line of its complaint."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
        return json.loads(out.strip().splitlines()[-1]), ""
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None, f"importing torch took more than {PATIENCE} s"
    except (ValueError, IndexError):
        said = err.strip().splitlines()
        return None, said[-1][:160] if said else f"python ended with status {process.returncode}"


def _torch_findings(asked: dict | None, problem: str) -> list[Finding]:
    if asked is None:
        return [Finding("torch", "missing", problem, 'pip install "torch>=2.11,<2.14"')]
    version = tuple(int(part) for part in re.findall(r"\d+", asked["version"])[:2])
    good = TORCH_RANGE[0] <= version < TORCH_RANGE[1]
    todo = "" if good else 'the course is tested with 2.11 to 2.13: pip install "torch>=2.11,<2.14"'
    gpus = [
        f"{g['name']} ({g['gib']:.0f} GiB, {'bf16' if g['bf16'] else 'no bf16'})"
        for g in asked["gpus"]
    ]
    backends = [name for name in ("gloo", "nccl") if asked[name]]
    return [
        Finding("torch", "ok" if good else "warn", asked["version"], todo),
        Finding("gpu", "ok", ", ".join(gpus) or "none: everything is taught on the CPU as well"),
        Finding(
            "backends",
            "ok" if backends else "missing",
            ", ".join(backends) or "none",
            "" if backends else "this torch was built without torch.distributed: reinstall it",
        ),
    ]


def _machine() -> Finding:
    memory = _memory_gib()
    at = home() if home().exists() else Path.home()
    disk = shutil.disk_usage(at).free / 2**30
    text = f"{_cpu()}, {usable_cores()} cores, {memory:.0f} GiB memory, {disk:.0f} GiB free on disk"
    if memory < 4 or disk < 2:
        return Finding("machine", "warn", text, "4 GiB of memory and 2 GiB of disk are comfortable")
    return Finding("machine", "ok", text)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.machine()


def _memory_gib() -> float:
    """Memory this process may use: the machine's, or less inside a container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        if Path(limit).is_file() and (text := Path(limit).read_text().strip()).isdigit():
            total = min(total, int(text))
    return total / 2**30


def _python() -> Finding:
    good = sys.version_info >= (3, 11)
    todo = "" if good else "the course needs Python 3.11 or newer"
    text = f"{platform.python_version()} at {sys.executable}"
    return Finding("python", "ok" if good else "missing", text, todo)


def _tokenizer() -> Finding:
    from course_lib.data.tokenizer import Tokenizer

    tokenizer, text = Tokenizer.course(), "One rank, two ranks."
    if tokenizer.decode(tokenizer.encode(text)) != text:
        raise ValueError("a text does not come back from its tokens")
    return Finding("tokenizer", "ok", f"{tokenizer.vocab_size:,} tokens, file intact")


def _corpus() -> Finding:
    from course_lib.data.corpus import Corpus

    corpus = Corpus.default()
    size = sum(file.num_bytes for file in corpus.files) / 1e6
    state = "ok" if size > 5 else "warn"
    todo = "" if size > 5 else "this Python lacks parts of its standard library: reinstall it"
    return Finding("corpus", state, f"{len(corpus.files)} files, {size:.1f} MB of text", todo)


def _jupyter() -> Finding:
    versions = {name: importlib.metadata.version(name) for name in ("jupyterlab", "ipykernel")}
    kernels = Path(sys.prefix) / "share/jupyter/lab/static/index.html"
    text = ", ".join(f"{name} {version}" for name, version in versions.items())
    if not kernels.is_file():
        return Finding(
            "jupyter", "warn", text, "JupyterLab's pages are not there: reinstall jupyterlab"
        )
    return Finding("jupyter", "ok", text)


def _nbgrader() -> Finding:
    text = f"nbgrader {importlib.metadata.version('nbgrader')}"
    tools = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    if shutil.which("alembic", path=tools) is None:
        return Finding("nbgrader", "warn", f"{text}, but no alembic command", "pip install alembic")
    return Finding("nbgrader", "ok", text)


def _notebooks() -> Finding:
    known = lessons()
    there = [name for name in known if (home() / "notebooks" / f"{name}.ipynb").is_file()]
    text = f"{len(there)} of {len(known)} lessons in {home()}"
    if not known:
        return Finding("notebooks", "missing", text, "run this in the course folder")
    if len(there) < len(known):
        return Finding("notebooks", "warn", text, "run `course update`")
    return Finding("notebooks", "ok", text)


PROBES: tuple[tuple[str, Callable[[], Finding], str], ...] = (
    ("machine", _machine, ""),
    ("python", _python, ""),
    ("tokenizer", _tokenizer, "reinstall the course: pip install -e . in its folder"),
    ("corpus", _corpus, "reinstall the course: pip install -e . in its folder"),
    ("jupyter", _jupyter, "pip install jupyterlab ipykernel"),
    ("nbgrader", _nbgrader, "pip install nbgrader"),
    ("notebooks", _notebooks, "run this in the course folder"),
)


def _run_probe(name: str, probe: Callable[[], Finding], todo: str) -> Finding:
    """The probe's finding; whatever breaks in it is a finding too."""
    try:
        return probe()
    except importlib.metadata.PackageNotFoundError as error:
        return Finding(name, "missing", f"{error.name} is not installed", todo)
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
        return Finding(name, "missing", first, todo)
