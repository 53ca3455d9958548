"""Wrong ways for a loss scale to go: `model`, whose options bend one thing each, and their names.

Used by checks/loss_scaling.py.
"""

import torch
from torch import Tensor

from course_lib.checks.expect import Pattern
from course_lib.training.loss_scaling import LARGEST

KINDS = "gggg bggg bbgg ggbb gggg gggg".replace(" ", "")


def pattern(code: str, value, finding: str, fits: str, look: str, **more) -> Pattern:
    """A `Pattern` from its texts in the order of a message."""
    return Pattern(code=code, value=value, finding=finding, fits=fits, look=look, **more)


def model(
    kinds: str,
    scale: float,
    growth: float,
    backoff: float,
    interval: int,
    *,
    count: int = 0,
    reset_bad: bool = True,
    reset_grown: bool = True,
    stale: bool = False,
    late: int = 0,
    at_least: bool = False,
    cap: float = LARGEST,
    whole: bool = False,
    down: int = 1,
) -> Tensor:
    """The scale after each update: "g" for a good one, "b" for a bad one."""
    found, bad_before = [], False
    for kind in kinds:
        bad = kind == "b" or (stale and bad_before)
        bad_before |= bad
        if bad:
            scale *= backoff**down
            scale = float(int(scale)) if whole else scale
            count = 0 if reset_bad else count
        else:
            count += 1
            if count == interval + late or (at_least and count > interval):
                scale = min(scale * growth, cap)
                count = 0 if reset_grown else count
        found.append(scale)
    return torch.tensor(found, dtype=torch.float64)


def mistakes(scale: float, growth: float, backoff: float, interval: int) -> list[Pattern]:
    """Wrong scales over KINDS."""

    def bend_model(g=growth, b=backoff, i=interval, kinds=KINDS, **options) -> Tensor:
        return model(kinds, scale, g, b, i, **options)

    swapped = KINDS.translate(str.maketrans("gb", "bg"))
    return [
        pattern(
            "SCALER-GROWS-ALWAYS",
            bend_model(i=1),
            "the scale grows in every good update",
            "growth_interval is not asked.",
            "the count of good updates.",
            hides="every second update would be left out.",
            preset="number-line:overflow",
        ),
        pattern(
            "SCALER-NO-BACKOFF",
            bend_model(b=1.0),
            "the scale never falls",
            "bad updates that change nothing.",
            "what a bad update does to `self.value`.",
            hides="once too large, no update is ever made again.",
        ),
        pattern(
            "SCALER-NO-BACKOFF",
            bend_model(b=1.0, reset_bad=False),
            "the scale never falls",
            "bad updates that change nothing.",
            "what a bad update does to `self.value`.",
            hides="once too large, no update is ever made again.",
        ),
        pattern(
            "SCALER-NO-GROWTH",
            bend_model(g=1.0),
            "the scale never grows",
            "good updates that change nothing.",
            "what `growth_interval` good updates do.",
        ),
        pattern(
            "SCALER-COUNT-KEPT",
            bend_model(reset_bad=False),
            "a bad update does not begin the count again",
            "growth after interval good updates that are not in a row.",
            "`self.good_steps`, when the update was bad.",
        ),
        pattern(
            "SCALER-COUNT-GROWN",
            bend_model(reset_grown=False),
            "the scale grows no second time in a row",
            "a count that goes on past growth_interval.",
            "`self.good_steps`, after a growth.",
        ),
        pattern(
            "SCALER-COUNT-GROWN",
            bend_model(reset_grown=False, at_least=True),
            "after the first growth every good update grows the scale",
            "a count that stays above growth_interval.",
            "`self.good_steps`, after a growth.",
        ),
        pattern(
            "SCALER-LATE",
            bend_model(late=1),
            "the scale grows one update late",
            "growth after growth_interval + 1 good updates.",
            "the comparison with growth_interval.",
        ),
        pattern(
            "SCALER-LATE",
            bend_model(late=-1),
            "the scale grows one update early",
            "growth after growth_interval - 1 good updates.",
            "the comparison with growth_interval.",
        ),
        pattern(
            "SCALER-SWAPPED",
            bend_model(kinds=swapped),
            "good and bad are swapped",
            "a scale that falls after a good update.",
            "the condition on `self.finite`.",
        ),
        pattern(
            "SCALER-STALE",
            bend_model(stale=True),
            "one bad update, and all that follow count as bad",
            "`self.finite` stays False.",
            "where step sets `self.finite`.",
        ),
        pattern(
            "SCALER-FIXED",
            bend_model(g=2.0, b=0.5),
            "the scale does not use the settings",
            "factors of 2 and 0.5.",
            "`self.growth` and `self.backoff`.",
        ),
        pattern(
            "SCALER-WHOLE",
            bend_model(whole=True),
            "the scale is rounded to whole numbers",
            "fractions that are cut off.",
            "`//` or `int` in update.",
            hides="a scale below 1 becomes 0, and every gradient after it NaN.",
        ),
        pattern(
            "SCALER-BACKOFF-TWICE",
            bend_model(down=2),
            "a bad update lowers the scale twice",
            "backoff * backoff.",
            "whether step and update both change `self.value`.",
        ),
    ]
