"""One JSON file per benchmark, with what a reader needs to judge or repeat it.

What it is: `record`, which every benchmark calls last. What it leaves out: the measuring.
"""

import datetime
import importlib.metadata
import json
import os
import platform
import sys
from pathlib import Path

from course_lib.runs.machine import usable_cores

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("torch", "numpy", "tiktoken", "triton")


def record(name: str, figures: dict, folder: Path | None = None) -> Path:
    """Write NAME.json in `folder`, or benchmarks/results, and return its path; an older one goes.

    `figures` is JSON, its keys end in their unit: {"encode_mb_per_s": 7.5}. Beside it stand name,
    date (UTC), machine, versions and command. NaN and infinity are a ValueError: they are not JSON.
    """
    content = {
        "name": name,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
        "command": command(),
        "figures": figures,
    }
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    folder = folder or RESULTS
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(text, encoding="utf-8")
    return path


def machine() -> dict:
    """Processor, cores this process may use, memory, system; devices if torch is loaded."""
    facts = {
        "cpu": _cpu_model(),
        "cores": usable_cores(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    torch = sys.modules.get("torch")  # not imported here: seconds for a benchmark without tensors
    if torch and torch.cuda.is_available():
        count = range(torch.cuda.device_count())
        facts["devices"] = [torch.cuda.get_device_name(index) for index in count]
    return facts


def versions() -> dict[str, str]:
    """Python, and those of PACKAGES that are installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def command() -> str:
    """How this process was started: `python -m benchmarks.tokenizer --size 3`; of a path its name."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    program = f"-m {spec.name}" if spec else Path(sys.argv[0]).name
    words = (Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:])
    return " ".join(["python", program, *words])


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):  # no Linux, or a processor that gives no name
        return platform.processor() or "unknown"


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None
