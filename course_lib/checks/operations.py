"""Checks of lesson 15, first part: Operations.

The programs are those of probes/operations.py, run in a process of their own. What each must
note follows from the sizes of its tensors: no clock, no tolerance.
"""

from torch import Tensor

from course_lib.checks.noted_operations import (
    PROBE,
    VIEWS,
    compare_notes,
    describe_notes,
    describe_program,
    draw_tensors,
    run_programs,
)
from course_lib.checks.operation_kinds import kinds_of_memory, kinds_of_results, kinds_of_views
from course_lib.checks.report import Wrong
from course_lib.checks.subject import Subject
from course_lib.checks.suite import DYNAMO, Draw, Suite


def chain(subject: Subject, draw: Draw) -> None:
    """Two operations: their names, their bytes, in order."""
    given, R, C = draw_tensors(draw)
    n, tried = 4 * R * C, describe_program("chain", given)
    (found,) = run_programs(subject, given, "chain")
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
    compare_notes(
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
    given, R, C = draw_tensors(draw)
    n = 4 * R * C
    (found,) = run_programs(subject, given, "again")
    one = ("mul", n + 4 * C, n)
    compare_notes(
        found,
        [one] * 3,
        describe_program("again", given),
        (([one], "OPS-ONCE", "an operation that comes again is not noted", "one entry a name."),),
        "what is asked before an operation is noted.",
    )


def names_for_old_memory(subject: Subject, draw: Draw) -> None:
    """Views are free, whatever they are called; a copy is not."""
    given, R, C = draw_tensors(draw)
    n = 4 * R * C
    names = ("views", "new names", "turned")
    rights = [("mul", 2 * n, n)], [("clone", n, n)], [("add", n, n)]
    for name, found, right in zip(names, run_programs(subject, given, *names), rights, strict=True):
        extra = [s[0] for s in found["seen"] if s[0] in VIEWS]
        if extra:
            raise Wrong(
                "OPS-VIEWS",
                "what moves no numbers is noted",
                tried=describe_program(name, given),
                expected=describe_notes(right),
                got=describe_notes(found["seen"]),
                fits=f"{', '.join(dict.fromkeys(extra))}: a new shape for the same memory.",
                hides="a program of many views would look slow, and is not.",
                look="where the result of an operation lies, and whether it wrote there.",
            )
        compare_notes(
            found,
            right,
            describe_program(name, given),
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
    given, R, C = draw_tensors(draw)
    n = 4 * R * C
    (found,) = run_programs(subject, given, "reserved")
    extra = [s[0] for s in found["seen"] if "empty" in s[0]]
    right = [("copy_", 2 * n, n)]
    if extra:
        raise Wrong(
            "OPS-EMPTY",
            "reserved memory counts as written",
            tried=describe_program("reserved", given),
            expected=describe_notes(right),
            got=describe_notes(found["seen"]),
            fits=", ".join(extra) + ".",
            look="the docstring: which operations hand out memory as it is?",
        )
    compare_notes(
        found,
        right,
        describe_program("reserved", given),
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
    given, R, C = draw_tensors(draw)
    n = 4 * R * C
    one, each = run_programs(subject, given, "in place", "foreach")
    compare_notes(
        one,
        [("add_", n + 4 * C, n)],
        describe_program("in place", given),
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
    compare_notes(
        each,
        [("_foreach_add_", both, both)],
        describe_program("foreach", given),
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
    given, R, C = draw_tensors(draw)
    n = 4 * R * C
    cat, top, added, out = run_programs(subject, given, "list", "two results", "keyword", "out")
    compare_notes(
        cat,
        [("cat", 2 * n, 2 * n)],
        describe_program("list", given),
        (([("cat", 0, 2 * n)], "OPS-LISTS", "tensors in a list are not read", "0 bytes read."),),
        "inputs that are no tensors, but hold some.",
    )
    compare_notes(
        top,
        [("max", n, 12 * R)],
        describe_program("two results", given),
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
    compare_notes(added, [("add", 2 * n, n)], describe_program("keyword", given))
    copy = ("clone", n, n)
    compare_notes(
        out,
        [copy, ("add", 3 * n, n)],
        describe_program("out", given),
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
    given, R, C = draw_tensors(draw)
    n = 4 * R * C
    half, square, wide, twin = run_programs(
        subject, given, "16 bits", "square", "wide", "turned twin"
    )
    cast = ("_to_copy", n, n // 2)
    compare_notes(
        half,
        [cast, cast, ("add", n, n // 2)],
        describe_program("16 bits", given),
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
    compare_notes(
        square,
        [("mul", n, n)],
        describe_program("square", given),
        (([("mul", 2 * n, n)], "OPS-TWICE", "one tensor, given twice, counts twice", "x and x."),),
        "arguments that are the same object.",
    )
    compare_notes(
        wide,
        [("mul", 4 * C, n)],
        describe_program("wide", given),
        (([("mul", n, n)], "OPS-EXPANDED", "an expanded tensor counts in full", f"w, {R} times."),),
        "what `expand` does to memory: nothing.",
    )
    compare_notes(
        twin,
        [("mm", 2 * n, 4 * R * R)],
        describe_program("turned twin", given),
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
    given, R, C = draw_tensors(draw)
    n = 4 * R * C
    (back,) = run_programs(subject, given, "backward")
    right = [("mul", 2 * n, n), ("sum", n, 4), ("ones_like", 4, 4), ("mul", n + 4, n)]
    compare_notes(
        back,
        right,
        describe_program("backward", given),
        ((right[:2], "OPS-FORWARD-ONLY", "the backward pass is not noted", "two operations."),),
        "operations that autograd issues.",
    )
    for name in ("fails", "fails in place", "fails into out", "fails in a list"):
        _expect_error(subject, given, name)


def _expect_error(subject: Subject, given: list[Tensor], name: str) -> None:
    """The operation that raises is not noted, nor any after the `with`; the error comes through."""
    (failed,), tried = run_programs(subject, given, name), describe_program(name, given)
    if failed["error"] != "RuntimeError":
        raise Wrong(
            "OPS-SWALLOWED",
            "an error of the program is lost",
            tried=tried,
            expected="RuntimeError",
            got=failed["error"] or "no error",
            look="`try` around the call.",
        )
    n = given[0].nbytes
    right = [("mul", n, n)]
    if failed["seen"][:1] == right and failed["seen"][1:]:
        raise Wrong(
            "OPS-RAISED",
            "an operation that raised is noted",
            tried=tried,
            got=describe_notes(failed["seen"]),
            expected=describe_notes(right),
            look="the order: run it, then note it; and what stands in `finally`.",
        )
    compare_notes(failed, right, tried)
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
    given, R, C = draw_tensors(draw)
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
            expected=f"outer: {describe_notes([mul, add])}",
            got=f"outer: {describe_notes(outer)}",
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
                expected=f"{name}: {describe_notes(right)}",
                got=f"{name}: {describe_notes(seen)}",
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
            kinds_of_views,
            kinds_of_results,
            kinds_of_memory,
        ),
        tested="what writes numbers is counted, forward and backward, with the bytes of both sides.",
        remember="views move no numbers; what writes numbers reads its inputs and writes its results.",
        ranks=1,
        next_step="count the block of lesson 06 with `fast_attention=False`.",
        loads=(DYNAMO,),  # the first operation under a dispatch mode loads it
    ),
)
