"""Which GPUs there are, who holds their memory, how busy they are: asked without torch.

torch would open every GPU in the notebook's own process and hold some hundred MB of each from then
on. NVML (the package nvidia-ml-py) answers in milliseconds and holds nothing. Without it the
driver's program or its device files say how many GPUs there are, and there are no gauges.
"""

import importlib.util
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 0.7  # for nvidia-smi, which can take seconds to wake a driver


@dataclass(frozen=True)
class Gpu:
    """One GPU as a process on this machine would see it. Numbers are None where nobody says."""

    name: str = "GPU"
    total_gb: float | None = None
    used_gb: float | None = None
    busy_percent: int | None = None
    holders: tuple[int, ...] = ()
    """Process ids that hold memory of it."""

    def text(self) -> str:
        """ "H200, 2.1 of 150.8 GB used, 35 % busy"."""
        parts = [self.name]
        if self.total_gb is not None and self.used_gb is not None:
            parts.append(f"{self.used_gb:.1f} of {self.total_gb:.1f} GB used")
        if self.busy_percent is not None:
            parts.append(f"{self.busy_percent} % busy")
        return ", ".join(parts)


def usable() -> tuple[list[Gpu], str]:
    """The GPUs that torch could use here, and why there is none ("" when there are some)."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and not visible.strip(" ,"):
        return [], "CUDA_VISIBLE_DEVICES is empty"
    gpus = chosen(found(), visible)
    if not gpus:
        return [], "no GPU found"
    if not torch_has_cuda():
        return [], "this torch is built without CUDA"
    return gpus, ""


def gauges() -> list[Gpu]:
    """The visible GPUs with their load, where NVML tells it; in milliseconds."""
    return chosen(_by_nvml() or [], os.environ.get("CUDA_VISIBLE_DEVICES"))


def found() -> list[Gpu]:
    """All NVIDIA GPUs of this machine, in the driver's order."""
    gpus = _by_nvml()
    if gpus is None:
        gpus = [Gpu() for p in Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", p.name)]
        gpus = _by_program() or gpus
    return gpus


def chosen(gpus: list[Gpu], visible: str | None) -> list[Gpu]:
    """Those that CUDA_VISIBLE_DEVICES names; as CUDA does, up to the first that is not there."""
    if visible is None:
        return gpus
    kept = []
    for entry in visible.split(","):
        entry = entry.strip()
        if entry.isdigit() and int(entry) < len(gpus):
            kept.append(gpus[int(entry)])
        elif entry.startswith(("GPU-", "MIG-")) and gpus:
            kept.append(Gpu())  # named by its id: there, and that is all we know
        else:
            break
    return kept


def torch_has_cuda() -> bool:
    """Whether the installed torch can use GPUs; read from its files, torch is not imported."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return False
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return True
    built = re.search(r"^(?:cuda|hip)\b[^=\n]*= *['\"]", text, re.MULTILINE)
    return built is not None


def _by_nvml() -> list[Gpu] | None:
    """What NVML says; None where the package or the driver is missing."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        return [_asked(pynvml, pynvml.nvmlDeviceGetHandleByIndex(i)) for i in range(count)]
    except pynvml.NVMLError:
        return None


def _asked(pynvml, handle) -> Gpu:
    """One GPU; a question that this GPU does not answer (MIG, old drivers) leaves its field out."""

    def ask(function, *args):
        try:
            return function(handle, *args)
        except pynvml.NVMLError:
            return None

    name, memory = ask(pynvml.nvmlDeviceGetName), ask(pynvml.nvmlDeviceGetMemoryInfo)
    busy = ask(pynvml.nvmlDeviceGetUtilizationRates)
    holders = ask(pynvml.nvmlDeviceGetComputeRunningProcesses) or []
    return Gpu(
        name=name.decode() if isinstance(name, bytes) else name or "GPU",
        total_gb=memory.total / 1e9 if memory else None,
        used_gb=memory.used / 1e9 if memory else None,
        busy_percent=busy.gpu if busy else None,
        holders=tuple(sorted({process.pid for process in holders})),
    )


def _by_program() -> list[Gpu]:
    """What nvidia-smi says, if it says it soon."""
    ask = [
        "nvidia-smi",
        "--query-gpu=name,memory.total,memory.used",
        "--format=csv,noheader,nounits",
    ]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.rsplit(",", 2) for line in done.stdout.splitlines() if line.count(",") >= 2]
    mib = 2**20 / 1e9
    return [
        Gpu(name.strip(), float(total) * mib, float(used) * mib)
        for name, total, used in rows
        if total.strip().isdigit() and used.strip().isdigit()
    ]
