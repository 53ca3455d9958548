"""Train byte-pair ranks, and show that the ranks which ship with the course come from their text.

    python -m course_lib.data.train_ranks                 train again, compare with what ships
    python -m course_lib.data.train_ranks --out FOLDER    write the ranks and their record there

What it is: byte-pair encoding (Sennrich et al. 2016, algorithm 1) on bytes (Radford et al. 2019,
section 2.2). Start with 256 tokens, the bytes. Again and again take the pair of neighboring tokens
that is most frequent, make it a token, and put that token wherever the pair stands. The rank of a
token, which is also its id, is its place in the order in which tokens were made.

What it leaves out: speed by threads or compiled code. One core does the course's text in under
a minute, because a merge costs what it changes; the plain loop counts every pair again each time.

1. split the text into words by the pattern of GPT-2, keep each distinct word once, with its count;
2. lay the words out as one chain of tokens with links to the left and right neighbor;
3. for each pair hold its count and its places; a heap holds the pairs, the most frequent first;
4. a merge visits the places of one pair, and corrects the counts of the neighbors it touches.

Ties go to the pair with the smaller ids, left id first, so the result depends on the text alone.
"""

import argparse
import heapq
import platform
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import regex

from course_lib.data.corpus import Corpus
from course_lib.data.tokenizer import COURSE_RANKS, GPT2_PATTERN, read_ranks, write_ranks

NUM_BYTES = 256
VOCAB_SIZE = 8192
NO_TOKEN = -1  # in a chain: border between words, or a place that a merge emptied

Pair = tuple[int, int]


def count_words(texts: Iterable[str], pattern: str = GPT2_PATTERN) -> Counter[bytes]:
    """How often each word of the pattern occurs, as UTF-8 bytes. No word crosses two texts."""
    find = regex.compile(pattern).finditer
    words = Counter()
    for text in texts:
        words.update(match.group() for match in find(text))
    return Counter({word.encode(): count for word, count in words.items()})


class Chain:
    """All distinct words end to end: a linked list of token ids, and the counts of its pairs.

    Place i holds token `ids[i]`; its neighbors stand at `left[i]` and `right[i]`. Words are kept
    apart by places with NO_TOKEN. `weight[i]` is the count of the word that place i belongs to.
    """

    def __init__(self, words: Counter[bytes]):
        self.ids, self.weight = [NO_TOKEN], [0]
        for word, count in sorted(words.items()):
            self.ids += [*word, NO_TOKEN]
            self.weight += [count] * len(word) + [0]
        self.left = list(range(-1, len(self.ids) - 1))
        self.right = list(range(1, len(self.ids) + 1))
        self.counts: Counter[Pair] = Counter()
        self.places: defaultdict[Pair, list[int]] = defaultdict(list)
        for place in range(len(self.ids) - 1):
            self._add(place)
        self.heap = [(-count, pair) for pair, count in self.counts.items()]
        heapq.heapify(self.heap)

    def _pair(self, place: int) -> Pair | None:
        """The pair that begins at a place; None at the border of a word."""
        pair = self.ids[place], self.ids[self.right[place]]
        return None if NO_TOKEN in pair else pair

    def _add(self, place: int) -> Pair | None:
        if pair := self._pair(place):
            self.counts[pair] += self.weight[place]
            self.places[pair].append(place)
        return pair

    def _remove(self, place: int) -> None:
        if pair := self._pair(place):
            self.counts[pair] -= self.weight[place]  # its place stays listed; merge checks each one

    def most_frequent(self) -> Pair | None:
        """The pair with the highest count, the smallest ids among equals; None if none is left."""
        while self.heap:
            count, pair = self.heap[0]
            if -count == self.counts[pair] > 0:
                return pair
            # counts of old pairs only fall, so an entry is never too low: put the true count back
            heapq.heappop(self.heap)
            if self.counts[pair] > 0:
                heapq.heappush(self.heap, (-self.counts[pair], pair))
        return None

    def merge(self, pair: Pair, new_id: int) -> None:
        """Replace the pair by `new_id` wherever it stands, from left to right."""
        grown = set()
        for place in sorted(self.places.pop(pair)):  # "aaa" is "aa" + "a", as in the encoder
            if self._pair(place) == pair:
                grown |= self._merge_at(place, new_id)
        missed = self.counts.pop(pair)
        assert missed == 0, f"{missed} occurrences of {pair} were not merged"
        for new_pair in grown:
            heapq.heappush(self.heap, (-self.counts[new_pair], new_pair))

    def _merge_at(self, place: int, new_id: int) -> set[Pair]:
        """Merge the tokens at `place` and to its right; return the pairs that hold the new one."""
        before, gone = self.left[place], self.right[place]
        after = self.right[gone]
        for start in (before, place, gone):
            self._remove(start)
        self.ids[place], self.ids[gone] = new_id, NO_TOKEN
        self.right[place], self.left[after] = after, place
        return {pair for start in (before, place) if (pair := self._add(start))}


def train(words: Counter[bytes], num_ranks: int) -> dict[bytes, int]:
    """Byte-pair ranks of the counted words: token bytes to id, ids 0..num_ranks-1.

    The 256 single bytes come first, each with its own value as id. ValueError when the words are
    too few for so many tokens.
    """
    if num_ranks < NUM_BYTES:
        raise ValueError(f"num_ranks must be at least {NUM_BYTES}, one per byte, got {num_ranks}")
    tokens = [bytes([value]) for value in range(NUM_BYTES)]
    ranks = {token: rank for rank, token in enumerate(tokens)}
    chain = Chain(words)
    while len(tokens) < num_ranks:
        pair = chain.most_frequent()
        if pair is None:
            raise ValueError(
                f"expected text for {num_ranks} tokens, got text whose words are all merged after "
                f"{len(tokens)}: use more text or fewer tokens"
            )
        token = tokens[pair[0]] + tokens[pair[1]]
        if token not in ranks:  # two pairs may spell one token, which keeps its first id
            ranks[token] = len(tokens)
            tokens.append(token)
        chain.merge(pair, ranks[token])
    return ranks


def origin(corpus: Corpus) -> dict:
    """What the ranks are made from, with the version of Python, since its library changes."""
    return {
        "text": "sources of the Python standard library (course_lib.data.corpus.Corpus.default)",
        "python": platform.python_version(),
        "text_bytes": corpus.num_bytes,
        "text_sha256": corpus.sha256,
    }


def require_same_text(record: dict, made_from: dict) -> None:
    """SystemExit unless this machine has the text that the ranks of the record were trained on."""
    if record["text_sha256"] != made_from["text_sha256"]:
        raise SystemExit(
            f"cannot compare: the ranks that ship were trained on the sources of Python "
            f"{record['python']} ({record['text_bytes']:,} bytes), here are those of Python "
            f"{made_from['python']} ({made_from['text_bytes']:,} bytes)"
        )


def main() -> None:
    """Train on the default corpus; compare with the shipped ranks, or write to `--out`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder for course_8192.tiktoken and its record")
    args = parser.parse_args()
    corpus = Corpus.default()
    made_from = origin(corpus)
    shipped = None
    if args.out is None:
        shipped, record = read_ranks(COURSE_RANKS)
        require_same_text(record, made_from)
    start = time.perf_counter()
    ranks = train(count_words(corpus.pieces()), VOCAB_SIZE - 1)  # the last id is the end of text
    print(f"{len(ranks):,} ranks from {corpus} in {time.perf_counter() - start:.1f} s")
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        write_ranks(args.out / COURSE_RANKS.name, ranks, made_from)
        print(f"wrote {args.out / COURSE_RANKS.name}")
    elif ranks == shipped:
        print("reproduced: the same text gives the same ranks")
    else:
        raise SystemExit("the same text gave other ranks than those that ship: fix the trainer")


if __name__ == "__main__":
    main()
