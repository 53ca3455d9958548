"""Batches from a warm file, beside the usual loop.

    python -m benchmarks.batches                      # a file of 100 million tokens
    python -m benchmarks.batches --tokens 1e6 --dry-run

Million tokens per second of `get_batch` and of `BatchLoader`, beside the loop that opens the map
anew for each batch and slices one row at a time, as nanoGPT does (`np.memmap` in `get_batch`,
`torch.stack` over slices). Its starts come from `torch.randint`, so each is a tensor of one number;
the same loop over plain integers is measured too. All take turns: a busy moment hits each of them.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.record import record
from course_lib.data.batches import BatchLoader, get_batch

BATCH_SIZE, SEQ_LEN = 64, 512
ROUNDS = 15


def loop_batch(path: Path, starts: np.ndarray | torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The recipe this course replaces: a fresh map, one slice and one tensor a row."""
    data = np.memmap(path, dtype=np.uint16, mode="r")
    x, y = (
        torch.stack(
            [torch.from_numpy(data[s + d : s + d + SEQ_LEN].astype(np.int64)) for s in starts]
        )
        for d in (0, 1)
    )
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
    for one, other in zip(
        get_batch(tokens, starts, SEQ_LEN), loop_batch(path, starts), strict=True
    ):
        assert torch.equal(one, other)
    work = {
        "get_batch": (lambda s: get_batch(tokens, s, SEQ_LEN), 200),
        "loader": (lambda s: loader.next_batch(), 200),
        "loop": (lambda s: loop_batch(path, torch.from_numpy(s)), 10),
        "integer_loop": (lambda s: loop_batch(path, s), 10),
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
        "get_batch_to_integer_loop": round(best["get_batch"] / best["integer_loop"], 1),
        "loader_to_loop": round(best["loader"] / best["loop"], 1),
        "batch_size": BATCH_SIZE,
        "seq_len": SEQ_LEN,
        "tokens": num_tokens,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batches")
    parser.add_argument("--tokens", type=float, default=1e8, help="tokens in the file [1e8]")
    parser.add_argument("--dry-run", action="store_true", help="print, record nothing")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = gathering(Path(folder), int(args.tokens))
    print(json.dumps(figures, indent=2))
    if not args.dry_run:
        print(f"wrote {record('batches', figures)}")


if __name__ == "__main__":
    main()
