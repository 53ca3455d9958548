"""Speed and compression of the course's tokenizer, beside GPT-2's where its table can be had.

    python -m benchmarks.tokenizer

Both work on the validation files of the default corpus, on one core. The course's ranks were
trained on the sources of the standard library, these files included, so its bytes per token are
those of text it knows; on other text it does worse. "looking_ahead" is tiktoken with GPT-2's pattern
as it is written, without the marks of course_lib/data/gpt2_words.py. MB are 10^6 bytes of UTF-8, seconds are
processor time.
"""

import json
import time
from collections.abc import Callable

from benchmarks.record import record
from course_lib.data.corpus import Corpus
from course_lib.data.tokenizer import Tokenizer

NUM_REPEATS = 5
VALID_FRACTION = 0.1


def best_seconds(work: Callable[[], object]) -> float:
    """Processor time of the shortest of a few runs: other programs only ever add to it."""
    times = []
    for _ in range(NUM_REPEATS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def measure(tokenizer: Tokenizer, documents: list[str]) -> dict:
    """Figures of one tokenizer; fails if a document does not come back as it was."""
    num_bytes = sum(len(text.encode()) for text in documents)
    ids = [tokenizer.encode_to_array(text) for text in documents]
    if [tokenizer.decode(array) for array in ids] != documents:
        raise AssertionError(f"{tokenizer} lost text")
    encode_s = best_seconds(lambda: [tokenizer.encode_to_array(text) for text in documents])
    looks_ahead = tokenizer._encoding.encode_to_numpy
    ahead_s = best_seconds(lambda: [looks_ahead(text, disallowed_special=()) for text in documents])
    decode_s = best_seconds(lambda: [tokenizer.decode(array) for array in ids])
    return {
        "vocab_size": tokenizer.vocab_size,
        "encode_mb_per_s": round(num_bytes / 1e6 / encode_s, 2),
        "looking_ahead_mb_per_s": round(num_bytes / 1e6 / ahead_s, 2),
        "decode_mb_per_s": round(num_bytes / 1e6 / decode_s, 2),
        "bytes_per_token": round(num_bytes / sum(map(len, ids)), 3),
    }


def run() -> dict:
    """Figures of both tokenizers and the text; "gpt2" is None where its table cannot be had."""
    _, valid = Corpus.default().split(VALID_FRACTION)
    documents = [text for _, text in valid.documents()]
    figures = {
        "text": {
            "what": "validation files of the default corpus",
            "files": len(documents),
            "bytes": valid.num_bytes,
            "sha256": valid.sha256,
        },
        "repeats": NUM_REPEATS,
        "course": measure(Tokenizer.course(), documents),
        "gpt2": None,
    }
    try:
        figures["gpt2"] = measure(Tokenizer.gpt2(), documents)
    except ConnectionError:
        figures["gpt2_missing"] = "no network and no cached table"
    return figures


def main() -> None:
    figures = run()
    print(json.dumps(figures, indent=2))
    path = record("tokenizer", figures)
    print(f"wrote {path.parent.parent.name}/{path.parent.name}/{path.name}")


if __name__ == "__main__":
    main()
