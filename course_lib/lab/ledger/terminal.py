"""`course ledger`: the state at a glance, as a page, rebuilt, exported or forgotten."""

import argparse
import sys
from datetime import datetime

from course_lib.lab import events, registry
from course_lib.lab.home import home, lessons
from course_lib.lab.ledger import concepts, page, reviews
from course_lib.lab.ledger.ending import now_state
from course_lib.lab.ledger.levels import NAMES
from course_lib.lab.ledger.state import State, passed_exercises
from course_lib.lab.ledger.summary import count
from course_lib.lab.reviews.schedule import set_aside


def run(args: argparse.Namespace) -> int:
    """Print the state, or with `--html FILE` write it as one page.

    ValueError in a folder that holds neither a record nor a lesson.
    """
    if not events.path().exists() and not lessons():
        raise ValueError(f"no record and no lesson in {home()}: run this in the course folder")
    state = now_state()
    if args.html:
        from course_lib.lab.ledger import web

        web.write(state, args.html)
        print(f"written to {args.html}")
    else:
        print(describe_state(state))
    _explain_gaps(state.now)
    return 0


def rebuild(args: argparse.Namespace) -> int:
    """Bring the ledger page up to date from the record."""
    state = now_state()
    print(f"written to {page.write(state).relative_to(home())}")
    _explain_gaps(state.now)
    return 0


def describe_state(state: State) -> str:
    """The state in some lines."""
    lines = [progress(state), ""]
    for level in range(5, 0, -1):
        names = [concepts.title(slug) for slug, known in state.levels.items() if known == level]
        if names:
            lines.append(f"  level {level}, {NAMES[level]}: {', '.join(names)}")
    for spot in state.blind_spots:
        lines.append(f"  blind spot: {spot.name}, {spot.why}; 5-min remedy: {spot.remedy}")
    for goal in state.milestones:
        mark = "x" if goal.reached else " "
        lines.append(f"  [{mark}] {goal.title}: {goal.passed} of {goal.total}")
    return "\n".join(lines)


def progress(state: State) -> str:
    """One line: exercises, milestones, reviews due."""
    due = len(reviews.due_now(state.events, state.now, state.levels))
    done = sum(goal.reached is not None for goal in state.milestones)
    return (
        f"{len(passed_exercises(state))} of {count(len(registry.exercises()), 'exercise')} passed, "
        f"{done} of {count(len(state.milestones), 'milestone')}, "
        + (f"{count(due, 'review')} due: course review" if due else "no review due")
    )


def _explain_gaps(now: datetime) -> None:
    """What of the record does not count, and why."""
    for sentence in [*events.problems(), *set_aside(events.read(), now)]:
        print(sentence, file=sys.stderr)
