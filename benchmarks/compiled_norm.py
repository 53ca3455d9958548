"""RMSNorm as Inductor compiles it, beside the eager one and a copy of its input.

    python -m benchmarks.compiled_norm

Seconds of the first call with an empty cache, then the fastest of many calls, the three in turn, on
one core; and the largest difference between the results. The script is that of lesson 15.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.record import record

LESSON = Path(__file__).resolve().parents[1] / "notebooks" / "15_compile.ipynb"
SCRIPT = "%%writefile compile_it.py\n"


def read_script() -> str:
    """The script that the lesson runs."""
    cells = json.loads(LESSON.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    return next(text for text in texts if text.startswith(SCRIPT)).removeprefix(SCRIPT)


def measure() -> dict:
    """What the script prints; RuntimeError when it could not compile."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {
            "TORCHINDUCTOR_CACHE_DIR": cache,
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        }
        done = subprocess.run(
            [sys.executable, "-c", read_script()],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
    found = json.loads(done.stdout.splitlines()[-1])
    if "problem" in found:
        raise RuntimeError(found["problem"])
    return found


def main() -> None:
    """Measure, and write benchmarks/results/compiled_norm.json."""
    found = measure()
    figures = {
        "first_call_s": round(found["first"], 1),
        **{f"{name}_ms": round(found[name], 2) for name in ("eager", "compiled", "copy")},
        "largest_difference": float(f"{found['apart']:.0e}"),
    }
    print(figures)
    record("compiled_norm", figures)


if __name__ == "__main__":
    main()
