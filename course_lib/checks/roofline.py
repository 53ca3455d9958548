"""Checks of lesson 13, second part: matmul_roof.

Oracle: FLOPs and bytes counted with loops over small shapes, and the two times of a product, of
which the longer one wins.
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations

from course_lib.checks import expect
from course_lib.checks.calls import WRAPS, expect_no_overflow
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite

KEYS = ("flops", "bytes", "intensity", "ridge", "attainable")


def _count_roof(M: int, K: int, N: int, size: int, flops_per_s: float, bytes_per_s: float) -> dict:
    """The same five numbers: by counting, and from the longer of two times."""
    flops = sum(2 for _ in range(M) for _ in range(K) for _ in range(N))
    num_bytes = sum(size * rows * columns for rows, columns in ((M, K), (K, N), (M, N)))
    return _five_numbers(flops, num_bytes, flops_per_s, bytes_per_s)


def _work_out_roof(M: int, K: int, N: int, size: int, flops_per_s: float, bytes_per_s: float):
    """The same for sizes that would take too long to count."""
    return _five_numbers(2 * M * K * N, size * (M * K + K * N + M * N), flops_per_s, bytes_per_s)


def _five_numbers(flops: int, num_bytes: int, flops_per_s: float, bytes_per_s: float) -> dict:
    seconds = max(flops / flops_per_s, num_bytes / bytes_per_s)
    return {
        "flops": flops,
        "bytes": num_bytes,
        "intensity": flops / num_bytes,
        "ridge": flops_per_s / bytes_per_s,
        "attainable": flops / seconds,
    }


def _ask_roof(
    subject: Subject,
    shape: tuple,
    size: int,
    flops_per_s: float,
    bytes_per_s: float,
    oracle: Callable[..., dict] = _count_roof,
):
    """What the answer says, five finite numbers by name; what is right; what it was asked."""
    M, K, N = shape
    tried = (
        f"({M}, {K}) @ ({K}, {N}), {size} bytes a number, {flops_per_s:g} FLOP/s,\n"
        f"{bytes_per_s:g} bytes/s"
    )
    found = subject.call(
        M, K, N, number_bytes=size, flops_per_s=flops_per_s, bytes_per_s=bytes_per_s
    )
    wanted = f"a dict with {', '.join(KEYS)}"
    expect.not_none(found, wanted, tried=tried)
    if not isinstance(found, dict) or set(found) != set(KEYS):
        got = ", ".join(map(str, found))[:60] if isinstance(found, dict) else type(found).__name__
        raise Wrong(
            "ROOF-KEYS",
            "the answer has another form",
            tried=tried,
            expected=wanted,
            got=got or "an empty dict",
            look="the docstring: the five names.",
        )
    for key in KEYS:
        if isinstance(found[key], bool) or not isinstance(found[key], (int, float)):
            raise Wrong(
                "TYPE",
                f'"{key}" is no number',
                tried=tried,
                expected="five numbers",
                got=f"{key}: a {type(found[key]).__name__}",
                look="what stands there.",
            )
    return found, oracle(M, K, N, size, flops_per_s, bytes_per_s), tried


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else number(value)


def _compare(key: str, found: dict, right: dict, tried: str, ways: Sequence[tuple], look: str):
    """`found[key]` is right; else the first of `ways` (number, code, finding, fits), or OTHER."""
    if math.isclose(found[key], right[key], rel_tol=1e-9):
        return
    facts = dict(
        tried=tried,
        expected=f"{key}: {_format_number(right[key])}",
        got=f"{key}: {_format_number(found[key])}",
        look=look,
    )
    for value, code, finding, fits in ways:
        if math.isclose(found[key], value, rel_tol=1e-9):
            raise Wrong(code, finding, fits=fits, **facts)
    raise Wrong("OTHER", f"{key} is another number", **facts)


def _shape(draw: Draw) -> tuple[int, int, int]:
    """Three different small sizes, so that no two formulas agree."""
    return draw.size((2, 3, 5), (3, 7, 2), (5, 2, 7))


def flops(subject: Subject, draw: Draw) -> None:
    """A multiplication and an addition for each of M K N pairs."""
    M, K, N = shape = _shape(draw)
    found, right, tried = _ask_roof(subject, shape, 4, 100.0, 10.0)
    _compare(
        "flops",
        found,
        right,
        tried,
        (
            (M * K * N, "ROOF-MULTIPLY-ADD", "a multiply-add is counted once", "M K N."),
            (
                2 * M * K * N - M * N,
                "ROOF-ADDS",
                "one addition less per number of the output",
                "K products have K - 1 sums between them; everyone counts K.",
            ),
            (6 * M * K * N, "ROOF-BACKWARD", "the backward pass is counted too", "6 M K N."),
            (2 * M * N, "ROOF-NO-DEPTH", "K is left out", "2 M N."),
        ),
        "what is done for one number of the output.",
    )


def bytes_moved(subject: Subject, draw: Draw) -> None:
    """Both inputs are read and the output is written, in numbers of any size."""
    M, K, N = shape = _shape(draw)
    for size in (1, 8):
        found, right, tried = _ask_roof(subject, shape, size, 100.0, 10.0)
        numbers = M * K + K * N + M * N
        fixed = "the size of a number is fixed"
        _compare(
            "bytes",
            found,
            right,
            tried,
            (
                (
                    size * (M * K + K * N),
                    "ROOF-NO-OUTPUT",
                    "the output is not counted",
                    "the two inputs alone.",
                ),
                (size * M * N, "ROOF-NO-INPUTS", "the inputs are not counted", "the output alone."),
                (
                    numbers,
                    "ROOF-NUMBERS",
                    "numbers are counted, not bytes",
                    "1 byte for each number.",
                ),
                (2 * numbers, "ROOF-FIXED-SIZE", fixed, "2 bytes for each."),
                (4 * numbers, "ROOF-FIXED-SIZE", fixed, "4 bytes for each."),
                (8 * size * numbers, "ROOF-BITS", "bits are counted", "8 times the bytes."),
                (
                    size * (numbers + M * N),
                    "ROOF-OUTPUT-TWICE",
                    "the output is counted twice",
                    "an output that is read first, as if it were added to.",
                ),
                (
                    size * 2 * M * K * N,
                    "ROOF-REREAD",
                    "each number is read for every use of it",
                    "2 M K N numbers.",
                ),
            ),
            "which numbers move, how often, and how large each is.",
        )


def intensity(subject: Subject, draw: Draw) -> None:
    """FLOPs for each byte, and as a fraction where it is one."""
    found, right, tried = _ask_roof(subject, _shape(draw), 4, 100.0, 10.0)
    I = right["intensity"]  # noqa: E741  the letter of the lesson
    _compare(
        "intensity",
        found,
        right,
        tried,
        (
            (1 / I, "ROOF-INTENSITY-INVERTED", "intensity is upside down", "bytes for each FLOP."),
            (
                4 * I,
                "ROOF-PER-NUMBER",
                "intensity is counted for each number",
                "FLOPs over numbers.",
            ),
            (right["flops"] // right["bytes"], "ROOF-ROUNDED", "intensity is rounded", "`//`."),
            (round(I), "ROOF-ROUNDED", "intensity is rounded", "`round`."),
        ),
        "what is divided by what.",
    )


def ridge(subject: Subject, draw: Draw) -> None:
    """Where the two roofs meet: a number of the machine, whatever the product."""
    flops_per_s, bytes_per_s = draw.size((100.0, 8.0), (900.0, 40.0), (50.0, 4.0))
    found, right, tried = _ask_roof(subject, _shape(draw), 2, flops_per_s, bytes_per_s)
    _compare(
        "ridge",
        found,
        right,
        tried,
        (
            (
                1 / right["ridge"],
                "ROOF-RIDGE-INVERTED",
                "the ridge is upside down",
                "bytes/s over FLOP/s.",
            ),
            (
                right["intensity"],
                "ROOF-RIDGE-PRODUCT",
                "the ridge is that of a product",
                "the intensity of this product.",
            ),
            (
                right["ridge"] * 2,
                "ROOF-RIDGE-SIZE",
                "the ridge depends on the size of a number",
                "FLOPs for each number.",
            ),
            (
                right["ridge"] / 2,
                "ROOF-RIDGE-SIZE",
                "the ridge depends on the size of a number",
                "a ridge divided by number_bytes.",
            ),
            (
                right["flops"] / flops_per_s,
                "ROOF-SECONDS",
                "the ridge is a time",
                "FLOPs over FLOP/s.",
            ),
        ),
        "the intensity at which both roofs are equally high.",
    )


def under_either_roof(subject: Subject, draw: Draw) -> None:
    """A product of one row, which memory limits, and one of many, which arithmetic limits."""
    n, top, width = draw.size(8, 12, 16), 100.0, 80.0
    shapes = ((1, n, n), (n, n, n))
    asked = [_ask_roof(subject, shape, 4, top, width) for shape in shapes]
    got, right = ([x[which]["attainable"] for x in asked] for which in (0, 1))
    if all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(got, right, strict=True)):
        return
    slopes = [width * x[1]["intensity"] for x in asked]
    seconds = [max(x[1]["flops"] / top, x[1]["bytes"] / width) for x in asked]
    facts = dict(
        tried=f"(1, {n}) @ ({n}, {n}) and ({n}, {n}) @ ({n}, {n}), 4 bytes a number,\n"
        f"{top:g} FLOP/s, {width:g} bytes/s",
        expected=f"attainable: {vector(right)}",
        got=f"attainable: {vector(got)}",
        look="FLOP/s that memory allows: bytes/s times FLOPs for each byte.",
    )
    for values, code, finding, fits, preset in (
        (
            [max(top, s) for s in slopes],
            "ROOF-MAX",
            "the higher of the two roofs is taken",
            "max.",
            "roofline:higher",
        ),
        (
            slopes,
            "ROOF-NO-TOP",
            "more than the machine can do",
            "bytes/s times intensity alone.",
            "roofline:default",
        ),
        (
            [top, top],
            "ROOF-NO-SLOPE",
            "memory limits nothing",
            "the FLOP/s of the machine alone.",
            "roofline:decode",
        ),
        (
            [x / top for x in right],
            "ROOF-SHARE",
            "a share in place of FLOP/s",
            "the lower roof, divided by the peak.",
            "",
        ),
        (seconds, "ROOF-SECONDS", "a time in place of FLOP/s", "the seconds of the product.", ""),
        (
            [min(top, width / x[1]["intensity"]) for x in asked],
            "ROOF-SLOPE-INVERTED",
            "the slope is upside down",
            "bytes/s over intensity.",
            "",
        ),
        (
            [min(top, width)] * 2,
            "ROOF-NO-INTENSITY",
            "FLOP/s and bytes/s are compared",
            "the smaller of two numbers of different units.",
            "",
        ),
    ):
        if all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(got, values, strict=True)):
            raise Wrong(code, finding, fits=fits, preset=preset, **facts)
    raise Wrong("OTHER", "attainable is another number", **facts)


def sizes_of_a_model(subject: Subject, draw: Draw) -> None:
    """Real sizes and real machines: large numbers stay exact."""
    D = draw.size(64, 48, 80)
    for shape in ((1, D, 3 * D), (D, D, 3 * D)):
        found, right, tried = _ask_roof(subject, shape, 2, 3.12e14, 2e12)
        for key in KEYS:
            _compare(key, found, right, tried, (), "the line that computes it.")
    M, K, N = 1 << 21, 3 << 20, 5 << 20  # too many FLOPs for 64 bits
    found = subject.call(M, K, N, number_bytes=2, flops_per_s=3.12e14, bytes_per_s=2e12)
    if not math.isclose(found["flops"], 2 * M * K * N, rel_tol=1e-9):
        raise Wrong(
            "ROOF-WRAPS",
            "large numbers of FLOPs wrap around",
            tried=f"({M}, {K}) @ ({K}, {N}), 2 bytes a number",
            expected=f"{2 * M * K * N:.4g} FLOPs",
            got=f"{found['flops']:.4g}",
            fits="integers of 64 bits, as numpy and torch have them.",
            look="Python's own numbers have no end.",
        )


def nothing_to_multiply(subject: Subject, draw: Draw) -> None:
    """A size of 0 in each place: what is left is read or written all the same."""
    M, K, N = _shape(draw)
    for shape in ((M, 0, N), (0, K, N), (M, K, 0)):  # two of them: 0 FLOPs for 0 bytes
        for size in (1, 4):
            tried = f"{shape[:2]} @ {shape[1:]}, {size} bytes a number, 100 FLOP/s,\n10 bytes/s"
            right = _work_out_roof(*shape, size, 100.0, 10.0)
            found = subject.call(*shape, number_bytes=size, flops_per_s=100.0, bytes_per_s=10.0)
            expect.not_none(found, "a dict", tried=tried)
            for key in KEYS:
                if not math.isclose(found[key], right[key], rel_tol=1e-9):
                    raise Wrong(
                        "ROOF-EMPTY",
                        f"with a size of 0 {key} is another number",
                        tried=tried,
                        expected=f"{key}: {_format_number(right[key])}",
                        got=f"{key}: {_format_number(found[key])}",
                        fits="an early return, or a size of at least 1.",
                        look="the one matrix that has numbers still moves, and a machine has its "
                        "ridge.",
                    )


def every_digit(subject: Subject, draw: Draw) -> None:
    """Sizes that are no powers of two: 16 digits, as a float of Python has them, or all of them."""
    odd = draw.size(1, 3, 5)
    for shape, size in (
        (((1 << 21) + odd, (3 << 20) + 7, (5 << 20) + 11), 2),
        ((12_289, 49_157, 8_191 + odd), 1),
        ((1, 1, 1), 4),
    ):
        M, K, N = shape
        tried = (
            f"({M:,}, {K:,}) @ ({K:,}, {N:,}), {size} bytes a number, 3.12e14 FLOP/s, 2e12 bytes/s"
        )
        found = subject.call(M, K, N, number_bytes=size, flops_per_s=3.12e14, bytes_per_s=2e12)
        right = _work_out_roof(M, K, N, size, 3.12e14, 2e12)
        for key in KEYS:
            if not math.isclose(found[key], right[key], rel_tol=1e-12):
                raise Wrong(
                    "ROOF-DIGITS",
                    f"{key} has lost digits",
                    tried=tried,
                    expected=f"{key}: {right[key]:,}",
                    got=f"{key}: {found[key]:,}",
                    fits="float32 on the way, which has 7 digits.",
                    look="tensors and arrays: numbers of Python are enough.",
                )


SHAPES = (
    *((1, 12288, 49152), (12288, 49152, 1), (49152, 1, 12288)),
    *((a, b, c) for a in (1, 4096) for b in (1, 4096) for c in (1, 4096)),
    *((8, 4096, 4096), (4096, 8, 4096), (4096, 4096, 8)),
    *((100, 4096, 4096), (4096, 100, 4096), (4096, 4096, 100)),
    *((200, 200, 200), (500, 500, 500)),
)
"""Products on either side of a ridge, in an order that no size, no product of sizes and no number of
FLOPs or bytes has: (4096, 8, 4096) has less intensity than (500, 500, 500)."""

MACHINES = ((100.0, 80.0), (1e12, 5e10), (3.12e14, 2e12), (9.9e14, 3.3e12))
"""FLOP/s and bytes/s. No shape above has the intensity of a ridge here, in numbers of any size."""


def any_shape(subject: Subject, draw: Draw) -> None:
    """Vectors and matrices, long and short ones: all numbers count, and intensity meets the ridge."""
    for shape in SHAPES:
        for size in (1, 2, 4):
            for machine in MACHINES:
                found, right, tried = _ask_roof(subject, shape, size, *machine, _work_out_roof)
                _compare_shape(shape, size, machine, found, right, tried)


def _compare_shape(shape: tuple, size: int, machine: tuple, found: dict, right: dict, tried: str):
    M, K, N = shape
    matrices = {"the first input": M * K, "the second input": K * N, "the output": M * N}
    parts = [
        (
            size * sum(matrices[name] for name in names),
            "ROOF-SHAPE",
            "with this shape some numbers are not counted",
            f"{' and '.join(names)} alone.",
        )
        for count in (1, 2)
        for names in combinations(matrices, count)
    ]
    top, width = machine
    side = "another number than the intensity is compared with the ridge"
    sides = (
        (top, "ROOF-SIDE", side, "the FLOP/s of the machine, where memory is the limit."),
        (
            width * right["intensity"],
            "ROOF-SIDE",
            side,
            "bytes/s times intensity, where arithmetic is the limit.",
        ),
    )
    for key in KEYS:
        ways, look = (), "the line that computes it: one formula for every shape."
        if key == "bytes":
            ways, look = parts, "a vector is a matrix of one row or column: its numbers move too."
        if key == "attainable":
            ways, look = sides, "what decides which of the two roofs is the lower one."
        _compare(key, found, right, tried, ways, look)


def large_matrices(subject: Subject, draw: Draw) -> None:
    """More bytes than 64 bits count, in each of the three matrices, and a size that is itself such."""
    for shape in (
        (3 << 32, 1, 5 << 32),  # in the output, then in an input
        (1, 3 << 32, 5 << 32),
        (3 << 32, 5 << 32, 1),
        (10**20, 10**10, 7),  # a size itself
    ):
        M, K, N = shape
        right = _work_out_roof(M, K, N, 2, 3.12e14, 2e12)
        said = ("ROOF-WRAPS", "large numbers wrap around")
        tried = f"({M:,}, {K:,}) @ ({K:,}, {N:,}), 2 bytes a number"
        with expect_no_overflow(*said, tried=tried, expected=f"flops: {right['flops']:.4g}"):
            found = subject.call(M, K, N, number_bytes=2, flops_per_s=3.12e14, bytes_per_s=2e12)
        for key in KEYS[:-1]:
            if not math.isclose(found[key], right[key], rel_tol=1e-9):
                expected, got = (f"{key}: {one[key]:.4g}" for one in (right, found))
                raise Wrong(*said, tried=tried, expected=expected, got=got, **WRAPS)


SUITES = (
    Suite(
        "arithmetic-intensity",
        (
            flops,
            bytes_moved,
            intensity,
            ridge,
            under_either_roof,
            sizes_of_a_model,
            nothing_to_multiply,
            every_digit,
            any_shape,
            large_matrices,
        ),
        tested="FLOPs and bytes are those that were counted one by one, and the lower roof wins.",
        remember="one row against a matrix: about 2 FLOPs for each number read, however large it is.",
        next_step="how many bfloat16 rows must meet a 4096 x 4096 matrix to reach a ridge of 200?",
    ),
)
