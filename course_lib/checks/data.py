"""Checks of lesson 08, first part: encode_documents.

Oracle: plain lists, with a tokenizer of one id a character and one of bytes.
"""

import itertools
from collections.abc import Iterable

import numpy as np

from course_lib.checks import arrays
from course_lib.checks.calls import expect_kept_arrays
from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite
from course_lib.data.tokenizer import CharTokenizer
from course_lib.probes.byte_tokenizer import ByteTokenizer, CachingTokenizer
from course_lib.probes.one_pass import OnePass

SMALL = CharTokenizer(vocab_size=200)
WIDE = CharTokenizer(vocab_size=300)
LARGE = CharTokenizer(vocab_size=50_257, first=40_000)


def one_row(subject: Subject, draw: Draw) -> None:
    """Texts in, one row of whole numbers out."""
    out = subject.call(["ab", "c"], SMALL)
    arrays.array(out, shape=None, tried='["ab", "c"], one id a character')
    if out.dtype.kind == "f":
        raise Wrong(
            "TOK-FLOAT",
            "the ids are floating-point numbers",
            expected="uint16",
            got=f"{out.dtype}: {arrays.row(out)}",
            look="the dtype of every part that is joined.",
            fits="an empty array in front, which is float64 unless it is told otherwise.",
        )


def sixteen_bits(subject: Subject, draw: Draw) -> None:
    """Two bytes an id, without a sign: 50,256 stays 50,256."""
    texts = ["ab", "c"]
    out = arrays.array(subject.call(texts, LARGE), shape=None)
    facts = dict(
        tried="ids from 40,000 on, of a vocabulary of 50,257",
        expected=f"uint16: {arrays.row(_ids(texts, LARGE))}",
        got=f"{out.dtype}: {arrays.row(out)}",
    )
    if out.dtype == np.uint16:
        return
    if out.dtype == np.int16:
        raise Wrong(
            "TOK-INT16",
            "the ids turned negative",
            look="the dtype.",
            fits="int16, whose largest number is 32,767.",
            hides="in a small vocabulary nothing happens: ids below 32,768 fit.",
            **facts,
        )
    if out.dtype == np.uint8:
        raise Wrong(
            "TOK-UINT8",
            "the ids lost their upper half",
            look="the dtype.",
            fits="uint8, whose largest number is 255.",
            **facts,
        )
    raise Wrong(
        "TOK-WIDE",
        f"each id takes {out.dtype.itemsize} bytes, not 2",
        look="the dtype of the end of text, and of lists that become arrays.",
        fits="one wider part makes the whole row wide when they are joined.",
        **facts,
    )


def document_ends(subject: Subject, draw: Draw) -> None:
    """Each document is followed by one end of text: counted, then compared."""
    texts = ["abc", "de", "fghi", "j"][: draw.size(3, 4)]
    end = SMALL.end_of_text
    out, reference = subject.call(texts, SMALL), _ids(texts, SMALL)
    bare = [SMALL.encode(text) for text in texts]
    joined = sum(bare, [])
    first = [id for ids in bare for id in (end, *ids)]
    tried = f"{texts}, end of text {end}"
    arrays.compare(
        out,
        reference,
        [
            (
                "TOK-NO-END",
                joined,
                "the documents run into each other",
                "no end of text at all.",
                "`tokenizer.end_of_text`.",
            ),
            (
                "TOK-END-BETWEEN",
                reference[:-1],
                "the last document has no end",
                "an end between documents only.",
                "what follows the last document.",
            ),
            (
                "TOK-END-ONCE",
                [*joined, end],
                "one end for all documents",
                "the end of text added once, after everything.",
                "whether the end stands inside the loop.",
            ),
            (
                "TOK-END-FIRST",
                first,
                "the end stands in front of each document",
                "the end joined before the text.",
                "the order inside the loop.",
            ),
            (
                "TOK-END-ID",
                [end + 1 if id == end else id for id in reference],
                "the end of text has another id",
                "`vocab_size`, which is one beyond the highest id.",
                "`tokenizer.end_of_text`.",
            ),
            (
                "TOK-END-ID",
                [0 if id == end else id for id in reference],
                "the end of text has another id",
                "0 as the end.",
                "`tokenizer.end_of_text`.",
            ),
            (
                "TOK-END-AS-TEXT",
                _ids([t + "<|endoftext|>" for t in texts], SMALL, end=False),
                "the end of text came out as its thirteen letters",
                "the text of the end encoded like any other text.",
                "`tokenizer.end_of_text` is an id already.",
            ),
            (
                "TOK-LAST-ONLY",
                _ids(texts[-1:], SMALL),
                "one document is left of all",
                "a row that each document overwrites.",
                "what the loop collects.",
            ),
            (
                "TOK-FIRST-ONLY",
                _ids(texts[:1], SMALL),
                "one document is left of all",
                "a `return` inside the loop.",
                "the indentation of `return`.",
            ),
            (
                "TOK-REVERSED",
                _ids(texts[::-1], SMALL),
                "the documents changed their order",
                "the last document first.",
                "the order of joining.",
            ),
        ],
        tried=tried,
    )


def any_text(subject: Subject, draw: Draw) -> None:
    """Every character counts: space at the ends, the name of the end, characters beyond ASCII."""
    for texts, words in (
        (["  a\n", "\n", "b\t "], "white space at the ends"),
        (["a<|endoftext|>b", "<|endoftext|>"], "texts that hold the name of the end"),
        (["\xe9\xb5", "A\xb5"], "capitals and accents"),
    ):
        out = arrays.array(subject.call(texts, WIDE), shape=None)
        if out.tolist() != _ids(texts, WIDE):
            raise Wrong(
                "TOK-TEXT-CHANGED",
                "a text is changed before it is encoded",
                tried=f"{words}: {texts}",
                expected=arrays.row(_ids(texts, WIDE)),
                got=arrays.row(out),
                look="`strip`, `split`, `replace`, `lower`: a document is encoded as it is.",
            )


def any_end(subject: Subject, draw: Draw) -> None:
    """The end of text is the id that the tokenizer names, be it the first, the last or another."""
    texts = ["xy", "z"]
    for end in (0, draw.size(5, 7), 299):
        tokenizer = ByteTokenizer(end_of_text=end)
        last, bare = _ids(texts, tokenizer), _ids(texts, tokenizer, end=False)
        known = [
            (
                "TOK-END-ID",
                [299 if id == end else id for id in last],
                "the end of text has another id",
                "`vocab_size - 1`, which another tokenizer may use otherwise.",
                "`tokenizer.end_of_text`.",
            ),
            (
                "TOK-NO-END",
                bare,
                "an end of text whose id is 0 vanished",
                "0 taken for no id.",
                "`or`, and an `if` that asks for the id itself.",
            ),
        ]
        out = subject.call(texts, tokenizer)
        arrays.compare(out, last, known, tried=f"{texts}, end of text {end}, a vocabulary of 300")


def ids_not_characters(subject: Subject, draw: Draw) -> None:
    """A character may have several ids, and several characters may have one."""
    tokenizer = ByteTokenizer(end_of_text=299)
    for texts, words in (
        (["\U0001f600!", "x"], "a character of four bytes, four ids"),
        (["abab", "x"], 'a text in which "ab" is a single id'),
        (["xa", "bx"], '"ab" is a single id, but here a document ends in between'),
    ):
        reference = _ids(texts, tokenizer)
        facts = dict(
            tried=f"{words}: {texts}",
            expected=arrays.row(reference),
            fits="places or lengths counted in characters, or texts that are joined first.",
            look="`len(text)`: the number of ids is that of the encoded text.",
        )
        try:
            out = subject.call(texts, tokenizer)
        except AnswerError as failure:
            got = arrays.error_line(failure)
            raise Wrong("TOK-CHARACTERS", "some texts are an error", got=got, **facts) from None
        if arrays.array(out, shape=None).tolist() != reference:
            got = arrays.row(out)
            raise Wrong("TOK-CHARACTERS", "ids are taken for characters", got=got, **facts)


def each_document(subject: Subject, draw: Draw) -> None:
    """A document that came before, or begins like another, is encoded like any other."""
    _expect_ids(
        subject,
        ["abcd", "abce", "abcd", "abc", "abcd"],
        SMALL,
        "documents that are alike are mixed up, or left out",
        fits="a set, a dict or a cache of documents.",
        look="what is remembered from one document to the next.",
    )
    _expect_ids(
        subject,
        ["xyz", "k", "xyz", "xyz"],
        CachingTokenizer(end_of_text=299),
        "with a tokenizer that keeps its arrays a text has other ids when it comes again",
        fits="the tokenizer's own array changed: it gives out the same one again.",
        look="what is written to, or resized, of `tokenizer.encode_to_array(text)`.",
    )


def _expect_ids(subject: Subject, texts: list[str], tokenizer, finding: str, **more) -> None:
    out = arrays.array(subject.call(texts, tokenizer), shape=None)
    reference = _ids(texts, tokenizer)
    if out.tolist() != reference:
        raise Wrong(
            "TOK-REPEATED",
            finding,
            tried=f"{texts}",
            expected=f"{len(reference)} ids: {arrays.row(reference)}",
            got=f"{len(out)} ids: {arrays.row(out)}",
            **more,
        )


def kept_rows(subject: Subject, draw: Draw) -> None:
    """Rows of many calls that are kept: none changes while the next ones are made."""
    texts = [["abc", "de"], ["bcd", "ef"], ["cde", "fg"], ["a"], ["xyzxyz"], ["", ""]]
    calls: list[tuple[tuple, dict]] = [((some, SMALL), {}) for some in (*texts, *texts[:3], *texts)]
    expect_kept_arrays(subject.probe, calls, tried=f"{len(calls)} calls, whose rows are all kept")


def any_iterable(subject: Subject, draw: Draw) -> None:
    """Documents that can be gone through once only, as a generator or a file can."""
    texts = ["abc", "de"]
    facts = dict(
        tried="an iterable that can be gone through once",
        expected=arrays.row(_ids(texts, SMALL)),
        fits="`len`, an index, or a second loop over the documents.",
        look="the type in the signature: Iterable[str].",
    )
    try:
        out = subject.call(OnePass(texts), SMALL)
    except AnswerError as failure:
        raise Wrong(
            "TOK-ITERABLE",
            "only a list of documents is read",
            got=arrays.error_line(failure),
            **facts,
        ) from None
    if arrays.array(out, shape=None).tolist() != _ids(texts, SMALL):
        raise Wrong("TOK-ITERABLE", "only a list is read rightly", got=arrays.row(out), **facts)


def empty_documents(subject: Subject, draw: Draw) -> None:
    """A document without text is its end alone, be it the only one; no documents are an empty row."""
    for texts in (["", "a", ""], [""], ["", "", ""]):
        out, reference = subject.call(texts, SMALL), _ids(texts, SMALL)
        arrays.compare(
            out,
            reference,
            [
                (
                    "TOK-SKIPS-EMPTY",
                    _ids([text for text in texts if text], SMALL),
                    "empty documents vanished",
                    "a document without ids that also loses its end.",
                    "the condition around the end of text.",
                ),
            ],
            tried=str(texts),
        )
    for documents, words, fits in (
        ([], "[]", "`np.concatenate` or `max` of an empty list."),
        ((), "an empty tuple", "`documents == []`."),
        (OnePass([]), "an iterable that holds nothing", "`if not documents`: only a list tells."),
    ):
        _expect_no_ids(subject, documents, f"no documents: {words}", fits)


def _expect_no_ids(subject: Subject, documents: Iterable[str], tried: str, fits: str) -> None:
    facts = dict(
        tried=tried,
        expected="an empty row, uint16, shape (0,)",
        look="what the joining does with nothing.",
    )
    try:
        out = subject.call(documents, SMALL)
    except AnswerError as failure:
        if isinstance(failure.error, NotImplementedError):
            raise
        raise Wrong(
            "TOK-NO-DOCUMENTS",
            "no documents are an error",
            got=arrays.error_line(failure),
            fits=fits,
            **facts,
        ) from None
    if not isinstance(out, np.ndarray) or (out.dtype, out.shape) != (np.uint16, (0,)):
        raise Wrong(
            "TOK-NO-DOCUMENTS",
            "no documents are no row of uint16",
            got=arrays.value_line(out),
            fits="an array made from an empty list: float64.",
            **facts,
        )


def end_inside(subject: Subject, draw: Draw) -> None:
    """Each document gets its end, and keeps its ids, when that id is among them too."""
    texts, tokenizer = ["xy", "yx", "y", "", "yy", "z"], ByteTokenizer(end_of_text=ord("y"))
    end, own = tokenizer.end_of_text, [tokenizer.encode(text) for text in texts]
    reference = _ids(texts, tokenizer)
    left_out = "a document whose ids end with that id got no end"
    arrays.compare(
        subject.call(texts, tokenizer),
        reference,
        [
            (
                "TOK-NO-END",
                [id for ids in own for id in (ids if ids[-1:] == [end] else [*ids, end])],
                left_out,
                "a look at the last id of the text.",
                "the condition around the end of text: each document is followed by one.",
            ),
            (
                "TOK-NO-END",
                [id for ids in own for id, _ in itertools.groupby([*ids, end])],
                left_out,
                "two ids that are alike made one.",
                "what is left out of a text's ids, or behind them.",
            ),
            (
                "TOK-NO-END",
                [id for id, _ in itertools.groupby(reference)],
                left_out,
                "two ends that follow each other made one.",
                "what is left out of the whole row.",
            ),
            (
                "TOK-TEXT-CHANGED",
                [id for ids in own for id in [*(i for i in ids if i != end), end]],
                "an id of a text is lost",
                "ids that are compared with the end of text.",
                "what is left out of a text's ids: they are taken as they are.",
            ),
        ],
        tried=f'{texts}, end of text {end}, which is the id of "y" too',
    )


def refuses_wide(subject: Subject, draw: Draw) -> None:
    """65,536 ids fit, one more is refused: it would become another id in silence."""
    full = CharTokenizer(vocab_size=65_536, first=60_000)
    try:
        out = subject.call(["ab"], full)
    except AnswerError as failure:
        raise Wrong(
            "TOK-TOO-STRICT",
            "a vocabulary that fits is refused",
            got=arrays.error_line(failure),
            tried="vocab_size 65,536: ids 0..65,535",
            expected=arrays.row(_ids(["ab"], full)),
            look="the comparison with 65,536.",
        ) from None
    arrays.compare(out, _ids(["ab"], full), [], tried="vocab_size 65,536: ids 0..65,535")
    wide = CharTokenizer(vocab_size=100_277, first=70_000)
    arrays.expect_refusal(
        lambda: subject.call(["ab"], wide),
        "TOK-WRAPS",
        "ids beyond 65,535 wrapped around",
        tried=f"vocab_size 100,277; the ids of the text are {wide.encode('ab')}",
        fits="a cast to uint16, which keeps the lower 16 bits and says nothing.",
        look="the end of the docstring.",
    )
    for texts, tokenizer in (
        (["ab"], CharTokenizer(vocab_size=65_537)),
        ([], CharTokenizer(vocab_size=65_537)),
        ([], CharTokenizer(vocab_size=100_277)),
        (["ab"], ByteTokenizer(vocab_size=65_537, end_of_text=0)),
        (["ab"], ByteTokenizer(vocab_size=128_256, end_of_text=65_535)),
    ):
        arrays.expect_refusal(
            lambda texts=texts, tokenizer=tokenizer: subject.call(texts, tokenizer),
            "TOK-VOCABULARY",
            "a vocabulary that does not fit is accepted",
            tried=f"vocab_size {tokenizer.vocab_size:,}, end of text {tokenizer.end_of_text:,}, "
            f"documents {texts}",
            fits="a look at the ids that occur, at the end of text, or at each document.",
            look="the end of the docstring: it speaks of `tokenizer.vocab_size`.",
        )


def _ids(
    texts: list[str], tokenizer: CharTokenizer | ByteTokenizer, *, end: bool = True
) -> list[int]:
    tail = [tokenizer.end_of_text] if end else []
    return [id for text in texts for id in [*tokenizer.encode(text), *tail]]


SUITES = (
    Suite(
        "pretokenize",
        (
            one_row,
            sixteen_bits,
            document_ends,
            any_end,
            any_text,
            ids_not_characters,
            each_document,
            kept_rows,
            any_iterable,
            empty_documents,
            end_inside,
            refuses_wide,
        ),
        tested="each document and its end, in 2 bytes an id; nothing wraps, nothing is lost, "
        "and no documents are an empty row.",
        ranks=1,
        remember="uint16 holds 65,536 ids; int16 makes every id of 32,768 or more negative.",
        next_step="the same with your own folder of text: Corpus.folder(...).",
    ),
)
