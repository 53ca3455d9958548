"""Rows 5 to 9: what graders mark in a notebook, changed by hand: tags, checks, ids, copies."""

import copy

from tests.hostile.case import (
    HALF,
    READING_TURN,
    RIGHT_HALF,
    TURN,
    WRONG_HALF,
    Case,
    at,
    book,
    cell,
    changed,
    packed,
)

CHECKS = (f"{HALF}-check", f"{TURN}-check")
BOTH = {HALF: {"TAMPERED"}, TURN: {"TAMPERED"}}
LOST = {HALF: {"MATCHED"}, TURN: {"MATCHED"}}


def tags(*tags_: str):
    def change(nb):
        for one in nb["cells"]:
            one["metadata"]["tags"] = list(tags_)

    return change


def check(source: str, **settings):
    """Both checks hold `source` and these settings."""

    def change(nb):
        for name in CHECKS:
            cell(nb, name)["source"] = source
            cell(nb, name)["metadata"]["nbgrader"] |= settings

    return change


def settings(name: str, **settings_):
    def change(nb):
        cell(nb, name)["metadata"]["nbgrader"] |= settings_

    return change


def deleted(*names: str):
    def change(nb):
        nb["cells"] = [one for one in nb["cells"] if one.get("id") not in names]

    return change


def retyped(kind: str, *names: str):
    def change(nb):
        for name in names:
            cell(nb, name)["cell_type"] = kind

    return change


def bare(nb):
    """As another program saves it: no metadata, no ids."""
    for one in nb["cells"]:
        one["metadata"] = {}
        one.pop("id", None)


def nonsense(nb):
    for one, junk in zip(
        nb["cells"], [7, [], None, "x", {"nbgrader": 3}, {"tags": 5}] * 9, strict=False
    ):
        one["metadata"] = junk


def split(nb):
    where = at(nb, HALF)
    first, second = copy.deepcopy(nb["cells"][where]), copy.deepcopy(nb["cells"][where])
    lines = RIGHT_HALF.splitlines(keepends=True)
    first["source"], second["source"] = "".join(lines[:2]), "".join(lines[2:])
    second["id"] = "second"
    nb["cells"][where : where + 1] = [first, second]


def split_helper(nb):
    where = at(nb, HALF)
    more = copy.deepcopy(nb["cells"][where])
    nb["cells"][where]["source"] = "def cut(x):\n    return x.tensor_split(2, -1)\n"
    more |= {
        "id": "more",
        "source": "def rotate_half(x):\n    a, b = cut(x)\n    return torch.cat((-b, a), -1)\n",
    }
    nb["cells"].insert(where + 1, more)


def copied(nb):
    where = at(nb, HALF)
    nb["cells"].insert(where + 1, {**copy.deepcopy(nb["cells"][where]), "id": "copy"})


def wrong_then_right(nb):
    where = at(nb, HALF)
    nb["cells"].insert(where, {**copy.deepcopy(nb["cells"][where]), "source": WRONG_HALF})


def check_copied(nb):
    where = at(nb, CHECKS[0])
    nb["cells"][where:where] = [copy.deepcopy(nb["cells"][where]) for _ in range(5)]


def moved(nb):
    """The answer stands in a new cell above an untouched one."""
    text, one = cell(nb, HALF)["source"], cell(nb, HALF)
    one["source"] = ""
    nb["cells"].insert(at(nb, HALF), {"cell_type": "code", "metadata": {}, "source": text})


def swapped(nb):
    """Each exercise has the id of the other."""
    first, second = cell(nb, HALF)["metadata"]["nbgrader"], cell(nb, TURN)["metadata"]["nbgrader"]
    first["grade_id"], second["grade_id"] = TURN, HALF


def twice_the_points(nb):
    """The easy exercise counted under the id of the dear one."""
    cell(nb, TURN)["source"] = RIGHT_HALF
    cell(nb, CHECKS[1])["source"] = cell(nb, CHECKS[0])["source"]


def backwards(nb):
    nb["cells"].reverse()


CASES = [
    changed(5, "skip-execution", tags("skip-execution"), WRONG_HALF, flags=BOTH),
    changed(
        5,
        "raises-exception",
        tags("raises-exception", "skip-execution"),
        WRONG_HALF,
        READING_TURN,
        flags={HALF: {"TAMPERED"}, TURN: {"TAMPERED", "ALONE"}},
    ),
    changed(6, "check-emptied", check(""), WRONG_HALF, flags=BOTH),
    changed(
        6, "check-that-agrees", check("3.0", points=100, checksum="0" * 32), WRONG_HALF, flags=BOTH
    ),
    changed(
        6,
        "a-hundred-points",
        settings(CHECKS[0], points=100, checksum="f" * 32),
        WRONG_HALF,
        flags={HALF: {"TAMPERED"}},
    ),
    changed(
        6, "negative-points", settings(CHECKS[1], points=-5), WRONG_HALF, flags={TURN: {"TAMPERED"}}
    ),
    changed(
        6,
        "the-easy-one-twice",
        twice_the_points,
        half="PASS",
        turn="ERROR UNDEFINED",
        flags={TURN: {"TAMPERED"}},
    ),
    changed(7, "checks-deleted", deleted(*CHECKS), WRONG_HALF, flags=BOTH),
    changed(7, "checks-are-raw", retyped("raw", *CHECKS), WRONG_HALF, flags=BOTH),
    changed(7, "checks-are-text", retyped("markdown", *CHECKS), half="PASS", flags=BOTH),
    changed(7, "answers-are-text", retyped("markdown", HALF, TURN), half="PASS", flags=BOTH),
    changed(
        7, "all-deleted-but-one", deleted(HALF, *CHECKS), half="UNGRADABLE NO-ANSWER", flags=BOTH
    ),
    changed(
        8,
        "no-grade-cell",
        settings(CHECKS[0], grade=False, solution=True, locked=False),
        WRONG_HALF,
        flags={HALF: {"TAMPERED"}},
    ),
    changed(
        8,
        "answer-is-a-grade-cell",
        settings(HALF, grade=True, points=50, locked=True),
        WRONG_HALF,
        flags={HALF: {"TAMPERED"}},
    ),
    changed(
        8,
        "a-schema-of-the-future",
        settings(CHECKS[1], schema_version=99, more={"x": []}),
        half="PASS",
    ),
    changed(8, "a-schema-of-the-past", settings(HALF, schema_version=0), half="PASS"),
    changed(8, "metadata-is-nonsense", nonsense, half="PASS", flags=LOST),
    changed(9, "split", split, half="PASS", flags={HALF: {"DUP"}}),
    changed(9, "split-with-a-helper", split_helper, half="PASS", flags={HALF: {"DUP"}}),
    changed(9, "copied", copied, half="PASS", flags={HALF: {"DUP"}}),
    changed(9, "wrong-then-right", wrong_then_right, half="PASS", flags={HALF: {"DUP"}}),
    changed(9, "check-copied", check_copied, half="PASS"),
    changed(9, "all-metadata-gone", bare, half="PASS", flags=LOST),
    changed(9, "in-a-new-cell", moved, half="PASS", flags={HALF: {"MATCHED"}}),
    changed(9, "ids-swapped", swapped, half="ERROR UNDEFINED", turn="ERROR UNDEFINED"),
    changed(9, "backwards", backwards, half="PASS"),
    Case(
        9,
        "answers-alone",
        packed(
            {
                "nbformat": 4,
                "nbformat_minor": 5,
                "metadata": {},
                "cells": [one for one in book()["cells"] if one["id"] in (HALF, TURN)],
            }
        ),
        half="PASS",
        flags=BOTH,
    ),
]
