"""Checks of lesson 22: zero_memory.

Oracle: `bytes_of`, whose options bend one thing each, as wrong answers do.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

from course_lib.checks.calls import WRAPS, expect_arguments_alone
from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite

NAMES = ("weights", "gradients", "optimizer")
SIZES = dict(param_bytes=2, grad_bytes=2, optimizer_bytes=12)
FIRST = (3, 2, 1)  # the first stage that shards weights, gradients, optimizer
Way = Callable[[int, int, int, dict], dict]


def bytes_of(
    n: int,
    ranks: int,
    stage: int,
    sizes: dict,
    *,
    first=FIRST,
    only: bool = False,
    shard: Callable[[int, int], int] = lambda n, ranks: -(-n // ranks),
    sized: bool = True,
) -> dict[str, int]:
    """Bytes by part. `first`: from which stage on each is sharded; `only`: at that stage alone."""
    each = sizes.values() if sized else SIZES.values()
    cut = [stage == f if only else stage >= f for f in first]
    return {
        name: b * (shard(n, ranks) if c else n) for name, c, b in zip(NAMES, cut, each, strict=True)
    }


def _of_bytes(n: int, ranks: int, stage: int, sizes: dict) -> dict[str, int]:
    return {
        name: -(-n * b // ranks) if stage >= f else n * b
        for name, f, b in zip(NAMES, FIRST, sizes.values(), strict=True)
    }


def _times(n: int, ranks: int, stage: int, sizes: dict) -> dict[str, int]:
    right = bytes_of(n, ranks, stage, sizes)
    return {name: ranks * b for name, b in right.items()}


def _narrow_bytes(n: int, ranks: int, stage: int, sizes: dict) -> dict[str, int]:
    return bytes_of(n, ranks, stage, sizes | {"optimizer_bytes": 8})


bent = functools.partial
WRONG: tuple[tuple[str, Way, str, str, str], ...] = (
    (
        "ZERO-NO-MASTER",
        _narrow_bytes,
        "the master copy is not counted",
        "8 bytes for the optimizer: the two moments alone.",
        "`optimizer_bytes`: what does the docstring say its 12 are?",
    ),
    (
        "ZERO-STAGE-OFF",
        bent(bytes_of, first=(2, 1, 0)),
        "every stage shards what the next one should",
        "a comparison that is true one stage early.",
        "at stage 0 every rank holds all.",
    ),
    (
        "ZERO-STAGE-OFF",
        bent(bytes_of, first=(4, 3, 2)),
        "every stage shards what the one before should",
        "a comparison that is true one stage late.",
        "stage 1 shards the optimizer.",
    ),
    (
        "ZERO-ALL-AT-ONCE",
        bent(bytes_of, first=(1, 1, 1)),
        "every stage shards everything",
        "all three parts cut from stage 1 on.",
        "the docstring: what does each stage add?",
    ),
    (
        "ZERO-NOTHING",
        bent(bytes_of, first=(9, 9, 9)),
        "no stage shards anything",
        "the same bytes for every stage: plain data parallelism.",
        "where `stage` is asked.",
    ),
    (
        "ZERO-SWAPPED",
        bent(bytes_of, first=(2, 3, 1)),
        "weights and gradients are sharded in the other order",
        "stage 2 with a shard of weights and whole gradients.",
        "which of the two is not needed whole once it has been reduced?",
    ),
    (
        "ZERO-SWAPPED",
        bent(bytes_of, first=(1, 2, 3)),
        "the stages go through the parts in the other order",
        "weights first, the optimizer last.",
        "stage 1 begins with the largest part.",
    ),
    (
        "ZERO-NOT-TOO",
        bent(bytes_of, only=True),
        "a stage forgets what the stages before it shard",
        "one part sharded at a time.",
        "at stage 2: what stage 1 had sharded.",
    ),
    (
        "ZERO-FLOOR",
        bent(bytes_of, shard=lambda n, ranks: n // ranks),
        "the shard is rounded down",
        "num_params // world_size.",
        "R shards together must hold all numbers.",
    ),
    (
        "ZERO-CEIL-BYTES",
        _of_bytes,
        "bytes are rounded, not numbers",
        "ceil(num_params * bytes / world_size): a shard with a part of a number.",
        "what is rounded up: before or after the multiplication?",
    ),
    (
        "ZERO-PADDED",
        bent(bytes_of, shard=lambda n, ranks: n // ranks + 1),
        "a shard has one number too many",
        "num_params // world_size + 1.",
        "a count that world_size divides needs no padding.",
    ),
    (
        "ZERO-PAD-WHOLE",
        lambda n, ranks, stage, sizes: bytes_of(n + -n % ranks, ranks, stage, sizes),
        "what is not cut is padded",
        "world_size shards' worth of a part that every rank holds whole.",
        "num_params where a stage shards nothing.",
    ),
    (
        "ZERO-ALL-RANKS",
        _times,
        "these are the bytes of all ranks together",
        "world_size times the bytes of one.",
        "the docstring: on each of the ranks.",
    ),
    (
        "ZERO-FIXED",
        bent(bytes_of, sized=False),
        "the sizes have no effect",
        "2, 2 and 12 bytes, whatever is said.",
        "the three keyword arguments.",
    ),
)


def _expect(subject: Subject, n: int, ranks: int, stage: int, **sizes) -> None:
    """The answer's bytes are right; else the mistake that gives them, or OTHER."""
    said = "".join(f", {name}={value}" for name, value in sizes.items())
    tried = f"num_params {n:,}, world_size {ranks}, stage {stage}{said}"
    right = bytes_of(n, ranks, stage, SIZES | sizes)
    facts = dict(tried=tried, expected=_line(right))
    try:
        out = subject.call(n, ranks, stage, **sizes)
    except AnswerError as failure:
        if not isinstance(failure.error, (OverflowError, RuntimeError, ValueError)) or n < 2**63:
            raise
        got = f"{type(failure.error).__name__}: {failure.error}"[:70]
        raise Wrong("ZERO-WRAPS", "large counts are an error", got=got, **WRAPS, **facts) from None
    _three_counts(out, **facts)
    if out == right:
        return
    facts |= dict(got=_line(out))
    less = bytes_of(n - 1, ranks, stage, SIZES | sizes)
    if ranks >= 64 and all(out[name] in (right[name], less[name]) for name in NAMES):
        raise Wrong(  # one that rounds down has been named where less was left over
            "ZERO-LITTLE-LEFT",
            "a small remainder has no place in a shard",
            fits="a quotient to which a little less than 1 is added.",
            look="one number more than all shards hold makes every shard longer.",
            **facts,
        )
    for code, way, finding, fits, look in WRONG:
        if out == way(n, ranks, stage, SIZES | sizes):
            preset = "zero:stage-2" if code == "ZERO-SWAPPED" else ""
            raise Wrong(code, finding, fits=fits, look=look, preset=preset, **facts)
    if max(n, *right.values()) > 2**53 and all(math.isclose(out[k], right[k]) for k in NAMES):
        raise Wrong(
            "ZERO-FLOAT",
            "the bytes are not exact",
            fits="a float on the way: above 2^53 it leaves out whole numbers.",
            look="`/` makes a float, `//` stays whole: -(-a // b) is a / b rounded up.",
            **facts,
        )
    if all((out[name] - right[name]) % 2**32 == 0 for name in NAMES):
        raise Wrong("ZERO-WRAPS", "large counts wrap around", **WRAPS, **facts)
    off = next(name for name in NAMES if out[name] != right[name])
    raise Wrong("OTHER", f"the bytes of the {off} differ", look=f"{off} at stage {stage}.", **facts)


def _three_counts(out: Any, *, tried: str, expected: str) -> None:
    facts = dict(tried=tried, expected=expected)
    if out is None:
        raise Wrong(
            "NONE",
            "the answer returned None",
            got="None",
            look="the last line: is there a `return`?",
            **facts,
        )
    if not isinstance(out, dict) or set(out) != set(NAMES):
        got = ", ".join(map(str, out)) if isinstance(out, dict) else f"type {type(out).__name__}"
        raise Wrong(
            "ZERO-KEYS",
            "the answer is not a dict of the three parts",
            got=got[:60] or "no key",
            look="the docstring: three names, three counts.",
            **facts,
        )
    for name, value in out.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise Wrong(
                "TYPE",
                f"{name} is a {type(value).__name__}",
                got=f"{value!r}"[:60],
                look="`/` makes a float; bytes are whole.",
                **facts,
            )


def _line(found: dict) -> str:
    return ", ".join(f"{name} {found[name]:,}" for name in NAMES)


def stage_zero(subject: Subject, draw: Draw) -> None:
    """Plain data parallelism: 2, 2 and 12 bytes a parameter, on each rank, whatever their number."""
    for ranks in (draw.size(4, 8), 1):
        _expect(subject, draw.size(1200, 2400), ranks, 0)


def stages(subject: Subject, draw: Draw) -> None:
    """Stage 1 shards the optimizer, 2 the gradients too, 3 the weights too."""
    n, ranks = draw.size(1200, 2400), draw.size(4, 8)
    for stage in (1, 2, 3):
        _expect(subject, n, ranks, stage)


def rounded_up(subject: Subject, draw: Draw) -> None:
    """World sizes that divide nothing: a shard is a whole number of numbers, rounded up."""
    n, ranks = draw.size(10, 14, 22), draw.size(4, 3)
    for stage in (3, 1, 2):
        _expect(subject, n, ranks, stage)
    for few in (2, 1, 0):
        for stage in (3, 0):
            _expect(subject, few, draw.size(5, 7), stage)
    for many in (64, 1024):
        _expect(subject, 3 * many + 1, many, 3)
        _expect(subject, 4 * many - 1, many, 2)


def sizes(subject: Subject, draw: Draw) -> None:
    """Other dtypes: float32 weights with their moments, and sizes that tell the parts apart."""
    n, ranks = draw.size(1000, 3000), draw.size(4, 8)
    for stage in (1, 2, 3):
        _expect(subject, n, ranks, stage, param_bytes=4, grad_bytes=4, optimizer_bytes=8)
        _expect(subject, n, ranks, stage, param_bytes=1, grad_bytes=5, optimizer_bytes=7)
    for name, size in (("param_bytes", 3), ("grad_bytes", 6), ("optimizer_bytes", 9)):
        _expect(subject, n, ranks, draw.size(2, 1), **{name: size})
        _expect(subject, n, ranks, 0, **{name: size})
        for few, stage in (
            (ranks, 0),
            (ranks, 3),
            (1, 3),
        ):  # 0: gradients used up at once, plain SGD
            _expect(subject, n, few, stage, **{name: 0})
        _expect(subject, n, 1, draw.size(3, 0), **{name: size})


def each_size_alone(subject: Subject, draw: Draw) -> None:
    """A size is that of its own part, whatever the others are: every pair of usual ones."""
    n, ranks = draw.size(1001, 3002), draw.size(4, 8)
    for stage in (0, 3):
        for first, second in itertools.combinations(SIZES, 2):
            for a, b in itertools.product((1, 2, 4, 8, 12), repeat=2):
                given = {first: a, second: b}
                out, right = subject.call(n, ranks, stage, **given), SIZES | given
                expected = bytes_of(n, ranks, stage, right)
                if not isinstance(out, dict) or out == expected or set(out) != set(NAMES):
                    continue  # other mistakes are named elsewhere
                name = next(name for name in NAMES if out[name] != expected[name])
                each = dict(zip(NAMES, right.values(), strict=True))[name]
                raise Wrong(
                    "ZERO-TOGETHER",
                    f"the bytes of the {name} hang on another size",
                    tried=f"num_params {n:,}, world_size {ranks}, stage {stage}, "
                    f"{first}={a}, {second}={b}",
                    expected=f"{name} {expected[name]:,}: {each} bytes a number",
                    got=f"{name} {out[name]:,}",
                    look="an `if` that asks for one size and changes another.",
                )


def seven_billion(subject: Subject, draw: Draw) -> None:
    """Exact at full size, one rank and many."""
    n = draw.size(7_000_000_000, 70_000_000_001)
    for ranks in (1, 8, 1024):
        for stage in (0, 1, 2, 3):
            _expect(subject, n, ranks, stage)


def exact(subject: Subject, draw: Draw) -> None:
    """Above 2^53, where a float leaves out whole numbers, counts are exact."""
    n = 2 ** draw.size(58, 60, 57) + 9  # a quotient as a float is then no whole quotient
    for ranks, stage in ((draw.size(3, 7), 3), (1, 3), (8, 1), (8, 0)):
        _expect(subject, n, ranks, stage)


def no_limit(subject: Subject, draw: Draw) -> None:
    """Counts that take more than 64 bits: the bytes alone, the parameters, the ranks, the sizes."""
    more = draw.size(9, 11, 17)
    for n in (10**18 + more, 2**62 + more, 10**30 + more):
        for ranks, stage in ((1, 0), (3, 3), (7, 1), (4, 2)):
            _expect(subject, n, ranks, stage)
    _expect(subject, 10**30 + more, 10**20 + 1, 3)
    _expect(subject, 1000 + more, 3, 3, param_bytes=2**62, grad_bytes=2**61, optimizer_bytes=2**63)


def arguments_alone(subject: Subject, draw: Draw) -> None:
    """The ranks that are given count, not those that there are."""
    for ranks, stage in ((1, 3), (4, 3), (4, 1), (2, 0)):
        expect_arguments_alone(
            subject.probe,
            [draw.size(1200, 2400), ranks, stage],
            tried=f"world_size {ranks}, stage {stage}",
        )


def refuses(subject: Subject, draw: Draw) -> None:
    """Another stage, or no rank, is a ValueError: on one rank too, and at stage 0."""
    for args in (
        *((10, ranks, stage) for ranks in (4, 1) for stage in (4, -1)),
        *((10, ranks, stage) for ranks in (0, -2) for stage in (1, 0, 3)),
    ):
        facts = dict(
            tried="num_params {}, world_size {}, stage {}".format(*args),
            expected="a ValueError",
            look="`check_stage(stage, world_size)`.",
        )
        try:
            got = f"{subject.call(*args)}"[:70]
        except AnswerError as failure:
            if isinstance(failure.error, ValueError):
                continue
            got = f"{type(failure.error).__name__}: {failure.error}"[:70]
        raise Wrong("ZERO-REFUSES", "what makes no sense is accepted", got=got, **facts)


SUITES = (
    Suite(
        "zero-memory",
        (
            stage_zero,
            stages,
            rounded_up,
            sizes,
            each_size_alone,
            seven_billion,
            exact,
            no_limit,
            arguments_alone,
            refuses,
        ),
        ranks=1,
        tested="bytes of weights, gradients and optimizer on each rank, for every stage, "
        "for world sizes that divide the parameters and for those that do not.",
        remember="16 bytes a parameter become 4 + 12/R, 2 + 14/R, 16/R at stages 1, 2, 3.",
        next_step="the smallest stage at which your model fits on 2 cards, and on 8.",
    ),
)
