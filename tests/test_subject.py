"""The door between a check and an answer: what it can find out."""

import numpy as np
import torch

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
