"""The record under bad treatment: cut anywhere, edited, merged, newer, on a full disk."""

import json
import random

import pytest

from course_lib.lab import events


@pytest.fixture(autouse=True)
def learning(course_home):
    (course_home / "learning").mkdir()


def line(second: int, **fields) -> bytes:
    """One event, `second` seconds into a minute past midnight."""
    event = {"v": 1, "t": f"2026-11-20T00:{second // 60:02}:{second % 60:02}Z", "kind": "check"}
    return json.dumps(event | fields).encode() + b"\n"


def put(*lines: bytes) -> None:
    events.path().write_bytes(b"".join(lines))


def items() -> list[str]:
    return [event.get("item") for event in events.read()]


def test_a_thousand_cuts_lose_at_most_the_cut_line():
    draw = random.Random(1)
    lines = [line(n, item=str(n), note="写" * draw.randrange(9)) for n in range(60)]
    whole = b"".join(lines)
    ends = [len(b"".join(lines[: n + 1])) for n in range(60)]
    for _ in range(1000):
        cut = draw.randrange(len(whole) + 1)
        put(whole[:cut])
        complete = sum(end - 1 <= cut for end in ends)  # only the line feed may be missing
        assert items() == [str(n) for n in range(complete)], cut
        assert events.record("check", item="after")
        assert items() == [*(str(n) for n in range(complete)), "after"], cut


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\n\n",
        b"\0" * 300,
        b'{"v": 1, "kind": ["check"]}',
        b"{" * 5000,
        b"null",
        b'"kind"',
        b"\xff\xfe{",
        b"<<<<<<< HEAD",
        b'{"v": 1, "t": "2026-11-20T00:00:01Z"}',
    ],
)
def test_a_line_that_is_no_event_costs_nothing_else(damage):
    put(line(1, item="a"), damage + b"\n", line(2, item="b"))
    before = events.path().read_bytes()
    assert items() == ["a", "b"] and events.path().read_bytes() == before


def test_zeros_of_a_power_cut_do_not_swallow_the_next_event():
    put(line(1, item="a"), b"\0" * 64, line(2, item="b"))
    assert items() == ["a", "b"]


def test_editors_marks_are_read_through():
    put(b"\xef\xbb\xbf", line(1, item="a").replace(b"\n", b"\r\n"), line(2, item="b"))
    assert items() == ["a", "b"]


def test_a_line_separator_inside_a_text_does_not_end_the_line():
    event = {"v": 1, "t": "2026-11-20T00:00:01Z", "kind": "note", "text": "one\u2028two\x85"}
    put(json.dumps(event, ensure_ascii=False).encode() + b"\n")
    assert events.read()[0]["text"] == "one\u2028two\x85"


def test_half_a_character_becomes_a_mark():
    put(line(1, item="a\ud83d", note="\ud83d\ude00"))
    (event,) = events.read()
    assert event["item"] == "a\ufffd" and event["note"] == "\N{GRINNING FACE}"


def test_fields_of_the_wrong_type_are_dropped_in_memory_alone():
    put(
        line(1, item=["a"], hint="2", attempt=1.5, confidence=9, concepts="x", note=3, odd={}),
        line(2, item="b", concepts=["x", 4], confidence=True),
    )
    first, second = events.read()
    assert set(first) == {"v", "t", "kind", "concepts", "odd"} and first["concepts"] == []
    assert second["concepts"] == ["x"] and "confidence" not in second


@pytest.mark.parametrize("bad", ["yesterday", None, 7, "2026-13-01T00:00:00Z", ["x"]])
def test_an_event_without_a_time_takes_its_neighbors(bad):
    put(line(1, t=bad, item="a"), line(5, item="b"), line(6, t=bad, item="c"), line(9, item="d"))
    assert items() == ["a", "b", "c", "d"]
    assert [e["t"][-3:-1] for e in events.read()] == ["05", "05", "05", "09"]


def test_times_in_other_forms_are_understood():
    put(line(1, t="2026-11-20T02:00:00+02:00"), line(2, t="2026-11-20"), line(2, t="0001-01-01"))
    assert [e["t"] for e in events.read()] == [
        "0001-01-01T00:00:00Z",
        "2026-11-20T00:00:00Z",
        "2026-11-20T00:00:00Z",
    ]
    assert all(events.parse_time(e).tzinfo for e in events.read())


def test_a_clock_set_back_loses_nothing():
    put(line(50, item="a"), line(51, item="b"), line(3, item="c"), line(4, item="d"))
    assert sorted(items()) == ["a", "b", "c", "d"]


def test_two_machines_merged_by_git():
    common = [line(1, item="a"), line(2, item="b")]
    ours, theirs = [line(3, item="o"), line(9, item="p")], [line(5, item="t")]
    put(
        *common,
        b"<<<<<<< HEAD\n",
        *ours,
        b"||||||| base\n",
        b"=======\n",
        *theirs,
        b">>>>>>> laptop\n",
    )
    assert items() == ["a", "b", "o", "t", "p"]
    (said,) = events.problems()
    assert "4 of its lines" in said and "git's conflict marks" in said and "line 3" in said


def test_two_copies_joined_by_hand_are_one_history():
    ours = [line(n, item=str(n)) for n in range(5)]
    put(*ours, *ours, line(7, item="new"))
    assert items() == ["0", "1", "2", "3", "4", "new"]
    put(line(1, item="a"), line(1, item="a"))
    assert items() == ["a", "a"], "twice in one second is two events"


def test_events_of_a_newer_course_wait(capsys):
    put(line(1, item="a"), line(2, v=2, item="later"), line(3, v="?", item="b"))
    assert items() == ["a", "b"]
    assert "from a newer version of the course: 1." in capsys.readouterr().err
    (said,) = events.problems()
    assert "newer version" in said
    events.record("check", item="c")
    assert b"later" in events.path().read_bytes()


def test_nothing_wrong_is_nothing_said():
    put(line(1), b"\n")
    assert events.problems() == []


def test_pruning_keeps_what_it_is_told_to():
    put(line(1, item="a"), b"noise\n", line(2, kind="note", text="我的"))
    assert events.prune(lambda e: e if e["kind"] == "note" else None) == 1
    assert [e["text"] for e in events.read()] == ["我的"]


def test_pruning_on_a_full_disk_leaves_the_old_file(monkeypatch):
    put(line(1, item="a"))

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(events.os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        events.prune(lambda e: None)
    assert items() == ["a"] and [p.name for p in events.path().parent.iterdir()] == ["events.jsonl"]
