"""Proofs of the review items of 18_ladder."""

from types import SimpleNamespace

from course_lib.ladder.gains import amdahl, rung_gains

ARGUED = {
    "ladder-rung-4": "a difference of two measured times",
}


def ladder_rung(n) -> dict:
    """Two rungs, A and then B; what a variant does not say takes 1 ms."""
    given = SimpleNamespace(**({"g": 1, "a": 1, "b": 1, "w": 1} | vars(n)))
    return rung_gains(
        given.g,
        {"A": given.a, "B": given.w},
        {"A": given.w, "B": given.a},
        {"A": given.a, "B": given.b},
    )


def ladder_rung_1(n):
    return ladder_rung(n)["in_place"]["B"]


def ladder_rung_2(n):
    return amdahl(n.s / 100, n.k)


def ladder_rung_3(n):
    x, y = n.x, n.y
    alone, without = {"A": 100 - x, "B": 100 - y}, {"A": 100 - y, "B": 100 - x}
    found = rung_gains(100, alone, without, {"A": 100 - x, "B": 100 - x - y})
    assert found["product"] < found["total"]
    return found["total"]
