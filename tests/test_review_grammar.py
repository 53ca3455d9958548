"""How review items are written: what the grammar accepts, refuses, computes and never runs."""

from pathlib import Path

import pytest

from course_lib.lab.reviews import answers, arithmetic
from course_lib.lab.reviews.answers import Unreadable, accept
from course_lib.lab.reviews.items import items
from grader import review_items
from grader.lesson import LessonError, LessonSource, lessons
from grader.views import book_view
from tests import course
from tests.test_views import GOOD

ITEM = """
## Review

:::{dropdown} Review · How many bytes do {n} numbers of {size} bytes take?
:name: review-x-1
% concepts: a
% vary: n = 3 | 5 | 1000
% vary: size; word =
%   | 2; bfloat16
%   | 4; float32
% let: total = n * size
% answer: number {total} bytes
{total}: {n} times {size}, in {word}.
:::
"""


def lesson(item: str = ITEM) -> LessonSource:
    return LessonSource(Path("07_x.md"), GOOD + item)


def test_an_item_is_read_and_computed():
    (item,) = lesson().reviews.values()
    assert (item.id, item.exercise, item.lesson) == ("x-1", "x", "07_x")
    assert item.concepts == ("a",) and item.variants == 6
    assert item.question == "How many bytes do 3 numbers of 2 bytes take?"
    assert item.answer == "6: 3 times 2, in bfloat16."
    assert item.rows[5][1] == "4,000: 1,000 times 4, in float32."
    assert item.variant_at(5).accept.right == "4,000 bytes"


def test_an_item_that_has_moved_keeps_its_name():
    moved = ITEM.replace("review-x-1", "review-y-1").replace(
        "% concepts: a", "% concepts: a\n% exercise: x"
    )
    (item,) = lesson(moved).reviews.values()
    assert (item.id, item.exercise) == ("y-1", "x")


def test_the_page_shows_the_first_variant_and_keeps_its_lines():
    shown = lesson().page_text
    assert "{n}" not in shown and "How many bytes do 3 numbers of 2 bytes take?" in shown
    assert "\n6: 3 times 2, in bfloat16.\n:::" in shown
    assert shown.count("\n") == (GOOD + ITEM).count("\n")
    for view in (lesson().source, book_view(GOOD + ITEM)):
        texts = [cell.source for cell in view.cells if "review-x-1" in cell.source]
        assert len(texts) == 1 and "do 3 numbers of 2 bytes" in texts[0]


def test_braces_outside_of_items_are_left_alone():
    text = GOOD + "\n$\\frac{1}{n}$ and {ref}`x` {n}\n" + ITEM
    assert "$\\frac{1}{n}$ and {ref}`x` {n}\n" in review_items.concrete(text)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("% concepts: a\n", "", "review-x-1: lacks a line `% concepts"),
        ("% concepts: a", "% concepts: b", "neither teaches nor uses b; it has a"),
        ("% concepts: a", "% concepts: a\n% concepts: a", "has 2 lines `% concepts"),
        ("review-x-1", "review-y-1", "review-y-1: 'y' is no exercise of this lesson; it has x"),
        ("% concepts: a", "% concepts: a\n% exercise: y", "'y' is no exercise of this lesson"),
        ("review-x-1", "review-x", "must be review-EXERCISE-N"),
        ("% vary: n = 3 | 5 | 1000\n", "% vary: n = 3\n", "2 different questions, expected 3"),
        ("% vary: n = 3", "% varies: n = 3", "is none of"),
        ("% vary: n = 3", "% vary: n 3", "is not `NAME; NAME = row"),
        ("4; float32", "4", "the row '4' does not fill size ; word|does not fill size; word"),
        ("1000", "1.23456", "1.23456 would be shown as 1.23"),
        ("3 | 5 | 1000", "", "`vary: n =` is none of|has no rows|is none of"),
        ("n * size", "n * sice", "name 'sice' is not defined"),
        ("n * size", "__import__('os')", "name '__import__' is not defined"),
        ("n * size", "n / (size - 2)", "has no value: division by zero"),
        ("n * size", "1e999", "is inf, expected a finite number or a text"),
        ("n * size", "[n]", r"is \[3\], expected a finite number or a text"),
        ("% let: total = n", "% let: total n", "is not `NAME = expression`"),
        ("number {total} bytes", "amount {total}", "an answer is one of number, list"),
        ("number {total} bytes", "choice a | b", "a choice is `choice RIGHT of A"),
        ("number {total} bytes", "choice a of a | b | a", "different options"),
        ("number {total} bytes", "yes-no maybe", "expected yes or no, got 'maybe'"),
        ("% answer", "% within: little\n% answer", "a tolerance is a percentage such as 5%"),
        ("{total}: {n} times {size}, in {word}.\n", "", "has no answer to show"),
        ("% let", "% fixed: because\n% let", "says `fixed` and varies"),
        (":::\n", "", "belongs to no whole item"),
        (":name: review-x-1\n", "", "belongs to no whole item"),
        ("dropdown} Review ·", "dropdown} Review:", "belongs to no whole item"),
        (ITEM, ITEM + ITEM, "review-x-1 stands here twice"),
    ],
)
def test_bad_grammar_names_file_and_item(old, new, message):
    assert old in ITEM
    text = ITEM.replace(old, new)
    with pytest.raises(LessonError, match=message) as caught:
        lesson(text).reviews  # noqa: B018
    assert str(caught.value).startswith("07_x.md: ") and "review-" in str(caught.value)


def test_bad_grammar_fails_the_build(tmp_path):
    (tmp_path / "book").mkdir()
    text = GOOD + ITEM.replace("n * size", "n *")
    (tmp_path / "book/07_x.md").write_text(text, encoding="utf-8")
    with pytest.raises(LessonError, match=r"07_x\.md: review-x-1: 'n \*' is not an expression"):
        lessons(tmp_path)


def test_an_item_that_cannot_vary_says_why():
    fixed = ITEM[: ITEM.index("% vary")] + "% fixed: a reason\nSo.\n:::\n"
    fixed = fixed.replace("{n} numbers of {size} bytes take", "it take")
    (item,) = lesson(fixed).reviews.values()
    assert item.variants == 1 and item.variant(7).accept is None
    with pytest.raises(LessonError, match="asks 1 different questions"):
        lesson(fixed.replace("% fixed: a reason\n", "")).reviews  # noqa: B018


def test_the_file_of_the_lab_holds_the_items_of_the_lessons():
    found = [item for one in course.lessons() for item in one.reviews.values()]
    assert found == list(items().values())


@pytest.mark.parametrize(
    "text",
    [
        "().__class__",
        "open('x')",
        "[1][0]",
        "lambda: 1",
        "a := 1",
        "x",
        "f'{1}'",
        "1 if",
        "",
        "9 ** 9 ** 9",
        "10 ** 64 * 10 ** 64 * 10 ** 300",
        "1j",
        "(-1) ** 0.5",
        "'a' * 10 ** 9",
        "1 < 2",
        "1 if 1 else 2",
        "sqrt(-1)",
        "1 / 0",
        "None",
        "(" * 299,
        "1" * 301,
        "max()",
        "int('x')",
        "exp(1000)",
        "round(1, ndigits=1)",
        "b'1'",
        "1 << 99",
        "10 ** 6 ** 64",
    ],
)
def test_what_is_no_sum_is_refused(text):
    with pytest.raises(ValueError):
        arithmetic.evaluate(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4718592, "4,718,592"),
        (11.3137, "11.3"),
        (0.00002, "0.00002"),
        (3.0, "3"),
        (-0.0, "0"),
        (9999.5, "10,000"),
        (0.1 * 3, "0.3"),
        (-15280, "-15,280"),
        ("x", "x"),
    ],
)
def test_numbers_are_shown_as_the_lessons_write_them(value, text):
    assert review_items.show(value) == text


@pytest.mark.parametrize(
    ("line", "right", "wrong"),
    [
        (
            "number 12 GB",
            ["12", "12 GB", "12GB", "12 gb", "12e9 bytes", "3*4", "12 G"],
            ["13", "12.1", "12 MB", "-12", "0.012"],
        ),
        (
            "number 4,718,592",
            ["4718592", "4,718,592", "3 * 768 * 2048", "3 x 768 x 2,048"],
            ["4718593", "4.7M"],
        ),
        ("number 0.25", ["0.25", "1/4", ".25", "0.252"], ["0.3", "25"]),
        ("number 40 %", ["40", "40%", "0.4"], ["41", "4"]),
        ("number 8", ["8", "sqrt(64)", "2^3", "8.0"], ["7", "8.1"]),
        ("number 11.3", ["11.31", "sqrt(128)", "11.3"], ["11", "12"]),
        ("number -15,280", ["-15280", "\N{MINUS SIGN}15,280"], ["15280"]),
        ("number 0", ["0", "0.0", "-0"], ["0.1"]),
        (
            "list 5, 37",
            ["5, 37", "5 37", "x[5] and x[37]", "[5, 37]", "[5:37]", "5 to 37"],
            ["37, 5", "5", "5, 37, 1"],
        ),
        ("list -3, -4, 1, 2", ["-3 -4 1 2", "[-3,-4,1,2]"], ["3, 4, 1, 2"]),
        ("list 500, 40", ["500 and 40%", "500, 40 percent"], ["400, 40"]),
        ("shape (B, T, 1)", ["(B, T, 1)", "b,t,1", "[B,T,1]"], ["(B, T)", "(B, 1, T)"]),
        ("shape (4, 16, 1)", ["torch.Size([4, 16, 1])", "4,16,1"], ["4,16"]),
        ("choice both of one | both | neither", ["b", "both", "B", "(b)", "bo"], ["a", "c", "one"]),
        ("yes-no no", ["n", "no", "No", "NO"], ["y", "yes"]),
    ],
)
def test_answers_are_read_as_they_were_meant(line, right, wrong):
    made = accept(line)
    assert [made.holds(typed) for typed in right] == [True] * len(right)
    assert [made.holds(typed) for typed in wrong] == [False] * len(wrong)


@pytest.mark.parametrize(
    ("line", "typed", "said"),
    [
        ("number 12 GB", "many", "expected a number, in GB, got 'many'"),
        ("number 12 GB", "12 kg", "other units of bytes"),
        ("number 12", "2,5", "a point for decimals"),
        ("number 12", "", "expected a number, got nothing"),
        ("number 12", "__import__('os')", "expected a number"),
        ("list 1, 2", "x", "numbers with commas"),
        ("shape (B, T)", "()", "expected a shape such as"),
        ("shape (B, T)", "what is it?", "expected a shape such as"),
        ("choice one of one | two", "c", "a letter from a to b"),
        ("choice DDP a of DDP a | DDP b", "DDP", "a letter from a to b"),
        ("yes-no no", "perhaps", "expected yes or no, got 'perhaps'"),
    ],
)
def test_what_cannot_be_read_is_explained(line, typed, said):
    with pytest.raises(Unreadable, match=said.replace("(", r"\(")):
        accept(line).holds(typed)


def test_a_tolerance_is_of_the_right_answer():
    made = accept("number 200", "5%")
    assert made.holds("209") and made.holds("191") and not made.holds("211")


def test_what_to_type_is_said_for_every_kind():
    lines = ["number 3 GB", "list 1, 2", "shape (B, T)", "choice a of a | b", "yes-no yes"]
    assert len({accept(line).format for line in lines}) == len(answers.KINDS)
