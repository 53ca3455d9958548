"""`book/concepts.yaml`: what the lessons teach and what each idea stands on, checked and completed.

`course build` writes the result to course_lib/lab/concepts.json, for the learner's ledger.
"""

import re
from pathlib import Path

import yaml

from grader.lesson import LessonError, LessonSource

NAME = "concepts.yaml"
JOURNAL = re.compile(r"^## Journal\n+(.+)$", re.M)
KEYS = {"title", "requires", "assumed"}


def graph(root: Path, found: list[LessonSource]) -> dict:
    """{"concepts", "lessons", "milestones"} as the ledger reads them; LessonError when they clash.

    A concept has title, requires and the lesson that teaches it first (None when it is assumed),
    in the order in which the course teaches them. A lesson has its title and journal question.
    """
    text = (root / "book" / NAME).read_text(encoding="utf-8")
    source = yaml.safe_load(text)
    lessons = {
        lesson.name: {"title": lesson.title, "question": question(lesson)} for lesson in found
    }
    return {
        "concepts": _concepts(source["concepts"], found),
        "lessons": lessons,
        "milestones": [_check_milestone(m, lessons) for m in source.get("milestones", ())],
    }


def question(lesson: LessonSource) -> str:
    """The journal's question, without "Write for yourself:"; empty when the lesson has none."""
    match = JOURNAL.search(lesson.text)
    return match[1].partition(": ")[2] if match else ""


def _concepts(source: dict, found: list[LessonSource]) -> dict:
    taught = _first_lessons(found, "teaches")
    _compare_concepts(source, taught, _first_lessons(found, "uses"))
    for slug, concept in source.items():
        for needed in concept.get("requires", ()):
            _check_requirement(slug, needed, source, taught)
    refuse_circle(source)
    assumed = [slug for slug, concept in source.items() if concept.get("assumed")]
    return {
        slug: {
            "title": source[slug]["title"],
            "requires": list(source[slug].get("requires", ())),
            "lesson": taught.get(slug),
        }
        for slug in [*assumed, *taught]
    }


def _first_lessons(found: list[LessonSource], key: str) -> dict[str, str]:
    """{concept: the lesson whose exercise names it first under `key`}, in the course's order."""
    first: dict[str, str] = {}
    for lesson in found:
        for exercise in lesson.exercises.values():
            for slug in exercise.card[key]:
                first.setdefault(slug, lesson.name)
    return first


def _compare_concepts(source: dict, taught: dict[str, str], used: dict[str, str]) -> None:
    """LessonError unless all that lessons teach or use is described, and all described is taught
    or assumed."""
    for slug, concept in source.items():
        if not isinstance(concept, dict) or "title" not in concept or set(concept) - KEYS:
            raise LessonError(f"{NAME}: {slug} needs a title; known keys are {sorted(KEYS)}")
        if bool(concept.get("assumed")) == (slug in taught):
            raise LessonError(
                f"{NAME}: {slug} is both assumed and taught in {taught[slug]}"
                if slug in taught
                else f"{NAME}: no exercise teaches {slug}; remove it or mark it `assumed: true`"
            )
    for slug, lesson in [*taught.items(), *used.items()]:
        if slug not in source:
            raise LessonError(f"{lesson}: the concept {slug} is not in book/{NAME}")
        if slug in used and taught.get(slug, "") > used[slug]:
            raise LessonError(f"{slug} is used in {used[slug]} before {taught[slug]} teaches it")


def _check_requirement(slug: str, needed: str, source: dict, taught: dict[str, str]) -> None:
    if needed not in source:
        raise LessonError(f"{NAME}: {slug} requires {needed}, which is not there")
    if source[slug].get("assumed"):
        raise LessonError(f"{NAME}: {slug} is assumed, so it requires nothing")
    if taught.get(needed, "") > taught[slug]:
        raise LessonError(
            f"{NAME}: {slug} ({taught[slug]}) requires {needed}, which {taught[needed]} teaches later"
        )


def refuse_circle(source: dict) -> None:
    """LessonError when concepts require each other in a circle; its message shows the circle."""
    done: set[str] = set()

    def visit(slug: str, way: tuple[str, ...]) -> None:
        if slug in way:
            raise LessonError(f"{NAME}: a circle: {' -> '.join((*way[way.index(slug) :], slug))}")
        if slug not in done:
            for needed in source[slug].get("requires", ()):
                visit(needed, (*way, slug))
            done.add(slug)

    for slug in source:
        visit(slug, ())


def _check_milestone(milestone: dict, lessons: dict) -> dict:
    unknown = [name for name in milestone["lessons"] if name not in lessons]
    if unknown:
        raise LessonError(f"{NAME}: milestone {milestone['slug']} names {unknown}: no such lesson")
    return milestone
