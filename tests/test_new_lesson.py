"""A lesson begun by `course new-lesson`, and the lines that the build asks for when one is missing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from grader import new_lesson, places
from grader.course import ROOT
from tests import course
from tests.course_copy import BESIDE, copy_course

LESSONS = list(course.lessons())
LINES = [  # file, the line of lesson 18 that is taken out, what is said of it
    ("_toc.yml", "      - file: book/18_ladder", "the contents lack 18_ladder"),
    ("book/concepts.yaml", ", 18_ladder", "no milestone has 18_ladder"),
    ("book/reference/study_plan.md", ", [18 The speed ladder](../18_ladder.md)", "'One week'"),
    (
        "book/reference/study_plan.md",
        ", [18 The speed ladder](../18_ladder.md), [19 Collectives](../19_collectives.md)",
        "'One week'",
    ),
    ("book/reference/study_plan.md", "18 The speed ladder", "'In evenings'"),
    ("book/reference/study_plan.md", "| sum |", "its minutes differ"),
    ("course_lib/checks/__init__.py", '    "ladder": ("ladder-rung",),', "lacks ladder-rung"),
    ("book/reference/glossary.md", " [18](../18_ladder.md)", "has no link to 18_"),
]
FILES = [
    ("course_lib/checks/ladder.py", "no suite for ladder-rung"),
    ("tests/answers/ladder_rung.py", "no right and wrong answers to ladder-rung"),
    ("tests/reviews/18_ladder.py", "no proofs of the review items of 18_ladder"),
]


def run_course(root: Path, *words: str) -> subprocess.CompletedProcess:
    """`course`, as the copy has it."""
    return run_python(root, "-m", "grader.cli", *words)


def run_python(root: Path, *words: str) -> subprocess.CompletedProcess:
    """A program on the copy's own library."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root), "COURSE_HOME": str(root)},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> Path:
    """A copy of the course with a new lesson in it."""
    root = tmp_path_factory.mktemp("course")
    copy_course(root)
    done = run_course(root, "new-lesson", "toy_mean", "--exercise", "toy-mean")
    assert done.returncode == 0, done.stderr
    assert f"{LESSONS[-1].number + 1:02}_toy_mean is begun" in done.stdout
    return root


def test_the_build_names_each_todo_and_is_green_when_all_are_done(begun):
    left = places.find_todos(begun)
    assert len(left) > 30
    while left:  # a few at a time: what has been done is named no more
        built = run_course(begun, "build")
        assert built.returncode == 1
        named = [line for line in built.stderr.splitlines() if "TODO" in line]
        assert named == left, built.stderr
        chosen = left[:20]
        for line in chosen:
            do(begun, *line.split(":")[:2])
        assert len(places.find_todos(begun)) == len(left) - len(chosen)
        left = places.find_todos(begun)
    for words in (["build"], ["build", "--check"]):
        built = run_course(begun, *words)
        assert built.returncode == 0, built.stderr


def do(root: Path, path: str, number: str) -> None:
    """What an author does with a line, in short."""
    lines = (root / path).read_text(encoding="utf-8").splitlines()
    line = re.sub(r" +# TODO.*|\bTODO: ?", "", lines[int(number) - 1])
    lines[int(number) - 1] = line
    (root / path).write_text("\n".join(lines) + "\n", encoding="utf-8")


JUDGED = """
from types import SimpleNamespace
from course_lib.lab import checking, registry, terminal
from tests import course
from tests.answers import answers
from tests.reviews import read_proofs

card = registry.exercise("toy-mean")
for answer in answers(card.id):
    verdict = checking.judge(card, terminal.define(card, answer.text, "<toy-mean>"))
    print("asked", answer.code or "PASS", "given", verdict.code)
written = course.lessons()[-1].written_reviews["toy-mean-1"]
found = read_proofs()[0]["toy-mean-1"](SimpleNamespace(**written.names[0]))
print("proof", written.item.variant_at(0).accept.holds(str(found)))
"""


def test_the_answers_of_a_new_lesson_are_judged_rightly_and_its_items_are_proven(begun):
    run_course(begun, "build")
    done = run_python(begun, "-c", JUDGED)
    assert done.returncode == 0, done.stderr
    *judged, proof = done.stdout.splitlines()
    assert proof == "proof True" and len(judged) >= 8, done.stderr
    for words in judged:
        _, code, _, given = words.split()
        assert code == given
    assert "asked TOY-MEAN-DOUBLED given TOY-MEAN-DOUBLED" in judged


def test_nothing_is_missing_beside_the_lessons():
    missing = places.find_missing(ROOT, LESSONS)
    assert not missing, "\n".join(map(str, missing))


@pytest.mark.parametrize(("path", "line", "said"), LINES)
def test_a_line_that_is_taken_out_is_asked_for(path, line, said, tmp_path):
    copy_course(tmp_path, BESIDE)
    whole = (tmp_path / path).read_text(encoding="utf-8")
    count = 0 if "evenings" in said else 1
    cut = re.sub(rf"^{re.escape(line)}\n|{re.escape(line)}", "", whole, count=count, flags=re.M)
    if "sum" in line:
        cut = re.sub(r"(\| sum .*\| )(\d+) \|", lambda m: f"{m[1]}{int(m[2]) + 500} |", whole)
    (tmp_path / path).write_text(cut)
    missing = places.find_missing(tmp_path, LESSONS)
    assert missing and all(edit.path == path for edit in missing)
    told = "\n".join(map(str, missing))
    assert said in told and f"{path}:{missing[0].line}: " in told
    places.add_missing(tmp_path, LESSONS)
    minutes = re.compile(r"\d+ \|$", re.M)  # that a plan states are right to some minutes
    again = minutes.sub("|", (tmp_path / path).read_text(encoding="utf-8"))
    assert sorted(again) == sorted(minutes.sub("|", whole))


@pytest.mark.parametrize(("path", "said"), FILES)
def test_a_file_that_is_not_there_is_asked_for(path, said, tmp_path):
    copy_course(tmp_path, BESIDE)
    (tmp_path / path).unlink()
    (edit,) = places.find_missing(tmp_path, LESSONS)
    assert edit.path == path and said in str(edit) and "TODO" in edit.text


def test_concepts_terms_rows_and_proofs_are_asked_for(tmp_path):
    """What has to be written by a person gets a line with a TODO, at its place."""
    copy_course(tmp_path, BESIDE)
    for path, line in (
        ("book/concepts.yaml", r"^  manifest: .*\n"),
        ("book/reference/glossary.md", r"^manifest\n  .*\n\n"),
        ("book/reference/cheat_sheet.md", r"^.*\(\.\./18_ladder\.md\) \|\n"),
        ("tests/reviews/18_ladder.py", r"^def ladder_rung_2\(n\):\n    .*\n"),
    ):
        text = (tmp_path / path).read_text(encoding="utf-8")
        (tmp_path / path).write_text(re.sub(line, "", text, flags=re.M), encoding="utf-8")
    missing = places.find_missing(tmp_path, LESSONS)
    said = "\n".join(map(str, missing))
    assert [edit.path.rpartition("/")[2] for edit in missing] == [
        "concepts.yaml",
        "glossary.md",
        "cheat_sheet.md",
        "18_ladder.py",
    ], said
    assert "teaches ['manifest']" in said and "def ladder_rung_2(n):" in said
    places.add_missing(tmp_path, LESSONS)
    assert not places.find_missing(tmp_path, LESSONS)
    assert len(places.find_todos(tmp_path)) == 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (dict(name="Toy"), "'Toy' is not lower-case"),
        (dict(exercise="toy_mean"), "'toy_mean' is not words with hyphens"),
        (dict(exercise="rmsnorm"), "'rmsnorm' is in 01_rmsnorm"),
        (dict(module="course_lib.nowhere.toy"), "the rooms are checkpoints, checks, data"),
        (dict(module="course_lib.training.adamw"), "exists: name a new module"),
        (dict(after="08_data"), "number 09 is that of 09_optimizer"),
        (dict(after="99_x"), "no lesson '99_x'"),
    ],
)
def test_a_lesson_that_cannot_be_is_refused_before_anything_is_written(given, said, tmp_path):
    copy_course(tmp_path, (*BESIDE, "course_lib/"))
    with pytest.raises(ValueError, match=re.escape(said)):
        new_lesson.write_lesson(tmp_path, **(dict(name="toy", exercise="toy") | given))
    assert not places.find_todos(tmp_path)
