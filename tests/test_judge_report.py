"""The class report: right figures, nothing active, nothing from outside."""

import re
from html.parser import HTMLParser

import pytest

from grader.cli import main
from grader.judge.grade import ExerciseResult, Result
from grader.judge.report import collect_results, render_page
from grader.judge.store import Store
from grader.judge.submission import Text
from tests.outside import loads

BAD = "<script>alert(1)</script>\"'><img src=//evil.example/x onerror=alert(2)>"


def row(
    verdict: str, code: str = "PASS", message: str = "all 6 checks passed", **more
) -> ExerciseResult:
    return ExerciseResult(verdict, 2 if verdict == "PASS" else 0, 2, code, message, **more)


def graded(name: str, made: ExerciseResult, **more) -> Result:
    return Result(
        name, "graded", "01_rmsnorm", exercises={"rmsnorm": made}, tier="namespaces", **more
    )


RESULTS = [
    *(graded(f"ok{i}", row("PASS")) for i in range(5)),
    *(graded(f"sum{i}", row("WRONG", "RMS-SUM", "the mean is a sum")) for i in range(3)),
    graded("eps", row("WRONG", "RMS-NO-EPS", "no epsilon", flags=("TAMPERED",)),
           notes=("the check of rmsnorm was edited",)),
    graded("blank", row("ERROR", "STUB", "not attempted")),
    graded("odd", row("CRASHED", "PROTOCOL", BAD, person=BAD), texts=(Text("journal", BAD),)),
    graded(BAD, row("PASS"), notes=(BAD,)),
    Result("broken", "ungradable", reason="its text is not JSON"),
]  # fmt: skip


@pytest.fixture
def html() -> str:
    return render_page(collect_results(RESULTS), "grades.jsonl")


def words(html: str) -> str:
    """What a reader sees, white space joined."""
    found = []
    reader = HTMLParser()
    reader.handle_data = found.append
    reader.feed(html)
    return re.sub(r"\s+", " ", " ".join(found))


def test_the_figures_are_those_of_the_results(html):
    found = collect_results(RESULTS)
    part = found.exercises["rmsnorm"]
    assert (part.pass_count, part.count, part.untried, part.rate) == (6, 12, 1, 50)
    assert [(code, n) for _, code, n, _ in part.mistakes()] == [
        ("RMS-SUM", 3),
        ("PROTOCOL", 1),
        ("RMS-NO-EPS", 1),
    ]
    assert found.lessons["01_rmsnorm"].bars() == [("0", 6, 100), ("1", 0, 0), ("2", 6, 100)]
    text = words(html)
    for said in (
        "13 notebooks",
        "median 1 of 2 points",
        "6 of 12",
        "50%",
        "the mean is a sum",
        "its text is not JSON",
        "TAMPERED a check or its settings were changed",
        "the check of rmsnorm was edited",
    ):
        assert said in text, said
    assert text.index("RMS-SUM") < text.index("PROTOCOL"), "most common first"
    assert "not attempted" not in text, "a stub is no misconception"


def test_the_page_is_whole_and_nothing_in_it_acts(html):
    tags = set()
    reader = HTMLParser()
    reader.handle_starttag = lambda tag, attrs: tags.add(tag)
    reader.feed(html)
    assert not tags & {"script", "img", "link", "iframe", "object", "form", "svg"}
    assert loads(html) == []
    assert "alert(1)" in words(html), "shown as the text it is"
    assert not re.search(r"<[^>]*\bon\w+=", html)


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["report"]) == 2
    assert "run `course grade PATH...` first" in capsys.readouterr().err
    with Store(tmp_path / "grades.jsonl") as store:
        assert main(["report"]) == 2, "no results yet"
        for number, result in enumerate(RESULTS):
            store.add(str(number), result)
        assert main(["report", "--html", "class.html"]) == 0, "while grading goes on"
    assert "13 notebooks, 1 ungradable" in capsys.readouterr().out
    ordered = sorted(RESULTS, key=lambda result: result.notebook)
    assert (tmp_path / "class.html").read_text() == render_page(
        collect_results(ordered), "grades.jsonl"
    )
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["report", "notes.txt"]) == 2


def test_a_class_without_a_graded_notebook():
    assert "No notebook could be graded" in render_page(collect_results(RESULTS[-1:]), "x")


def test_a_name_that_is_not_utf8():
    render_page(collect_results([graded("a\udcff.ipynb", row("PASS"))]), "x").encode()
