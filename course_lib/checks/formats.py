"""Checks of lesson 14: weight_bytes.

Oracle: `bytes_of`, whose options bend one thing each, as wrong answers do.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from course_lib.checks import expect
from course_lib.checks.calls import WRAPS, expect_no_overflow
from course_lib.checks.expect import Pattern
from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite
from course_lib.measure.formats import FORMATS, Format

Shapes = Sequence[tuple[int, ...]]


def _divide_up(a: int, b: int) -> int:
    return -(-a // b)


def bytes_of(
    shapes: Shapes,
    name: str,
    *,
    blocks: Callable[[int, int], int] = _divide_up,
    flat: bool = False,
    padded: bool = False,
    once: bool = False,
    whole: Callable[[int, int], int] = _divide_up,
    extra: int = 0,
    joined: bool = False,
    unit: int = 8,
    rows: bool = True,
    **changed,
) -> int:
    """Bytes of the tensors; the options bend one thing each, `changed` the format's fields."""
    f: Format = replace(FORMATS[name], **changed)
    total = []
    for shape in shapes:
        count, length = math.prod(shape[:-1]), shape[-1]
        count, length = (1, count * length) if flat else (count if rows else 1, length)
        cut = blocks(length, f.block) if f.block else 0
        numbers = cut * f.block if padded and f.block else length
        bits = count * (numbers * f.bits + cut * f.block_bits) + count * length * extra
        total.append(bits + (0 if once else f.tensor_bits))
    if joined or once:
        return whole(sum(total) + (FORMATS[name].tensor_bits if once else 0), unit)
    return sum(whole(bits, unit) for bits in total)


def _pattern(code: str, finding: str, fits: str, look: str, *, hides: str = "", **bend):
    return (
        partial(bytes_of, **bend),
        Pattern(code=code, value=0.0, finding=finding, fits=fits, look=look, hides=hides),
    )


def _floor(a: int, b: int) -> int:
    return a // b


WRONG = (
    _pattern("QUANT-BITS", "these are bits", "8 times the bytes.", "the unit of `f.bits`.", unit=1),
    _pattern(
        "QUANT-NO-SCALES",
        "the scales are not counted",
        "the numbers alone.",
        "`f.block_bits` and `f.tensor_bits`.",
        block_bits=0,
        tensor_bits=0,
        hides="4 bits a number are 4.25 or 4.5 in memory.",
    ),
    _pattern(
        "QUANT-NO-SCALES",
        "the scales of the blocks are not counted",
        "numbers and tensor scales.",
        "`f.block` and `f.block_bits`.",
        block_bits=0,
        hides="4 bits a number are 4.25 or 4.5 in memory.",
    ),
    _pattern(
        "QUANT-NO-TENSOR",
        "the scale of the tensor is not counted",
        "numbers and block scales.",
        "`f.tensor_bits`.",
        tensor_bits=0,
    ),
    _pattern(
        "QUANT-TENSOR-ONCE",
        "one tensor scale serves all tensors",
        "`f.tensor_bits`, once.",
        "whose scale it is.",
        once=True,
    ),
    _pattern(
        "QUANT-PARTIAL",
        "the last, partial block has no scale",
        "length // block.",
        "a row whose length the block does not divide.",
        blocks=_floor,
    ),
    _pattern(
        "QUANT-EXTRA-BLOCK",
        "a block too many",
        "length // block + 1.",
        "a row whose length the block divides.",
        blocks=lambda n, b: n // b + 1,
    ),
    _pattern(
        "QUANT-FLAT",
        "blocks run over the ends of rows",
        "blocks of the whole tensor.",
        "what the docstring says is cut into blocks.",
        flat=True,
        hides="a row that is read alone would need its neighbor's scale.",
    ),
    _pattern(
        "QUANT-FLAT",
        "blocks run over the ends of rows",
        "numel // block.",
        "what the docstring says is cut into blocks.",
        flat=True,
        blocks=_floor,
    ),
    _pattern(
        "QUANT-PADDED",
        "numbers are counted that are not there",
        "whole blocks of numbers.",
        "what a partial block stores.",
        padded=True,
    ),
    _pattern(
        "QUANT-MASTER",
        "a second copy is counted",
        "4 bytes more for each number.",
        "the last line of the docstring: whose bytes are asked for.",
        extra=32,
    ),
    _pattern(
        "QUANT-MASTER",
        "a second copy is counted",
        "2 bytes more for each number.",
        "the last line of the docstring: whose bytes are asked for.",
        extra=16,
    ),
    _pattern(
        "QUANT-HALF-BYTE",
        "half a byte is lost",
        "bits // 8.",
        "a tensor whose bits do not fill its last byte.",
        whole=_floor,
    ),
    _pattern(
        "QUANT-JOINED",
        "tensors share a byte",
        "all bits together, rounded up once.",
        "when the rounding happens: for each tensor.",
        joined=True,
    ),
    _pattern(
        "QUANT-ONE-ROW",
        "only one row of each tensor is counted",
        "the last dimension alone.",
        "the other dimensions.",
        rows=False,
    ),
)


def _expect(subject: Subject, cases: Sequence[tuple[Shapes, str]], look: str) -> None:
    """Right for all cases; else the first mistake that gives all the numbers, or OTHER."""
    found = []
    for shapes, name in cases:
        out = subject.call([tuple(s) for s in shapes], name)
        f = FORMATS[name]
        tried = f"{_format_shapes(shapes)} in {name}: {f.bits} bits"
        if f.block:
            tried += f", {f.block_bits} for each {f.block}"
        if f.tensor_bits:
            tried += f", {f.tensor_bits} for the tensor"
        right = bytes_of(shapes, name)
        if out is None or isinstance(out, bool) or not isinstance(out, int):
            expect.integer(out, right, tried=tried)
        found.append((out, right, tried))
    off = [row for row in found if row[0] != row[1]]
    if not off:
        return
    out, right, tried = off[0]
    for wrong, p in WRONG:
        if all(wrong(s, n) == row[0] for (s, n), row in zip(cases, found, strict=True)):
            raise Wrong(
                p.code,
                p.finding,
                tried=tried,
                expected=f"{right:,} bytes",
                got=f"{out:,}",
                fits=p.fits,
                hides=p.hides,
                look=p.look,
            )
    expect.integer(out, right, tried=tried)


def _format_shapes(shapes: Shapes) -> str:
    return " and ".join(str(tuple(s)) for s in shapes) or "no shapes"


def whole_bytes(subject: Subject, draw: Draw) -> None:
    """Formats without scales: numbers times bytes."""
    rows = draw.size(3, 5, 7)
    _expect(
        subject,
        [([(rows, 8)], name) for name in ("fp32", "tf32", "bf16", "e4m3")],
        "numbers, then bits, then bytes.",
    )


def tensor_scales(subject: Subject, draw: Draw) -> None:
    """int8 and nvfp4: a scale for each tensor; vectors and higher dimensions are tensors too."""
    n = draw.size(6, 10, 7)
    _expect(
        subject,
        [([(n, 4), (n,), (2, 3, n)], name) for name in ("int8", "bf16")]
        + [([(2, 32), (3, 16)], "nvfp4")],
        "tensor by tensor.",
    )


def block_scales(subject: Subject, draw: Draw) -> None:
    """Blocks that fit: 8 bits more for each 32 numbers."""
    n = draw.size(64, 96, 128)
    shapes = [(4, n), (2, n)]
    _expect(subject, [(shapes, name) for name in ("mxfp8", "mxfp4")], "bits of a row.")


def partial_blocks(subject: Subject, draw: Draw) -> None:
    """A row that ends inside a block has one scale more; blocks end with their row."""
    n = draw.size(40, 72, 104)
    _expect(
        subject,
        [([(6, n)], name) for name in ("mxfp8", "mxfp4", "nvfp4")] + [([(3, 8)], "mxfp4")],
        "the blocks of one row.",
    )


def odd_bits(subject: Subject, draw: Draw) -> None:
    """Four-bit numbers in odd count: each tensor ends with a whole byte."""
    n = draw.size(33, 35, 49)
    _expect(
        subject, [([(1, n), (3, n), (5,)], name) for name in ("mxfp4", "nvfp4")], "the rounding up."
    )


def edge_cases(subject: Subject, draw: Draw) -> None:
    """No tensor, no bytes; a format without a name is refused, with no tensor too."""
    _expect(subject, [([], "bf16"), ([(0, 32)], "mxfp4")], "an empty list.")
    for shapes in ([(2, 2)], []):
        facts = dict(
            tried=f"{_format_shapes(shapes)} in the format fp12",
            look="what `find_format` is there for"
            + (", and when it is called." if not shapes else "."),
        )
        try:
            out = subject.call(shapes, "fp12")
        except AnswerError as failure:
            if isinstance(failure.error, ValueError):
                continue
            raise Wrong(
                "QUANT-NAME",
                "an unknown format is not refused",
                expected="ValueError, with the names that are there",
                got=f"{type(failure.error).__name__}: {failure.error}"[:70],
                **facts,
            ) from None
        raise Wrong(
            "QUANT-NAME",
            "an unknown format is not refused",
            expected="ValueError",
            got=str(out)[:60],
            **facts,
        )


def every_format(subject: Subject, draw: Draw) -> None:
    """Each format by name; shapes in lists, and tensors of one shape counted each."""
    n = draw.size(40, 72, 104)
    _expect(subject, [([(3, n), (5,)], name) for name in FORMATS], "what the format says.")
    for shapes in ([[3, n], [5]], [(4, n), (4, n), (n,), (n,)]):
        out, right = subject.call(shapes, "nvfp4"), bytes_of(shapes, "nvfp4")
        if out == right:
            continue
        once = bytes_of(list(dict.fromkeys(map(tuple, shapes))), "nvfp4")
        expect.integer(
            out,
            right,
            [
                Pattern(
                    code="QUANT-SAME-SHAPE",
                    value=once,
                    finding="tensors of one shape are counted once",
                    fits="shapes in a set, or as keys of a dict.",
                    look="what `shapes` is turned into.",
                )
            ],
            tried=f"{', '.join(map(str, shapes))} in nvfp4",
        )


def empty_tensors(subject: Subject, draw: Draw) -> None:
    """A tensor without numbers has no blocks, and still a scale of its own, alone and among others;
    without tensors there are no bytes, in whatever way none come."""
    n = draw.size(32, 48, 5)
    for shapes in ([(0, n)], [(n, 0)], [(0,)], [(3, n), (0, n), (n,)], [(n,), (2, 0, n), (n, 3)]):
        for name in ("mxfp4", "nvfp4", "int8"):
            out, right = subject.call(shapes, name), bytes_of(shapes, name)
            if out != right or isinstance(out, bool) or not isinstance(out, int):
                raise Wrong(
                    "QUANT-EMPTY",
                    "a tensor without numbers is counted otherwise",
                    tried=f"{_format_shapes(shapes)} in {name}",
                    expected=f"{right} bytes; an empty tensor has {FORMATS[name].tensor_bits} bits",
                    got=f"{out!r}"[:60],
                    look="`max`, `or`, a `break` or `return` in the loop, and conditions on counts.",
                )
    for name in FORMATS:
        for shapes, words in (((), "an empty tuple"), (None, "a generator that gives nothing")):
            if shapes is None:
                out = subject.probe("course_lib.probes.iterables:call_once_through", [], name)
            else:
                out = subject.call(shapes, name)
            if out != 0 or isinstance(out, bool) or not isinstance(out, int):
                raise Wrong(
                    "QUANT-EMPTY",
                    "no tensors are counted otherwise",
                    tried=f"no shapes, {words}, in {name}",
                    expected="0 bytes",
                    got=f"{out!r}"[:60],
                    fits="`if not shapes`: a generator is true, though nothing comes of it."
                    if shapes is None
                    else "",
                    look="what is asked about `shapes`, and what is added to the sum.",
                )


def exact_counts(subject: Subject, draw: Draw) -> None:
    """Counts are whole numbers, however large: no float on the way."""
    # 18.5 bytes a row, rounded up, and near 2^54 float64 has multiples of 4 alone: of 1, 5 and 7
    # more rows none ends on such a number, of 3 more one does
    for rows, name in ((2**25 + 1, "fp32"), (2**50 + draw.size(1, 5, 7), "mxfp4")):
        shapes = [(rows, 33), (7,)]
        tried = f"{_format_shapes(shapes)} in {name}"
        out, right = subject.call(shapes, name), bytes_of(shapes, name)
        expect.not_none(out, f"{right:,}", tried=tried)
        if isinstance(out, int) and out != right and abs(out / right - 1) < 1e-6:
            raise Wrong(
                "QUANT-FLOAT",
                "a large count is rounded",
                tried=tried,
                expected=f"{right:,} bytes",
                got=f"{out:,}",
                fits="a float on the way: float64 has no odd numbers above 2^53.",
                look="`/`, `math.ceil`, tensors of counts; `//` keeps an int.",
            )
        expect.integer(out, right, tried=tried)
    for shapes, name in (
        ([(2**20, 2**20, 2**19)], "fp32"),  # 2^64 bits
        ([(7,), (2**30, 2**30 + draw.size(32, 16, 48))], "int8"),
    ):
        tried = f"{_format_shapes(shapes)} in {name}"
        right = bytes_of(shapes, name)
        said = ("QUANT-WRAPS", "a very large count is not exact")
        with expect_no_overflow(*said, tried=tried, expected=f"{right:,} bytes"):
            out = subject.call(shapes, name)
        if out != right:
            raise Wrong(
                *said, tried=tried, expected=f"{right:,} bytes", got=f"{out!r}"[:60], **WRAPS
            )


def another_format(subject: Subject, draw: Draw) -> None:
    """What a format takes is read from the format."""
    changes = dict(bits=6, block=24, block_bits=16, tensor_bits=64)
    shapes = [(5, 24 * draw.size(3, 2, 4) + 7), (9,)]
    name = "mx6"
    try:
        out = subject.probe(
            "course_lib.probes.formats:call_with_format", shapes, name, "nvfp4", changes
        )
        got = f"{out!r}"[:60]
    except AnswerError as failure:
        out, got = None, f"{type(failure.error).__name__}: {failure.error}"[:76]
    right = sum(
        -(-(math.prod(s[:-1]) * (s[-1] * 6 + -(-s[-1] // 24) * 16) + 64) // 8) for s in shapes
    )
    if out != right:
        raise Wrong(
            "QUANT-TABLE",
            "a new format is counted otherwise",
            tried=f"{_format_shapes(shapes)} in a format that was added:\n"
            "6 bits, 16 for each 24, 64 for the tensor",
            expected=f"{right:,} bytes",
            got=got,
            fits="numbers or names of the formats, written into the function.",
            look="what is read from `f`, and what is not.",
        )


def once_through(subject: Subject, draw: Draw) -> None:
    """Shapes that can be gone through once: an Iterable need not be a list."""
    shapes = [(draw.size(3, 5, 7), 4), (5, 33)]
    found = subject.probe("course_lib.probes.iterables:call_once_through", shapes, "mxfp4")
    right = bytes_of(shapes, "mxfp4")
    if found != right:
        raise Wrong(
            "QUANT-ONCE",
            "the shapes are gone through more than once",
            tried=f"a generator of {_format_shapes(shapes)}, in mxfp4",
            expected=f"{right:,} bytes, as of a list",
            got=f"{found!r}"[:60],
            hides="an Iterable may be a generator, which is empty the second time.",
            look="loops over `shapes`, and `len`.",
        )


SUITES = (
    Suite(
        exercise="quantize-memory",
        checks=(
            whole_bytes,
            block_scales,
            tensor_scales,
            partial_blocks,
            odd_bits,
            edge_cases,
            every_format,
            empty_tensors,
            exact_counts,
            once_through,
            another_format,
        ),
        ranks=1,
        tested="your bytes hold every number, every block's scale and every tensor's.",
        remember="mxfp4 is 4.25 bits a number, nvfp4 4.5: the scales cost a sixteenth or an eighth.",
        next_step="rows of 48: which of the two formats has a partial block, and what does it cost?",
    ),
)
