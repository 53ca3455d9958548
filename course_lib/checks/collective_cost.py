"""Checks of lesson 19, third part: collective_cost.

Oracle: `_ring`, which counts the messages of a ring one by one and uses no formula.
"""

import math
from collections.abc import Sequence

from course_lib.checks import expect
from course_lib.checks.calls import WRAPS, expect_arguments_alone, expect_no_overflow
from course_lib.checks.report import Wrong, number
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite

KEYS = ("messages", "bytes", "seconds")
NAMES = ("reduce_scatter", "all_gather", "all_reduce")
DEFAULTS = {"latency_s": 0.0, "bytes_per_s": math.inf}


def _ring(name: str, num_bytes: int, R: int, latency_s: float, bytes_per_s: float) -> dict:
    """What rank 0 sends, message by message."""
    found = {"messages": 0, "bytes": 0.0, "seconds": 0.0}
    for _ in ("reduce_scatter", "all_gather") if name == "all_reduce" else (name,):
        for _ in range(1, R):  # one step of the ring: one chunk
            found["messages"] += 1
            found["bytes"] += num_bytes / R
            found["seconds"] += latency_s + num_bytes / R / bytes_per_s
    return found


def _ask_cost(subject: Subject, name: str, num_bytes: int, R: int, **link) -> tuple[dict, str]:
    """What the answer says, three finite numbers by name; and what it was asked."""
    given = "".join(f", {key}={value:g}" for key, value in link.items())
    tried = f'"{name}", {num_bytes:,} bytes, {R} rank{"s" * (R != 1)}{given}'
    found = subject.call(name, num_bytes, R, **link)
    wanted = f"a dict with {', '.join(KEYS)}"
    expect.not_none(found, wanted, tried=tried)
    if not isinstance(found, dict) or set(found) != set(KEYS):
        got = ", ".join(map(str, found))[:60] if isinstance(found, dict) else type(found).__name__
        raise Wrong(
            "COST-KEYS",
            "the answer has another form",
            tried=tried,
            expected=wanted,
            got=got or "an empty dict",
            look="the docstring: the three names.",
        )
    for key in KEYS:
        if not isinstance(found[key], (int, float)) or isinstance(found[key], bool):
            raise Wrong(
                "TYPE",
                f'"{key}" is not a number',
                tried=tried,
                expected="three numbers",
                got=f"{key}: a {type(found[key]).__name__}",
                look="what stands there.",
            )
        if not math.isfinite(found[key]):
            raise Wrong(
                "NAN",
                f'"{key}" is no finite number',
                tried=tried,
                got=str(found[key]),
                expected="0 seconds on a link without latency and limit",
                look="divisions, and what infinity is multiplied with.",
            )
    if not isinstance(found["messages"], int):
        raise Wrong(
            "TYPE",
            "messages is not a whole number",
            tried=tried,
            expected="an int",
            got=f"{found['messages']!r}"[:40],
            look="what messages are made of.",
        )
    return found, tried


def _compare(
    key: str, found: dict, right: float, tried: str, ways: Sequence[tuple], look: str
) -> None:
    """`found[key]` is `right`; else the first of `ways` (number, code, finding, fits), or OTHER."""
    if math.isclose(found[key], right, rel_tol=1e-9, abs_tol=1e-15):
        return
    facts = dict(
        tried=tried,
        expected=f"{key}: {_format_number(right)}",
        got=f"{key}: {_format_number(found[key])}",
    )
    for value, code, finding, fits in ways:
        if math.isclose(found[key], value, rel_tol=1e-9):
            raise Wrong(code, finding, fits=fits, look=look, **facts)
    raise Wrong("OTHER", f"{key} is another number", look=look, **facts)


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else number(value)


def form(subject: Subject, draw: Draw) -> None:
    """Three finite numbers by name, messages a whole one."""
    for name in NAMES:
        _ask_cost(subject, name, 1000 * draw.size(8, 6, 10), 2)


def one_ring(subject: Subject, draw: Draw) -> None:
    """Reduce-scatter and all-gather: R - 1 messages of a chunk each, from each rank."""
    R = draw.size(4, 5, 8)
    N = 1000 * R
    for name in ("reduce_scatter", "all_gather"):
        found, tried = _ask_cost(subject, name, N, R)
        right = _ring(name, N, R, 0.0, math.inf)
        _compare(
            "bytes",
            found,
            right["bytes"],
            tried,
            (
                (
                    N * (R - 1),
                    "COST-R-1",
                    f"{R} times too many bytes",
                    "R - 1 messages of the whole tensor, or the bytes of all ranks together.",
                ),
                (2 * right["bytes"], "COST-TWICE", "the ring is counted twice", "an all-reduce."),
                (
                    N,
                    "COST-WHOLE",
                    "the whole tensor is counted",
                    "R chunks: a rank sends one less.",
                ),
                (N / R, "COST-ONE-STEP", "one step is counted", "one chunk, sent once."),
            ),
            "how many steps there are, and what is sent in one.",
        )
        _messages(found, right["messages"], R, 1, tried)


def _messages(found: dict, right: int, R: int, rings: int, tried: str) -> None:
    off, once = "the number of messages is another", "one ring of messages is counted"
    _compare(
        "messages",
        found,
        right,
        tried,
        (
            (right / 2, "COST-ONCE", once, "one of the two rings.")
            if rings == 2
            else (right * 2, "COST-TWICE", "the ring is counted twice", "an all-reduce."),
            (rings * R, "COST-MESSAGES", off, "a step for every rank, the rank itself too."),
            (right * R, "COST-MESSAGES", off, "the messages of all ranks together."),
            (rings * math.ceil(math.log2(R)), "COST-MESSAGES", off, "the steps of a tree."),
            (rings, "COST-MESSAGES", off, "one message for a whole ring."),
        ),
        "the steps of the ring.",
    )


def both_rings(subject: Subject, draw: Draw) -> None:
    """An all-reduce is both rings, one after the other."""
    R = draw.size(4, 5, 8)
    N = 1000 * R
    found, tried = _ask_cost(subject, "all_reduce", N, R)
    right = _ring("all_reduce", N, R, 0.0, math.inf)
    _compare(
        "bytes",
        found,
        right["bytes"],
        tried,
        (
            (
                right["bytes"] / 2,
                "COST-ONCE",
                "the all-reduce is counted once",
                "one of the two rings.",
            ),
            (
                2 * N * (R - 1),
                "COST-R-1",
                f"{R} times too many bytes",
                "messages of the whole tensor.",
            ),
            (2 * N, "COST-WHOLE", "two whole tensors are counted", "the limit for many ranks."),
        ),
        "the two parts of an all-reduce.",
    )
    _messages(found, right["messages"], R, 2, tried)


def seconds(subject: Subject, draw: Draw) -> None:
    """Each message pays the latency and its own bytes; by default neither costs anything."""
    R, N, latency, rate = draw.size(4, 5, 8), 2_000_000, 1e-3, 1e9
    for name in NAMES:
        found, tried = _ask_cost(subject, name, N, R, latency_s=latency, bytes_per_s=rate)
        right = _ring(name, N, R, latency, rate)
        m, sent = right["messages"], right["bytes"]
        _compare(
            "seconds",
            found,
            right["seconds"],
            tried,
            (
                (latency + sent / rate, "COST-LATENCY", "the latency is paid once", "one message."),
                (sent / rate, "COST-LATENCY", "no latency is paid", "bytes over bandwidth alone."),
                (m * latency, "COST-BANDWIDTH", "the bytes take no time", "latency alone."),
                (
                    m * latency + sent * rate,
                    "COST-BANDWIDTH",
                    "bytes times bandwidth",
                    "`*` for `/`.",
                ),
                (
                    m * (latency + N / rate),
                    "COST-R-1",
                    "each message takes the time of a whole tensor",
                    "num_bytes in place of a chunk.",
                ),
                (
                    m * (latency + sent / rate),
                    "COST-R-1",
                    "each message takes the time of all of them",
                    "all bytes of the rank, once per message.",
                ),
                (m * (latency + 8 * N / R / rate), "COST-BITS", "eight times the bytes", "bits."),
            ),
            "the time of one message, and how many there are.",
        )
    found, tried = _ask_cost(subject, "all_reduce", N, R)
    _compare("seconds", found, 0.0, tried, (), "what latency_s and bytes_per_s are by default.")
    for size, link in (
        (N, {"latency_s": latency}),
        (N, {"bytes_per_s": rate}),
        (0, {"latency_s": latency, "bytes_per_s": rate}),
    ):
        found, tried = _ask_cost(subject, "all_reduce", size, R, **link)
        right = _ring("all_reduce", size, R, *(DEFAULTS | link).values())
        if not all(math.isclose(found[key], right[key], rel_tol=1e-9) for key in KEYS):
            raise Wrong(
                "COST-ONE-GIVEN",
                "latency, bandwidth and bytes do not count each by itself",
                tried=tried,
                expected=_numbers(right),
                got=_numbers(found),
                fits="a question whether something is 0, or not given.",
                look="a message of 0 bytes is a message too; each of the two defaults by itself.",
            )


def _numbers(found: dict) -> str:
    return ", ".join(f"{key} {_format_number(found[key])}" for key in KEYS)


def one_rank(subject: Subject, draw: Draw) -> None:
    """One rank sends nothing, in no time."""
    for name in NAMES:
        found, tried = _ask_cost(subject, name, 1000, 1, latency_s=1.0, bytes_per_s=10.0)
        if any(found[key] != 0 for key in KEYS):
            raise Wrong(
                "COST-ALONE",
                "one rank alone is charged",
                tried=tried,
                expected="messages 0, bytes 0, seconds 0",
                got=", ".join(f"{key} {_format_number(found[key])}" for key in KEYS),
                hides="programs run on one rank too, without a group.",
                look="how many others there are to send to.",
            )


def many_ranks(subject: Subject, draw: Draw) -> None:
    """Bytes that the ranks do not divide, and 1,000 ranks."""
    N = draw.size(1001, 778, 1234)
    for name, R in (("reduce_scatter", 3), ("all_gather", 9), ("all_reduce", 1000)):
        found, tried = _ask_cost(subject, name, N, R)
        right = _ring(name, N, R, 0.0, math.inf)
        m = right["messages"]
        _compare(
            "bytes",
            found,
            right["bytes"],
            tried,
            (
                (m * (N // R), "COST-ROUNDED", "the chunk is rounded", "`//`."),
                (m * -(-N // R), "COST-ROUNDED", "the chunk is rounded", "a chunk rounded up."),
                (m * N // R, "COST-ROUNDED", "the bytes are rounded", "`//`, or `int`."),
            ),
            "the bytes of a chunk: R equal ones, so a float.",
        )


def large_tensors(subject: Subject, draw: Draw) -> None:
    """More bytes than 63 bits count: by themselves, or once for each message."""
    for N, R in ((2**61 + 8, draw.size(8, 9, 11)), (10**30, 4)):
        for name in NAMES:
            right = _ring(name, N, R, 1e-6, 1e9)
            tried = f'"{name}", {N:,} bytes, {R} ranks, 1e-6 s, 1e9 bytes/s'
            said = ("COST-WRAPS", "large numbers of bytes wrap around")
            with expect_no_overflow(*said, tried=tried, expected=_numbers(right)):
                found, tried = _ask_cost(subject, name, N, R, latency_s=1e-6, bytes_per_s=1e9)
            if not all(math.isclose(found[k], right[k]) for k in KEYS):
                raise Wrong(
                    *said, tried=tried, expected=_numbers(right), got=_numbers(found), **WRAPS
                )


def arguments_alone(subject: Subject, draw: Draw) -> None:
    """The ranks that are given count, not those that there are."""
    for R in (1, draw.size(4, 5, 8)):
        for name in NAMES:
            expect_arguments_alone(
                subject.probe, [name, 1000, R], tried=f'"{name}", 1,000 bytes, {R} ranks'
            )


def refusals(subject: Subject, draw: Draw) -> None:
    """Names and world sizes that mean nothing raise ValueError."""
    for name, R, code, what in (
        ("gossip", 4, "COST-NAME", "a name that is none of the three"),
        ("reduce", 1, "COST-NAME", "a name that is none of the three"),
        ("all-reduce", 4, "COST-NAME", "a name that is nearly one of the three"),
        ("All_Gather", 4, "COST-NAME", "a name that is nearly one of the three"),
        ("all_reduce", 0, "COST-WORLD", "a world of 0 ranks"),
        ("all_gather", -2, "COST-WORLD", "a world of -2 ranks"),
    ):
        tried = f'"{name}", 1,000 bytes, {R} ranks'
        try:
            got = f"{subject.call(name, 1000, R)}"[:60]
        except AnswerError as failure:
            if isinstance(failure.error, ValueError):
                continue
            got = str(failure)[:60]
        raise Wrong(
            code,
            f"{what} is not refused",
            tried=tried,
            expected="ValueError",
            got=got,
            look="the last sentence of the docstring.",
        )


SUITES = (
    Suite(
        "collective-cost",
        (
            form,
            one_ring,
            both_rings,
            seconds,
            one_rank,
            many_ranks,
            large_tensors,
            arguments_alone,
            refusals,
        ),
        ranks=1,
        tested="messages, bytes and seconds are those of a ring, counted step by step.",
        remember="an all-reduce sends 2 (R - 1) / R times the tensor: never more than twice.",
        next_step="500 MB on 8 ranks at 25 GB/s: at which latency do the messages cost as much?",
    ),
)
