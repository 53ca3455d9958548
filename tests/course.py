"""The course's lessons, read once by each process that tests."""

import functools

from grader import lesson
from grader.course import ROOT


@functools.cache
def lessons() -> tuple[lesson.LessonSource, ...]:
    """Every lesson of the book, in order."""
    return tuple(lesson.lessons(ROOT))


def solved(exercise: str) -> str:
    """The cell of an exercise as the library has it."""
    return next(x.exercises[exercise].solution for x in lessons() if exercise in x.exercises)
