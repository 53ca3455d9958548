"""What the course teaches: every idea described, in an order that can be learned, no circle."""

import json

import pytest
import yaml

from course_lib.lab import registry
from grader import concepts
from grader.course import ROOT
from grader.lesson import LessonError
from tests.course import lessons

LESSONS = lessons()


@pytest.fixture
def source() -> dict:
    return yaml.safe_load((ROOT / "book" / concepts.NAME).read_text(encoding="utf-8"))


def graph(source: dict, folder) -> dict:
    (folder / "book").mkdir(exist_ok=True)
    (folder / "book" / concepts.NAME).write_text(yaml.safe_dump(source), encoding="utf-8")
    return concepts.graph(folder, LESSONS)


def test_the_stored_graph_is_current():
    stored = ROOT / "course_lib/lab/concepts.json"
    assert json.loads(stored.read_text(encoding="utf-8")) == concepts.graph(ROOT, LESSONS)


def test_every_concept_of_an_exercise_is_known_and_taught_before_it_is_used():
    known = concepts.graph(ROOT, LESSONS)["concepts"]
    for exercise in registry.exercises().values():
        for slug in (*exercise.teaches, *exercise.uses):
            assert (known[slug]["lesson"] or "") <= exercise.lesson, (exercise.id, slug)


def test_every_lesson_asks_something():
    for name, lesson in concepts.graph(ROOT, LESSONS)["lessons"].items():
        assert lesson["question"].endswith("?"), name


def test_a_circle_is_named(source, tmp_path):
    source["concepts"]["scaled-dot-product"]["requires"] = ["causal-mask"]
    with pytest.raises(LessonError, match="causal-mask -> scaled-dot-product -> causal-mask"):
        graph(source, tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("silu"), "silu is not in book/concepts.yaml"),
        (lambda c: c.pop("slicing"), "slicing is not in book/concepts.yaml"),
        (lambda c: c.update(magic={"title": "magic"}), "no exercise teaches magic"),
        (lambda c: c["silu"].update(assumed=True), "both assumed and taught"),
        (lambda c: c["silu"].update(requires=["none-such"]), "requires none-such"),
        (lambda c: c["silu"].update(requires=["adamw"]), "teaches later"),
        (lambda c: c["slicing"].update(requires=["bytes"]), "requires nothing"),
        (lambda c: c["silu"].pop("title"), "silu needs a title"),
    ],
)
def test_a_graph_that_clashes_with_the_lessons_fails_the_build(change, message, source, tmp_path):
    change(source["concepts"])
    with pytest.raises(LessonError, match=message):
        graph(source, tmp_path)


def test_use_before_teaching_fails_the_build(source, tmp_path, monkeypatch):
    first = LESSONS[0].exercises["bytes"]
    monkeypatch.setitem(first.card, "uses", ["adamw"])
    with pytest.raises(LessonError, match="adamw is used in 00_start before 09_optimizer"):
        graph(source, tmp_path)


def test_a_milestone_of_an_unknown_lesson_fails_the_build(source, tmp_path):
    source["milestones"][0]["lessons"] = ["99_gone"]
    with pytest.raises(LessonError, match="99_gone"):
        graph(source, tmp_path)
