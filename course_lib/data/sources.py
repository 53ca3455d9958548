"""The tokens of a training run: found in shards, or made from text once and kept.

What it is: what `--data` may name, and the split of a text into training and validation. What it
leaves out: shards themselves (token_store.py), batches (batches.py).
"""

import hashlib
import time
from pathlib import Path

from course_lib.data.corpus import Corpus
from course_lib.data.token_store import INDEX, TokenStore, pretokenize
from course_lib.data.tokenizer import Tokenizer

PARTS = ("train", "valid")


def training_tokens(
    data: str | Path | None,
    tokenizer: Tokenizer,
    *,
    cache: str | Path,
    valid_fraction: float,
    is_first: bool = True,
) -> tuple[TokenStore, TokenStore | None]:
    """(training tokens, validation tokens) of the text that `data` names.

    A folder of shards is used as it is: its sub-folders "train" and "valid", or all of it for
    training and none for validation. A folder of text, or without `data` the text that every
    machine has, is split by `valid_fraction` and tokenized into the folder `cache`, on first use, by
    the rank that `is_first`; the others wait for the index, which is written last. ValueError when
    there is no text.
    """
    folder = Path(data) if data else None
    if folder and (folder / INDEX).is_file():
        return TokenStore.open(folder, tokenizer), None
    if folder and (folder / PARTS[0] / INDEX).is_file():
        train, valid = (folder / part for part in PARTS)
        has_valid = (valid / INDEX).is_file()
        return TokenStore.open(train, tokenizer), TokenStore.open(
            valid, tokenizer
        ) if has_valid else None
    corpus = Corpus.folder(folder) if folder else Corpus.default()
    target = Path(cache) / _name(corpus, tokenizer, valid_fraction)
    if is_first:
        for part, half in zip(PARTS, corpus.split(valid_fraction), strict=True):
            if not (target / part / INDEX).is_file():
                pretokenize(half, tokenizer, target / part)
    while not all((target / part / INDEX).is_file() for part in PARTS):
        time.sleep(0.1)  # no collective: they end after a minute, and a large text takes longer
    first, second = (TokenStore.open(target / part, tokenizer) for part in PARTS)
    return first, second


def _name(corpus: Corpus, tokenizer: Tokenizer, valid_fraction: float) -> str:
    """A folder name that changes with the names and sizes of the files, and with the vocabulary."""
    facts = [(file.name, file.num_bytes) for file in corpus.files]
    told = repr((facts, tokenizer.name, tokenizer.vocab_size, valid_fraction))
    return f"{corpus.root.name}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"
