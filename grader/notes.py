"""What the learner's journal takes from the lessons: `course_lib/lab/lessons.json`."""

import re

from grader.lesson import LessonSource
from grader.plain import plain_markdown


def notes(found: list[LessonSource]) -> dict:
    """Of each lesson, by name: title, first paragraph, journal prompt, names of predictions."""
    return {
        lesson.name: {
            "title": lesson.title,
            "about": _paragraph(lesson.text, r"^# .+\n"),
            "journal": _paragraph(lesson.text, r"^## Journal\n"),
            "predictions": _predictions(lesson),
        }
        for lesson in found
    }


def _paragraph(text: str, heading: str) -> str:
    """The first paragraph under a heading, on one line; empty without one."""
    match = re.search(heading + r"\n*((?:(?![#`:|]|\n).+\n?)+)", text, re.M)
    return " ".join(plain_markdown(match[1]).split()) if match else ""


def _predictions(lesson: LessonSource) -> list[str]:
    code = "\n".join(cell.source for cell in lesson.source.cells if cell.cell_type == "code")
    return list(dict.fromkeys(re.findall(r"^predict\(\s*[\"']([^\"']+)[\"']", code, re.M)))
