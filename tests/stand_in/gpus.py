"""A machine with NVIDIA GPUs, as far as NVML and torch.cuda can be asked about them: `write_site`.

The folder it writes, put on PYTHONPATH, makes every Python that starts with it see the GPUs of
`COURSE_TEST_GPUS`, a JSON list of [name, GB in all, GB in use, process ids that hold it]. Nothing can
be computed on them.
"""

import json
from pathlib import Path

VARIABLE = "COURSE_TEST_GPUS"

NVML = f"""
import json
import os
from types import SimpleNamespace

GPUS = json.loads(os.environ["{VARIABLE}"])


class NVMLError(Exception):
    pass


class NVMLError_LibraryNotFound(NVMLError):
    pass


def nvmlInit():
    pass


def nvmlDeviceGetCount():
    return len(GPUS)


def nvmlDeviceGetHandleByIndex(index):
    return GPUS[index]


def nvmlDeviceGetName(gpu):
    return gpu[0]


def nvmlDeviceGetMemoryInfo(gpu):
    return SimpleNamespace(total=gpu[1] * 1e9, used=gpu[2] * 1e9)


def nvmlDeviceGetUtilizationRates(gpu):
    return SimpleNamespace(gpu=0)


def nvmlDeviceGetComputeRunningProcesses(gpu):
    return [SimpleNamespace(pid=pid) for pid in gpu[3]]
"""

SITE = """
import importlib.util
import json
import os
import sys
from types import SimpleNamespace

HERE = os.path.dirname(__file__)


def visible():
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = json.loads(os.environ["COURSE_TEST_GPUS"])
    return gpus if shown is None else [gpus[int(i)] for i in shown.split(",") if i.strip()]


def mimic(cuda):
    capability = lambda i=0: (7, 0) if "V100" in visible()[i][0] else (9, 0)
    cuda.is_available = lambda: bool(visible())
    cuda.device_count = lambda: len(visible())
    cuda.get_device_name = lambda i=0: visible()[i][0]
    cuda.get_device_capability = lambda device=0: capability(getattr(device, "index", device) or 0)
    cuda.get_device_properties = lambda i=0: SimpleNamespace(total_memory=visible()[i][1] * 1e9)


class Finder:
    # torch.cuda is told what to say the moment it is imported
    def find_spec(self, name, path=None, target=None):
        if name != "torch.cuda":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (run(module), mimic(module))
        return spec


sys.meta_path.insert(0, Finder())
find_spec = importlib.util.find_spec  # what a torch for GPUs says in its file version.py
importlib.util.find_spec = lambda name, *more: (
    SimpleNamespace(origin=os.path.join(HERE, "with_cuda", "__init__.py"))
    if name == "torch" else find_spec(name, *more)
)
"""


def write_site(folder: Path) -> Path:
    """A folder for PYTHONPATH."""
    site = folder / "site"
    (site / "with_cuda").mkdir(parents=True)
    (site / "with_cuda" / "version.py").write_text("cuda: str = '13.0'\n", encoding="utf-8")
    (site / "pynvml.py").write_text(NVML, encoding="utf-8")
    (site / "sitecustomize.py").write_text(SITE, encoding="utf-8")
    return site


def tell_gpus(count: int, *, name: str = "NVIDIA H100 80GB HBM3", busy: dict | None = None) -> str:
    """The value of the variable: `count` GPUs of 80 GB; `busy`: a process id by GPU."""
    held = busy or {}
    rows = [
        [name, 80, 60 if i in held else 0.5, [held[i]] if i in held else []] for i in range(count)
    ]
    return json.dumps(rows)
