"""The tokens of a training run: found in shards, or made from text once and kept.

What it is: what `--data` may name, and the split of a text into training and validation. What it
leaves out: shards themselves (token_store.py), batches (batches.py).
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from course_lib.data.corpus import Corpus
from course_lib.data.token_store import INDEX, PLAN, TokenStore, pretokenize
from course_lib.data.tokenizer import Tokenizer

PARTS = ("train", "valid")


def make_tokens(
    data: str | Path | None,
    tokenizer: Tokenizer,
    *,
    cache: str | Path,
    valid_fraction: float,
) -> list[Path]:
    """The folders of the training tokens and of the validation tokens, if any, of a text.

    A folder of shards is used as it is: its sub-folders "train" and "valid", or all of it for
    training and none for validation. A folder of text, or without `data` the text that every
    machine has, is split by `valid_fraction` and tokenized into the folder `cache`, on first use.
    For a large text that takes hours; a second process waits for the first, as `pretokenize` says.
    Files that were changed and kept their size are not noticed: delete `cache` then. ValueError when
    there is no text, fewer than two files, or a fraction outside 0 to 1.
    """
    folder = Path(data) if data else None
    if folder and (folder / INDEX).is_file():
        return [folder]
    if folder and (folder / PARTS[0] / INDEX).is_file():
        return [folder / part for part in PARTS if (folder / part / INDEX).is_file()]
    corpus = Corpus.folder(folder) if folder else Corpus.default()
    target = Path(cache) / _name(corpus, tokenizer, valid_fraction)
    for part, half in zip(PARTS, corpus.split(valid_fraction), strict=True):
        if not (target / part / INDEX).is_file():
            pretokenize(half, tokenizer, target / part)
    return [target / part for part in PARTS]


def open_tokens(
    folders: Sequence[Path], tokenizer: Tokenizer
) -> tuple[TokenStore, TokenStore | None]:
    """What `make_tokens` has made; None for validation where there is no folder for it."""
    train, *valid = (TokenStore.open(folder, tokenizer) for folder in folders)
    return train, valid[0] if valid else None


def identify_tokens(folders: Sequence[Path]) -> list[str]:
    """For each folder its name and the beginning of a sha256 of its plan and its index.

    Two machines for which the results are equal have the same tokens. Without an index the text
    says that there is none.
    """
    found = []
    for folder in folders:
        files = [folder / name for name in (PLAN, INDEX)]
        if not files[-1].is_file():
            found.append(f"no {INDEX} in {folder}")
            continue
        facts = b"".join(file.read_bytes() for file in files if file.is_file())
        found.append(f"{folder} ({hashlib.sha256(facts).hexdigest()[:8]})")
    return found


def _name(corpus: Corpus, tokenizer: Tokenizer, valid_fraction: float) -> str:
    """A folder name that changes with the names and sizes of the files, and with the vocabulary."""
    facts = [(file.name, file.num_bytes) for file in corpus.files]
    told = repr((facts, tokenizer.name, tokenizer.vocab_size, valid_fraction))
    return f"{corpus.root.name}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"
