"""What a rung of the speed ladder is worth: the arithmetic of gains.

What it is: Amdahl's law, and the three gains of a change that is measured alone, at its place and
taken away from the whole. What it leaves out: the measuring (rungs.py, climb.py).

Sources: Amdahl 1967 ("Validity of the single processor approach to achieving large scale computing
capabilities"); the product of the gains at their places telescopes, the others do not.
"""

import math
from collections.abc import Mapping


def amdahl(share: float, speedup: float) -> float:
    """How many times as fast the whole is, when a part of it that takes `share` of the time is
    `speedup` times as fast. ValueError for a share outside 0..1 or a speedup of 0 or less."""
    if not (0 <= share <= 1 and speedup > 0):
        raise ValueError(f"expected a share in 0..1 and a speedup above 0, got {share}, {speedup}")
    return 1 / (1 - share + share / speedup)


def rung_gains(
    base: float,
    alone: Mapping[str, float | None],
    without: Mapping[str, float | None],
    climbed: Mapping[str, float | None],
) -> dict:
    """What each rung is worth, from seconds of a step: a gain is time before over time after.

    `base` is a step on the ground. The other three have, for each rung, a step with:
        `climbed`   this rung and all before it, in the order of the rungs
        `alone`     this rung and no other, keys in any order
        `without`   every rung but this one, keys in any order
    No time is infinite. None, and no other value, marks a rung that was not measured, in all three.
    Such a rung is no step of the ladder, and its four values below are None. The top is the last
    rung measured, or the ground where none was.

    Returns a dict. Four of its values are dicts by rung, in the order of `climbed`:
        "alone"     the gain of the rung over the ground
        "in_place"  its gain over the step before it on the ladder
        "last"      its gain as the last one: the top without it, over the top
        "saved"     seconds that it saves at its place
    and, each one number,
        "total"     the gain of the top over the ground
        "product"   of all gains alone
    ValueError when the three have different names, or when a time is 0, negative or nan.
    """
    if not alone.keys() == without.keys() == climbed.keys():
        raise ValueError(f"other rungs: {list(alone)}, {list(without)}, {list(climbed)}")
    times = [base, *(t for m in (alone, without, climbed) for t in m.values() if t is not None)]
    if not all(t > 0 for t in times):  # nan is not
        raise ValueError(f"expected seconds above 0, got {times}")
    here = [name for name, seconds in climbed.items() if seconds is not None]
    top = climbed[here[-1]] if here else base
    found = {kind: dict.fromkeys(climbed) for kind in ("alone", "in_place", "last", "saved")}
    before = base
    for name in here:
        found["alone"][name] = base / alone[name]
        found["in_place"][name] = before / climbed[name]
        found["last"][name] = without[name] / top
        found["saved"][name] = before - climbed[name]
        before = climbed[name]
    product = math.prod(found["alone"][name] for name in here)
    return {**found, "total": base / top, "product": product}
