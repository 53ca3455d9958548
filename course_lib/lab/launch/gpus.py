"""Which GPUs there are, who holds their memory, how busy they are: asked without torch.

torch would open every GPU in the notebook's own process and hold some hundred MB of each from then
on. NVML answers in milliseconds and holds nothing. It needs NVIDIA's driver: where that does not
answer, how many GPUs there are is not known, and none is used.
"""

import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pynvml

CROWDED = 0.05  # of the memory; a GPU that nobody uses reports less for its driver


@dataclass(frozen=True)
class Gpu:
    """One GPU as a process on this machine would see it. Numbers are None where nobody says."""

    name: str = "GPU"
    total_gb: float | None = None
    used_gb: float | None = None
    busy_percent: int | None = None
    holders: tuple[int, ...] = ()
    """Process ids that hold memory of it, of those that can be seen from here."""

    @property
    def is_used(self) -> bool:
        """Whether somebody holds memory of it, seen or not, or keeps it busy."""
        share = (self.used_gb or 0) / (self.total_gb or 1)
        return bool(self.holders) or share > CROWDED or bool(self.busy_percent)

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
    try:
        gpus = chosen(_ask_nvml(), visible)
    except pynvml.NVMLError_LibraryNotFound:
        return [], "no NVIDIA driver found"
    except pynvml.NVMLError as problem:
        return [], f"number of GPUs unknown: NVML says {problem}"
    if not gpus:
        return [], "no GPU found"
    if not torch_has_cuda():
        return [], "this torch is built without CUDA"
    return gpus, ""


def gauges() -> list[Gpu]:
    """The visible GPUs with their load, where NVML tells it; in milliseconds."""
    try:
        return chosen(_ask_nvml(), os.environ.get("CUDA_VISIBLE_DEVICES"))
    except pynvml.NVMLError:
        return []


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


def _ask_nvml() -> list[Gpu]:
    """All NVIDIA GPUs of this machine, in the driver's order; NVMLError without a driver."""
    pynvml.nvmlInit()
    count = pynvml.nvmlDeviceGetCount()
    return [_ask_device(pynvml.nvmlDeviceGetHandleByIndex(index)) for index in range(count)]


def _ask_device(handle) -> Gpu:
    """One GPU; a question that this GPU does not answer (MIG, old drivers) leaves its field out."""

    def ask(function):
        try:
            return function(handle)
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
