"""What Nsight Systems found: the tables of `nsys stats`, as rows with seconds.

What it is: a reader of two reports, one row a kernel or one row an NVTX range, and the call of nsys
that makes them. What it leaves out: recording (`nsys profile`), and the time line, for which there is
the program of that name.

Source: NVIDIA, Nsight Systems, Post-Collection Analysis Guide, reports cuda_gpu_kern_sum and
nvtx_sum; User Guide, options of `nsys stats`. Headings differ by version and by `--timeunit`, so
columns are found by their words.
"""

import csv
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from course_lib.measure.kernels import decode

REPORTS = ("cuda_gpu_kern_sum", "nvtx_sum")
SECONDS = {"ns": 1e-9, "nsec": 1e-9, "us": 1e-6, "usec": 1e-6, "μs": 1e-6, "µs": 1e-6,
           "ms": 1e-3, "msec": 1e-3, "s": 1.0, "sec": 1.0}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One kernel or one range, over all its runs."""

    name: str
    count: int
    total_s: float
    mean_s: float

    @property
    def multiplies(self) -> bool:
        """Whether the name is that of a matrix product."""
        return bool(decode(self.name))


def read(text: str) -> list[Row]:
    """The rows of the first table in what `nsys stats --format csv` printed; longest total first.

    Lines before the heading are nsys's own messages. A report without data gives no rows; ValueError
    for text in which no table of kernels or ranges is found.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if "Total Time" in line and "," in line), None)
    if start is None:
        if re.search(r"SKIPPED|does not contain", text):
            return []
        raise ValueError(
            f"expected a table of nsys stats with a column Total Time, got {text.strip()[:60]!r}: "
            f"pass what `nsys stats --report {REPORTS[0]} --format csv REPORT.nsys-rep` printed"
        )
    end = next((i for i in range(start, len(lines)) if not lines[i].strip()), len(lines))
    table = [row for row in csv.DictReader(lines[start:end]) if None not in row.values()]
    return sorted((_row(row) for row in table), key=lambda row: -row.total_s)


def stats(recording: str | Path, report: str = "cuda_gpu_kern_sum") -> list[Row]:
    """The rows of one of REPORTS, from a file that `nsys profile` wrote.

    A colon and an option may follow: in "cuda_gpu_kern_sum:nvtx-name" the name of a kernel begins
    with that of its range. ValueError when nsys is not installed, the file is not there, or nsys refuses it.
    """
    if report.split(":")[0] not in REPORTS:
        raise ValueError(f"report must be one of {', '.join(REPORTS)}, got {report!r}")
    if not Path(recording).is_file():
        raise ValueError(f"no recording at {recording}: make one with `nsys profile --output=...`")
    if not (program := shutil.which("nsys")):
        raise ValueError(
            "nsys is not on the PATH: it comes with the CUDA toolkit or as Nsight Systems from "
            "developer.nvidia.com; where it is, run `nsys stats --format csv` and pass its output "
            "to course_lib.measure.nsys.read"
        )
    command = [program, "stats", "--report", report, "--format", "csv", "--force-export=true"]
    done = subprocess.run([*command, str(recording)], capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise ValueError(f"nsys stats ended with {done.returncode}: {said[-1] if said else ''}")
    return read(done.stdout)


def _row(found: dict[str, str]) -> Row:
    """One line of the table. nvtx_sum calls the name Range; some versions put a colon before it."""
    columns = {re.sub(r"\s*[(\[].*", "", key.strip()): key for key in found}
    name = columns.get("Name") or columns.get("Range")
    unit = re.search(r"[(\[](\w+)[)\]]", columns["Total Time"])
    if not (name and "Instances" in columns and unit and unit[1] in SECONDS):
        raise ValueError(
            f"expected the columns Name or Range, Instances and Total Time (ns), "
            f"got {', '.join(found)}"
        )
    seconds = float(found[columns["Total Time"]]) * SECONDS[unit[1]]
    count = int(found[columns["Instances"]])
    return Row(found[name].removeprefix(":"), count, seconds, seconds / max(count, 1))
