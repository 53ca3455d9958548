"""The learner's record survives crashes, full disks and strange values; it never stops the work."""

import json
import os
import re
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.lab import events
from course_lib.lab.home import home

pytestmark = pytest.mark.usefixtures("course_home")


def test_an_event_is_one_line_with_version_time_and_kind(course_home):
    assert events.record("check", item="rmsnorm", result="fail", code="STUB", hint=None)
    (line,) = (course_home / "learning" / "events.jsonl").read_text().splitlines()
    event = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", event.pop("t"))
    assert event == {"v": 1, "kind": "check", "item": "rmsnorm", "result": "fail", "code": "STUB"}


def test_no_file_is_no_events():
    assert events.read() == []


def test_events_come_back_in_order():
    for attempt in range(5):
        events.record("check", attempt=attempt)
    assert [event["attempt"] for event in events.read()] == [0, 1, 2, 3, 4]


def test_a_broken_last_line_costs_only_itself(course_home):
    events.record("check", item="a")
    with events.path().open("a") as file:
        file.write('{"v": 1, "t": "2026-01-01T00:0')
    assert [event.get("item") for event in events.read()] == ["a"]
    events.record("check", item="b")
    assert [event.get("item") for event in events.read()] == ["a", "b"]


def test_bytes_that_are_no_text_are_passed_over():
    events.record("check", item="a")
    with events.path().open("ab") as file:
        file.write(b"\xff\xfe\x00\n[1, 2]\n\n")
    events.record("check", item="b")
    assert [event["item"] for event in events.read()] == ["a", "b"]


def test_a_folder_that_cannot_be_made_is_said_once(course_home, capsys):
    (course_home / "learning").write_text("a file where the folder should be")
    assert events.record("check") is False
    assert events.record("check") is False
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith("progress is not being recorded: ")


def test_a_full_disk_is_said_once(monkeypatch, capsys):
    monkeypatch.setattr(events.os, "write", lambda handle, line: 3)
    assert not events.record("check") and not events.record("check")
    assert capsys.readouterr().err == "progress is not being recorded: No space left on device\n"


def test_an_unreadable_record_is_no_error(capsys):
    events.path().mkdir(parents=True)
    assert events.read() == []
    assert "cannot be read" in capsys.readouterr().err


def test_values_without_json_are_kept_as_text():
    assert events.record("check", item=object, secs=float("nan"), src={1, 2})
    assert events.read()[0]["secs"] == "nan"


def test_a_field_cannot_forge_time_or_version():
    events.record("check", t="yesterday", v=9)
    assert events.read()[0]["v"] == 1 and events.read()[0]["t"] != "yesterday"


def test_two_writers_do_not_mix_their_lines():
    def write(name):
        for _ in range(50):
            events.record("note", text=name * 200)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(event["text"][0] for event in events.read()) == sorted("abcd" * 50)


@settings(max_examples=25)
@given(
    st.dictionaries(
        st.text(min_size=1), st.text() | st.integers() | st.floats() | st.lists(st.text())
    )
)
def test_whatever_is_recorded_can_be_read(fields):
    before = len(events.read())
    fields.pop("kind", None)
    assert events.record("note", **fields)
    assert len(events.read()) == before + 1


def test_the_digest_tells_sources_apart():
    assert events.digest("a") != events.digest("b") and events.digest("\ud800").startswith(
        "sha256:"
    )


def test_home_prefers_the_environment(tmp_path):
    assert home() == tmp_path


def test_home_is_the_nearest_course_above(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_HOME")
    course = tmp_path / "course"
    deep = course / "notebooks" / "deep"
    deep.mkdir(parents=True)
    (course / "course_lib").mkdir()
    (course / "_toc.yml").touch()
    monkeypatch.chdir(deep)
    assert home() == course


def test_home_is_the_working_directory_elsewhere(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_HOME")
    monkeypatch.chdir(tmp_path)
    assert home() == tmp_path.resolve() and os.listdir(tmp_path) == []
