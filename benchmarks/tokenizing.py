"""Tokenizing an input that need not fit in memory.

    python -m benchmarks.tokenizing                   # 5 GB of text: minutes
    python -m benchmarks.tokenizing --text-mb 30 --dry-run

Text made by repeating the default corpus. Tokens per second of processor time and of the clock, and
the memory of the process that does it, which runs alone and without torch.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.record import record
from course_lib.data.corpus import Corpus
from course_lib.data.token_store import pretokenize
from course_lib.data.tokenizer import Tokenizer

FILE_BYTES = 1e9  # text is kept in files of at most this


def write_text(folder: Path, megabytes: float) -> None:
    """The default corpus again and again, at least `megabytes`."""
    folder.mkdir()
    once = Corpus.default().text().encode()
    left, number = int(megabytes * 1e6), 0
    while left > 0:
        with (folder / f"{number:04}.txt").open("wb") as stream:
            for _ in range(max(1, round(FILE_BYTES / len(once)))):
                if left > 0:
                    left -= stream.write(once)
        number += 1


def tokenize(text: str, folder: str, threads: int) -> dict:
    """Tokenize in this process; its figures."""
    corpus, tokenizer = Corpus.folder(text), Tokenizer.course()
    before = peak_mb()
    wall, cpu = time.perf_counter(), time.process_time()
    found = pretokenize(corpus, tokenizer, folder, threads=threads, progress=False)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "text_mb": round(corpus.num_bytes / 1e6, 1),
        "tokens": found.num_tokens,
        "mtokens_per_cpu_s": round(found.num_tokens / cpu / 1e6, 2),
        "mtokens_per_s": round(found.num_tokens / wall / 1e6, 2),
        "threads": threads,
        "peak_memory_mb": peak_mb(),
        "memory_before_mb": before,
    }


def peak_mb() -> float:
    """Most memory this program has held. Linux counts what stood here before `exec` in ru_maxrss."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        kilobytes = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
        return round(int(kilobytes) * 1024 / 1e6, 1)
    except OSError:  # macOS, where ru_maxrss is in bytes
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tokenizing")
    parser.add_argument("--text-mb", type=float, default=5000, help="MB of text [5000]")
    parser.add_argument("--threads", type=int, default=1, help="threads that tokenize [1]")
    parser.add_argument("--dry-run", action="store_true", help="print, record nothing")
    parser.add_argument("--alone", nargs=2, metavar=("TEXT", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.alone:
        print(json.dumps(tokenize(*args.alone, args.threads)))
        return
    with tempfile.TemporaryDirectory() as name:
        text, folder = Path(name) / "text", Path(name) / "tokens"
        write_text(text, args.text_mb)
        program = [sys.executable, "-m", "benchmarks.tokenizing", "--threads", str(args.threads)]
        done = subprocess.run(
            [*program, "--alone", str(text), str(folder)], stdout=subprocess.PIPE, check=True
        )
    figures = json.loads(done.stdout)
    print(json.dumps(figures, indent=2))
    if not args.dry_run:
        print(f"wrote {record('tokenizing', figures)}")


if __name__ == "__main__":
    main()
