"""The tokens of a run on many ranks: made by one of them, opened by all.

What it is: who tokenizes, how long the others wait, and the proof that all see the same tokens. What
it leaves out: what `--data` may name (data/sources.py).
"""

from datetime import timedelta

from course_lib.data.sources import identify_tokens, make_tokens, open_tokens
from course_lib.data.token_store import TokenStore
from course_lib.data.tokenizer import Tokenizer
from course_lib.ranks.world import World
from course_lib.training.train_config import TrainConfig

TOKENIZING = timedelta(days=2)  # of a large text


def run_tokens(
    world: World, config: TrainConfig, tokenizer: Tokenizer
) -> tuple[TokenStore, TokenStore | None]:
    """(training tokens, validation tokens) of `config.data`, on every rank of `world`.

    Rank 0 tokenizes what is not in `config.cache` yet, and the others wait for it, for hours if need
    be. ValueError on every rank when there is no text, and when a rank does not see the tokens that
    rank 0 sees, as on machines without a common folder. Collectives: of small pickled objects, in a
    gloo group of their own.
    """
    patient = world.regroup(TOKENIZING)
    folders = patient.do_on_first(
        lambda: make_tokens(
            config.data, tokenizer, cache=config.cache, valid_fraction=config.valid_fraction
        )
    )
    patient.require_same(
        lambda: identify_tokens(folders),
        "all machines need the same tokens, so pass --cache as an absolute path on a disk that they "
        "share (or --data, if it names shards), or copy that folder to each of them",
    )
    return open_tokens(folders, tokenizer)
