"""The door between a check and an answer: what it can find out."""

import numpy as np
import pytest
import torch

from course_lib.checks.calls import expect_separate_calls
from course_lib.checks.report import Wrong
from course_lib.checks.subject import LocalSubject
from course_lib.measure.sharing import find_shared_memory


def test_shared_memory_is_found_element_by_element():
    x, rows = torch.arange(6.0), np.arange(12).reshape(3, 4)
    assert find_shared_memory((x,), (x[2:4],)) == "result 0 and argument 0"
    assert find_shared_memory(([x],), x.view(2, 3)) == "result 0 and argument 0"
    halves = torch.arange(6, dtype=torch.bfloat16).view(3, 2).unbind(1)
    assert find_shared_memory((), halves) == ""  # one block, no element of it twice
    late, early = (torch.from_numpy(rows[:, cut]) for cut in (slice(1, None), slice(-1)))
    assert find_shared_memory((), (early, late)) == "result 0 and result 1"
    assert find_shared_memory((x, rows), (x + 1, rows.copy(), 3, None)) == ""
    assert LocalSubject(lambda x: x.view(-1)).shared_memory(x) == "result 0 and argument 0"


def test_one_call_leaves_nothing_to_the_next():
    buffers = {}

    def write_into_one_buffer(x):
        return torch.mul(x, 2, out=buffers.setdefault(x.shape, torch.empty_like(x)))

    def count_calls(x, seen=[]):  # noqa: B006, which is the mistake
        seen.append(x)
        return x * len(seen)

    first, second, exact = (torch.ones(3),), (torch.zeros(3),), dict(tried="x", rtol=0, atol=0)
    for answer, code in ((write_into_one_buffer, "RESULT-CHANGES"), (count_calls, "REMEMBERS")):
        with pytest.raises(Wrong) as wrong:
            expect_separate_calls(LocalSubject(answer).probe, first, second, **exact)
        assert wrong.value.code == code
    double = LocalSubject(lambda x: x * 2)
    assert torch.equal(expect_separate_calls(double.probe, first, second, **exact), second[0])
