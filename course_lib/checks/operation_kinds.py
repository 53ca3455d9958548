"""Checks of lesson 15, first part: views, results and memory of every kind that a program has."""

from course_lib.checks.noted_operations import (
    compare_notes,
    describe_notes,
    describe_program,
    draw_tensors,
    run_programs,
)
from course_lib.checks.report import Wrong
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw


def kinds_of_views(subject: Subject, draw: Draw) -> None:
    """Whatever a view is called it is free; what is called so and copies is not; parts count as such."""
    given, R, C = draw_tensors(draw)
    n = 4 * R * C
    views, copies, parts = run_programs(subject, given, "more views", "copies", "parts")
    right = [("sub", 2 * n, n)]
    extra = [seen[0] for seen in views["seen"] if seen[0] != "sub"]
    if extra:
        raise Wrong(
            "OPS-VIEWS",
            "what moves no numbers is noted",
            tried=describe_program("more views", given),
            expected=describe_notes(right),
            got=describe_notes(views["seen"]),
            fits="a list of names, which is never complete.",
            look="where the result of an operation lies, and whether it wrote there.",
        )
    compare_notes(views, right, describe_program("more views", given))
    right = [("view_copy", n, n), ("unsqueeze_copy", n, n)]
    compare_notes(
        copies,
        right,
        describe_program("copies", given),
        [
            (left, "OPS-COPY-MISSED", "a copy is taken for a view", "its name, or a part of it.")
            for left in ([], right[:1], right[1:])
        ],
        "where the result of an operation lies.",
    )
    part, row, side = 8 * R, 4 * C, 4 * R
    right = [("mul", part, part), ("add_", row, row), ("neg_", side, side)]
    compare_notes(
        parts,
        right,
        describe_program("parts", given),
        (
            (
                [("mul", n, part), ("add_", n, n), ("neg_", n, n)],
                "OPS-WHOLE",
                "a part of a tensor counts as the whole",
                "the bytes of the memory that it lies in.",
            ),
            (right[:1], "OPS-IN-PLACE", "what is written into a part is not noted", "`mul` alone."),
        ),
        "the numbers that a tensor has, and those of the memory it lies in.",
    )


def kinds_of_results(subject: Subject, draw: Draw) -> None:
    """Lists of results, results without inputs, old and new memory at once."""
    given, R, C = draw_tensors(draw)
    n, w = 4 * R * C, 4 * C
    names = ("new list", "made", "out of two", "both", "goes on")
    rights = (
        ([("_foreach_add", n + w, n + w)], "OPS-RESULTS", "results in a list do not count"),
        (
            [("ones", 0, n), ("add", 2 * n, n)],
            "OPS-FACTORY",
            "what is made of nothing is not noted",
        ),
        ([("max", n + 12 * R, 12 * R)], "OPS-RESULTS", "two tensors for out= differ"),
        ([("rrelu_with_noise", 2 * n, 2 * n)], "OPS-BOTH-KINDS", "new or old memory is left out"),
        ([("add_", n + w, n)] * 2 + [("mul_", n, n)], "OPS-IN-PLACE", "operations in place differ"),
    )
    looks = (
        "an operation that returns a list.",
        "an operation that is given no tensor.",
        "an operation that writes into two tensors among the keywords.",
        "an operation that writes into an argument and returns new memory.",
        "results in place, each time.",
    )
    found = run_programs(subject, given, *names)
    for name, one, (right, code, finding), look in zip(names, found, rights, looks, strict=True):
        _expect_noted(one, right, code, finding, describe_program(name, given), look)


def kinds_of_memory(subject: Subject, draw: Draw) -> None:
    """Bytes of bool, int64 and float64; an object twice, two objects alike, a parameter."""
    given, R, C = draw_tensors(draw)
    n, w = 4 * R * C, 4 * C
    names = ("dtypes", "pair", "twice", "parameter")
    rights = (
        (
            [("gt", 2 * n, n // 4), ("sum", n // 4, 8), ("_to_copy", n, 2 * n)],
            "OPS-DTYPES",
            "bytes of another dtype differ",
        ),
        ([("mul", 2 * n, n)], "OPS-SAME-MEMORY", "two tensors of one memory count once"),
        (
            [("cat", n, 2 * n), ("add", n, n), ("_foreach_mul_", n, n)],
            "OPS-TWICE",
            "one tensor, given twice, counts twice",
        ),
        ([("mul", n + w, n)], "OPS-SUBCLASS", "a parameter does not count"),
    )
    looks = (
        "how many bytes a number has: a bool has 1, a whole number 8.",
        "what counts as the same tensor: the object, not its memory.",
        "the same object, in a list and among the keywords too.",
        "`isinstance` and `type(x) is`: a parameter is a tensor.",
    )
    found = run_programs(subject, given, *names)
    for name, one, (right, code, finding), look in zip(names, found, rights, looks, strict=True):
        _expect_noted(one, right, code, finding, describe_program(name, given), look)


def _expect_noted(found: dict, right: list, code: str, finding: str, tried: str, look: str) -> None:
    seen = [tuple(entry) for entry in found["seen"]]
    if seen != right:
        raise Wrong(
            code,
            finding,
            tried=tried,
            expected=describe_notes(right),
            got=describe_notes(seen),
            look=look,
        )
    numbers = [number for _, *both in seen for number in both]
    if not all(type(number) is int for number in numbers):
        raise Wrong(
            "OPS-FLOAT",
            "bytes are no whole numbers",
            tried=tried,
            expected="ints",
            got=", ".join(map(repr, numbers))[:60],
            look="`/` makes a float, `//` keeps an int.",
        )
