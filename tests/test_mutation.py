"""The machine that makes wrong answers, and what is known of those that the suites do not refuse."""

import random
from datetime import UTC, datetime

import pytest

from course_lib.lab import registry
from tests.course import solved
from tests.mutation.judge import judge_mutants, read_survivors
from tests.mutation.operators import mutants

EXERCISES = list(registry.exercises())
DAY = datetime.now(UTC).toordinal()
SAMPLE = 16

PROGRAM = """
def scale(x, by: float = 2.0):
    '''Twice.'''
    if by < 0:
        raise ValueError(f"by is {by}, below 0")
    y = x.float() * by
    y.add_(1)
    return y.to(x.dtype)
"""


def test_a_program_is_changed_in_every_way_once():
    found = mutants(PROGRAM)
    changes = {mutant.key for mutant in found}
    for key in (
        "comparison: if by < 0: -> if by <= 0:",
        "condition never true: if by < 0: -> if False:",
        "dropped cast: y = x.float() * by -> y = x * by",
        "dropped cast: return y.to(x.dtype) -> return y",
        "arithmetic: y = x.float() * by -> y = (x.float()) / (by)",
        "dropped statement: y.add_(1) -> pass",
        "done twice: y.add_(1) -> y.add_(1); y.add_(1)",
        "constant: def scale(x, by: float = 2.0): -> def scale(x, by: float = 4.0):",
    ):
        assert key in changes, (key, changes)
    assert len({mutant.text for mutant in found}) == len(found)
    for mutant in found:  # what an error says is not changed
        assert "raise" not in mutant.text or 'ValueError(f"by is {by}, below 0")' in mutant.text, (
            mutant.key
        )
        compile(mutant.text, "mutant", "exec")


@pytest.mark.parametrize("exercise", EXERCISES)
def test_survivors_are_mutants_of_today_with_a_reason(exercise):
    known = read_survivors(exercise)
    made = {mutant.key for mutant in mutants(solved(exercise))}
    gone = sorted(set(known) - made)
    assert not gone, f"not made now; python -m tests.mutation.judge {exercise} writes the list anew"
    for key, why in known.items():
        assert len(why.split()) > 4, f"say in a sentence why this is no wrong answer: {key}"


def test_nobody_left_a_survivor_of_todays_exercise_unjudged():
    """Another exercise every day, and a few of its mutants: `make mutants` takes them all."""
    exercise = EXERCISES[DAY % len(EXERCISES)]
    made = mutants(solved(exercise))
    drawn = random.Random(DAY).sample(made, min(SAMPLE, len(made)))
    known = read_survivors(exercise)
    alive = [m.key for m, code, _ in judge_mutants(exercise, drawn, workers=1) if code == "PASS"]
    unjudged = [key for key in alive if key not in known]
    assert not unjudged, (
        f"{exercise}: its suite accepts these changes of a right answer. Refuse them by a check, or "
        f"write into tests/mutation/survivors/{exercise}.json why they are right: {unjudged}"
    )
