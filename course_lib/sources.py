"""The tokens of a training run: found in shards, or made from text once and kept.

What it is: what `--data` may name, and the split of a text into training and validation. What it
leaves out: shards themselves (shards.py), batches (batches.py).
"""

import hashlib
import time
from pathlib import Path

from course_lib.corpus import Corpus
from course_lib.shards import INDEX, Shards, pretokenize
from course_lib.tokenizer import Tokenizer
from course_lib.train_config import TrainConfig
from course_lib.world import World

PARTS = ("train", "valid")


def training_tokens(
    config: TrainConfig, tokenizer: Tokenizer, world: World
) -> tuple[Shards, Shards | None]:
    """(training tokens, validation tokens) of the text that `config.data` names.

    A folder of shards is used as it is: its sub-folders "train" and "valid", or all of it for
    training and none for validation. Text is tokenized by rank 0 into `config.cache`, on first use;
    the other ranks wait for the index, which is written last. ValueError when there is no text.
    """
    folder = Path(config.data) if config.data else None
    if folder and (folder / INDEX).is_file():
        return Shards.open(folder, tokenizer), None
    if folder and (folder / PARTS[0] / INDEX).is_file():
        train, valid = (folder / part for part in PARTS)
        has_valid = (valid / INDEX).is_file()
        return Shards.open(train, tokenizer), Shards.open(valid, tokenizer) if has_valid else None
    corpus = Corpus.folder(folder) if folder else Corpus.default()
    target = Path(config.cache) / _name(corpus, tokenizer, config.valid_fraction)
    if world.is_first:
        for part, half in zip(PARTS, corpus.split(config.valid_fraction), strict=True):
            if not (target / part / INDEX).is_file():
                pretokenize(half, tokenizer, target / part)
    while not all((target / part / INDEX).is_file() for part in PARTS):
        time.sleep(0.1)  # no collective: they end after a minute, and a large text takes longer
    train, valid = (Shards.open(target / part, tokenizer) for part in PARTS)
    return train, valid


def _name(corpus: Corpus, tokenizer: Tokenizer, valid_fraction: float) -> str:
    """A folder name that changes with the names and sizes of the files, and with the vocabulary."""
    facts = [(file.name, file.num_bytes) for file in corpus.files]
    told = repr((facts, tokenizer.name, tokenizer.vocab_size, valid_fraction))
    return f"{corpus.root.name}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"
