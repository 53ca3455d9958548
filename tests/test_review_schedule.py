"""Due dates and the queue: intervals, ratings from evidence, 60 simulated days, wrong clocks."""

import json
import random
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

import pytest
from fsrs import Rating
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.lab import registry
from course_lib.lab.events import stamp
from course_lib.lab.reviews import queue, schedule
from course_lib.lab.reviews.items import items
from course_lib.lab.reviews.schedule import rate_pass

START = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
DAY = timedelta(days=1)
EVERYTHING = {c: 3 for card in registry.exercises().values() for c in card.teaches}


def check(exercise: str, when: datetime = START, result: str = "pass", **fields) -> dict:
    code = "PASS" if result == "pass" else "SHAPE"
    return {
        "v": 1,
        "t": stamp(when),
        "kind": "check",
        "item": exercise,
        "result": result,
        "code": code,
    } | fields


def review(item: str, when: datetime, rating: int = 3, **fields) -> dict:
    return {
        "v": 1,
        "t": stamp(when),
        "kind": "review",
        "item": item,
        "rating": rating,
        "result": "pass" if rating > 1 else "fail",
    } | fields


def hint(exercise: str, level: int) -> dict:
    return {"v": 1, "t": stamp(START), "kind": "hint", "item": exercise, "hint": level}


SOLUTION = {"v": 1, "t": stamp(START), "kind": "solution", "item": "rmsnorm"}


@pytest.mark.parametrize(
    ("ratings", "days"),
    [
        ([3, 3, 3, 3], [2, 11, 46, 163]),
        ([2, 3, 3, 3], [1, 5, 17, 50]),
        ([1, 3, 3, 3], [1, 2, 6, 17]),
        ([3, 3, 1, 3], [2, 11, 2, 5]),
    ],
)
def test_the_intervals(ratings, days):
    events, when, found = [], START, []
    for rating in ratings:
        events.append(review("rmsnorm-1", when, rating))
        one = schedule.schedule(events, when)["rmsnorm-1"]
        found.append((one.due - when).days)
        when = one.due
    assert found == days


def test_no_interval_is_longer_than_the_course():
    events, when = [], START
    for _ in range(8):
        events.append(review("rmsnorm-1", when, 4))
        one = schedule.schedule(events, when)["rmsnorm-1"]
        assert one.due - when <= 180 * DAY
        when = one.due


@pytest.mark.parametrize(
    ("history", "rating", "days"),
    [
        ([], Rating.Good, 2),
        ([check("rmsnorm", result="fail")], Rating.Good, 2),
        ([hint("rmsnorm", 1)], Rating.Good, 2),
        ([hint("rmsnorm", 1), hint("rmsnorm", 2)], Rating.Hard, 1),
        ([check("rmsnorm", result="fail")] * 2, Rating.Hard, 1),
        ([check("rmsnorm", result="fail") | {"code": "STUB"}] * 5, Rating.Good, 2),
        ([check("rmsnorm", result="fail", confidence=5)], Rating.Good, 2),
        ([SOLUTION], Rating.Again, 1),
        ([hint("rmsnorm", 3), SOLUTION], Rating.Again, 1),
    ],
)
def test_a_pass_creates_its_items_rated_by_its_evidence(history, rating, days):
    events = [*history, check("rmsnorm")]
    assert rate_pass(events) == rating
    found = schedule.schedule([*events, SOLUTION], START)  # opened afterwards: too late to count
    assert sorted(found) == [f"rmsnorm-{n}" for n in (1, 2, 3, 4)]
    assert {(one.due - START).days for one in found.values()} == {days}
    assert {one.reviews for one in found.values()} == {0}


def test_sure_and_right_at_once_is_easy():
    assert rate_pass([check("rmsnorm", confidence=4)]) == Rating.Easy
    assert rate_pass([check("rmsnorm", confidence=3)]) == Rating.Good
    assert rate_pass([hint("rmsnorm", 1), check("rmsnorm", confidence=5)]) == Rating.Good


def test_a_second_pass_changes_nothing():
    once = schedule.schedule([check("rmsnorm")], START)
    again = [check("rmsnorm"), check("rmsnorm", START + DAY), SOLUTION | {"t": stamp(START + DAY)}]
    assert schedule.schedule(again, START) == once


def test_the_order_of_the_file_does_not_matter():
    events = [check("rmsnorm"), *(review("rmsnorm-1", START + n * DAY) for n in (2, 13, 60))]
    wanted = schedule.schedule(events, START + 61 * DAY)
    for seed in range(20):
        random.Random(seed).shuffle(events)
        assert schedule.schedule(events, START + 61 * DAY) == wanted


def test_retrievability_fades_and_the_rest_does_not_depend_on_now():
    events = [check("rmsnorm"), review("rmsnorm-1", START + 2 * DAY)]
    early, late = (schedule.schedule(events, START + n * DAY)["rmsnorm-1"] for n in (3, 40))
    assert early.retrievability > 0.9 > late.retrievability > 0
    assert (early.due, early.last, early.reviews) == (late.due, late.last, late.reviews)
    at_due = schedule.schedule(events, early.due)["rmsnorm-1"].retrievability
    assert at_due == pytest.approx(0.9, abs=0.01)


def test_eight_a_day_also_across_runs():
    events = [check(e) for e in list(registry.exercises())[:6]]
    now = START + 5 * DAY
    first = queue.due(events, now, EVERYTHING)
    assert len(first) == queue.A_DAY
    events += [review(one.item, now) for one in first[:3]]
    later = now + timedelta(hours=9)
    second = queue.due(events, later, EVERYTHING)
    assert len(second) == 5 and not {o.item for o in second} & {o.item for o in first[:3]}
    events += [review(one.item, later) for one in second]
    assert queue.due(events, later, EVERYTHING) == [] and queue.left_today(events, later) == 0
    assert queue.waiting(events, later, EVERYTHING)
    assert len(queue.due(events, later + DAY, EVERYTHING)) == queue.A_DAY


def test_chapters_are_mixed_and_overdue_comes_first():
    old, new = ("rmsnorm", "swiglu"), ("get-lr", "train-step")
    events = [check(e) for e in old] + [check(e, START + 3 * DAY) for e in new]
    order = queue.waiting(events, START + 5 * DAY, EVERYTHING)
    lessons = [items()[one.item].lesson for one in order]
    overdue = [one.due.date() < (START + 5 * DAY).date() for one in order]
    assert overdue == sorted(overdue, reverse=True) and 0 < sum(overdue) < len(order)
    for tier in (lessons[: sum(overdue)], lessons[sum(overdue) :]):
        for place, (one, following) in enumerate(zip(tier, tier[1:], strict=False)):
            assert one != following or set(tier[place:]) == {one}, tier  # there was no other left
    assert lessons[sum(overdue) - 1] != lessons[sum(overdue)] and len(set(lessons)) == 4


def test_an_item_waits_for_what_it_stands_on():
    events, now = [check("attention")], START + 3 * DAY
    assert queue.due(events, now, {}) == []
    missing = queue.find_blocked_items(events, now, {})
    assert set(missing) == {f"attention-{n}" for n in (1, 2, 3, 4)}
    levels = {concept: 2 for concept in missing["attention-1"]}
    assert len(queue.due(events, now, levels)) == 4
    assert not queue.find_blocked_items(events, now, levels)
    assert queue.due(events, now, levels | {"rotary-embedding": 1}) == []
    assert len(queue.due([check("rmsnorm")], now, {})) == 4  # it stands on nothing


def test_a_card_that_is_due_later_today_is_asked_today():
    events = [check("bytes", START.replace(hour=23))]
    assert len(queue.due(events, START.replace(hour=0) + 2 * DAY, EVERYTHING)) == 3
    assert queue.due(events, START.replace(hour=23) + DAY, EVERYTHING) == []


def simulate(seed: int, days: int = 60) -> tuple[list[dict], list[list]]:
    """A learner who passes an exercise every third day and reviews on most days."""
    chance = random.Random(seed)
    events, asked = [], []
    todo = list(registry.exercises())
    for day in range(days):
        now = START + day * DAY + timedelta(minutes=chance.randrange(600))
        if day % 3 == 0 and todo:
            exercise = todo.pop(0)
            for _ in range(chance.choice((0, 0, 1, 3))):
                events.append(check(exercise, now, "fail"))
            events.append(check(exercise, now))
        today = [] if chance.random() < 0.15 else queue.due(events, now, EVERYTHING)
        asked.append([(one, now) for one in today])
        for one in today:
            rating = chance.choices((1, 2, 3, 4), (2, 1, 6, 1))[0]
            events.append(review(one.item, now, rating, variant=one.reviews))
    return events, asked


@pytest.mark.parametrize("seed", [0, 1])
def test_sixty_days(seed):
    events, asked = simulate(seed)
    for day in asked:
        assert len(day) <= queue.A_DAY
        assert len({one.item for one, _ in day}) == len(day)
        assert all(one.due.date() <= now.date() for one, now in day), "never before it is due"
    counts = Counter(one.item for day in asked for one, _ in day)
    now = START + 60 * DAY
    found = schedule.schedule(events, now)
    passed_early = [
        e["item"]
        for e in events
        if e["kind"] == "check" and e["result"] == "pass" and e["t"] < stamp(START + 40 * DAY)
    ]
    due_early = [i for i in items().values() if i.exercise in passed_early]
    assert len(due_early) > 30 and all(counts[item.id] for item in due_early), "none is forgotten"
    assert {i: one.reviews for i, one in found.items() if one.reviews} == dict(counts)
    late = [(now - one.due).days for day in asked for one, now in day]
    assert max(late) <= 14, "eight a day keep up with an exercise every third day"


def test_a_diligent_learner_meets_the_intervals():
    events = [check("rmsnorm")]
    met = defaultdict(list)
    for day in range(61):
        now = START + day * DAY
        for one in queue.due(events, now, EVERYTHING):
            met[one.item].append(day)
            events.append(review(one.item, now))
    assert dict(met) == {f"rmsnorm-{n}": [2, 13, 59] for n in (1, 2, 3, 4)}  # 2, + 11, + 46


def test_replayed_elsewhere_the_dates_are_the_same():
    events, _ = simulate(3, days=20)
    now = START + 20 * DAY
    program = (
        "import json, sys; from datetime import datetime;"
        "from course_lib.lab.reviews.schedule import schedule;"
        "found = schedule(json.loads(sys.argv[1]), datetime.fromisoformat(sys.argv[2]));"
        "print(json.dumps({i: [o.due.isoformat(), o.reviews] for i, o in found.items()}))"
    )
    command = [sys.executable, "-c", program, json.dumps(events), now.isoformat()]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    mine = schedule.schedule(events, now)
    assert json.loads(said) == {i: [o.due.isoformat(), o.reviews] for i, o in mine.items()}


def test_the_companion_does_not_wait_for_torch():
    program = (
        "import sys; import course_lib.lab.reviews.asking, course_lib.lab.reviews.notebook;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_a_clock_that_was_ahead_blocks_nothing():
    events = [check("rmsnorm"), review("rmsnorm-1", START + 2 * DAY)]
    ahead = [review("rmsnorm-1", START + 900 * DAY), check("bytes", START + 900 * DAY)]
    now = START + 20 * DAY
    found = schedule.schedule(events + ahead, now)
    assert found["rmsnorm-1"] == schedule.schedule(events, now)["rmsnorm-1"]
    assert found["bytes-1"].due == now and found["bytes-1"].reviews == 0
    (said,) = schedule.set_aside(events + ahead, now)
    assert "2 events are dated after now, 10 Dec 2026" in said and "clock" in said
    assert not schedule.set_aside(events + ahead, START + 901 * DAY)
    assert schedule.schedule(events + ahead, START + 901 * DAY)["rmsnorm-1"].reviews == 2


def test_two_clocks_that_differ_by_hours_count_as_one():
    ahead = [check("rmsnorm"), review("rmsnorm-1", START + timedelta(hours=5))]
    assert schedule.schedule(ahead, START)["rmsnorm-1"].reviews == 1
    assert not schedule.set_aside(ahead, START)


def test_items_of_other_releases_are_named():
    events = [check("rmsnorm"), review("flash-attention-9", START), review("rmsnorm-77", START)]
    assert set(schedule.schedule(events, START)) == {f"rmsnorm-{n}" for n in (1, 2, 3, 4)}
    (said,) = schedule.set_aside(events, START)
    assert "2 reviewed items are not in this release (flash-attention-9, rmsnorm-77)" in said


@pytest.mark.parametrize(
    "odd",
    [
        {"rating": 9},
        {"rating": "3"},
        {"rating": None},
        {"rating": True},
        {"rating": 2.5},
        {"item": 7},
        {"item": None},
        {"item": ["rmsnorm-1"]},
        {"t": "yesterday"},
        {"t": 5},
        {"t": "2026-11-25T09:00:00"},
        {"t": "2026-11-25T09:00:00+02:00"},
        {"concepts": "x"},
        {"rating": 0, "result": 4},
        {"confidence": "high"},
        {"variant": "x"},
        {"secs": "long"},
    ],
)
def test_an_event_edited_by_hand_never_stops_a_sitting(odd):
    events = [check("rmsnorm"), review("rmsnorm-1", START + DAY) | odd]
    now = START + 9 * DAY
    assert len(schedule.schedule(events, now)) == 4
    assert queue.due(events, now, EVERYTHING) and schedule.set_aside(events, now) is not None


JUNK = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text())
ITEM = st.sampled_from(["rmsnorm", "rmsnorm-1", "bytes-2", "attention", "gone-1"]) | JUNK
EVENT = st.fixed_dictionaries(
    {"kind": st.sampled_from(["check", "hint", "solution", "review", "session"])},
    optional={
        "t": st.sampled_from([stamp(START + n * DAY) for n in (-9, 0, 3, 400)]) | JUNK,
        "item": ITEM,
        "result": st.sampled_from(["pass", "fail"]) | JUNK,
        "code": JUNK,
        "rating": st.integers(0, 5) | JUNK,
        "hint": JUNK,
        "confidence": JUNK,
        "v": JUNK,
    },
)


@settings(max_examples=100)
@given(st.lists(EVENT, max_size=12))
def test_no_record_is_a_crash(events):
    now = START + 5 * DAY
    found = schedule.schedule(events, now)
    assert all(one.due.tzinfo and 0 <= one.retrievability <= 1 for one in found.values())
    assert all(now - one.due >= timedelta(-181) for one in found.values())
    assert len(queue.due(events, now, EVERYTHING)) <= queue.A_DAY
    assert all(isinstance(line, str) for line in schedule.set_aside(events, now))


def test_empty():
    assert schedule.schedule([], START) == {} and queue.due([], START, {}) == []
