"""A machine on which torch sees a device, for machines without one: device.cpp, built and loaded."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import torch

SITE = """import ctypes
import torch  # the library needs its symbols

ctypes.CDLL({library!r})
"""


def build(folder: Path) -> Path:
    """The compiled device; takes a second. RuntimeError with the compiler's words when it fails."""
    home, library = Path(torch.__file__).parent, folder / "device.so"
    command = [
        "g++", "-std=c++17", "-O0", "-shared", "-fPIC", f"-I{home / 'include'}",
        str(Path(__file__).with_name("device.cpp")), "-o", str(library),
        f"-L{home / 'lib'}", "-lc10", f"-Wl,-rpath,{home / 'lib'}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return library


def has_compiler() -> bool:
    return shutil.which("g++") is not None


def write_site(folder: Path, library: Path) -> Path:
    """A folder for PYTHONPATH: each Python that starts with it has the device."""
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE.format(library=str(library)), encoding="utf-8")
    return site


def load(library: Path) -> None:
    """Give this process the device."""
    ctypes.CDLL(str(library))
