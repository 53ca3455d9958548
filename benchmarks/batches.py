"""Batches from a warm file, and tokenizing of an input that need not fit in memory.

    python -m benchmarks.batches                      # 100 million tokens, 5 GB of text: minutes
    python -m benchmarks.batches --tokens 1e6 --text-mb 8 --dry-run

Gathering: million tokens per second of `get_batch` and of `BatchLoader`, beside the loop that opens
the map anew for each batch and slices one row at a time, as nanoGPT does (`np.memmap` in
`get_batch`, `torch.stack` over slices). All take turns, so a busy moment hits each of them.

Tokenizing: text made by repeating the default corpus, tokens per second of processor time, and the
peak memory of the process that does it, which runs alone.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.record import record
from course_lib.batches import BatchLoader, get_batch
from course_lib.corpus import Corpus
from course_lib.shards import pretokenize
from course_lib.tokenizer import Tokenizer

BATCH_SIZE, SEQ_LEN = 64, 512
ROUNDS = 15


def loop_batch(path: Path, starts: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """The recipe this course replaces: a fresh map, one slice and one tensor a row."""
    data = np.memmap(path, dtype=np.uint16, mode="r")
    x, y = (
        torch.stack([torch.from_numpy(data[s + d : s + d + SEQ_LEN].astype(np.int64))
                     for s in starts])
        for d in (0, 1)
    )  # fmt: skip
    return x, y


def gathering(folder: Path, num_tokens: int) -> dict:
    """Million tokens per second from a file whose pages are in memory, the best of some rounds."""
    path = folder / "tokens.bin"
    generator = np.random.default_rng(0)
    generator.integers(8192, size=num_tokens, dtype=np.uint16).tofile(path)
    tokens = np.memmap(path, dtype=np.uint16, mode="r").view(np.ndarray)
    tokens.max()  # touch every page
    loader = BatchLoader(tokens, batch_size=BATCH_SIZE, seq_len=SEQ_LEN)
    starts = generator.integers(num_tokens - SEQ_LEN, size=BATCH_SIZE)
    for one, other in zip(get_batch(tokens, starts, SEQ_LEN), loop_batch(path, starts),
                          strict=True):  # fmt: skip
        assert torch.equal(one, other)
    work = {
        "get_batch": (lambda s: get_batch(tokens, s, SEQ_LEN), 200),
        "loader": (lambda s: loader.next_batch(), 200),
        "loop": (lambda s: loop_batch(path, s), 10),
    }
    best = dict.fromkeys(work, 0.0)
    for _ in range(ROUNDS):
        for name, (draw, repeats) in work.items():
            drawn = generator.integers(num_tokens - SEQ_LEN, size=(repeats, BATCH_SIZE))
            began = time.perf_counter()
            for s in drawn:
                draw(s)
            seconds = (time.perf_counter() - began) / repeats
            best[name] = max(best[name], BATCH_SIZE * SEQ_LEN / seconds / 1e6)
    return {f"{name}_mtokens_per_s": round(rate, 1) for name, rate in best.items()} | {
        "get_batch_to_loop": round(best["get_batch"] / best["loop"], 1),
        "loader_to_loop": round(best["loader"] / best["loop"], 1),
        "batch_size": BATCH_SIZE, "seq_len": SEQ_LEN, "tokens": num_tokens,
    }  # fmt: skip


def tokenizing(folder: Path, text_mb: int, threads: int) -> dict:
    """What a fresh process needs to tokenize `text_mb` MB, kept in files of at most 1,000 MB."""
    text = folder / "text"
    text.mkdir()
    once = Corpus.default().text().encode()
    left, number = int(text_mb * 1e6), 0
    while left > 0:
        with (text / f"{number:04}.txt").open("wb") as stream:
            for _ in range(max(1, round(1e9 / len(once)))):
                if left > 0:
                    left -= stream.write(once)
        number += 1
    args = [str(text), str(folder / "tokens"), str(threads)]
    command = [sys.executable, "-m", "benchmarks.batches", "--alone", *args]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def alone(text: str, folder: str, threads: str) -> dict:
    """Tokenize in this process; its figures."""
    corpus, tokenizer = Corpus.folder(text), Tokenizer.course()
    before = peak_mb()
    wall, cpu = time.perf_counter(), time.process_time()
    found = pretokenize(corpus, tokenizer, folder, threads=int(threads))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "text_mb": round(corpus.num_bytes / 1e6, 1),
        "tokens": found.num_tokens,
        "mtokens_per_cpu_s": round(found.num_tokens / cpu / 1e6, 2),
        "mtokens_per_s": round(found.num_tokens / wall / 1e6, 2),
        "threads": int(threads),
        "peak_memory_mb": peak_mb(),
        "memory_before_mb": before,
    }


def peak_mb() -> float:
    """Largest memory of this process so far; ru_maxrss is in KiB, on macOS in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6, 1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batches")
    parser.add_argument("--tokens", type=float, default=1e8, help="tokens in the file [1e8]")
    parser.add_argument("--text-mb", type=float, default=5000, help="MB of text [5000]")
    parser.add_argument("--threads", type=int, default=1, help="threads that tokenize [1]")
    parser.add_argument("--dry-run", action="store_true", help="print, record nothing")
    parser.add_argument("--alone", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.alone:
        print(json.dumps(alone(*args.alone)))
        return
    with tempfile.TemporaryDirectory() as folder:
        figures = {
            "gathering": gathering(Path(folder), int(args.tokens)),
            "tokenizing": tokenizing(Path(folder), args.text_mb, args.threads),
        }
    print(json.dumps(figures, indent=2))
    if not args.dry_run:
        print(f"wrote {record('batches', figures)}")


if __name__ == "__main__":
    main()
