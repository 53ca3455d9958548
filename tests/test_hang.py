"""Diaries of collectives, and what is made of them."""

import json

import pytest
import torch

from course_lib.ranks.hang import Diary, find_the_hang, read_diaries


def test_a_diary_has_the_call_before_it_begins(tmp_path):
    diary, seen = Diary(tmp_path, 0), []
    diary("all_reduce", lambda x: seen.extend(read_diaries(tmp_path, 1)[0]), torch.zeros(16))
    assert seen == [("all_reduce", 64, False)]
    assert read_diaries(tmp_path, 2) == [[("all_reduce", 64, True)], []]


def test_a_call_that_raises_stays_open(tmp_path):
    diary = Diary(tmp_path, 1)
    diary("barrier", lambda x: None, torch.zeros(1))
    with pytest.raises(RuntimeError):
        diary("all_gather", lambda x: torch.zeros(2) + torch.zeros(3), torch.zeros(4))
    assert read_diaries(tmp_path, 2)[1] == [("barrier", 4, True), ("all_gather", 16, False)]
    assert find_the_hang(read_diaries(tmp_path, 2)) == (1, [0])


def test_lists_from_a_file_are_as_good_as_tuples():
    lists = [[("all_reduce", 64, False)], [("all_reduce", 32, False)], [("all_reduce", 64, False)]]
    assert find_the_hang(json.loads(json.dumps(lists))) == find_the_hang(lists) == (0, [1])
