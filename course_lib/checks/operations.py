"""Checks of lesson 15, first part: Operations.

The programs are those of probes/operations.py, run in a process of their own. What each must
note follows from the sizes of its tensors: no clock, no tolerance.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.checks.report import Wrong
from course_lib.checks.subject import Subject
from course_lib.checks.suite import DYNAMO, Draw, Suite
from course_lib.probes.operations import PROGRAMS

PROBE = "course_lib.probes.operations:"
Seen = list[tuple[str, int, int]]
Ways = Sequence[tuple[Seen, str, str, str]]
VIEWS = set("detach unsqueeze expand split view t t_ unsqueeze_ _unsafe_view".split())
SAID = {
    "chain": "x * w + y", "again": "x * w * w * w", "in place": "x.add_(w)",
    "views": "detach, unsqueeze, expand, split, view, t; then x.t() * y.t()",
    "new names": "x.t().reshape(-1)", "turned": "x.t_().unsqueeze_(0); then x + 1",
    "reserved": "empty, new_empty; then empty_like(x).copy_(x)",
    "foreach": "torch._foreach_add_([x, w], 1.0)", "list": "torch.cat([x, y])",
    "two results": "torch.max(x, dim=1)", "keyword": "torch.add(x, y, alpha=3)",
    "out": "z = x.clone(); torch.add(x, y, out=z)", "16 bits": "x.bfloat16() + y.bfloat16()",
    "square": "x * x", "wide": "w.expand(x.shape) * 2", "turned twin": "x @ x.t()",
    "backward": "(x * y).sum().backward()",
    "fails": "x * 2, then a product whose shapes do not fit",
}  # fmt: skip


def _draw_tensors(draw: Draw) -> tuple[list[Tensor], int, int]:
    """x, y (R, C) and w (C,); and R, C."""
    R, C = draw.size(3, 5, 2), draw.size(4, 6, 7)  # never equal: x @ y must not fit
    return [draw.randn(R, C), draw.randn(R, C), draw.randn(C)], R, C


def _run(subject: Subject, given: list[Tensor], *names: str) -> list[dict]:
    """What was observed of each program; results that differ are said here."""
    found = subject.probe(PROBE + "observe_programs", list(names), given)
    for name in names:
        if found[name]["before"]:
            raise Wrong(
                "OPS-SHARED",
                "a new counter is not empty",
                tried="a counter for each program",
                expected="0 noted at the start",
                got=f"{found[name]['before']} noted",
                fits="one list that all counters share.",
                look="where the list is made.",
            )
        _same_results(name, found[name], given, _describe_program(name, given))
    return [found[name] for name in names]


def _describe_program(name: str, given: list[Tensor]) -> str:
    R, C = given[0].shape
    return f"{SAID[name]}   with x, y ({R}, {C}) and w ({C},) in float32"


def _same_results(name: str, found: dict, given: list[Tensor], tried: str) -> None:
    if name == "fails":
        return
    facts = dict(
        tried=tried,
        expected="the results that come without it",
        look="what is called, with which arguments, how often, and what is returned.",
        hides="a program that is watched must do what it does alone.",
    )
    if found["error"]:
        raise Wrong(
            "OPS-RESULT",
            "the program fails when it is watched",
            **facts,
            got=f"{found['error']}, raised inside the program",
        )
    out = PROGRAMS[name](*(x.clone() for x in given))
    right = list(out) if isinstance(out, tuple) else [out]
    fine = len(right) == len(found["out"]) and all(
        a.shape == b.shape and torch.equal(a, b) for a, b in zip(right, found["out"], strict=True)
    )
    if fine:
        return
    if name == "in place":
        raise Wrong(
            "OPS-RUN-TWICE",
            "the operation ran more than once",
            **facts,
            got="x with more than one w added",
            fits="two calls of func.",
        )
    if name in ("keyword", "out"):
        raise Wrong(
            "OPS-KWARGS",
            "the keywords of an operation are lost",
            **facts,
            got="x + y" if name == "keyword" else "z as it was",
            fits="func called with its positional arguments alone.",
        )
    raise Wrong(
        "OPS-RESULT",
        "the results are others when the program is watched",
        **facts,
        got=f"{len(found['out'])} tensors, not the same ones",
    )


def _text(seen: Seen) -> str:
    """As "mul 64 -> 48"; the bytes read and written."""
    if not seen:
        return "nothing"
    parts = [f"{name} {read} -> {written}" for name, read, written in seen[:4]]
    return "; ".join(parts) + (f"; {len(seen) - 4} more" if len(seen) > 4 else "")


def _compare(found: dict, right: Seen, tried: str, ways: Ways = (), look: str = "") -> None:
    """What was noted is `right`; else the first of `ways` (what, code, finding, fits), or OTHER."""
    seen = [tuple(entry) for entry in found["seen"]]
    if seen == right:
        return
    facts = dict(
        tried=tried,
        expected=_text(right),
        got=_text(seen),
        look=look or "which operations are noted, and with which bytes.",
    )
    for what, code, finding, fits in ways:
        if seen == what:
            raise Wrong(code, finding, fits=fits, **facts)
    raise Wrong("OTHER", "what was noted differs (bytes read -> written)", **facts)


def chain(subject: Subject, draw: Draw) -> None:
    """Two operations: their names, their bytes, in order."""
    given, R, C = _draw_tensors(draw)
    n, tried = 4 * R * C, _describe_program("chain", given)
    (found,) = _run(subject, given, "chain")
    right = [("mul", n + 4 * C, n), ("add", 2 * n, n)]
    bare = [
        name.split("::")[-1].split(".")[-2 if "." in name else -1] for name, *_ in found["seen"]
    ]
    if bare == ["mul", "add"] and [s[0] for s in found["seen"]] != bare:
        raise Wrong(
            "OPS-NAME",
            "the names are others",
            tried=tried,
            expected="mul, add",
            got=", ".join(s[0] for s in found["seen"]),
            look="the docstring of `Operation.name`.",
        )
    _compare(
        found,
        right,
        tried,
        (
            ([], "OPS-NOTHING", "nothing was noted", "an empty list."),
            (
                [(a, c, b) for a, b, c in right],
                "OPS-SWAPPED",
                "read and written are swapped",
                "written, read.",
            ),
            (
                [(a, b // 4, c // 4) for a, b, c in right],
                "OPS-ELEMENTS",
                "numbers are counted, not bytes",
                "a quarter of the bytes: float32 has 4 each.",
            ),
            (
                [(a, b + c, c) for a, b, c in right],
                "OPS-BOTH",
                "the result counts as read too",
                "read + written.",
            ),
            (
                [(a, n, c) for a, b, c in right],
                "OPS-FIRST-INPUT",
                "only the first input counts",
                "x alone.",
            ),
        ),
    )
    right = sum(read + written for _, read, written in found["seen"])
    if found["bytes"] != right:
        raise Wrong(
            "OPS-NUM-BYTES",
            "num_bytes is another number",
            tried=tried,
            expected=f"{right}, read and written by all of them",
            got=f"{found['bytes']}"[:60],
            look="`num_bytes`, as it was in the cell.",
        )


def each_time(subject: Subject, draw: Draw) -> None:
    """The same operation three times is three operations."""
    given, R, C = _draw_tensors(draw)
    n = 4 * R * C
    (found,) = _run(subject, given, "again")
    one = ("mul", n + 4 * C, n)
    _compare(
        found,
        [one] * 3,
        _describe_program("again", given),
        (([one], "OPS-ONCE", "an operation that comes again is not noted", "one entry a name."),),
        "what is asked before an operation is noted.",
    )


def names_for_old_memory(subject: Subject, draw: Draw) -> None:
    """Views are free, whatever they are called; a copy is not."""
    given, R, C = _draw_tensors(draw)
    n = 4 * R * C
    names = ("views", "new names", "turned")
    rights = [("mul", 2 * n, n)], [("clone", n, n)], [("add", n, n)]
    for name, found, right in zip(names, _run(subject, given, *names), rights, strict=True):
        extra = [s[0] for s in found["seen"] if s[0] in VIEWS]
        if extra:
            raise Wrong(
                "OPS-VIEWS",
                "what moves no numbers is noted",
                tried=_describe_program(name, given),
                expected=_text(right),
                got=_text(found["seen"]),
                fits=f"{', '.join(dict.fromkeys(extra))}: a new shape for the same memory.",
                hides="a program of many views would look slow, and is not.",
                look="where the result of an operation lies, and whether it wrote there.",
            )
        _compare(
            found,
            right,
            _describe_program(name, given),
            (
                (
                    [],
                    "OPS-COPY-MISSED",
                    "an operation that writes new memory is not noted",
                    "nothing.",
                ),
            ),
            "where the result of an operation lies.",
        )


def reserved_memory(subject: Subject, draw: Draw) -> None:
    """Memory that is reserved and not written costs no traffic."""
    given, R, C = _draw_tensors(draw)
    n = 4 * R * C
    (found,) = _run(subject, given, "reserved")
    extra = [s[0] for s in found["seen"] if "empty" in s[0]]
    right = [("copy_", 2 * n, n)]
    if extra:
        raise Wrong(
            "OPS-EMPTY",
            "reserved memory counts as written",
            tried=_describe_program("reserved", given),
            expected=_text(right),
            got=_text(found["seen"]),
            fits=", ".join(extra) + ".",
            look="the docstring: which operations hand out memory as it is?",
        )
    _compare(
        found,
        right,
        _describe_program("reserved", given),
        (
            (
                [],
                "OPS-IN-PLACE",
                "an operation in place is not noted",
                "results in new memory alone.",
            ),
        ),
        "operations that write into what they are given.",
    )


def in_place(subject: Subject, draw: Draw) -> None:
    """What writes into its inputs writes too, with or without a result."""
    given, R, C = _draw_tensors(draw)
    n = 4 * R * C
    one, each = _run(subject, given, "in place", "foreach")
    _compare(
        one,
        [("add_", n + 4 * C, n)],
        _describe_program("in place", given),
        (
            (
                [],
                "OPS-IN-PLACE",
                "an operation in place is not noted",
                "results in new memory alone.",
            ),
            (
                [("add_", n + 4 * C, 0)],
                "OPS-IN-PLACE",
                "an operation in place writes nothing",
                "bytes of new memory alone.",
            ),
        ),
        "operations that write into what they are given.",
    )
    both = n + 4 * C
    _compare(
        each,
        [("_foreach_add_", both, both)],
        _describe_program("foreach", given),
        (
            ([], "OPS-NO-RESULT", "what returns nothing is not noted", "no result, no entry."),
            (
                [("_foreach_add_", both, 0)],
                "OPS-NO-RESULT",
                "what returns nothing writes nothing",
                "written taken from results alone.",
            ),
            (
                [("_foreach_add_", 0, both)],
                "OPS-LISTS",
                "tensors in a list are not read",
                "0 bytes read.",
            ),
            ([("_foreach_add_", 0, 0)], "OPS-LISTS", "tensors in a list do not count", "0 bytes."),
        ),
        "an operation whose result is None.",
    )


def every_tensor(subject: Subject, draw: Draw) -> None:
    """In lists, among keywords, and when there are several results."""
    given, R, C = _draw_tensors(draw)
    n = 4 * R * C
    cat, top, added, out = _run(subject, given, "list", "two results", "keyword", "out")
    _compare(
        cat,
        [("cat", 2 * n, 2 * n)],
        _describe_program("list", given),
        (([("cat", 0, 2 * n)], "OPS-LISTS", "tensors in a list are not read", "0 bytes read."),),
        "inputs that are no tensors, but hold some.",
    )
    _compare(
        top,
        [("max", n, 12 * R)],
        _describe_program("two results", given),
        (
            (
                [("max", n, 4 * R)],
                "OPS-RESULTS",
                "only the first result counts",
                "the values, without int64.",
            ),
            (
                [("max", n, 8 * R)],
                "OPS-RESULTS",
                "the results count with 4 bytes a number",
                "int64 has 8.",
            ),
            ([("max", n, 0)], "OPS-RESULTS", "results in a tuple do not count", "0 bytes written."),
            (
                [],
                "OPS-RESULTS",
                "an operation with two results is not noted",
                "a result that is no tensor.",
            ),
        ),
        "an operation that returns values and their places.",
    )
    _compare(added, [("add", 2 * n, n)], _describe_program("keyword", given))
    copy = ("clone", n, n)
    _compare(
        out,
        [copy, ("add", 3 * n, n)],
        _describe_program("out", given),
        (
            (
                [copy, ("add", 2 * n, n)],
                "OPS-KEYWORD-READ",
                "a tensor among the keywords does not count",
                "positional arguments alone.",
            ),
            (
                [copy],
                "OPS-IN-PLACE",
                "an operation that writes into out= is not noted",
                "x.clone() alone.",
            ),
        ),
        "the keywords.",
    )


def bytes_in_memory(subject: Subject, draw: Draw) -> None:
    """Two bytes a number in bfloat16; a tensor once a side; an expanded dimension once."""
    given, R, C = _draw_tensors(draw)
    n = 4 * R * C
    half, square, wide, twin = _run(subject, given, "16 bits", "square", "wide", "turned twin")
    cast = ("_to_copy", n, n // 2)
    _compare(
        half,
        [cast, cast, ("add", n, n // 2)],
        _describe_program("16 bits", given),
        (
            (
                [("_to_copy", n, n)] * 2 + [("add", 2 * n, n)],
                "OPS-FOUR-BYTES",
                "numbers of 16 bits count 4 bytes",
                "4 bytes a number, whatever the dtype.",
            ),
        ),
        "how many bytes a number has.",
    )
    _compare(
        square,
        [("mul", n, n)],
        _describe_program("square", given),
        (([("mul", 2 * n, n)], "OPS-TWICE", "one tensor, given twice, counts twice", "x and x."),),
        "arguments that are the same object.",
    )
    _compare(
        wide,
        [("mul", 4 * C, n)],
        _describe_program("wide", given),
        (([("mul", n, n)], "OPS-EXPANDED", "an expanded tensor counts in full", f"w, {R} times."),),
        "what `expand` does to memory: nothing.",
    )
    _compare(
        twin,
        [("mm", 2 * n, 4 * R * R)],
        _describe_program("turned twin", given),
        (
            (
                [("mm", n, 4 * R * R)],
                "OPS-SAME-MEMORY",
                "two tensors of one memory count once",
                "tensors told apart by where they lie: a view is another object.",
            ),
        ),
        "what counts as the same tensor: the object, not its memory.",
    )


def backward_and_errors(subject: Subject, draw: Draw) -> None:
    """The backward pass is noted too; what raised is not, and the error comes through."""
    given, R, C = _draw_tensors(draw)
    n = 4 * R * C
    back, failed = _run(subject, given, "backward", "fails")
    right = [("mul", 2 * n, n), ("sum", n, 4), ("ones_like", 4, 4), ("mul", n + 4, n)]
    _compare(
        back,
        right,
        _describe_program("backward", given),
        ((right[:2], "OPS-FORWARD-ONLY", "the backward pass is not noted", "two operations."),),
        "operations that autograd issues.",
    )
    tried = _describe_program("fails", given)
    if failed["error"] != "RuntimeError":
        raise Wrong(
            "OPS-SWALLOWED",
            "an error of the program is lost",
            tried=tried,
            expected="RuntimeError",
            got=failed["error"] or "no error",
            look="`try` around the call.",
        )
    one = ("mul", n, n)
    extra = [s[0] for s in failed["seen"][1:]]
    if failed["seen"][:1] == [one] and extra:
        raise Wrong(
            "OPS-RAISED",
            "an operation that raised is noted",
            tried=tried,
            got=_text(failed["seen"]),
            expected=_text([one]),
            look="the order: run it, then note it.",
        )
    _compare(failed, [one], tried)
    if failed["after"]:
        raise Wrong(
            "OPS-AFTER",
            "it goes on after its `with`",
            tried=tried,
            expected="0 more",
            got=f"{failed['after']} more",
            look="what is switched on, and where off.",
        )


def two_at_once(subject: Subject, draw: Draw) -> None:
    """One inside the other: both see what happens inside; used again, it goes on."""
    given, R, C = _draw_tensors(draw)
    n = 4 * R * C
    found = subject.probe(PROBE + "nest_counters", given)
    outer, inner, again = ([tuple(e) for e in seen] for seen in found)
    mul, add, sub = ("mul", n, n), ("add", 2 * n, n), ("sub", 2 * n, n)
    tried = "with outer: x * 2; with inner: x + y. Then inner again: x - y"
    facts = dict(tried=tried, look="where the list lives, and what the mode inside passes on.")
    if outer == [mul] and inner == [add]:
        raise Wrong(
            "OPS-HIDDEN",
            "the inner counter hides its operations from the outer one",
            expected=f"outer: {_text([mul, add])}",
            got=f"outer: {_text(outer)}",
            **facts,
        )
    for name, seen, right in (
        ("outer", outer, [mul, add]),
        ("inner", inner, [add]),
        ("inner, used again", again, [add, sub]),
    ):
        if seen != right:
            raise Wrong(
                "OTHER",
                "two counters at once differ",
                expected=f"{name}: {_text(right)}",
                got=f"{name}: {_text(seen)}",
                **facts,
            )


SUITES = (
    Suite(
        "count-ops",
        (
            chain,
            each_time,
            names_for_old_memory,
            reserved_memory,
            in_place,
            every_tensor,
            bytes_in_memory,
            backward_and_errors,
            two_at_once,
        ),
        proved="what writes numbers is counted, forward and backward, with the bytes of both sides.",
        remember="a view is free; every other operation reads its inputs and writes its results.",
        ranks=1,
        next_step="count the block of lesson 06 with `fast_attention=False`.",
        loads=(DYNAMO,),  # the first operation under a dispatch mode loads it
    ),
)
