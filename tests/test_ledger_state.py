"""Levels, blind spots, sessions and milestones, as specified, from events alone."""

import json
import random
from datetime import timedelta

import pytest

from course_lib.lab import events
from course_lib.lab.ledger import state as ledger
from course_lib.lab.ledger.blind_spots import BlindSpot
from course_lib.lab.ledger.concepts import weakest_needed
from course_lib.lab.registry import exercises
from tests.learner import Learner, at

NORM, CASTS = "rms-normalization", "upcasting"
HEADS = ("scaled-dot-product", "causal-mask", "softmax-saturation")


@pytest.fixture
def learner() -> Learner:
    return Learner()


def spots(learner: Learner, now, kind: str) -> list[BlindSpot]:
    return [spot for spot in learner.state(now).blind_spots if spot.kind == kind]


def test_nothing_is_level_0_of_what_is_taught(learner):
    state = learner.state(at(0))
    taught = {concept for card in exercises().values() for concept in card.teaches}
    assert set(state.levels.values()) == {0} and state.levels.keys() == taught
    assert "broadcasting" not in state.levels, "assumed"
    assert state.sessions == [] and state.blind_spots == [] and state.evidence == {}


def test_the_first_three_levels(learner):
    learner.check(at(0), "rmsnorm", "RMS-NO-EPS")
    assert learner.state(at(1)).levels[NORM] == 1
    learner.check(at(0, 10), "rmsnorm")
    assert learner.state(at(1)).levels[NORM] == 3
    learner.hint(at(0, 11), "swiglu")
    assert learner.state(at(1)).levels["gating"] == 1
    learner.check(at(0, 12), "swiglu")
    assert learner.state(at(1)).levels["gating"] == 2
    learner.solution(at(1), "rotate-half")
    learner.check(at(2), "rotate-half")
    assert learner.state(at(2)).levels["rotation"] == 2, "help of another day is help"


def test_what_is_written_anew_later_counts_and_what_is_run_again_does_not(learner):
    learner.solution(at(0), "rmsnorm")
    learner.check(at(0, 9.1), "rmsnorm", src="copied")
    learner.check(at(0, 9.2), "rmsnorm", src="moments later")
    learner.check(at(3), "rmsnorm", src="copied")
    assert learner.state(at(4)).levels[NORM] == 2
    learner.check(at(5), "rmsnorm", src="own")
    assert learner.state(at(6)).levels[NORM] == 3


@pytest.mark.parametrize(("days", "level"), [(6.9, 3), (7, 4), (9, 4)])
def test_retained_is_a_review_passed_a_week_later(learner, days, level):
    learner.check(at(0), "rmsnorm")
    learner.review(at(0) + timedelta(days=days), "rmsnorm-3")
    assert learner.state(at(10)).levels == {**learner.state(at(10)).levels, CASTS: level, NORM: 3}


def test_reviews_raise_one_level_a_week(learner):
    learner.hint(at(0), "rmsnorm")
    learner.check(at(0, 10), "rmsnorm")
    for day, level in ((8, 3), (9, 3), (15, 4), (30, 4)):
        learner.review(at(day, 11), "rmsnorm-3")
        assert learner.state(at(day, 12)).levels[CASTS] == level, day


def test_a_failed_review_lowers_by_one_and_never_below_2(learner):
    learner.check(at(0), "rmsnorm")
    learner.review(at(8), "rmsnorm-3")
    for level in (3, 2, 2, 2):
        learner.review(at(9), "rmsnorm-3", passed=False)
        assert learner.state(at(9, 10)).levels[CASTS] == level
    learner.check(at(10), "swiglu", "SWIGLU-SWAPPED")
    learner.review(at(10, 11), "swiglu-1", passed=False)
    assert learner.state(at(11)).levels["gating"] == 1, "and never raises"


def test_transferred_is_passed_alone_where_another_lesson_uses_it(learner):
    learner.check(at(0), "attention")
    assert learner.state(at(1)).levels[CASTS] == 0, "using it unseen shows nothing yet"
    learner.check(at(1), "rmsnorm")
    learner.check(at(2), "attention")
    state = learner.state(at(3))
    assert state.levels[CASTS] == 5 and state.levels[NORM] == 3
    assert state.evidence[CASTS] == [
        "3 on 2026-09-02: 1.1 RMSNorm.forward, no hint",
        "5 on 2026-09-03: 4.1 causal_attention, used there, no hint",
    ]
    learner.review(at(4), "rmsnorm-3", passed=False)
    assert learner.state(at(5)).levels[CASTS] == 4


def test_a_neighbor_in_the_same_lesson_transfers_nothing(learner):
    learner.check(at(1), "adamw-step")
    learner.check(at(2), "param-groups")
    assert learner.state(at(3)).levels["adamw"] == 3


def test_help_transfers_nothing(learner):
    learner.check(at(1), "rmsnorm")
    learner.hint(at(2), "attention")
    learner.check(at(2, 10), "attention")
    assert learner.state(at(3)).levels[CASTS] == 3


def test_the_same_mistake_in_two_sessions_is_a_blind_spot(learner):
    for hour in (9, 9.1, 9.2):
        learner.check(at(0, hour), "attention", "ATT-LEAK-1", preset="attention:leak-1")
    assert spots(learner, at(0, 10), "misconception") == [], "one session"
    learner.check(at(0, 12), "attention", "ATT-LEAK-1", preset="attention:leak-1")
    (spot,) = spots(learner, at(1), "misconception")
    assert (spot.name, spot.concepts[1]) == ("ATT-LEAK-1", "causal-mask")
    assert spot.why == "second session with the same mistake, in 4.1 causal_attention"
    assert spot.remedy == 'figure("attention"), preset leak-1'


def test_two_passes_without_help_clear_it(learner):
    learner.check(at(0), "attention", "ATT-LEAK-1")
    learner.check(at(1), "attention", "ATT-LEAK-1")
    learner.hint(at(1, 9.1), "attention")
    learner.check(at(1, 9.2), "attention")
    learner.check(at(2), "attention", src="one")
    learner.check(at(3), "attention", src="one")
    assert spots(learner, at(4), "misconception"), "one answer, however often it is run"
    learner.review(at(4), "attention-2")
    assert not spots(learner, at(5), "misconception")
    learner.check(at(6), "attention", "ATT-LEAK-1")
    assert not spots(learner, at(6), "misconception"), "cleared is cleared: it must return twice"


def test_a_failure_between_starts_the_count_again(learner):
    learner.check(at(0), "attention", "ATT-LEAK-1")
    learner.check(at(1), "attention", "ATT-LEAK-1")
    learner.check(at(2), "attention")
    learner.check(at(3), "attention", "ATT-LEAK-1")
    learner.check(at(4), "attention")
    assert spots(learner, at(5), "misconception")


@pytest.mark.parametrize("code", ["STUB", "SHAPE", "RAISED", "CHECK-BROKE"])
def test_a_slip_is_no_misconception(learner, code):
    learner.check(at(0), "attention", code)
    learner.check(at(1), "attention", code)
    assert learner.state(at(2)).blind_spots == []


def test_sure_and_wrong_twice_is_a_blind_spot(learner):
    learner.check(at(0), "rmsnorm", "DTYPE", confidence=3)
    learner.check(at(0, 10), "rmsnorm", "DTYPE", confidence=4)
    assert not spots(learner, at(1), "overconfident")
    learner.review(at(1), "rmsnorm-1", passed=False, confidence=5)
    (spot,) = spots(learner, at(2), "overconfident")
    assert spot.name == "rmsnorm" and spot.why == "sure 2 times, and failed, in 1.1 RMSNorm.forward"
    learner.check(at(3), "rmsnorm")
    learner.review(at(4), "rmsnorm-1")
    assert not spots(learner, at(5), "overconfident")


def test_fading_is_solved_and_hardly_recalled(learner):
    learner.check(at(0), "rmsnorm")
    learner.solution(at(0, 10), "swiglu")
    learner.check(at(0, 11), "swiglu")
    assert not spots(learner, at(15), "fading")
    assert {spot.name for spot in spots(learner, at(60), "fading")} == {NORM, CASTS}, (
        "gating is at level 2"
    )
    (spot, _) = spots(learner, at(60), "fading")
    assert "chance of 6" in spot.why and spot.remedy == "course review"
    learner.review(at(60), "rmsnorm-3")
    assert {spot.name for spot in spots(learner, at(61), "fading")} == {NORM}


def test_a_remedy_names_the_weakest_thing_below(learner):
    learner.check(at(0), "attention", "ATT-SCALE", confidence=5)
    learner.check(at(1), "attention", "ATT-SCALE", confidence=5)
    state = learner.state(at(2))
    assert state.blind_spots[0].remedy == "what it stands on: upcasting, lesson 01 RMSNorm"
    assert state.levels[CASTS] == 0, "its level is left alone"
    learner.check(at(2), "rmsnorm")
    assert learner.state(at(3)).blind_spots[0].remedy == (
        "read what comes before causal_attention in lesson 04 Attention, then say what went wrong"
    )


def test_the_weakest_below_is_the_lowest_and_of_equals_the_first():
    levels = {NORM: 3, "rotary-frequencies": 2, "rotation": 1, "half-split-layout": 1, "silu": 2}
    assert weakest_needed(["rotary-embedding"], levels) == "half-split-layout"
    assert weakest_needed(["gating"], levels) == "silu"
    assert weakest_needed(["next-token-loss"], levels) == "rotary-embedding"
    assert weakest_needed([NORM], levels) is None


def test_sessions_end_with_a_pause_or_when_they_are_ended(learner):
    learner.check(at(0, 9), "rmsnorm", "STUB")
    learner.check(at(0, 9.5), "rmsnorm")
    learner.check(at(0, 10.01), "swiglu", "STUB")
    learner.add(at(0, 10.1), "session", started=events.stamp(at(0, 10.01)), note="fertig 完")
    learner.hint(at(0, 10.2), "swiglu")
    found = learner.state(at(1)).sessions
    assert [s.number for s in found] == [1, 2, 3] and [len(s.events) for s in found] == [2, 1, 1]
    assert found[0].minutes == 30 and found[0].passed_exercises() == ["rmsnorm"]
    assert found[1].open() == ["swiglu"] and found[1].notes == ["fertig 完"]


def test_a_session_ended_hours_later_is_not_hours_long(learner):
    learner.check(at(0, 9), "rmsnorm")
    learner.check(at(0, 9.2), "swiglu")
    learner.add(at(0, 15), "session", started=events.stamp(at(0, 9)), note="late")
    learner.add(at(0, 16), "session", started=events.stamp(at(0, 9)), note="later")
    (session,) = learner.state(at(1)).sessions
    assert session.minutes == 12 and session.notes == ["late", "later"]


def test_milestones(learner):
    learner.check(at(3), "bytes")
    start, model, *_ = learner.state(at(4)).milestones
    assert (start.passed, start.total, start.reached) == (1, 1, at(3))
    assert model.reached is None and model.passed == 0


def test_the_next_exercise_follows_the_last_one_passed(learner):
    assert ledger.next_exercise(learner.state(at(0))).id == "bytes"
    learner.check(at(0), "rotate-half")
    assert ledger.next_exercise(learner.state(at(1))).id == "apply-rope"


def test_sixty_days():
    """Due dates are those of FSRS, levels and blind spots those of the rules above."""
    learner, asked = Learner(), {}
    for day in range(60):
        _study(learner, day)
        evening = at(day, 20)
        for item in learner.due(evening):
            if item.startswith(("rmsnorm", "swiglu", "rotate-half")):
                asked.setdefault(item, []).append(day)
                learner.review(evening, item)
    # the intervals of FSRS's default weights: Good 2, 11, 46; Hard 1, 5, 17; Again 1, 2, 6, 17
    assert asked["rmsnorm-1"] == [2, 13, 59]
    assert asked["swiglu-1"] == [1, 6, 23]
    assert asked["rotate-half-1"] == [1, 3, 9, 26]
    state = learner.state(at(60))
    wanted = {NORM: 4, CASTS: 5, "gating": 3, "rotation": 4, "causal-mask": 3, "warmup": 3,
              "adamw": 1, "master-copy": 0}  # fmt: skip
    assert {slug: state.levels[slug] for slug in wanted} == wanted
    assert {(spot.kind, spot.name) for spot in state.blind_spots} == {
        ("misconception", "ADAMW-ORDER"),
        ("overconfident", "adamw-step"),
        *(("fading", slug) for slug in ("learning-rate-schedule", "warmup", *HEADS)),
    }
    assert len(state.sessions) == len(
        {e["t"][:11] + str(e["t"] > e["t"][:11] + "12") for e in learner.events}
    )
    _replayed(learner, state)


def _study(learner: Learner, day: int) -> None:
    if day == 0:
        learner.check(at(0), "rmsnorm", "RMS-NO-EPS")
        learner.check(at(0, 9.1), "rmsnorm")
        learner.hint(at(0, 9.2), "swiglu", 2)
        learner.check(at(0, 9.3), "swiglu")
        learner.solution(at(0, 9.4), "rotate-half")
        learner.check(at(0, 9.45), "rotate-half")
    if day == 12:
        learner.check(at(12), "rotate-half")
    if day == 30:
        learner.check(at(30), "attention", "ATT-LEAK-1")
        learner.check(at(30, 9.1), "attention", "ATT-LEAK-1")
        learner.check(at(30, 9.2), "attention")
        learner.check(at(30, 9.3), "get-lr")
    if day in (40, 41):
        learner.check(at(day), "adamw-step", "ADAMW-ORDER", confidence=5)


def _replayed(learner: Learner, state: ledger.State) -> None:
    """The same events in another order, and through a file, give the same state."""
    times = [e["t"] for e in learner.events]
    moments = sorted(set(times))
    groups = [[e for e in learner.events if e["t"] == t] for t in moments]
    random.Random(2).shuffle(groups)  # what shares a second keeps its order: nothing else tells it
    mixed = [event for group in groups for event in group]
    copied = json.loads(json.dumps(mixed))
    assert ledger.derive(copied, state.now) == state
    assert ledger.derive(learner.events, state.now) == state


def test_a_record_cut_anywhere_is_the_state_of_what_is_left(learner, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    for day in range(40):
        learner.check(at(day), "rmsnorm", "RMS-NO-EPS" if day % 3 else "PASS")
    lines = [json.dumps(event).encode() + b"\n" for event in learner.events]
    whole, draw = b"".join(lines), random.Random(3)
    events.path().parent.mkdir()
    for _ in range(25):
        cut = draw.randrange(len(whole))
        events.path().write_bytes(whole[:cut])
        left = whole[: cut + 1].count(b"\n")
        found = events.read()
        assert found == learner.events[:left]
        assert ledger.derive(found, at(60)) == ledger.derive(learner.events[:left], at(60))


def test_a_clock_that_ran_ahead_counts_as_now(learner):
    learner.check(at(900), "rmsnorm")
    learner.hint(at(0), "swiglu")
    state = learner.state(at(1))
    assert state.levels[NORM] == 3 and state.sessions[-1].ended == at(1)


def test_a_clock_set_back_keeps_what_was_done(learner):
    learner.check(at(5), "rmsnorm")
    learner.check(at(2), "swiglu")
    state = learner.state(at(6))
    assert state.levels[NORM] == state.levels["gating"] == 3 and len(state.sessions) == 2


def test_events_of_an_odd_kind_or_shape_are_no_trouble():
    odd = [
        {"kind": "check"}, {"kind": "hint"}, {"kind": "review", "result": "pass"},
        {"kind": "session", "started": "soon", "ended": "2026-13"}, {"kind": "predict"},
        {"kind": "dance", "item": "tango"}, {"kind": "check", "item": "gone", "result": "pass",
        "concepts": ["lost-idea"]}, {"kind": "journal", "item": 3}, {"kind": "_raise"},
        {"kind": "note", "text": "ja"}, {"kind": "reveal", "item": "x", "measured": None},
    ]  # fmt: skip
    first = [
        {"kind": kind, "t": "0001-01-01T00:00:00Z", "item": "rmsnorm", "result": "pass"}
        for kind in ("session", "check", "hint", "review")
    ]
    last = [event | {"t": "9999-12-31T23:59:59Z"} for event in first]
    state = ledger.derive(odd + first + last, at(0))
    assert state.levels["lost-idea"] == 3 and "gone" not in state.exercises
    assert [s.notes for s in state.sessions if s.notes] == [["ja"]]
