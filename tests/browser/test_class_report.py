"""What an instructor hands on, in a browser: the report of a class of 200, and one student's page."""

from __future__ import annotations

import random
from pathlib import Path

import harness
import pytest
from pages import opened

from course_lib.lab.registry import exercises
from grader.judge.feedback import write_pages
from grader.judge.flags import FLAGS
from grader.judge.grade import ExerciseResult, Result
from grader.judge.report import collect_results, render_page
from grader.judge.submission import Text

LESSONS = ["01_rmsnorm", "02_rope", "03_swiglu", "04_attention", "06_gpt", "08_data"]
LONG = "Maximiliane-Friederike von der Leyenbrücke_12345678_assignsubmission_file"
OUTCOMES = [
    ("PASS", "PASS", "all 7 checks passed"),
    ("PASS", "PASS", "all 7 checks passed"),
    ("WRONG", "RMS-SUM", "check 3 of 7: vectors of RMS 1 come back with RMS 0.354\n"
     "Fits: " + "the mean is a sum, " * 12 + "\nLook at: " + "x" * 150),
    ("ERROR", "STUB", "not attempted: the code still raises NotImplementedError"),
    ("UNGRADABLE", "NO-RANKS", "several ranks cannot be run where this is graded"),
]  # fmt: skip


def draw_class(size: int) -> list[Result]:
    """Results of `size` students as a class may have them, always the same ones."""
    chance, found = random.Random(1), []
    for number in range(size):
        student = LONG if number == 7 else f"student {number:03}"
        for lesson in LESSONS:
            if chance.random() < 0.1:
                continue
            name = f"submissions/{student}/{lesson}.ipynb"
            if chance.random() < 0.02:
                found.append(Result(name, "ungradable", lesson, "its text is not JSON"))
                continue
            rows = {}
            for card in exercises().values():
                if card.lesson == lesson:
                    verdict, code, message = chance.choices(OUTCOMES, (60, 20, 12, 7, 1))[0]
                    points = card.points if verdict == "PASS" else 0
                    flags = (chance.choice(list(FLAGS)),) if chance.random() < 0.05 else ()
                    person = message if verdict == "UNGRADABLE" else ""
                    rows[card.id] = ExerciseResult(
                        verdict, points, card.points, code, message, flags, person
                    )
            notes = ("the check of rmsnorm was edited",) if chance.random() < 0.03 else ()
            texts = (Text("journal", "ein Satz <b>mehr</b> " * 9),) if number == 3 else ()
            found.append(Result(name, "graded", lesson, "", rows, notes, texts, "namespaces"))
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """`report.html` and `feedback/`, of 200 students."""
    folder, found = tmp_path_factory.mktemp("class"), collect_results(draw_class(200))
    (folder / "report.html").write_text(render_page(found, "grades.jsonl"), encoding="utf-8")
    write_pages(found.students, folder / "feedback")
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["report.html", "feedback/student_008.html"])
def test_the_page_is_for_everyone(chrome, written, name, width, scheme):
    (path,) = written.glob(name)
    with (
        harness.serve(written) as origin,
        opened(chrome, color_scheme=scheme, viewport={"width": width, "height": 900}) as page,
    ):
        watched = harness.watch(page, origin)
        page.goto(f"{origin}/{path.relative_to(written)}")
        page.evaluate(
            "() => document.querySelectorAll('details').forEach((one) => one.open = true)"
        )
        assert harness.sideways(page) == []
        assert harness.axe(page) == []
        assert watched.problems() == []
        assert page.evaluate("() => document.scripts.length") == 0


def test_a_student_is_seen_beside_the_last_lesson(chrome, written):
    """On a telephone the table of points moves sideways, and the names stay."""
    with opened(chrome, viewport={"width": 390, "height": 900}) as page:
        page.goto((written / "report.html").as_uri())
        moved = page.evaluate(
            """() => {
                const table = document.querySelector('table.points'), box = table.parentElement;
                box.scrollLeft = box.scrollWidth;
                const left = (one) => one.getBoundingClientRect().left;
                return [box.scrollLeft, left(table.tBodies[0].rows[9].cells[0]) - left(box)];
            }"""
        )
    assert moved[0] > 100 and abs(moved[1]) < 2
