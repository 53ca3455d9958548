"""Reviews: short questions that come back when they are about to be forgotten.

`course review` in a terminal, `review()` in a notebook. The questions stand in the lessons
(grammar.py) and are drawn with other numbers each time (items.py); the record says when each is due
(schedule.py) and which are asked today (queue.py).

This package is what `from course_lib.lab import review` gives, so it can be called.
"""

import sys
from types import ModuleType


class _Review(ModuleType):
    def __call__(self, limit: int | None = None) -> None:
        """Ask what is due, at most `limit` questions: here in the notebook, or in the terminal."""
        from course_lib.lab.review.notebook import review  # late: the schedule needs no front end

        review(limit)


sys.modules[__name__].__class__ = _Review
