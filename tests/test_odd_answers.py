"""No answer, however odd, makes a check say that the course is at fault."""

import pytest

from course_lib import checks
from course_lib.lab import checking, registry, terminal
from tests.soak import campaign, times

IDS = list(registry.exercises())

RESULTS = {
    "nothing": "None",
    "its arguments": "args",
    "a string": "'odd'",
    "a generator": "(x for x in args)",
    "a number": "7",
    "nan": "float('nan')",
    "a huge number": "10**400",
    "an empty list": "[]",
    "an empty dict": "{}",
    "a list of nothing": "[None, None]",
    "a tuple of three": "(1, 'two', None)",
    "an object": "object()",
    "a class": "int",
    "a tensor of no numbers": "__import__('torch').zeros(0)",
    "a complex tensor": "__import__('torch').ones(2, 3, dtype=__import__('torch').complex64)",
    "a tensor of another device": "__import__('torch').ones(2, 3, device='meta')",
    "a sparse tensor": "__import__('torch').eye(3).to_sparse()",
    "a dict of odd keys": "{None: 1, 2: [3], 'x': {}}",
    "infinity in a list": "[float('inf')]",
}

ACTIONS = {
    "clears what it is given": "[a.clear() for a in args if hasattr(a, 'clear')]",
    "ends the process": "__import__('sys').exit(3)",
    "raises what is no Exception": "(_ for _ in ()).throw(GeneratorExit())",
    "raises an error that has no text": "(_ for _ in ()).throw(type('E', (Exception,), {'__str__': None})())",
}


def odd_answers(exercise: str) -> dict[str, str]:
    """Text by name: answers of the right kind that do odd things, and of the wrong kind."""
    card = registry.exercise(exercise)
    own, _, method = card.path.partition(".")
    found = {}
    for name, expression in (RESULTS | ACTIONS).items():
        if method:
            found[name] = (
                f"from {card.module} import {own}\nclass {own}({own}):\n"
                f"    def {method}(self, *args, **kwargs):\n        return {expression}\n"
            )
        else:
            found[name] = f"def {card.name}(*args, **kwargs):\n    return {expression}\n"
    for name, value in {
        "is a number": "7", "is a class of nothing": "type('Odd', (), {})",
        "is a string": "'odd'", "is a lambda": "lambda: 0", "is a partial": "__import__('functools').partial(print)",
        "is a builtin": "len",
        "is a class that cannot be made": "__import__('abc').ABCMeta('Odd', (), {'__init__': None})",
    }.items():  # fmt: skip
        found[name] = f"{card.name} = {value}\n"
    return found


SHORT = [i for i in IDS if checks.suite(i).ranks == 0] + ["fused-rmsnorm", "ddp-no-sync"]


@campaign
@pytest.mark.parametrize("exercise", times(SHORT, IDS))
def test_an_odd_answer_is_wrong_and_never_the_courses_fault(exercise):
    card, blamed = registry.exercise(exercise), {}
    for name, text in odd_answers(exercise).items():
        verdict = checking.judge(card, terminal.define(card, text, f"<{name}>"))
        if verdict.status != "wrong":
            blamed[name] = verdict.text()
    assert not blamed, "\n".join(f"{name}: {said}" for name, said in blamed.items())
